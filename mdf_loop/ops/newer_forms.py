"""Opsets that ONNX's schemas alone do not tell, and operations that newer opsets say differently.

    Row("ReduceMax", newer_forms=((18, axes_as_operand),))
    ReduceMax(x, axes=(1,))   ->   ReduceMax(x, [1])      where a program is of opset 18 or later

A form gives the constants that stand behind the inputs of an operation, and its attributes. The
meaning is the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from mdf_loop.ir import OPSET, Array, Op
from mdf_loop.ops.registry import Type

Said: TypeAlias = tuple[Sequence[Array | None], Mapping[str, Any]]


# --- in which opset ---------------------------------------------------------------------------


def of_reduction(inputs: Sequence[Type | None], attributes: Mapping[str, Any]) -> int:
    """A scatter that keeps the largest, or the smallest, is new in 18."""
    return 18 if attributes.get("reduction") in ("max", "min") else OPSET


def of_coordinates(inputs: Sequence[Type | None], attributes: Mapping[str, Any]) -> int:
    """A resize that is symmetric to the middle is new in 19."""
    mode = attributes.get("coordinate_transformation_mode")
    return 19 if mode == "half_pixel_symmetric" else OPSET


def of_grid(inputs: Sequence[Type | None], attributes: Mapping[str, Any]) -> int:
    """Samples of volumes, words for all numbers of axes, and kernels for float64 are new in 20."""
    dtype, shape = inputs[0] or ("", None)
    mode = attributes.get("mode")
    if mode in _GRID_WORDS.values() or (dtype == "float64" and mode == "nearest"):
        return 20
    return OPSET if shape is None or len(shape) == 4 else 20


# --- how it is said ---------------------------------------------------------------------------


def axes_as_operand(op: Op) -> Said:
    """Axes are an operand."""
    attributes = dict(op.attributes)
    axes = attributes.pop("axes", None)
    return ([] if axes is None else [np.array(axes, np.int64)]), attributes


def counted_parts(op: Op) -> Said:
    """Equal parts are counted."""
    if len(op.inputs) > 1:
        return [], op.attributes
    return [], {**op.attributes, "num_outputs": len(op.outputs)}


def axis_as_operand(op: Op) -> Said:
    """The axis is an operand, behind the length, which may be left out."""
    attributes = dict(op.attributes)
    axis = np.array(attributes.pop("axis", 1), np.int64)
    return [*[None] * (2 - len(op.inputs)), axis], attributes


_GRID_WORDS = {"bilinear": "linear", "bicubic": "cubic"}


def sampling_words(op: Op) -> Said:
    """The words for how numbers between grid points are found fit all numbers of axes."""
    mode = op.attributes.get("mode", "bilinear")
    return [], {**op.attributes, "mode": _GRID_WORDS.get(mode, mode)}
