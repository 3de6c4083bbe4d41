"""Casts of casts: before and after, what stays, equal numbers in files too."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from mdf_loop.build import Builder
from mdf_loop.emit.onnx_model import to_onnx
from mdf_loop.ir import Program
from mdf_loop.ir.types import element_type
from mdf_loop.onnx_session import inference_session
from mdf_loop.passes.legal.casts_apart import casts_apart
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


def test_before_and_after() -> None:
    assert text(casts_apart(chain("float64", "int64", "int32")))[1:-1] == [
        "  %Cast: int64[n] = Cast(%x, to=7)",
        "  %Cast_2:Max: int64[n] = Max(%Cast)",
        "  %Cast_2: int32[n] = Cast(%Cast_2:Max, to=6)",
    ]


@pytest.mark.parametrize(
    "dtypes",
    [
        ("int32", "int64", "int16"),
        ("float64", "float32", "float64"),
        ("bool", "float64", "int64"),
        ("float64", "int64", "float64"),
    ],
    ids=" to ".join,
)
def test_what_is_left_alone(dtypes: tuple[str, str, str]) -> None:
    program = chain(*dtypes)
    assert casts_apart(program) is program


def test_numbers_are_the_same_in_onnx_runtime() -> None:
    def cast(array: np.ndarray, dtype: str) -> np.ndarray:
        b = Builder()
        x = b.new(str(array.dtype), ("n",), "x")
        return computed(straight(b, (x,), y=b.op("Cast", x, to=element_type(dtype))), array)

    for source, between, target in CHAINS:
        program, x = chain(source, between, target), numbers(source)
        made = computed(casts_apart(program), x)
        assert made.tobytes() == cast(cast(x, between), target).tobytes(), (source, between, target)


def test_the_pass_keeps_the_numbers() -> None:
    with np.errstate(all="ignore"):
        for chained in CHAINS:
            same_bits(casts_apart, chain(*chained), x=numbers(chained[0]))


def numbers(dtype: str) -> np.ndarray:
    """Hard ones, among them what only wider dtypes have."""
    some = np.array([127.5, 128.0, 300.0, 70000.0, 3e9, -3e9, 1e16, 1e19, -1e30])
    with np.errstate(all="ignore"):
        return np.concatenate([hard(dtype), some.astype(dtype)])


def computed(program: Program, x: np.ndarray) -> np.ndarray:
    session = inference_session(to_onnx(program).SerializeToString(), None)
    (made,) = session.run(None, {"x": x})
    return np.asarray(made)
