"""Lowering of `onnx::Dropout`, which returns its input unchanged outside of training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mdf_loop.ir import Value
from mdf_loop.lower.builder import ModelBuilder
from mdf_loop.lower.onnx_draws import drop_elements


def dropout(
    b: ModelBuilder, inputs: Sequence[Value | None], attributes: Mapping[str, Any]
) -> tuple[Value, ...]:
    """Return the data and the mask of elements that are not dropped; without training, nothing is dropped.

    If `training_mode` is not known at compile time, the program selects between both cases at run time.

    Source: ONNX operators, Dropout-13.
    """
    training = inputs[2] if len(inputs) > 2 else None
    constant_training = b.constant_of(training) if training is not None else np.array(False)
    data = inputs[0]
    assert data is not None
    if constant_training is not None and not constant_training.any():
        return b.op("Identity", data), _true_mask(b, data)
    ratio = inputs[1] if len(inputs) > 1 else None
    run_time_training = training if constant_training is None else None
    dropped, mask = drop_elements(b, data, ratio, attributes, run_time_training)
    if constant_training is not None:
        return dropped, mask
    full_mask = b.op("Or", b.op("Not", training), mask)
    return b.op("Where", training, dropped, data), full_mask


def _true_mask(b: ModelBuilder, data: Value) -> Value:
    return b.op("ConstantOfShape", b.op("Shape", data), value=np.array([True]))
