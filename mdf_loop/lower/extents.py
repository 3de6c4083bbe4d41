"""Constant results of `onnx::Shape` and `onnx::Size` for values with known shapes.

A program is compiled for the shapes of its inputs. Conditions on shapes are therefore decided at compile
time, such as the branches on the number of axes that exporters write.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mdf_loop.ir import Value
from mdf_loop.lower.builder import ModelBuilder


def static_extents(
    b: ModelBuilder, op_type: str, inputs: Sequence[Value | None], attributes: Mapping[str, Any]
) -> Value | None:
    """Return the result of `onnx::Shape` or `onnx::Size` as a constant, or None if unknown."""
    operand = inputs[0] if inputs and op_type in ("Shape", "Size") else None
    if operand is None or operand.shape is None:
        return None
    selected_extents = operand.shape[attributes.get("start", 0) : attributes.get("end")]
    known_extents = [extent for extent in selected_extents if isinstance(extent, int)]
    if len(known_extents) < len(selected_extents):
        return None
    return b.shape_constant(
        operand,
        np.array(math.prod(known_extents) if op_type == "Size" else known_extents, np.int64),
    )
