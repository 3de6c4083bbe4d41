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
    """Return the data of `onnx::Dropout` and the mask of kept elements.

    Without training, nothing is dropped.

    If `training_mode` is not known at compile time, the program selects between both cases at run time.

    Source: ONNX operators, Dropout-13.
    """
    training_flag = inputs[2] if len(inputs) > 2 else None
    constant_training_flag = (
        b.constant_of(training_flag) if training_flag is not None else np.array(False)
    )
    input_array = inputs[0]
    assert input_array is not None
    if constant_training_flag is not None and not constant_training_flag.any():
        return b.op("Identity", input_array), _true_mask(b, input_array)
    dropout_ratio = inputs[1] if len(inputs) > 1 else None
    run_time_training_flag = training_flag if constant_training_flag is None else None
    masked_array, random_mask = drop_elements(
        b, input_array, dropout_ratio, attributes, run_time_training_flag
    )
    if constant_training_flag is not None:
        return masked_array, random_mask
    kept_mask = b.op("Or", b.op("Not", training_flag), random_mask)
    return b.op("Where", training_flag, masked_array, input_array), kept_mask


def _true_mask(b: ModelBuilder, data: Value) -> Value:
    return b.op("ConstantOfShape", b.op("Shape", data), value=np.array([True]))
