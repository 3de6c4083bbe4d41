"""Registry rows of stateless random number generators, which read the key and the counter of a stream."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from onnx import defs

from mdf_loop import streams
from mdf_loop.ir import Array, Op, Shape, Value
from mdf_loop.ops.batching.elementwise import elementwise
from mdf_loop.ops.costs import transcendental_microseconds
from mdf_loop.ops.decompositions.build_helpers import operand
from mdf_loop.ops.inference import infer
from mdf_loop.ops.registry import Reproducibility, Row, never
from mdf_loop.ops.symbolic import Symbolic

if TYPE_CHECKING:
    from mdf_loop.build import Builder


def _infer_types(
    dtype: str,
    inputs: Sequence[tuple[str, Shape] | None],
    attributes: Mapping[str, Any],
    known: Mapping[int, Array],
) -> list[tuple[str, Shape]]:
    """Return the type of the random numbers for a counter and a key, which are broadcast together."""
    ((_, sample_shape),) = infer("Add", inputs, {}, {}, 1)
    return [(dtype, sample_shape)]


def _compute_numbers(kind: str, counter: Array, key: Array) -> Array:
    return np.asarray(streams.DISTRIBUTIONS[kind](streams.squares(counter, key)))


def _decompose(kind: str, b: Builder, op: Op) -> Value:
    counter, key = (Symbolic(b, operand(op, position)) for position in range(2))
    random_numbers: Symbolic = streams.DISTRIBUTIONS[kind](streams.squares(counter, key))
    return random_numbers.value


STREAM_DTYPES = {
    kind: str(draw(np.zeros(0, np.uint64)).dtype) for kind, draw in streams.DISTRIBUTIONS.items()
}
"""Dtypes of random numbers by kind."""


def _build_row(kind: str) -> Row:
    make_parameter = defs.OpSchema.FormalParameter
    number_type = {"uint64": "tensor(uint64)", "float64": "tensor(double)"}[STREAM_DTYPES[kind]]
    schema = defs.OpSchema(
        kind,
        "mdf_loop.noise",
        1,
        inputs=[
            make_parameter("counter", "tensor(uint64)"),
            make_parameter("key", "tensor(uint64)"),
        ],
        outputs=[make_parameter("number", number_type)],
    )
    return Row(
        name=kind,
        schema=schema,
        type_rule=partial(_infer_types, STREAM_DTYPES[kind]),
        is_elementwise=True,
        reproducibility=Reproducibility.FIXED,
        may_fail=never,
        batching_rule=elementwise,
        min_microseconds=transcendental_microseconds,
        numpy_function=partial(_compute_numbers, kind),
        decomposition=partial(_decompose, kind),
    )


def _infer_draw_types(
    inputs: Sequence[tuple[str, Shape] | None],
    attributes: Mapping[str, Any],
    known: Mapping[int, Array],
) -> list[tuple[str, Shape]]:
    return [(STREAM_DTYPES[attributes["kind"]], tuple(attributes["shape"]))]


_DRAW_ROW = Row(
    name="Draw",
    schema=defs.OpSchema("Draw", "mdf_loop.noise", 1),
    type_rule=_infer_draw_types,
    is_random=True,
    undecomposed_reason="it is read as numbers of a stream",
)
"""Row of `Draw`, the numbers of a site's next turn while a model is read; see `reading.draws`."""

OPERATOR_ROWS = (_DRAW_ROW, *map(_build_row, STREAM_DTYPES))
