"""Registry entries of reductions in loops: nan-propagating max and min, and sums in fixed order.

    OrderedSum(x)            sum; its order depends neither on addresses nor on other rows
    ReduceMaximum(x)         largest element, or nan if there is one (IEEE 754-2019, maximum)
    ArgMaximum(x)            its position, or that of the first nan

ONNX Runtime's kernels guarantee neither. Machine code computes these operations themselves. An ONNX model
has several nodes for each of them (`onnx_decomposition`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from onnx import defs, helper

from mdf_loop.ir import Array, Op, Shape, Value
from mdf_loop.ops import cuda_replacements, known_kernels, speeds
from mdf_loop.ops.batching import reductions as batching
from mdf_loop.ops.decompositions import extremes, ordered_sums
from mdf_loop.ops.derivatives import reductions as slopes
from mdf_loop.ops.failure_conditions import has_empty_axis
from mdf_loop.ops.known_kernels import FLOAT_DTYPES
from mdf_loop.ops.native import reductions as native
from mdf_loop.ops.native import running
from mdf_loop.ops.ordered_sum import ordered_sum
from mdf_loop.ops.reductions import compute_arg_extreme
from mdf_loop.ops.registry import KnownArrays, Reproducibility, Row, always, never

if TYPE_CHECKING:
    from mdf_loop.build import Builder

_FLOAT_CONSTRAINT = (
    "T",
    ["tensor(double)", "tensor(float)", "tensor(float16)", "tensor(bfloat16)"],
    "",
)


def _int_attribute(name: str, default: int) -> defs.OpSchema.Attribute:
    return defs.OpSchema.Attribute(name, helper.make_attribute(name, default))


def _build_schema(
    name: str, *attributes: defs.OpSchema.Attribute, output: str = "T"
) -> defs.OpSchema:
    make_parameter = defs.OpSchema.FormalParameter
    return defs.OpSchema(
        name,
        "mdf_loop.loops",
        1,
        inputs=[make_parameter("data", "T")],
        outputs=[make_parameter("reduced", output)],
        type_constraints=[_FLOAT_CONSTRAINT],
        attributes=list(attributes),
    )


_AXES_ATTRIBUTE = defs.OpSchema.Attribute("axes", defs.OpSchema.AttrType.INTS, required=False)
_KEEPDIMS_ATTRIBUTE = _int_attribute("keepdims", 1)


def _infer_types(
    inputs: Sequence[tuple[str, Shape] | None],
    attributes: Mapping[str, Any],
    known: Mapping[int, Array],
    dtype: str = "",
) -> list[tuple[str, Shape]]:
    """Infer the result type of OrderedSum or ReduceMaximum, or, with `dtype`, of ArgMaximum.

    The attribute `axes` has all axes as default. ArgMaximum has one `axis` instead.
    """
    input_dtype, operand_shape = inputs[0] or ("", None)
    if operand_shape is None:
        reduces_all_axes = (
            not dtype and "axes" not in attributes and not attributes.get("keepdims", 1)
        )
        return [(dtype or input_dtype, () if reduces_all_axes else None)]
    default_axes = (attributes.get("axis", 0),) if dtype else range(len(operand_shape))
    axes = attributes.get("axes", default_axes)
    reduced_axes = {axis % len(operand_shape) for axis in axes}
    if attributes.get("keepdims", 1):
        return [
            (
                dtype or input_dtype,
                tuple(1 if k in reduced_axes else extent for k, extent in enumerate(operand_shape)),
            )
        ]
    return [
        (
            dtype or input_dtype,
            tuple(extent for k, extent in enumerate(operand_shape) if k not in reduced_axes),
        )
    ]


def _compute_sum(x: Array, axes: Sequence[int] | None = None, keepdims: int = 1) -> Array:
    return ordered_sum(x, range(x.ndim) if axes is None else axes, keepdims=bool(keepdims))


def _compute_extreme(
    largest: bool, x: Array, axes: Sequence[int] | None = None, keepdims: int = 1
) -> Array:
    reduce_extreme, initial_extreme = (np.max, -np.inf) if largest else (np.min, np.inf)
    extremes = reduce_extreme(
        x,
        axis=None if axes is None else tuple(axes),
        keepdims=bool(keepdims),
        initial=initial_extreme,
    )
    return np.asarray(extremes, x.dtype)


_reduction_row = partial(
    Row,
    type_rule=_infer_types,
    may_fail=never,
    batching_rule=batching.reduce,
    has_kernel=known_kernels.all_operands_have(FLOAT_DTYPES),
)
_ARG_EXTREME_ATTRIBUTES = (
    _int_attribute("axis", 0),
    _KEEPDIMS_ATTRIBUTE,
    _int_attribute("select_last_index", 0),
)


def _arg_extreme_row(name: str, largest: bool, native_arrays: Callable[..., Any]) -> Row:
    op_type = "ArgMax" if largest else "ArgMin"

    def without_branch(b: Builder, op: Op, _: KnownArrays) -> Value:
        return extremes.arg_extreme_with_nan(b, op, op_type)

    return Row(
        name=name,
        schema=_build_schema(name, *_ARG_EXTREME_ATTRIBUTES, output="tensor(int64)"),
        type_rule=partial(_infer_types, dtype="int64"),
        numpy_function=partial(compute_arg_extreme, largest),
        reproducibility=Reproducibility.ROUNDED_ONCE,
        may_fail=has_empty_axis,
        never_negative=always,
        batching_rule=batching.apply_along_axis,
        has_kernel=known_kernels.all_operands_have(FLOAT_DTYPES),
        native_array_code=native_arrays,
        loop_cost=speeds.ARG_EXTREME_COST,
        cuda_replacement=without_branch,  # CUDA would copy the condition of a branch to the host.
        onnx_decomposition=partial(extremes.arg_extreme, op_type=op_type),
    )


OPERATOR_ROWS = (
    _reduction_row(
        name="OrderedSum",
        schema=_build_schema("OrderedSum", _AXES_ATTRIBUTE, _KEEPDIMS_ATTRIBUTE),
        numpy_function=_compute_sum,
        derivative=slopes.SUM_DERIVATIVE,
        cuda_replacement=cuda_replacements.reduce_sum,
        native_array_code=native.reduce_sum,
        loop_cost=speeds.ordered_sum_cost,
        onnx_decomposition=ordered_sums.ordered_sum,
    ),
    _reduction_row(
        name="ReduceMaximum",
        schema=_build_schema("ReduceMaximum", _AXES_ATTRIBUTE, _KEEPDIMS_ATTRIBUTE),
        numpy_function=partial(_compute_extreme, True),
        reproducibility=Reproducibility.ROUNDED_ONCE,
        derivative=slopes.EXTREME_DERIVATIVE,
        native_array_code=native.reduce_max,
        loop_cost=speeds.extreme_cost,
        onnx_decomposition=partial(extremes.extreme, op_type="ReduceMax"),
    ),
    _reduction_row(
        name="ReduceMinimum",
        schema=_build_schema("ReduceMinimum", _AXES_ATTRIBUTE, _KEEPDIMS_ATTRIBUTE),
        numpy_function=partial(_compute_extreme, False),
        reproducibility=Reproducibility.ROUNDED_ONCE,
        derivative=slopes.EXTREME_DERIVATIVE,
        native_array_code=native.reduce_min,
        loop_cost=speeds.extreme_cost,
        onnx_decomposition=partial(extremes.extreme, op_type="ReduceMin"),
    ),
    _arg_extreme_row(
        "ArgMaximum", True, running.extreme_position_writer(largest=True, nan_wins=True)
    ),
    _arg_extreme_row(
        "ArgMinimum", False, running.extreme_position_writer(largest=False, nan_wins=True)
    ),
)

NAN_UNAWARE_KERNELS = {"ArgMaximum": "ArgMax", "ArgMinimum": "ArgMin"}
"""ONNX operations that give the same results for operands without nan."""
