"""Cost of operations in a loop, as machine code and with ONNX Runtime's kernels.

Nanoseconds besides the call, measured (onnxruntime 1.32, AMD EPYC with
AVX-512, one core) for arrays of 4096 to 65 536 elements:

                               machine code        ONNX Runtime
                               float32  float64    float32  float64
    arithmetic                 0.05     0.09       0.17     0.3      for each element
    functions                  1.2      1.4        2.2      5
    functions with vectors     1.1      1.3        0.32     4        exp, tanh, logistic, erf
    choices (Where)            0.1      0.15       2.5      2.5
    sums along the last axis   0.9      1.1        0.2      0.3      for each element that is read
    sums along others          0.35     0.7        0.8      1.0
    ordered sums, last axis    0.8      1.0        1.5      4.5
      of one vector            0.25     0.45       0.5      0.5
    ordered sums, others       0.25     0.5        0.3      0.5
    extremes with nan, last    0.9      1.1        1.0      1.2
    extremes with nan, others  0.3      0.7        1.8      1.9
    their places               5.2      5.4        1.0      1.1      of operands without nan
    elements that are moved    0.25     0.5        0.3      0.4
    copies of which few change 0.15     0.33       0.09     0.2      ScatterND
    transposed elements        1.0      1.9        0.35     2.0
    softmax                    -        -          0.5      5.5
    normalizations             -        -          0.8      7
    products of matrices       0.05     0.085      0.03     0.07     for each multiplication
      2 to 7 rows, large right 0.12     0.15       0.06     0.2
    a row times a matrix       0.04     0.12       0.045    0.3
      of more than 2^17 numbers  0.08   0.19       0.05     0.4
    convolutions               -        -          0.026    0.08     and 0.26 for each element of a window

Products of matrices of float32 were measured on an AMD EPYC with AVX2. There ONNX Runtime is two to three times
as fast, because it packs a constant factor once. With AVX-512 both take 0.02. ONNX Runtime also shares products
among threads. Other dtypes count as float64. Machine code decomposes the operations without a figure.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

from mdf_loop.ir import Op, Value
from mdf_loop.ops.costs import count_multiplications
from mdf_loop.ops.registry import count_elements


class OperationCost(NamedTuple):
    """Nanoseconds of an operation as machine code and in ONNX Runtime, without call overhead.

    Attributes:
        native_nanoseconds: nanoseconds as machine code.
        standard_nanoseconds: nanoseconds with ONNX Runtime's kernel.
    """

    native_nanoseconds: float
    standard_nanoseconds: float


LoopCostRule: TypeAlias = Callable[[Op], OperationCost]
"""Function that returns the cost of an operation as machine code and with ONNX Runtime's kernel."""

ElementTimes: TypeAlias = tuple[float, float, float, float]
"""Nanoseconds per element: machine code for float32, for float64, then ONNX Runtime for float32, for float64."""


def _scale_element_times(op: Op, element_times: ElementTimes, count: float) -> OperationCost:
    dtype_index = int(op.outputs[0].dtype != "float32")
    return OperationCost(element_times[dtype_index] * count, element_times[2 + dtype_index] * count)


def per_element(element_times: ElementTimes) -> LoopCostRule:
    """Return a cost function that multiplies the nanoseconds per element by the result's size."""
    return lambda op: _scale_element_times(op, element_times, count_elements(op.outputs))


def per_element_read(element_times: ElementTimes) -> LoopCostRule:
    """Return a cost function that multiplies the nanoseconds per element by the first operand's size."""
    return lambda op: _scale_element_times(
        op, element_times, count_elements([value for value in op.inputs[:1] if value is not None])
    )


ARITHMETIC_COST = per_element((0.05, 0.09, 0.17, 0.3))
FUNCTION_COST = per_element((1.2, 1.4, 2.2, 5.0))
VECTORIZED_COST = per_element((1.1, 1.3, 0.32, 4.0))
CHOICE_COST = per_element((0.1, 0.15, 2.5, 2.5))
MOVEMENT_COST = per_element((0.25, 0.5, 0.3, 0.4))
COPY_COST = per_element((0.15, 0.33, 0.09, 0.2))
TRANSPOSE_COST = per_element((1.0, 1.9, 0.35, 2.0))
SOFTMAX_COST = per_element((0.0, 0.0, 0.5, 5.5))
NORMALIZATION_COST = per_element((0.0, 0.0, 0.8, 7.0))
OTHER_OPERATION_COST = per_element((1.5, 1.5, 2.0, 2.0))
ZERO_COST = per_element((0.0, 0.0, 0.0, 0.0))

