"""`onnx::Dropout`: out of training it drops nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mdf_loop.ir import Value
from mdf_loop.lower.builder import ModelBuilder


def dropout(
    b: ModelBuilder, inputs: Sequence[Value | None], attributes: Mapping[str, Any]
) -> tuple[Value, ...]:
    """The data and which of it is kept: all of it, unless `training_mode` is or may be true.

    Source: ONNX operators, Dropout-13.
    """
    training = inputs[2] if len(inputs) > 2 else None
    known = b.constant_of(training) if training is not None else np.array(False)
    if known is None or known.any():
        return b.multi("Dropout", *inputs, n_outputs=2, **attributes)
    data = inputs[0]
    assert data is not None
    kept = b.op("ConstantOfShape", b.op("Shape", data), value=np.array([True]))
    return b.op("Identity", data), kept
