"""Replacement of the ends of backward slices that ONNX Runtime would misread."""

from __future__ import annotations

import numpy as np
import pytest

from mdf_loop.build import Builder
from mdf_loop.ir import Program, Value
from mdf_loop.passes.legalize.protect_backward_slices import protect_backward_slices
from tests.passes.sketch import same_bits, straight, text


def sliced(end: int | None, step: int | None, *, dtype: str = "int64") -> Program:
    """Return `y = Slice(x, -1, end, 0, step)`; an end or step of None is an input."""
    b = Builder()
    x = b.new("float64", ("n",), "x")
    inputs = [x]

    def operand(number: int | None, name: str) -> Value:
        if number is not None:
            return b.constant(np.array([number], dtype))
        inputs.append(b.new(dtype, (1,), name))
        return inputs[-1]

    minus_one = b.constant(np.array([-1], dtype))
    axes = b.constant(np.array([0], dtype))
    part = b.op("Slice", x, minus_one, operand(end, "end"), axes, operand(step, "step"))
    return straight(b, tuple(inputs), y=part)


def test_the_end_of_a_backward_slice_is_replaced() -> None:
    assert text(protect_backward_slices(sliced(None, -1)))[-3:-1] == [
        "  %Slice:Min: int64[1] = Min(%end, %const_3)",
        "  %Slice: float64[d] = Slice(%x, %const, %Slice:Min, %const_2, %const)",
    ]
    for end in (-9, 0, 2, 9):
        arrays = {"x": np.arange(5.0), "end": np.array([end])}
        same_bits(protect_backward_slices, sliced(None, -1), **arrays)


@pytest.mark.parametrize("end", [2**31 - 1, 2**63 - 1])
def test_a_constant_special_end_is_replaced(end: int) -> None:
    lines = text(protect_backward_slices(sliced(end, -2)))
    assert lines[-3:-1] == [
        "  %const_5: int64[1] = [2147483646]",
        "  %Slice: float64[d] = Slice(%x, %const, %const_5, %const_2, %const_4)",
    ]
    same_bits(protect_backward_slices, sliced(end, -2), x=np.arange(5.0))


@pytest.mark.parametrize(
    ("end", "step"), [(None, 2), (2**63 - 1, 1), (2, -1), (-(2**63), -1), (5, None)]
)
def test_other_slices_are_unchanged(end: int | None, step: int | None) -> None:
    program = sliced(end, step)
    assert protect_backward_slices(program) is program


@pytest.mark.parametrize("dtype", ["int64", "int32"])
@pytest.mark.parametrize("step", [2, -2])
def test_computed_steps(dtype: str, step: int) -> None:
    program = sliced(None, None, dtype=dtype)
    for end in (-9, 0, 2, 9):
        arrays = {"end": np.array([end], dtype), "step": np.array([step], dtype)}
        same_bits(protect_backward_slices, program, x=np.arange(5.0), **arrays)
