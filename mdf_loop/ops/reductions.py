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
from mdf_loop.ops.costs import transcendental_microseconds
from mdf_loop.ops.decompositions import reductions as decomposing
from mdf_loop.ops.decompositions import selection
from mdf_loop.ops.derivatives import reductions as slopes
from mdf_loop.ops.derivatives.rule import ZERO_DERIVATIVE
from mdf_loop.ops.failure_conditions import has_axis_outside, has_empty_axis, unless_values_known
from mdf_loop.ops.known_kernels import FLOAT_DTYPES, NUMBER_DTYPES
from mdf_loop.ops.native import reductions as native
from mdf_loop.ops.native import running
from mdf_loop.ops.opset_changes import axes_as_operand
from mdf_loop.ops.registry import Reproducibility, Row, always, never

_INTEGER_DTYPES = frozenset({"int64", "int32"})
_reduction_row = partial(
    Row,
    may_fail=unless_values_known(1),
    batching_rule=batching.reduce,
    loop_cost=speeds.reduction_cost,
    newer_encodings=((18, axes_as_operand),),
)
_sum_row = partial(
    _reduction_row,
    has_exact_integers=True,
    wrong_kernel=known_kernels.first_operand_has(_INTEGER_DTYPES),
)
"""Registry row of a reduction that ONNX Runtime computes in float64 for integers, which rounds 2 ** 53 + 1."""

_has_float_operand = known_kernels.first_operand_has(FLOAT_DTYPES)


def _reduction_function(reduce: Callable[..., Array]) -> Callable[..., Array]:
    """Return the implementation of an ONNX reduction from numpy's reduction function `reduce`.

    The result has the dtype of the operand. Float results of integer operands are truncated toward zero.
    """

    def numpy_reduction(
        x: Array,
        axes_operand: Array | None = None,
        *,
        axes: Sequence[int] | None = None,
        keepdims: int = 1,
        noop_with_empty_axes: int = 0,
    ) -> Array:
        reduced_axes = tuple(
            int(k) for k in (axes_operand if axes_operand is not None else axes or ())
        )
        if not reduced_axes and not noop_with_empty_axes:
            reduced_axes = tuple(range(x.ndim))
        return np.asarray(reduce(x, axis=reduced_axes, keepdims=bool(keepdims))).astype(x.dtype)

    return numpy_reduction


def _compute_extreme(largest: bool, x: Array, **options: Any) -> Array:
    """Return the maximum or minimum along axes, or nan if an element is nan.

    The maximum of an empty array is the least number of the dtype, and the minimum is the greatest.

    Raises:
        RunError: a bool array is empty.
    """
    reduce_extreme = np.max if largest else np.min
    extremes = np.asarray(
        reduce_extreme(x, initial=_dtype_limit(x.dtype, lowest=largest), **options)
    )
    if x.dtype.kind == "b" and extremes.size and not x.size:
        raise RunError("the truth values of an empty array have no extreme")
    return extremes


def _dtype_limit(dtype: np.dtype[Any], *, lowest: bool) -> Any:
    if dtype.kind == "b":
        return not lowest
    if dtype.kind in "iu":
        return np.iinfo(dtype).min if lowest else np.iinfo(dtype).max
    return np.asarray(-np.inf if lowest else np.inf, dtype)


def _compute_square_sum(x: Array, **options: Any) -> Array:
    return np.asarray(np.sum(x * x, dtype=x.dtype, **options))


def _compute_log_sum(x: Array, **options: Any) -> Array:
    return np.asarray(np.log(np.sum(_to_float(x), **options)))


def _compute_log_sum_exp(x: Array, **options: Any) -> Array:
    """Return `log(sum(exp(x - m))) + m` with `m = max(x)`, or `m = 0` if the maximum is infinite."""
    x = _to_float(x)
    keepdims_options = {**options, "keepdims": True}
    max_x = np.max(x, initial=-np.inf, **keepdims_options)
    max_x = np.where(np.isinf(max_x), 0, max_x)
    log_sum = np.log(np.sum(np.exp(x - max_x), **keepdims_options)) + max_x
    return np.asarray(log_sum if options["keepdims"] else np.squeeze(log_sum, options["axis"]))


def _compute_log_softmax(x: Array, axis: int = -1) -> Array:
    """Return `x - m - log(sum(exp(x - m)))` with `m = max(x)`, which is finite even if `exp(x - m)` is 0."""
    shifted_x = x - np.max(x, axis, keepdims=True, initial=-np.inf)
    return np.asarray(shifted_x - np.log(np.sum(np.exp(shifted_x), axis, keepdims=True)), x.dtype)


def _to_float(x: Array) -> Array:
    return x.astype(np.float64) if x.dtype.kind in "iu" else x


def compute_arg_extreme(
    largest: bool, x: Array, axis: int = 0, keepdims: int = 1, select_last_index: int = 0
) -> Array:
    """Return the positions of the maxima or minima along an axis (ArgMax, ArgMin)."""
    arg_reduce = np.argmax if largest else np.argmin
    flipped_x = np.flip(x, axis) if select_last_index else x
    if 0 in np.delete(x.shape, axis):
        return np.asarray(np.any(x, axis, keepdims=bool(keepdims)), np.int64)
    positions = np.asarray(arg_reduce(flipped_x, axis=axis, keepdims=bool(keepdims)), np.int64)
    return x.shape[axis] - 1 - positions if select_last_index else positions