ARG_EXTREME_COST = per_element_read((5.2, 5.4, 1.0, 1.1))

_LAST_AXIS_TIMES, _OTHER_AXES_TIMES = (0.9, 1.1, 0.2, 0.3), (0.35, 0.7, 0.8, 1.0)


_MAX_CACHED_ELEMENTS = 1 << 17
"""Maximum number of elements of a matrix that stays in a fast cache during vector-matrix products."""

_MIN_FAST_ROWS, _MAX_FAST_FACTOR_ELEMENTS = 8, 1 << 14
"""Limits beyond which a product takes as long as reading its right factor.

The left factor has fewer rows than the first number. The right factor has more elements than the second.
"""


def reduction_cost(op: Op) -> OperationCost:
    """Return the cost of a reduction along axes, such as a sum or a maximum."""
    return per_element_read(_LAST_AXIS_TIMES if _is_along_last(op) else _OTHER_AXES_TIMES)(op)


def extreme_cost(op: Op) -> OperationCost:
    """Return the cost of a nan-propagating maximum or minimum along axes."""
    last_axis_times, other_axes_times = (0.9, 1.1, 1.0, 1.2), (0.3, 0.7, 1.8, 1.9)
    return per_element_read(last_axis_times if _is_along_last(op) else other_axes_times)(op)


def ordered_sum_cost(op: Op) -> OperationCost:
    """Return the cost of an `OrderedSum`, a sum with a fixed order of additions."""
    last_axis_times, other_axes_times = (0.8, 1.0, 1.5, 4.5), (0.25, 0.5, 0.3, 0.5)
    if count_elements(op.outputs) == 1:
        last_axis_times = (0.25, 0.45, 0.5, 0.5)
    return per_element_read(last_axis_times if _is_along_last(op) else other_axes_times)(op)


def _is_along_last(op: Op) -> bool:
    """Return True if a reduction includes the last axis of its operand."""
    first_operands = [value for value in op.inputs[:1] if value is not None]
    operand_extent, result_extent = (
        _last_extent(value) for value in (*first_operands, *op.outputs[:1])
    )
    return operand_extent == 1 or operand_extent != result_extent


def product_cost(op: Op) -> OperationCost:
    """Return the cost of a matrix-matrix or vector-matrix product."""
    multiplication_count = count_multiplications(op)
    left_factors = [value for value in op.inputs[:1] if value is not None]
    if count_elements(left_factors) * count_elements(op.outputs) > multiplication_count:
        right_element_count = count_elements(
            [value for value in op.inputs[1:] if value is not None]
        )
        exceeds_fast_limits = (
            right_element_count > _MAX_FAST_FACTOR_ELEMENTS
            and multiplication_count < _MIN_FAST_ROWS * right_element_count
        )
        element_times = (
            (0.12, 0.15, 0.06, 0.2) if exceeds_fast_limits else (0.05, 0.085, 0.03, 0.07)
        )
        return _scale_element_times(op, element_times, multiplication_count)
    fits_cache = multiplication_count <= _MAX_CACHED_ELEMENTS
    return _scale_element_times(
        op,
        (0.04, 0.12, 0.045, 0.3) if fits_cache else (0.08, 0.19, 0.05, 0.4),
        multiplication_count,
    )


def convolution_cost(op: Op) -> OperationCost:
    """Return the cost of a convolution, which is a matrix product of its windows."""
    multiplication_count = count_multiplications(op)
    kernel_shape = (None if op.inputs[1] is None else op.inputs[1].shape) or (1,)
    channel_count = max(kernel_shape[0], 1) if isinstance(kernel_shape[0], int) else 1
    return _scale_element_times(
        op,
        (0.0, 0.0, 0.026 + 0.26 / channel_count, 0.08 + 0.5 / channel_count),
        multiplication_count,
    )


def _last_extent(value: Value) -> int | str:
    return value.shape[-1] if value.shape else 1
