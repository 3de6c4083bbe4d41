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
    """Return 18 for a scatter with the reduction `max` or `min`, else the base opset."""
    return 18 if attributes.get("reduction") in ("max", "min") else OPSET


def opset_of_coordinates(inputs: Sequence[Type | None], attributes: Mapping[str, Any]) -> int:
    """Return 19 for a resize with `half_pixel_symmetric`, else the base opset."""
    mode = attributes.get("coordinate_transformation_mode")
    return 19 if mode == "half_pixel_symmetric" else OPSET


def opset_of_grid(inputs: Sequence[Type | None], attributes: Mapping[str, Any]) -> int:
    """Return 20 for a GridSample of volumes, with newer mode names or of float64, else the base opset."""
    dtype, shape = inputs[0] or ("", None)
    mode = attributes.get("mode")
    if mode in _GENERAL_MODES.values() or (dtype == "float64" and mode == "nearest"):
        return 20
    return OPSET if shape is None or len(shape) == 4 else 20


# --- encodings --------------------------------------------------------------------------------


def axes_as_operand(op: Op) -> Encoding:
    """Return the encoding of a reduction with its axes as an operand instead of an attribute."""
    attributes = dict(op.attributes)
    axes = attributes.pop("axes", None)
    return ([] if axes is None else [np.array(axes, np.int64)]), attributes


def part_count_as_attribute(op: Op) -> Encoding:
    """Return the encoding of a Split into equal parts with the number of parts as an attribute."""
    if len(op.inputs) > 1:
        return [], op.attributes
    return [], {**op.attributes, "num_outputs": len(op.outputs)}


def axis_as_operand(op: Op) -> Encoding:
    """Return the encoding of a DFT with its axis as an operand behind the optional length."""
    attributes = dict(op.attributes)
    axis = np.array(attributes.pop("axis", 1), np.int64)
    return [*[None] * (2 - len(op.inputs)), axis], attributes


_GENERAL_MODES = {"bilinear": "linear", "bicubic": "cubic"}


def general_mode_names(op: Op) -> Encoding:
    """Return the encoding of a GridSample with the mode names of opset 20, which suit any number of axes."""
    mode = op.attributes.get("mode", "bilinear")
    return [], {**op.attributes, "mode": _GENERAL_MODES.get(mode, mode)}
