"""Cost of array elements in a loop, as machine code and by ONNX Runtime's kernels: the `speed` of rows.

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
from mdf_loop.ops.costs import multiplications
from mdf_loop.ops.registry import count_elements


class OperationCost(NamedTuple):
    """Cost of an operation without its call.

    Attributes:
        native: as machine code.
        standard: by ONNX Runtime's kernel.
    """

    native: float
    standard: float


Speed: TypeAlias = Callable[[Op], OperationCost]
"""Function that returns the cost of an operation without its call, for both engines."""

Figures: TypeAlias = tuple[float, float, float, float]
"""Nanoseconds of float32 and float64 as machine code, then of both by ONNX Runtime."""


def _of(op: Op, figures: Figures, count: float) -> OperationCost:
    k = int(op.outputs[0].dtype != "float32")
    return OperationCost(figures[k] * count, figures[2 + k] * count)


def per_element(figures: Figures) -> Speed:
    """Return the speed of an operation with these costs for each element of its results."""
    return lambda op: _of(op, figures, count_elements(op.outputs))


def per_element_read(figures: Figures) -> Speed:
    """Return the speed of an operation with these costs for each element of its first operand."""
    return lambda op: _of(
        op, figures, count_elements([value for value in op.inputs[:1] if value is not None])
    )


ARITHMETIC = per_element((0.05, 0.09, 0.17, 0.3))
FUNCTION = per_element((1.2, 1.4, 2.2, 5.0))
VECTORIZED = per_element((1.1, 1.3, 0.32, 4.0))
CHOICE = per_element((0.1, 0.15, 2.5, 2.5))
MOVED = per_element((0.25, 0.5, 0.3, 0.4))
COPIED = per_element((0.15, 0.33, 0.09, 0.2))
TRANSPOSED = per_element((1.0, 1.9, 0.35, 2.0))
SOFTMAX = per_element((0.0, 0.0, 0.5, 5.5))
NORMALIZATION = per_element((0.0, 0.0, 0.8, 7.0))
OTHER = per_element((1.5, 1.5, 2.0, 2.0))
IN_ORDER = per_element((0.0, 0.0, 0.0, 0.0))

PLACE = per_element_read((5.2, 5.4, 1.0, 1.1))

_LAST_AXIS, _OTHER_AXES = (0.9, 1.1, 0.2, 0.3), (0.35, 0.7, 0.8, 1.0)


_MAX_CACHED_ELEMENTS = 1 << 17
"""Largest number of elements of a matrix that is read from a fast cache when a row is multiplied with it."""

_MIN_FAST_ROWS, _MAX_NEAR_ELEMENTS = 8, 1 << 14
"""Limits beyond which a product takes as long as reading its right factor.

The left factor has fewer rows than the first number. The right factor has more elements than the second.
"""


def reduction(op: Op) -> OperationCost:
    """Return the cost of a sum or an extreme along axes."""
    return per_element_read(_LAST_AXIS if _is_along_last(op) else _OTHER_AXES)(op)


def extreme(op: Op) -> OperationCost:
    """Return the cost of an extreme that propagates nan."""
    last, others = (0.9, 1.1, 1.0, 1.2), (0.3, 0.7, 1.8, 1.9)
    return per_element_read(last if _is_along_last(op) else others)(op)


def ordered_sum(op: Op) -> OperationCost:
    """Return the cost of a sum in a fixed order."""
    last, others = (0.8, 1.0, 1.5, 4.5), (0.25, 0.5, 0.3, 0.5)
    if count_elements(op.outputs) == 1:
        last = (0.25, 0.45, 0.5, 0.5)
    return per_element_read(last if _is_along_last(op) else others)(op)


def _is_along_last(op: Op) -> bool:
    """Return True if the last axis is reduced."""
    values = [value for value in op.inputs[:1] if value is not None]
    operand_extent, result_extent = (_last_extent(value) for value in (*values, *op.outputs[:1]))
    return operand_extent == 1 or operand_extent != result_extent


def product(op: Op) -> OperationCost:
    """Return the cost of a product of matrices, or of a row and a matrix."""
    count = multiplications(op)
    left = [value for value in op.inputs[:1] if value is not None]
    if count_elements(left) * count_elements(op.outputs) > count:
        right = count_elements([value for value in op.inputs[1:] if value is not None])
        is_read_slowly = right > _MAX_NEAR_ELEMENTS and count < _MIN_FAST_ROWS * right
        figures = (0.12, 0.15, 0.06, 0.2) if is_read_slowly else (0.05, 0.085, 0.03, 0.07)
        return _of(op, figures, count)
    fits_cache = count <= _MAX_CACHED_ELEMENTS
    return _of(op, (0.04, 0.12, 0.045, 0.3) if fits_cache else (0.08, 0.19, 0.05, 0.4), count)


def convolution(op: Op) -> OperationCost:
    """Return the cost of a convolution, which is a matrix product of its windows."""
    count = multiplications(op)
    shape = (None if op.inputs[1] is None else op.inputs[1].shape) or (1,)
    channels = max(shape[0], 1) if isinstance(shape[0], int) else 1
    return _of(op, (0.0, 0.0, 0.026 + 0.26 / channels, 0.08 + 0.5 / channels), count)


def _last_extent(value: Value) -> int | str:
    return value.shape[-1] if value.shape else 1
