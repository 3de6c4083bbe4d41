"""Registry rows of operators along axes: sums, extremes, softmax, cumulative sums."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from mdf_loop.errors import RunError
from mdf_loop.ir import Array
from mdf_loop.ops import cuda_replacements, known_kernels, speeds
from mdf_loop.ops.batching import reductions as batching
from mdf_loop.ops.costs import transcendental
from mdf_loop.ops.decompositions import reductions as decomposing
from mdf_loop.ops.decompositions import selection
from mdf_loop.ops.derivatives import reductions as slopes
from mdf_loop.ops.derivatives.rule import ZERO_DERIVATIVE
from mdf_loop.ops.failure_conditions import has_axis_outside, has_empty_axis, unless_values_known
from mdf_loop.ops.known_kernels import FLOATS, NUMBERS
from mdf_loop.ops.native import reductions as native
from mdf_loop.ops.native import running
from mdf_loop.ops.opset_changes import axes_as_operand
from mdf_loop.ops.registry import Bits, Row, always, never

_INTEGERS = frozenset({"int64", "int32"})
_reduced = partial(
    Row,
    may_fail=unless_values_known(1),
    batched=batching.reduce,
    speed=speeds.reduction,
    newer_forms=((18, axes_as_operand),),
)
_summed = partial(
    _reduced, exact_integers=True, wrong_kernel=known_kernels.for_first_dtype(_INTEGERS)
)
"""Registry row of a reduction that ONNX Runtime computes in float64 for integers, which rounds 2 ** 53 + 1."""

_of_floats = known_kernels.for_first_dtype(FLOATS)


def _reduction_meaning(reduce: Callable[..., Array]) -> Callable[..., Array]:
    """Return the numpy implementation of an ONNX reduction, from numpy's reduction `reduce`.

    The result has the dtype of the operand. Float results of integer operands are truncated toward zero.
    """

    def meaning(
        x: Array,
        computed: Array | None = None,
        *,
        axes: Sequence[int] | None = None,
        keepdims: int = 1,
        noop_with_empty_axes: int = 0,
    ) -> Array:
        listed = tuple(int(k) for k in (computed if computed is not None else axes or ()))
        if not listed and not noop_with_empty_axes:
            listed = tuple(range(x.ndim))
        return np.asarray(reduce(x, axis=listed, keepdims=bool(keepdims))).astype(x.dtype)

    return meaning


def _extreme(largest: bool, x: Array, **options: Any) -> Array:
    """Return the maximum or minimum along axes, or nan if an element is nan.

    The maximum of an empty array is the least number of the dtype, and the minimum is the greatest.

    Raises:
        RunError: a bool array is empty.
    """
    reduce = np.max if largest else np.min
    result = np.asarray(reduce(x, initial=_end_of(x.dtype, lowest=largest), **options))
    if x.dtype.kind == "b" and result.size and not x.size:
        raise RunError("the truth values of an empty array have no extreme")
    return result


def _end_of(dtype: np.dtype[Any], *, lowest: bool) -> Any:
    if dtype.kind == "b":
        return not lowest
    if dtype.kind in "iu":
        return np.iinfo(dtype).min if lowest else np.iinfo(dtype).max
    return np.asarray(-np.inf if lowest else np.inf, dtype)


def _square_sum(x: Array, **options: Any) -> Array:
    return np.asarray(np.sum(x * x, dtype=x.dtype, **options))


def _log_sum(x: Array, **options: Any) -> Array:
    return np.asarray(np.log(np.sum(_real(x), **options)))


def _log_sum_exp(x: Array, **options: Any) -> Array:
    """Return `log(sum(exp(x - m))) + m` with `m = max(x)`, or `m = 0` if the maximum is infinite."""
    x = _real(x)
    kept_options = {**options, "keepdims": True}
    largest = np.max(x, initial=-np.inf, **kept_options)
    largest = np.where(np.isinf(largest), 0, largest)
    total = np.log(np.sum(np.exp(x - largest), **kept_options)) + largest
    return np.asarray(total if options["keepdims"] else np.squeeze(total, options["axis"]))


def _log_softmax(x: Array, axis: int = -1) -> Array:
    """Return `x - m - log(sum(exp(x - m)))` with `m = max(x)`, which is finite even if `exp(x - m)` is 0."""
    less = x - np.max(x, axis, keepdims=True, initial=-np.inf)
    return np.asarray(less - np.log(np.sum(np.exp(less), axis, keepdims=True)), x.dtype)


def _real(x: Array) -> Array:
    return x.astype(np.float64) if x.dtype.kind in "iu" else x


def arg_extreme_meaning(
    largest: bool, x: Array, axis: int = 0, keepdims: int = 1, select_last_index: int = 0
) -> Array:
    """Return the positions of the maxima or minima along an axis (ArgMax, ArgMin)."""
    of_all = np.argmax if largest else np.argmin
    rows = np.flip(x, axis) if select_last_index else x
    if 0 in np.delete(x.shape, axis):
        return np.asarray(np.any(x, axis, keepdims=bool(keepdims)), np.int64)
    place = np.asarray(of_all(rows, axis=axis, keepdims=bool(keepdims)), np.int64)
    return x.shape[axis] - 1 - place if select_last_index else place


_LARGEST = _reduction_meaning(partial(_extreme, True))
_SMALLEST = _reduction_meaning(partial(_extreme, False))

_along = partial(Row, may_fail=never, batched=batching.along_axis)

ROWS = (
    _summed(
        name="ReduceSum",
        derivative=slopes.SUM,
        native_whole=native.total,
        for_cuda=cuda_replacements.reduce_sum,
        has_kernel=known_kernels.for_indexed_dtypes(NUMBERS),
        newer_forms=(),
        batched=batching.reduce_sum,
        decomposition=decomposing.integer_sum,
    ),
    _summed(
        name="ReduceProd",
        derivative=slopes.PROD,
        native_whole=native.product,
        for_cuda=cuda_replacements.product,
        decomposition=decomposing.integer_product,
    ),
    _summed(
        name="ReduceL1",
        derivative=slopes.L1,
        decomposition=decomposing.integer_l1,
        for_cuda=cuda_replacements.reduce_sum,
    ),
    _summed(
        name="ReduceSumSquare",
        derivative=slopes.SUM_SQUARE,
        meaning=_reduction_meaning(_square_sum),
        decomposition=decomposing.integer_square_sum,
        for_cuda=cuda_replacements.reduce_sum,
    ),
    _reduced(
        name="ReduceL2",
        derivative=slopes.L2,
        decomposition=decomposing.l2,
        can_decompose=_of_floats,
        for_cuda=cuda_replacements.reduce_sum,
    ),
    _reduced(
        name="ReduceLogSum",
        derivative=slopes.LOG_SUM,
        meaning=_reduction_meaning(_log_sum),
        decomposition=decomposing.log_sum,
        can_decompose=_of_floats,
    ),
    _reduced(
        name="ReduceLogSumExp",
        derivative=slopes.LOG_SUM_EXP,
        meaning=_reduction_meaning(_log_sum_exp),
        work=transcendental,
        decomposition=decomposing.log_sum_exp,
        can_decompose=_of_floats,
    ),
    _reduced(name="ReduceMean", derivative=slopes.MEAN, native_whole=native.mean),
    _reduced(
        name="ReduceMax",
        derivative=slopes.EXTREME,
        native_whole=native.largest,
        bits=Bits.ONCE,
        exact_integers=True,
        meaning=_LARGEST,
    ),
    _reduced(
        name="ReduceMin",
        derivative=slopes.EXTREME,
        native_whole=native.smallest,
        bits=Bits.ONCE,
        exact_integers=True,
        meaning=_SMALLEST,
    ),
    _along(
        name="ArgMax",
        meaning=partial(arg_extreme_meaning, True),
        native_whole=running.argmax,
        bits=Bits.ONCE,
        exact_integers=True,
        may_fail=has_empty_axis,
        never_negative=always,
    ),
    _along(
        name="ArgMin",
        meaning=partial(arg_extreme_meaning, False),
        native_whole=running.argmin,
        bits=Bits.ONCE,
        exact_integers=True,
        may_fail=has_empty_axis,
        never_negative=always,
    ),
    _along(
        name="Hardmax",
        derivative=ZERO_DERIVATIVE,
        bits=Bits.ONCE,
        wrong_kernel=always,  # The kernel returns no 1 in a row with nan.
        decomposition=selection.hardmax,
    ),
    _along(
        name="Softmax",
        speed=speeds.SOFTMAX,
        derivative=slopes.SOFTMAX,
        work=transcendental,
        decomposition=decomposing.softmax,
        for_cuda=cuda_replacements.softmax,
        has_kernel=known_kernels.for_dtypes(FLOATS),
    ),
    _along(
        name="LogSoftmax",
        meaning=_log_softmax,
        wrong_kernel=known_kernels.for_first_dtype(
            {"float64"}
        ),  # For infinity the kernel returns -inf, not nan.
        speed=speeds.SOFTMAX,
        derivative=slopes.LOG_SOFTMAX,
        work=transcendental,
        decomposition=decomposing.log_softmax,
        for_cuda=cuda_replacements.log_softmax,
    ),
    _along(
        name="LpNormalization",
        derivative=slopes.LP_NORMALIZATION,
        decomposition=decomposing.lp_normalization,
    ),
    Row(
        name="CumSum",
        exact_integers=True,
        derivative=slopes.CUM_SUM,
        native_whole=running.running_sum,
        may_fail=has_axis_outside,
        as_signed=True,
        has_kernel=known_kernels.for_indexed_dtypes(NUMBERS),
        batched=batching.running_sum,
    ),
)
