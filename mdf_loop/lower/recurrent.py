"""RNN, LSTM and GRU whose batch comes first (`layout: 1`), said with the sequence first.

ONNX Runtime has kernels for `layout: 0` only. Nothing is computed differently: axes are moved.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mdf_loop.ir import Value
from mdf_loop.lower.builder import ModelBuilder

_BATCH_FIRST = (0, 5, 6)
"""Inputs with a batch axis in front: X, initial_h, initial_c."""


def recurrent(
    b: ModelBuilder,
    op_type: str,
    inputs: Sequence[Value | None],
    attributes: Mapping[str, Any],
    n_outputs: int,
) -> tuple[Value, ...]:
    """All of a recurrent operator's results, in the layout that it asks for.

    Source: ONNX operators, RNN-14, LSTM-14, GRU-14.
    """
    if attributes.get("layout", 0) != 1:
        return b.multi(op_type, *inputs, n_outputs=n_outputs, **attributes)
    plain = {key: value for key, value in attributes.items() if key != "layout"}
    turned = [
        b.op("Transpose", value, perm=[1, 0, 2])
        if value is not None and k in _BATCH_FIRST
        else value
        for k, value in enumerate(inputs)
    ]
    rows, *finals = b.multi(op_type, *turned, n_outputs=n_outputs, **plain)
    return (
        b.op("Transpose", rows, perm=[2, 0, 1, 3]),
        *(b.op("Transpose", final, perm=[1, 0, 2]) for final in finals),
    )
