"""Operators along axes: sums, extremes, softmax, running sums."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from mdf_loop.errors import RunError
from mdf_loop.ir import Array
from mdf_loop.ops import for_cuda, speeds, sure_kernels
from mdf_loop.ops.batching import reductions as batching
from mdf_loop.ops.compositions import reductions as composing
from mdf_loop.ops.compositions import selection
from mdf_loop.ops.costs import transcendental
from mdf_loop.ops.derivatives import reductions as slopes
from mdf_loop.ops.derivatives.rule import NOTHING
from mdf_loop.ops.failing import no_axis, nothing_to_choose, unless_known
from mdf_loop.ops.native import reductions as native
from mdf_loop.ops.native import running
from mdf_loop.ops.newer_forms import axes_as_operand
from mdf_loop.ops.registry import Bits, Row, no, yes
from mdf_loop.ops.sure_kernels import FLOATS, NUMBERS

_WHOLE = frozenset({"int64", "int32"})
_reduced = partial(
    Row,
    may_fail=unless_known(1),
    batched=batching.reduce,
    speed=speeds.reduction,
    newer_forms=((18, axes_as_operand),),
)
_summed = partial(_reduced, exact_integers=True, wrong_kernel=sure_kernels.first_of(_WHOLE))
"""Of whole numbers it is computed in float64: 2 ** 53 + 1 is lost."""

_of_floats = sure_kernels.first_of(FLOATS)


def _meaning(reduce: Callable[..., Array]) -> Callable[..., Array]:
    """Return the meaning of a reduction in the dtype of its operand; `reduce` is numpy's.

    Of integers it is computed in float64 and rounded toward zero, except of what stays whole.
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


def _extreme(largest: bool, x: Array, **how: Any) -> Array:
    """Return the largest or smallest elements, of which nan is one; of none the least or greatest number.

    Raises:
        RunError: there are no truth values to choose from.
    """
    reduce = np.max if largest else np.min
    result = np.asarray(reduce(x, initial=_end_of(x.dtype, lowest=largest), **how))
    if x.dtype.kind == "b" and result.size and not x.size:
        raise RunError("the truth values of an empty array have no extreme")
    return result


def _end_of(dtype: np.dtype[Any], *, lowest: bool) -> Any:
    if dtype.kind == "b":
        return not lowest
    if dtype.kind in "iu":
        return np.iinfo(dtype).min if lowest else np.iinfo(dtype).max
    return np.asarray(-np.inf if lowest else np.inf, dtype)


def _square_sum(x: Array, **how: Any) -> Array:
    return np.asarray(np.sum(x * x, dtype=x.dtype, **how))


def _log_sum(x: Array, **how: Any) -> Array:
    return np.asarray(np.log(np.sum(_real(x), **how)))


def _log_sum_exp(x: Array, **how: Any) -> Array:
    """Return `log(sum(exp(x - m))) + m` of the largest x, or of 0 where that is infinite."""
    x = _real(x)
    kept = {**how, "keepdims": True}
    largest = np.max(x, initial=-np.inf, **kept)
    largest = np.where(np.isinf(largest), 0, largest)
    total = np.log(np.sum(np.exp(x - largest), **kept)) + largest
    return np.asarray(total if how["keepdims"] else np.squeeze(total, how["axis"]))


def _log_softmax(x: Array, axis: int = -1) -> Array:
    """Return `x - m - log(sum(exp(x - m)))` of the largest `m`, which is finite where a power is 0."""
    less = x - np.max(x, axis, keepdims=True, initial=-np.inf)
    return np.asarray(less - np.log(np.sum(np.exp(less), axis, keepdims=True)), x.dtype)


def _real(x: Array) -> Array:
    return x.astype(np.float64) if x.dtype.kind in "iu" else x


