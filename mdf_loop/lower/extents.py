"""Constants for `onnx::Shape` and `onnx::Size` of values with known shapes.

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
    """Return the result of Shape or Size as a constant, or None for other operators or unknown extents."""
    value = inputs[0] if inputs and op_type in ("Shape", "Size") else None
    if value is None or value.shape is None:
        return None
    selected_extents = value.shape[attributes.get("start", 0) : attributes.get("end")]
    extents = [extent for extent in selected_extents if isinstance(extent, int)]
    if len(extents) < len(selected_extents):
        return None
    return b.measured(
        value, np.array(math.prod(extents) if op_type == "Size" else extents, np.int64)
    )
