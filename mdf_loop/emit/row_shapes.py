"""Rows of a recorded output must have one shape; ONNX Runtime only counts their bytes.

    raw = Loop(... row)                 raw, shapes = Loop(... row, Shape(row))
    stack = raw                   ->    other = the first of `shapes` that differs from the first
                                        stack = Reshape(raw, [n (+ 1 if there is one), *other])

Without a difference the Reshape changes nothing and copies nothing; with one it cannot be done,
and the runtime's message holds both shapes. Only rows whose shape is not known before the loop begins
are watched, so ordinary recordings cost nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TypeAlias

from mdf_loop.emit.scope import Nodes
from mdf_loop.errors import RecordShapeError
from mdf_loop.ir import Loop, Recorded, reads
from mdf_loop.onnx_writer import oir

Whole: TypeAlias = Callable[..., oir.Value]
"""Appends a node with one output of whole numbers: op type, inputs, attributes."""


def watched(loop: Loop) -> tuple[Recorded, ...]:
    """Recorded outputs whose rows may have a shape of their own in each iteration.

    An extent is the same in all of them where a value from outside has it, too.
    """
    outside = {extent for value in reads(loop) for extent in value.shape or ()}
    return tuple(
        each
        for each in loop.recorded
        if each.row.shape is None
        or any(isinstance(extent, str) and extent not in outside for extent in each.row.shape)
    )


def checked_shape(
    whole: Whole, zero: oir.Value, one: oir.Value, raw: oir.Value, shapes: oir.Value
) -> oir.Value:
    """The shape of `raw`, or an impossible one that tells of a row with another shape.

    `zero` and `one` are [0] and [1].
    """
    count = whole("Shape", raw, end=1)
    first = whole("Unsqueeze", whole("Shape", raw, start=1), zero)
    rows = whole("Concat", shapes, first, axis=0)  # never empty
    apart = whole("ReduceSum", whole("Abs", whole("Sub", rows, first)), one, keepdims=0)
    other = whole("Gather", rows, whole("ArgMax", apart, axis=0, keepdims=0), axis=0)
    differs = whole("Min", whole("ReduceMax", apart), one)
    extents = whole("Max", other, differs)  # where all are empty, 0 would fit any shape
    return whole("Concat", whole("Add", count, differs), extents, axis=0)


# --- the runtime's messages -------------------------------------------------------------------

_RESHAPED = re.compile(r"Input shape:\{\d+,?([\d,]*)\}, requested shape:\{\d+,?([\d,]*)\}")
_COUNTED = re.compile(r"Inconsistent shape in loop output.*Expected:\{([\d,]*)\} Got:\{([\d,]*)\}")


def row_error(message: str, name: str, where: str, nodes: Nodes) -> RecordShapeError | None:
    """The error that a message of the runtime is about, if it is about rows.

    `name` is that of the failed node, `where` the place in it, `nodes` are what nodes are for.
    """
    meant: tuple[Recorded, ...] = ()
    if name in nodes.rows:
        loop, recorded = nodes.rows[name]
        found, where, meant = _RESHAPED.search(message), loop.where, (recorded,)
    else:
        found = _COUNTED.search(message)
        if name in nodes.loops:
            meant = watched(nodes.loops[name])
    if found is None:
        return None
    first, other = (f"[{extents.replace(',', ', ')}]" for extents in found.groups())
    return rows_differ([r.name or r.row.name for r in meant], first, other, where)


def rows_differ(names: Sequence[str], first: str, other: str, where: str) -> RecordShapeError:
    """The error of rows that differ; `names` are the recorded values that may be meant."""
    which = f"the recorded value {' or '.join(map(repr, names))}" if names else "a recorded value"
    return RecordShapeError(
        f"{which} has shape {first} at first, but {other} in a later iteration",
        where,
        "a recorded value must have one shape in all iterations",
    )
