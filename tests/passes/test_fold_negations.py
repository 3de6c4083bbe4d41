"""Changes of sign are folded into the operations that read them."""

from __future__ import annotations

import numpy as np
import pytest

from mdf_loop.build import Builder
from mdf_loop.ir import Value
from mdf_loop.passes.simplify.eliminate_dead_code import eliminate_dead_code
from mdf_loop.passes.simplify.fold_negations import fold_negations
from tests.passes.sketch import SPECIAL, same_bits, straight, text

GRID = tuple(part.reshape(-1) for part in np.meshgrid(SPECIAL, SPECIAL))


class _Case:
    def __init__(self) -> None:
        self.b = Builder()
        self.x, self.y = (self.b.new("float64", (64,), name) for name in "xy")

    def number(self, value: object) -> Value:
        return self.b.constant(np.asarray(value))

    def minus(self, value: Value) -> Value:
        return self.b.op("Mul", self.number(-1.0), value)

    def becomes(self, output: Value) -> list[str]:
        """Return the operations that remain, after comparing the numbers."""
        program = straight(self.b, (self.x, self.y), made=output)
        same_bits(fold_negations, program, x=GRID[0], y=GRID[1])
        lines = text(eliminate_dead_code(fold_negations(program)))
        return [line.split(" = ")[1] for line in lines[1:] if "(" in line]


def test_negations_are_folded_into_readers() -> None:
    case = _Case()
    tau, e = case.number(10.0), case.number(-70.0)
    leak = case.b.op("Div", case.minus(case.b.op("Sub", case.x, e)), tau)
    program = straight(case.b, (case.x, case.y), dv=case.b.op("Add", leak, case.y))
    assert text(program)[3:] == [
        "  %Sub: float64[64] = Sub(%x, %const_2)",
        "  %const_3: float64[] = -1.0",
        "  %Mul: float64[64] = Mul(%const_3, %Sub)",
        "  %Div: float64[64] = Div(%Mul, %const)",
        "  %Add: float64[64] = Add(%Div, %y)",
        "  output dv = %Add",
    ]
    assert text(eliminate_dead_code(fold_negations(program)))[1:] == [
        "  %const_2: float64[] = -70.0",
        "  %Sub: float64[64] = Sub(%x, %const_2)",
        "  %const_4: float64[] = -10.0",
        "  %Div: float64[64] = Div(%Sub, %const_4)",
        "  %Add: float64[64] = Add(%Div, %y)",
        "  output dv = %Add",
    ]


def test_a_factor_minus_one_is_a_negation() -> None:
    case = _Case()
    assert case.becomes(case.minus(case.x)) == ["Neg(%x)"]


@pytest.mark.parametrize(
    ("make", "left"),
    [
        (lambda c: c.b.op("Add", c.y, c.minus(c.x)), ["Sub(%y, %x)"]),
        (lambda c: c.b.op("Add", c.b.op("Neg", c.x), c.y), ["Sub(%y, %x)"]),
        (lambda c: c.b.op("Sub", c.y, c.minus(c.x)), ["Add(%y, %x)"]),
        (lambda c: c.b.op("Sub", c.minus(c.x), c.y), ["Neg(%x)", "Sub(%Mul, %y)"]),
        (lambda c: c.b.op("Mul", c.minus(c.x), c.number(3.0)), ["Mul(%x, %const_3)"]),
        (lambda c: c.b.op("Div", c.number(3.0), c.minus(c.x)), ["Div(%const_3, %x)"]),
        (lambda c: c.minus(c.minus(c.x)), []),
        (lambda c: c.b.op("Neg", c.minus(c.b.op("Exp", c.x))), ["Exp(%x)"]),
        (
            lambda c: c.b.op("Add", c.x, c.b.op("Mul", c.minus(c.x), c.y)),
            ["Mul(%x, %y)", "Sub(%x, %Add:Mul)"],
        ),
        (
            lambda c: c.b.op("Add", c.x, c.b.op("Div", c.b.op("Mul", c.y, c.minus(c.x)), c.y)),
            ["Mul(%y, %x)", "Div(%Add:Mul, %y)", "Sub(%x, %Add:Div)"],
        ),
    ],
)
def test_a_negation_is_folded_into_its_reader(make, left: list[str]) -> None:
    case = _Case()
    assert case.becomes(make(case)) == left


def test_a_product_with_two_readers_is_unchanged() -> None:
    case = _Case()
    product = case.b.op("Mul", case.b.op("Neg", case.x), case.y)
    both = case.b.op("Mul", case.b.op("Add", case.x, product), product)
    assert case.becomes(both) == [
        "Neg(%x)",
        "Mul(%Neg, %y)",
        "Add(%x, %Mul)",
        "Mul(%Add, %Mul)",
    ]


def test_other_factors_shapes_and_integers_are_unchanged() -> None:
    case = _Case()
    n = case.b.new("int64", (), "n")
    outputs = {
        "a": case.b.op("Mul", case.number(-1.5), case.x),
        "b": case.b.op("Mul", case.number(-np.ones((2, 64))), case.x),
        "c": case.b.op("Mul", case.number(-1), n),
    }
    program = straight(case.b, (case.x, case.y, n), **outputs)
    assert fold_negations(program) is program
