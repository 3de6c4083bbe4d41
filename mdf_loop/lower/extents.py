"""`onnx::Shape` and `onnx::Size` of values whose shape is known: constants.

A program is made for the shapes of its inputs, so what a model decides by them is decided while
it is read: of a choice by the number of axes, as exporters write them, one branch is left.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mdf_loop.ir import Value
from mdf_loop.lower.builder import ModelBuilder


def known_extents(
    b: ModelBuilder, op_type: str, inputs: Sequence[Value | None], attributes: Mapping[str, Any]
) -> Value | None:
    """What the operator gives; None if it is another one, or the extents are not known."""
    value = inputs[0] if inputs and op_type in ("Shape", "Size") else None
    if value is None or value.shape is None:
        return None
    asked = value.shape[attributes.get("start", 0) : attributes.get("end")]
    extents = [extent for extent in asked if isinstance(extent, int)]
    if len(extents) < len(asked):
        return None
    return b.measured(
        value, np.array(math.prod(extents) if op_type == "Size" else extents, np.int64)
    )
