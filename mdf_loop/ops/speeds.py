"""What elements of arrays cost in a loop, as machine code and by ONNX Runtime's kernels: `speed` of rows.

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

Products of matrices of float32 are those of an AMD EPYC with AVX2, where ONNX Runtime, which packs a
constant factor once, is two to three times as fast; with AVX-512 both take 0.02. ONNX Runtime also shares
them among threads. Other dtypes count as float64. What has no number here is composed of other operations as machine code.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

from mdf_loop.ir import Op, Value
from mdf_loop.ops.costs import multiplications
from mdf_loop.ops.registry import elements


class Nanoseconds(NamedTuple):
    """Cost of an operation besides its call.

    Attributes:
        native: as machine code.
        standard: by ONNX Runtime's kernel.
    """

    native: float
    standard: float


Speed: TypeAlias = Callable[[Op], Nanoseconds]
"""What an operation costs besides its call, in both forms."""

Figures: TypeAlias = tuple[float, float, float, float]
"""Nanoseconds of float32 and float64 as machine code, then of both by ONNX Runtime."""


def _of(op: Op, figures: Figures, count: float) -> Nanoseconds:
    k = int(op.outputs[0].dtype != "float32")
    return Nanoseconds(figures[k] * count, figures[2 + k] * count)


def per_element(figures: Figures) -> Speed:
    """Return the speed of an operation that costs so much for each element of its results."""
    return lambda op: _of(op, figures, elements(op.outputs))


def per_element_read(figures: Figures) -> Speed:
    """Return the speed of an operation that costs so much for each element of its first operand."""
    return lambda op: _of(
        op, figures, elements([value for value in op.inputs[:1] if value is not None])
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


_CACHED = 1 << 17
"""Elements of a matrix that a row is multiplied with, up to which they are read from a fast cache."""

_FEW_ROWS, _NEAR = 8, 1 << 14
"""A left factor of fewer rows takes as long as reading the right one, if that has more elements."""


def reduction(op: Op) -> Nanoseconds:
    """Return what a sum or an extreme along axes costs."""
    return per_element_read(_LAST_AXIS if _is_along_last(op) else _OTHER_AXES)(op)


def extreme(op: Op) -> Nanoseconds:
    """Return what an extreme in which nan wins costs."""
    last, others = (0.9, 1.1, 1.0, 1.2), (0.3, 0.7, 1.8, 1.9)
    return per_element_read(last if _is_along_last(op) else others)(op)


def ordered_sum(op: Op) -> Nanoseconds:
    """Return what a sum in a fixed order costs."""
    last, others = (0.8, 1.0, 1.5, 4.5), (0.25, 0.5, 0.3, 0.5)
    if elements(op.outputs) == 1:
        last = (0.25, 0.45, 0.5, 0.5)
    return per_element_read(last if _is_along_last(op) else others)(op)


def _is_along_last(op: Op) -> bool:
    """Return True if the last axis is reduced."""
    values = [value for value in op.inputs[:1] if value is not None]
    read, given = (_last_extent(value) for value in (*values, *op.outputs[:1]))
    return read == 1 or read != given


def product(op: Op) -> Nanoseconds:
    """Return what a product of matrices costs, or of a row and a matrix."""
    count = multiplications(op)
    left = [value for value in op.inputs[:1] if value is not None]
    if elements(left) * elements(op.outputs) > count:
        right = elements([value for value in op.inputs[1:] if value is not None])
        is_read_slowly = right > _NEAR and count < _FEW_ROWS * right
        figures = (0.12, 0.15, 0.06, 0.2) if is_read_slowly else (0.05, 0.085, 0.03, 0.07)
        return _of(op, figures, count)
    fits_cache = count <= _CACHED
    return _of(op, (0.04, 0.12, 0.045, 0.3) if fits_cache else (0.08, 0.19, 0.05, 0.4), count)


def convolution(op: Op) -> Nanoseconds:
    """Return what a convolution costs: its windows are laid side by side, and multiplied."""
    count = multiplications(op)
    shape = (None if op.inputs[1] is None else op.inputs[1].shape) or (1,)
    channels = max(shape[0], 1) if isinstance(shape[0], int) else 1
    return _of(op, (0.0, 0.0, 0.026 + 0.26 / channels, 0.08 + 0.5 / channels), count)


def _last_extent(value: Value) -> int | str:
    return value.shape[-1] if value.shape else 1