def place_of_extreme(
    largest: bool, x: Array, axis: int = 0, keepdims: int = 1, select_last_index: int = 0
) -> Array:
    """Return positions of extremes along an axis; of no rows there are none, whatever the axis has."""
    of_all = np.argmax if largest else np.argmin
    rows = np.flip(x, axis) if select_last_index else x
    if 0 in np.delete(x.shape, axis):
        return np.asarray(np.any(x, axis, keepdims=bool(keepdims)), np.int64)
    place = np.asarray(of_all(rows, axis=axis, keepdims=bool(keepdims)), np.int64)
    return x.shape[axis] - 1 - place if select_last_index else place


_LARGEST = _meaning(partial(_extreme, True))
_SMALLEST = _meaning(partial(_extreme, False))

_along = partial(Row, may_fail=no, batched=batching.along_axis)

ROWS = (
    _summed(
        name="ReduceSum",
        derivative=slopes.SUM,
        native_whole=native.total,
        for_cuda=for_cuda.total,
        has_kernel=sure_kernels.indexed(NUMBERS),
        newer_forms=(),
        batched=batching.reduce_sum,
        composed=composing.whole_sum,
    ),
    _summed(
        name="ReduceProd",
        derivative=slopes.PROD,
        native_whole=native.product,
        for_cuda=for_cuda.product,
        composed=composing.whole_product,
    ),
    _summed(
        name="ReduceL1", derivative=slopes.L1, composed=composing.whole_l1, for_cuda=for_cuda.total
    ),
    _summed(
        name="ReduceSumSquare",
        derivative=slopes.SUM_SQUARE,
        meaning=_meaning(_square_sum),
        composed=composing.whole_square_sum,
        for_cuda=for_cuda.total,
    ),
    _reduced(
        name="ReduceL2",
        derivative=slopes.L2,
        composed=composing.l2,
        composes=_of_floats,
        for_cuda=for_cuda.total,
    ),
    _reduced(
        name="ReduceLogSum",
        derivative=slopes.LOG_SUM,
        meaning=_meaning(_log_sum),
        composed=composing.log_sum,
        composes=_of_floats,
    ),
    _reduced(
        name="ReduceLogSumExp",
        derivative=slopes.LOG_SUM_EXP,
        meaning=_meaning(_log_sum_exp),
        work=transcendental,
        composed=composing.log_sum_exp,
        composes=_of_floats,
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
        meaning=partial(place_of_extreme, True),
        native_whole=running.largest_place,
        bits=Bits.ONCE,
        exact_integers=True,
        may_fail=nothing_to_choose,
        never_negative=yes,
    ),
    _along(
        name="ArgMin",
        meaning=partial(place_of_extreme, False),
        native_whole=running.smallest_place,
        bits=Bits.ONCE,
        exact_integers=True,
        may_fail=nothing_to_choose,
        never_negative=yes,
    ),
    _along(
        name="Hardmax",
        derivative=NOTHING,
        bits=Bits.ONCE,
        wrong_kernel=yes,  # a row that holds nan has no 1
        composed=selection.hardmax,
    ),
    _along(
        name="Softmax",
        speed=speeds.SOFTMAX,
        derivative=slopes.SOFTMAX,
        work=transcendental,
        composed=composing.softmax,
        for_cuda=for_cuda.softmax,
        has_kernel=sure_kernels.of(FLOATS),
    ),
    _along(
        name="LogSoftmax",
        meaning=_log_softmax,
        wrong_kernel=sure_kernels.first_of({"float64"}),  # of infinity it gives -inf for nan
        speed=speeds.SOFTMAX,
        derivative=slopes.LOG_SOFTMAX,
        work=transcendental,
        composed=composing.log_softmax,
        for_cuda=for_cuda.log_softmax,
    ),
    _along(
        name="LpNormalization",
        derivative=slopes.LP_NORMALIZATION,
        composed=composing.lp_normalization,
    ),
    Row(
        name="CumSum",
        exact_integers=True,
        derivative=slopes.CUM_SUM,
        native_whole=running.running_sum,
        may_fail=no_axis,
        as_signed=True,
        has_kernel=sure_kernels.indexed(NUMBERS),
        batched=batching.running_sum,
    ),
)
