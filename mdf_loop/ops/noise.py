"""Numbers of streams, each by its counter: the same whenever they are asked for, so they are functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from onnx import defs

from mdf_loop import streams
from mdf_loop.ir import Array, Shape
from mdf_loop.ops.batching.elementwise import elementwise
from mdf_loop.ops.compositions import noise
from mdf_loop.ops.costs import transcendental
from mdf_loop.ops.inference import infer
from mdf_loop.ops.registry import Bits, Row, no


def _types(
    dtype: str,
    inputs: Sequence[tuple[str, Shape] | None],
    attributes: Mapping[str, Any],
    known: Mapping[int, Array],
) -> list[tuple[str, Shape]]:
    """Of a counter and a key that are broadcast."""
    ((_, shape),) = infer("Add", inputs, {}, {}, 1)
    return [(dtype, shape)]


def _row(name: str, dtype: str, **traits: Any) -> Row:
    parameter = defs.OpSchema.FormalParameter
    number = {"uint64": "tensor(uint64)", "float64": "tensor(double)"}[dtype]
    schema = defs.OpSchema(
        name,
        "mdf_loop.noise",
        1,
        inputs=[parameter("counter", "tensor(uint64)"), parameter("key", "tensor(uint64)")],
        outputs=[parameter("number", number)],
    )
    return Row(
        name=name,
        schema=schema,
        types=partial(_types, dtype),
        elementwise=True,
        bits=Bits.FIXED,
        may_fail=no,
        batched=elementwise,
        work=transcendental,
        **traits,
    )


def _uniform(counter: Array, key: Array) -> Array:
    return streams.uniform(streams.squares(counter, key))


def _normal(counter: Array, key: Array) -> Array:
    return streams.normal(_uniform(counter, key))


def _exponential(counter: Array, key: Array) -> Array:
    return streams.exponential(_uniform(counter, key))


def _words(counter: Array, key: Array) -> Array:
    return np.asarray(streams.squares(counter, key))


DRAWN = {
    "RandomWord": "uint64",
    "Uniform": "float64",
    "Normal": "float64",
    "Exponential": "float64",
}
"""Kinds of numbers, and their dtypes."""


def _draw_types(
    inputs: Sequence[tuple[str, Shape] | None],
    attributes: Mapping[str, Any],
    known: Mapping[int, Array],
) -> list[tuple[str, Shape]]:
    return [(DRAWN[attributes["kind"]], tuple(attributes["shape"]))]


_DRAW = Row(
    name="Draw",
    schema=defs.OpSchema("Draw", "mdf_loop.noise", 1),
    types=_draw_types,
    random=True,
    not_composed="it is read as numbers of a stream",
)
"""Numbers of the next turn of a site, while a model is read; see `reading.draws`."""

ROWS = (
    _DRAW,
    _row("RandomWord", "uint64", meaning=_words, composed=noise.word),
    _row("Uniform", "float64", meaning=_uniform, composed=noise.uniform),
    _row("Normal", "float64", meaning=_normal, composed=noise.normal),
    _row("Exponential", "float64", meaning=_exponential, composed=noise.exponential),
)
