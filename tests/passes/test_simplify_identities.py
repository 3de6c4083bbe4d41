"""Arithmetic that changes no value is removed, and stays if the sign of a zero could change."""

from __future__ import annotations

import numpy as np
import pytest

from mdf_loop.build import Builder
from mdf_loop.ir import Value
from mdf_loop.passes.simplify.simplify_identities import simplify_identities
from tests.passes.sketch import SPECIAL, same_bits, straight, text


class _Case:
    """One operation on `v` and a constant."""

    def __init__(self, dtype: str = "float64", shape: tuple[int, ...] = (8,)) -> None:
        self.b = Builder()
        self.v = self.b.new(dtype, shape, "v")

    def number(self, value: object) -> Value:
        return self.b.constant(np.asarray(value))

    def ends_as(self, *outputs: Value) -> list[str]:
        named = {f"y{k}": output for k, output in enumerate(outputs)}
        program = straight(self.b, (self.v,), **named)
        values = SPECIAL if self.v.dtype == "float64" else np.arange(-4, 4)
        arrays = np.resize(values, self.v.shape).astype(self.v.dtype)
        same_bits(simplify_identities, program, v=arrays)
        return [
            line.split(" = ")[1] for line in text(simplify_identities(program)) if "output" in line
        ]


def test_identities_are_removed() -> None:
    case = _Case()
    scaled = case.b.op("Mul", case.number(1.0), case.v)
    moved = case.b.op("Add", case.b.op("Exp", scaled), case.number(0.0))
    program = straight(case.b, (case.v,), y=moved)
    assert text(program)[2:] == [
        "  %Mul: float64[8] = Mul(%const, %v)",
        "  %Exp: float64[8] = Exp(%Mul)",
        "  %const_2: float64[] = 0.0",
        "  %Add: float64[8] = Add(%Exp, %const_2)",
        "  output y = %Add",
    ]
    assert text(simplify_identities(program))[2:] == [
        "  %Exp: float64[8] = Exp(%v)",
        "  %const_2: float64[] = 0.0",
        "  output y = %Exp",
    ]


@pytest.mark.parametrize(
    ("op_type", "number", "first"),
    [
        ("Mul", 1.0, False),
        ("Mul", 1.0, True),
        ("Div", 1.0, False),
        ("Sub", 0.0, False),
        ("Add", -0.0, False),
        ("Add", -0.0, True),
        ("Mul", np.ones(8), False),
    ],
)
def test_operations_with_a_neutral_constant_are_removed(
    op_type: str, number: object, first: bool
) -> None:
    case = _Case()
    operands = (case.number(number), case.v) if first else (case.v, case.number(number))
    assert case.ends_as(case.b.op(op_type, *operands)) == ["%v"]


@pytest.mark.parametrize(
    ("op_type", "number", "first"),
    [
        ("Add", 0.0, False),  # -0.0 + 0.0 = 0.0
        ("Sub", -0.0, False),
        ("Sub", 0.0, True),
        ("Div", 1.0, True),
        ("Mul", 0.0, False),  # 0 * inf is not a number
        ("Mul", [1.0] * 7 + [2.0], False),
        ("Mul", np.ones((2, 8)), False),  # another shape
    ],
)
def test_operations_with_other_constants_are_kept(
    op_type: str, number: object, first: bool
) -> None:
    case = _Case()
    operands = (case.number(number), case.v) if first else (case.v, case.number(number))
    assert case.ends_as(case.b.op(op_type, *operands)) == [f"%{op_type}"]


@pytest.mark.parametrize(
    "make",
    [
        lambda c: c.b.op("Add", c.v, c.number(2.0)),
        lambda c: c.b.op("Add", c.number(2.0), c.v),
        lambda c: c.b.op("Sub", c.number(2.0), c.v),
        lambda c: c.b.op("Mul", c.v, c.v),
        lambda c: c.b.op("Abs", c.v),
        lambda c: c.b.op("Add", c.v, c.b.op("Exp", c.v)),
        lambda c: c.b.op("Cast", c.b.op("Cast", c.b.op("Sign", c.v), to=9), to=11),
    ],
)
def test_adding_zero_is_removed_for_values_that_are_never_negative_zero(make) -> None:
    case = _Case()
    operand = make(case)
    zero = case.number(0.0)
    sums = (case.b.op("Add", operand, zero), case.b.op("Add", zero, operand))
    assert (
        case.ends_as(*sums, case.b.op("Sub", operand, case.number(-0.0)))
        == [f"%{operand.name}"] * 3
    )


def test_adding_zero_is_kept_for_values_that_can_be_negative_zero() -> None:
    case = _Case()
    difference = case.b.op("Sub", case.v, case.number(0.5))
    difference = case.b.op("Mul", difference, case.number(1e-300))
    assert case.ends_as(case.b.op("Add", difference, case.number(0.0))) == ["%Add"]


def test_adding_zero_to_integers_is_removed() -> None:
    case = _Case("int64")
    parts = [case.b.op(op, case.v, case.number(0)) for op in ("Add", "Sub")]
    parts += [case.b.op(op, case.v, case.number(1)) for op in ("Mul", "Div")]
    assert case.ends_as(*parts) == ["%v"] * 4


def test_constant_selections_are_removed() -> None:
    case = _Case()
    other = case.number(np.arange(8.0))
    selections = [
        case.b.op("Where", case.number([True]), case.v, other),
        case.b.op("Where", case.number(False), other, case.v),
        case.b.op("Where", case.b.op("Less", case.v, other), case.v, case.v),
        case.b.op("Where", case.number([True] * 7 + [False]), case.v, other),
        case.b.op("Where", case.number([True]), case.number(1.0), case.v),  # another shape
    ]
    assert case.ends_as(*selections) == ["%v", "%v", "%v", "%Where_4", "%Where_5"]


def test_an_omitted_operand_stays_omitted() -> None:
    case = _Case()
    assert case.ends_as(case.b.op("ReduceSum", case.v, None, keepdims=0)) == ["%ReduceSum"]