_NUMPY_MAX = _reduction_function(partial(_compute_extreme, True))
_NUMPY_MIN = _reduction_function(partial(_compute_extreme, False))

_axis_row = partial(Row, may_fail=never, batching_rule=batching.apply_along_axis)

OPERATOR_ROWS = (
    _sum_row(
        name="ReduceSum",
        derivative=slopes.SUM_DERIVATIVE,
        native_array_code=native.reduce_sum,
        cuda_replacement=cuda_replacements.reduce_sum,
        has_kernel=known_kernels.indexed_data_has(NUMBER_DTYPES),
        newer_encodings=(),
        batching_rule=batching.reduce_sum,
        decomposition=decomposing.integer_sum,
    ),
    _sum_row(
        name="ReduceProd",
        derivative=slopes.PROD_DERIVATIVE,
        native_array_code=native.reduce_product,
        cuda_replacement=cuda_replacements.product,
        decomposition=decomposing.integer_product,
    ),
    _sum_row(
        name="ReduceL1",
        derivative=slopes.L1_DERIVATIVE,
        decomposition=decomposing.integer_l1,
        cuda_replacement=cuda_replacements.reduce_sum,
    ),
    _sum_row(
        name="ReduceSumSquare",
        derivative=slopes.SUM_SQUARE_DERIVATIVE,
        numpy_function=_reduction_function(_compute_square_sum),
        decomposition=decomposing.integer_square_sum,
        cuda_replacement=cuda_replacements.reduce_sum,
    ),
    _reduction_row(
        name="ReduceL2",
        derivative=slopes.L2_DERIVATIVE,
        decomposition=decomposing.l2,
        can_decompose=_has_float_operand,
        cuda_replacement=cuda_replacements.reduce_sum,
    ),
    _reduction_row(
        name="ReduceLogSum",
        derivative=slopes.LOG_SUM_DERIVATIVE,
        numpy_function=_reduction_function(_compute_log_sum),
        decomposition=decomposing.log_sum,
        can_decompose=_has_float_operand,
    ),
    _reduction_row(
        name="ReduceLogSumExp",
        derivative=slopes.LOG_SUM_EXP_DERIVATIVE,
        numpy_function=_reduction_function(_compute_log_sum_exp),
        min_microseconds=transcendental_microseconds,
        decomposition=decomposing.log_sum_exp,
        can_decompose=_has_float_operand,
    ),
    _reduction_row(
        name="ReduceMean", derivative=slopes.MEAN_DERIVATIVE, native_array_code=native.reduce_mean
    ),
    _reduction_row(
        name="ReduceMax",
        derivative=slopes.EXTREME_DERIVATIVE,
        native_array_code=native.reduce_max,
        reproducibility=Reproducibility.ROUNDED_ONCE,
        has_exact_integers=True,
        numpy_function=_NUMPY_MAX,
    ),
    _reduction_row(
        name="ReduceMin",
        derivative=slopes.EXTREME_DERIVATIVE,
        native_array_code=native.reduce_min,
        reproducibility=Reproducibility.ROUNDED_ONCE,
        has_exact_integers=True,
        numpy_function=_NUMPY_MIN,
    ),
    _axis_row(
        name="ArgMax",
        numpy_function=partial(compute_arg_extreme, True),
        native_array_code=running.argmax,
        reproducibility=Reproducibility.ROUNDED_ONCE,
        has_exact_integers=True,
        may_fail=has_empty_axis,
        never_negative=always,
    ),
    _axis_row(
        name="ArgMin",
        numpy_function=partial(compute_arg_extreme, False),
        native_array_code=running.argmin,
        reproducibility=Reproducibility.ROUNDED_ONCE,
        has_exact_integers=True,
        may_fail=has_empty_axis,
        never_negative=always,
    ),
    _axis_row(
        name="Hardmax",
        derivative=ZERO_DERIVATIVE,
        reproducibility=Reproducibility.ROUNDED_ONCE,
        wrong_kernel=always,  # The kernel returns no 1 in a row with nan.
        decomposition=selection.hardmax,
    ),
    _axis_row(
        name="Softmax",
        loop_cost=speeds.SOFTMAX_COST,
        derivative=slopes.SOFTMAX_DERIVATIVE,
        min_microseconds=transcendental_microseconds,
        decomposition=decomposing.softmax,
        cuda_replacement=cuda_replacements.softmax,
        has_kernel=known_kernels.all_operands_have(FLOAT_DTYPES),
    ),
    _axis_row(
        name="LogSoftmax",
        numpy_function=_compute_log_softmax,
        wrong_kernel=known_kernels.first_operand_has(
            {"float64"}
        ),  # For infinity the kernel returns -inf, not nan.
        loop_cost=speeds.SOFTMAX_COST,
        derivative=slopes.LOG_SOFTMAX_DERIVATIVE,
        min_microseconds=transcendental_microseconds,
        decomposition=decomposing.log_softmax,
        cuda_replacement=cuda_replacements.log_softmax,
    ),
    _axis_row(
        name="LpNormalization",
        derivative=slopes.LP_NORMALIZATION_DERIVATIVE,
        decomposition=decomposing.lp_normalization,
    ),
    Row(
        name="CumSum",
        has_exact_integers=True,
        derivative=slopes.CUM_SUM_DERIVATIVE,
        native_array_code=running.running_sum,
        may_fail=has_axis_outside,
        treats_uint64_as_int64=True,
        has_kernel=known_kernels.indexed_data_has(NUMBER_DTYPES),
        batching_rule=batching.cumulative_sum,
    ),
)
