"""Protection of consecutive casts from the optimizer of ONNX Runtime."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from mdf_loop.build import Builder
from mdf_loop.emit.onnx_model import to_onnx
from mdf_loop.ir import Op, Program
from mdf_loop.ir.types import element_type
from mdf_loop.onnx_session import inference_session
from mdf_loop.passes.legalize.keep_double_casts import keep_double_casts
from tests.passes.sketch import same_bits, straight, text
from tests.strategies.native_operations import hard

NUMBERS = ("float64", "float32", "int64", "uint64", "int32", "uint32", "int16", "uint8")
CHAINS = [
    (source, between, target)
    for source, between, target in itertools.product(NUMBERS, NUMBERS, NUMBERS)
    if between not in (source, target)
]


def chain(source: str, between: str, target: str) -> Program:
    b = Builder()
    x = b.new(source, ("n",), "x")
    once = b.op("Cast", x, to=element_type(between))
    return straight(b, (x,), y=b.op("Cast", once, to=element_type(target)))


def test_consecutive_casts_are_protected() -> None:
    assert text(keep_double_casts(chain("float64", "int64", "int32")))[1:-1] == [
        "  %Cast: int64[n] = Cast(%x, to=7)",
        "  %Cast_2:Max: int64[n] = Max(%Cast)",
        "  %Cast_2: int32[n] = Cast(%Cast_2:Max, to=6)",
    ]


@pytest.mark.parametrize(
    "dtypes",
    [
        ("int32", "int64", "int16"),
        ("float64", "float32", "float64"),
        ("int64", "float64", "float32"),
        ("bool", "float64", "int64"),
        ("float64", "int64", "float64"),
    ],
    ids=" to ".join,
)
def test_other_casts_are_unchanged(dtypes: tuple[str, str, str]) -> None:
    program = chain(*dtypes)
    assert keep_double_casts(program) is program


def between_casts(*middle: str) -> Program:
    """Build a cast to int64 and one to int32, with operations between them that change nothing."""
    b = Builder()
    x = b.new("float64", ("n",), "x")
    value = b.op("Cast", x, to=element_type("int64"))
    zero, one, end = (b.constant(np.array([k])) for k in (0, 1, 2**63 - 1))
    operands = {"Slice": (zero, end, zero), "Expand": (one,), "Add": (zero,), "Mul": (one,)}
    for op_type in middle:
        value = b.op(op_type, value, *operands.get(op_type, ()))
    return straight(b, (x,), y=b.op("Cast", value, to=element_type("int32")))


@pytest.mark.parametrize(
    "middle",
    [("Identity",), ("Slice",), ("Expand",), ("Add",), ("Mul",), ("Identity", "Slice", "Identity")],
    ids=" ".join,
)
def test_operations_without_effect_between_casts(middle: tuple[str, ...]) -> None:
    program, x = between_casts(*middle), numbers("float64")
    actual = run_program(keep_double_casts(program), x)
    with np.errstate(all="ignore"):
        assert actual.tobytes() == x.astype(np.int64).astype(np.int32).tobytes()
        same_bits(keep_double_casts, program, x=x)


BACK = [
    (source, between)
    for source, between in itertools.product((*NUMBERS, "int8", "bool"), NUMBERS)
    if source != between and np.can_cast(source, between)
]


@pytest.mark.parametrize("middle", [None, "Identity", "Slice"], ids=str)
def test_a_cast_back_is_removed(middle: str | None) -> None:
    for source, between in BACK:
        b = Builder()
        x = b.new(source, ("n",), "x")
        value = b.op("Cast", x, to=element_type(between))
        zero, end = b.constant(np.array([0])), b.constant(np.array([2**63 - 1]))
        if middle is not None:
            value = b.op(middle, value, *((zero, end, zero) if middle == "Slice" else ()))
        program = straight(b, (x,), y=b.op("Cast", value, to=element_type(source)))
        y = keep_double_casts(program).outputs[0].value
        makers = {op.outputs[0]: op for op in keep_double_casts(program).ops if isinstance(op, Op)}
        if (source, between) in (("int64", "float64"), ("uint64", "float64")):
            assert makers[y].op_type == "Cast"
        else:
            assert y == x or makers[y].op_type == middle
        with np.errstate(all="ignore"):
            same_bits(keep_double_casts, program, x=numbers(source))


def test_onnx_runtime_computes_the_same_numbers() -> None:
    def cast(array: np.ndarray, dtype: str) -> np.ndarray:
        b = Builder()
        x = b.new(str(array.dtype), ("n",), "x")
        return run_program(straight(b, (x,), y=b.op("Cast", x, to=element_type(dtype))), array)

    for source, between, target in CHAINS:
        program, x = chain(source, between, target), numbers(source)
        actual = run_program(keep_double_casts(program), x)
        assert actual.tobytes() == cast(cast(x, between), target).tobytes(), (
            source,
            between,
            target,
        )


def test_the_pass_keeps_the_numbers() -> None:
    with np.errstate(all="ignore"):
        for chained in CHAINS:
            same_bits(keep_double_casts, chain(*chained), x=numbers(chained[0]))


def numbers(dtype: str) -> np.ndarray:
    """Return difficult numbers, some of them only representable in wider dtypes."""
    some = np.array([127.5, 128.0, 300.0, 70000.0, 3e9, -3e9, 1e16, 1e19, -1e30])
    with np.errstate(all="ignore"):
        return np.concatenate([hard(dtype), some.astype(dtype)])


def run_program(program: Program, x: np.ndarray) -> np.ndarray:
    session = inference_session(to_onnx(program).SerializeToString(), None)
    (array,) = session.run(None, {"x": x})
    return np.asarray(array)
