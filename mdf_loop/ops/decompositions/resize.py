"""Decomposition of Resize into sums of gathered neighbours with constant weights."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from mdf_loop.errors import UnsupportedError
from mdf_loop.ir import Array, Op, Value
from mdf_loop.ops.build_helpers import cast
from mdf_loop.ops.decompositions.build_helpers import extents, operand, optional_operand
from mdf_loop.ops.numpy_evaluation import evaluate
from mdf_loop.ops.opset_changes import mode_name_of_opset_20

if TYPE_CHECKING:
    from mdf_loop.build import Builder


def resize(b: Builder, op: Op) -> Value:
    """Build operations that resize axes by weighted sums of neighbours.

    `y[j] = sum over n of weight[j, n] * x[index[j, n]]` along each resized axis

    The weights are those with which ONNX's reference implementation resizes unit vectors. The extents and scales
    of all axes must be known. The result must be linear in x, so `tf_crop_and_resize` is not supported.
    """
    x = operand(op)
    if op.attributes.get("coordinate_transformation_mode") == "tf_crop_and_resize":
        raise UnsupportedError("onnx::Resize in float64 cannot do tf_crop_and_resize")
    for name in ("axes", "keep_aspect_ratio_policy"):
        if op.attributes.get(name, "stretch") != "stretch":
            raise UnsupportedError(
                f"onnx::Resize in float64 does not take '{name}'", hint="give the sizes of all axes"
            )
    scales, sizes = (b.constant_of(optional_operand(op, k)) for k in (2, 3))
    sizes_or_scales = sizes if sizes is not None and sizes.size else scales
    if sizes_or_scales is None:
        raise UnsupportedError("onnx::Resize in float64 needs scales or sizes that are known")
    for axis, (axis_extent, size_or_scale) in enumerate(
        zip(extents(x, "onnx::Resize"), sizes_or_scales, strict=True)
    ):
        if size_or_scale != (axis_extent if sizes_or_scales is sizes else 1):
            x = _resize_axis(
                b,
                x,
                axis,
                _resize_weights(op, axis_extent, size_or_scale, by_size=sizes_or_scales is sizes),
            )
    return x


def _resize_weights(op: Op, length: int, factor: float, *, by_size: bool) -> Array:
    """Return the matrix `[n, j]` of weights that resizes an axis of n elements to j elements."""
    unit_vectors = np.eye(length)
    extents_or_scales = (
        np.array([length, factor], np.int64) if by_size else np.array([1, factor], np.float32)
    )
    resize_inputs = (
        [unit_vectors, None, None, extents_or_scales]
        if by_size
        else [unit_vectors, None, extents_or_scales]
    )
    weights: Array = evaluate("Resize", resize_inputs, op.attributes, 1)[0]
    return weights


def _resize_axis(b: Builder, x: Value, axis: int, weights: Array) -> Value:
    neighbour_count = max(int(np.count_nonzero(weights, axis=0).max(initial=1)), 1)
    neighbour_indices = np.argsort(weights == 0, axis=0, kind="stable")[:neighbour_count]
    trailing_axis_count = len(x.shape or ()) - axis - 1
    weighted_sum: Value | None = None
    for source_indices in neighbour_indices:
        weighted_x = b.op("Gather", x, b.constant(source_indices), axis=axis)
        neighbour_weights = weights[source_indices, np.arange(source_indices.size)]
        if np.any(neighbour_weights != 1):
            if np.dtype(x.dtype).kind != "f":
                raise UnsupportedError(f"onnx::Resize in {x.dtype} can only copy elements")
            weight_column = neighbour_weights.astype(x.dtype).reshape(
                -1, *[1] * trailing_axis_count
            )
            weighted_x = b.op("Mul", weighted_x, b.constant(weight_column))
        weighted_sum = weighted_x if weighted_sum is None else b.op("Add", weighted_sum, weighted_x)
    assert weighted_sum is not None
    return weighted_sum


_OPERATORS_EXACT_IN_FLOAT64 = frozenset(
    ("bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "float32", "float64")
)


def grid_sample(b: Builder, op: Op) -> Value:
    """Build GridSample in float64 with the opset-20 kernel, which computes in float64.

    For integers only "nearest" would be possible. But ONNX does not define how a number between two integers is
    rounded.
    """
    x, grid = operand(op), operand(op, 1)
    mode_attributes = mode_name_of_opset_20(op)[1]
    is_float = np.dtype(x.dtype).kind == "f"
    if x.dtype not in _OPERATORS_EXACT_IN_FLOAT64 or not (
        is_float or mode_attributes["mode"] == "nearest"
    ):
        raise UnsupportedError(
            f"ONNX Runtime has no {x.dtype} kernel for onnx::GridSample",
            hint="cast x to float64 before it",
        )
    float64_samples = b.op(
        "GridSample", cast(b, x, "float64"), cast(b, grid, "float64"), **mode_attributes
    )
    return cast(b, float64_samples, x.dtype)
