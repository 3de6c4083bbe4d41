"""Lowering of batch-first RNN, LSTM and GRU (`layout: 1`) to ONNX's default `layout: 0`.

ONNX Runtime has kernels for `layout: 0` only. The conversion only transposes axes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mdf_loop.ir import Value
from mdf_loop.lower.builder import ModelBuilder

_BATCH_FIRST_INPUTS = (0, 5, 6)
"""Positions of the inputs with a leading batch axis: X, initial_h, initial_c."""


def recurrent(
    b: ModelBuilder,
    op_type: str,
    inputs: Sequence[Value | None],
    attributes: Mapping[str, Any],
    output_count: int,
) -> tuple[Value, ...]:
    """Lower an ONNX RNN, LSTM or GRU, and return its outputs in the layout of the attribute `layout`.

    Source: ONNX operators, RNN-14, LSTM-14, GRU-14.
    """
    if attributes.get("layout", 0) != 1:
        return b.multi(op_type, *inputs, output_count=output_count, **attributes)
    attributes_without_layout = {
        attribute_name: attribute_value
        for attribute_name, attribute_value in attributes.items()
        if attribute_name != "layout"
    }
    transposed_inputs = [
        b.op("Transpose", value, perm=[1, 0, 2])
        if value is not None and position in _BATCH_FIRST_INPUTS
        else value
        for position, value in enumerate(inputs)
    ]
    step_outputs, *final_states = b.multi(
        op_type, *transposed_inputs, output_count=output_count, **attributes_without_layout
    )
    return (
        b.op("Transpose", step_outputs, perm=[2, 0, 1, 3]),
        *(b.op("Transpose", final_state, perm=[1, 0, 2]) for final_state in final_states),
    )
