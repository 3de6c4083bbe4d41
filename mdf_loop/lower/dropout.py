"""`onnx::Dropout`: out of training it drops nothing, and draws nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mdf_loop.ir import Value
from mdf_loop.lower.builder import ModelBuilder
from mdf_loop.lower.onnx_draws import dropped


def dropout(
    b: ModelBuilder, inputs: Sequence[Value | None], attributes: Mapping[str, Any]
) -> tuple[Value, ...]:
    """The data and which of it is kept: all of it, unless `training_mode` is or may be true.

    Source: ONNX operators, Dropout-13.
    """
    training = inputs[2] if len(inputs) > 2 else None
    known = b.constant_of(training) if training is not None else np.array(False)
    data = inputs[0]
    assert data is not None
    if known is not None and not known.any():
        return b.op("Identity", data), _all_kept(b, data)
    ratio = inputs[1] if len(inputs) > 1 else None
    unknown = training if known is None else None
    made, kept = dropped(b, data, ratio, attributes, unknown)
    if known is not None:
        return made, kept
    all_kept = b.op("Or", b.op("Not", training), kept)
    return b.op("Where", training, made, data), all_kept


def _all_kept(b: ModelBuilder, data: Value) -> Value:
    return b.op("ConstantOfShape", b.op("Shape", data), value=np.array([True]))
