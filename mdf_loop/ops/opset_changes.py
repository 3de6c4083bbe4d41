"""Encodings of operations that changed with an opset, and minimum opsets that ONNX's schemas do not state.

    Row("ReduceMax", newer_encodings=((18, axes_as_operand),))
    ReduceMax(x, axes=(1,))   ->   ReduceMax(x, [1])      in a program of opset 18 or later

An encoding consists of additional constant inputs and of attributes. All encodings of an operation compute the
same results.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from mdf_loop.ir import OPSET, Array, Op
from mdf_loop.ops.registry import Type

Encoding: TypeAlias = tuple[Sequence[Array | None], Mapping[str, Any]]


# --- minimum opsets ---------------------------------------------------------------------------


def opset_of_reduction(inputs: Sequence[Type | None], attributes: Mapping[str, Any]) -> int:
    """Return the minimum opset of a scatter: 18 with a reduction `max` or `min`, else the base opset."""
    return 18 if attributes.get("reduction") in ("max", "min") else OPSET


def opset_of_coordinates(inputs: Sequence[Type | None], attributes: Mapping[str, Any]) -> int:
    """Return the minimum opset of a Resize: 19 with `half_pixel_symmetric`, else the base opset."""
    coordinate_mode = attributes.get("coordinate_transformation_mode")
    return 19 if coordinate_mode == "half_pixel_symmetric" else OPSET


def opset_of_grid(inputs: Sequence[Type | None], attributes: Mapping[str, Any]) -> int:
    """Return the minimum opset of a GridSample: 20 for newer features, else the base opset.

    The features are volumes, newer mode names, and float64 with `nearest`.
    """
    x_dtype, x_shape = inputs[0] or ("", None)
    sampling_mode = attributes.get("mode")
    if sampling_mode in _GENERAL_MODES.values() or (
        x_dtype == "float64" and sampling_mode == "nearest"
    ):
        return 20
    return OPSET if x_shape is None or len(x_shape) == 4 else 20


# --- encodings --------------------------------------------------------------------------------


def axes_as_operand(op: Op) -> Encoding:
    """Encode the axes of a reduction as an operand instead of an attribute, as in newer opsets."""
    remaining_attributes = dict(op.attributes)
    axes = remaining_attributes.pop("axes", None)
    return ([] if axes is None else [np.array(axes, np.int64)]), remaining_attributes


def part_count_as_attribute(op: Op) -> Encoding:
    """Encode the number of equal parts of a Split as an attribute, as in newer opsets."""
    if len(op.inputs) > 1:
        return [], op.attributes
    return [], {**op.attributes, "num_outputs": len(op.outputs)}


def axis_as_operand(op: Op) -> Encoding:
    """Encode the axis of a DFT as an operand instead of an attribute, as in newer opsets."""
    remaining_attributes = dict(op.attributes)
    axis = np.array(remaining_attributes.pop("axis", 1), np.int64)
    return [*[None] * (2 - len(op.inputs)), axis], remaining_attributes


_GENERAL_MODES = {"bilinear": "linear", "bicubic": "cubic"}


def mode_name_of_opset_20(op: Op) -> Encoding:
    """Encode the mode of a GridSample by its name in opset 20, such as `linear` for `bilinear`."""
    sampling_mode = op.attributes.get("mode", "bilinear")
    return [], {**op.attributes, "mode": _GENERAL_MODES.get(sampling_mode, sampling_mode)}
