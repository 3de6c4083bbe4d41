"""Lowering of `onnx::` reductions inside loops to operations with deterministic results.

    onnx::ReduceMax(x)      ReduceMaximum(x): propagates nan, as in numpy
    onnx::ReduceSum(x)      OrderedSum(x): a fixed order, independent of the memory address of x
    onnx::ReduceMean(x)     OrderedSum(x) / n
    onnx::ReduceL2(x)       Sqrt(OrderedSum(x * x))
    onnx::Einsum(x)         OrderedSum of the letters of one operand alone, then Einsum
    onnx::MatMul(x, y)      OrderedSum(x * y), of two vectors

Outside of loops, the kernels of ONNX Runtime compute these operators.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

from mdf_loop.ir import Op, Value
from mdf_loop.lower.builder import ModelBuilder
from mdf_loop.lower.operators import float_product
from mdf_loop.lower.products import einstein_sum
from mdf_loop.ops.build_helpers import kind, mean_of, sum_of
from mdf_loop.ops.loop_reductions import NAN_UNAWARE_KERNELS
from mdf_loop.ops.registry import row_of

_Axes: TypeAlias = tuple[int, ...] | None
"""Axes to reduce; None for all axes."""

_Reduction: TypeAlias = Callable[[ModelBuilder, Value, _Axes, int], Value]
"""Function that reduces a value along axes. The last argument is 1 to keep the axes, else 0."""


def reduce_in_loop(
    b: ModelBuilder,
    op_type: str,
    inputs: Sequence[Value | None],
    attributes: Mapping[str, Any],
) -> Value | None:
    """Lower a float reduction in a loop to operations with deterministic results, or return None.

    The result is also None if axes are computed at run time, or if empty axes mean no reduction.
    """
    if op_type == "Einsum":
        operands = [value for value in inputs if value is not None]
        return einstein_sum(b, attributes["equation"].replace(" ", ""), operands)
    if op_type == "MatMul":
        float_operands = [value for value in inputs if value is not None and kind(value) == "f"]
        return (
            float_product(b, *float_operands) if len(float_operands) == len(inputs) == 2 else None
        )
    x = inputs[0] if inputs else None
    if op_type not in _REDUCTIONS and op_type not in _ARG_REDUCTIONS:
        return None
    if x is None or kind(x) != "f" or x.shape == ():
        return None
    rank = None if x.shape is None else len(x.shape)
    if op_type in _ARG_REDUCTIONS:
        axis = int(attributes.get("axis", 0))
        is_valid_axis = rank is None or -rank <= axis < rank
        return b.op(_ARG_REDUCTIONS[op_type], x, **attributes) if is_valid_axis else None
    axes = _axes_to_reduce(b, inputs, attributes, rank)
    if axes is None:
        return None
    return _REDUCTIONS[op_type](b, x, axes or None, int(attributes.get("keepdims", 1)))


def _axes_to_reduce(
    b: ModelBuilder, inputs: Sequence[Value | None], attributes: Mapping[str, Any], rank: int | None
) -> tuple[int, ...] | None:
    """Return the axes to reduce, () for all axes, or None if no deterministic form exists.

    If the rank is known, the axes are not negative.
    """
    axis_numbers = attributes.get("axes")
    axes_operand = inputs[1] if len(inputs) > 1 else None
    if axis_numbers is None and axes_operand is not None:
        constant_axes = b.constant_of(axes_operand)
        if constant_axes is None:
            return None
        axis_numbers = constant_axes.ravel().tolist()
    if not axis_numbers:
        return None if attributes.get("noop_with_empty_axes") else ()
    if rank is None:
        return tuple(sorted({int(axis) for axis in axis_numbers}))
    if not all(-rank <= axis < rank for axis in axis_numbers):
        return None
    return tuple(sorted({int(axis) % rank for axis in axis_numbers}))


def _deterministic_reduction(
    op_type: str, b: ModelBuilder, x: Value, axes: _Axes, keepdims: int
) -> Value:
    return b.op(op_type, x, **({} if axes is None else {"axes": axes}), keepdims=keepdims)


def _ordered_sum(b: ModelBuilder, x: Value, axes: _Axes, keepdims: int) -> Value:
    return sum_of(b, x, axes, keepdims=bool(keepdims))


def _ordered_mean(b: ModelBuilder, x: Value, axes: _Axes, keepdims: int) -> Value:
    return mean_of(b, x, axes, keepdims=bool(keepdims))


def _decomposed_reduction(
    op_type: str, b: ModelBuilder, x: Value, axes: _Axes, keepdims: int
) -> Value:
    decompose = row_of(op_type).decomposition
    assert decompose is not None
    attributes = {"keepdims": keepdims} if axes is None else {"axes": axes, "keepdims": keepdims}
    replacement = decompose(b, Op(op_type, (x,), (x,), attributes, b.where))
    assert isinstance(replacement, Value)
    return replacement


_REDUCTIONS: Mapping[str, _Reduction] = {
    "ReduceMax": partial(_deterministic_reduction, "ReduceMaximum"),
    "ReduceMin": partial(_deterministic_reduction, "ReduceMinimum"),
    "ReduceSum": _ordered_sum,
    "ReduceMean": _ordered_mean,
    **{
        op_type: partial(_decomposed_reduction, op_type)
        for op_type in (
            "ReduceL1",
            "ReduceL2",
            "ReduceSumSquare",
            "ReduceLogSum",
            "ReduceLogSumExp",
        )
    },
}
_ARG_REDUCTIONS = {kernel: op_type for op_type, kernel in NAN_UNAWARE_KERNELS.items()}
