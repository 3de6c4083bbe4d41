"""`Loop` -> ONNX Loop.

- A body never returns the iteration number, the incoming condition or an outer value itself,
  but a copy (`i` returned directly silently gives [N, N, ...]).
- Condition and trip count are always given; without a condition in the model the body passes
  `true` on, whatever the model's body computes (the runtime would stop).
- Every loop output has a name, every body input a shape, every body at least one node
  (without one, a run cannot be stopped).
- Rows of a recorded output are compared where their shape is not known (see `row_shapes`).
"""

from __future__ import annotations

import numpy as np
import onnx_ir as oir

from mdf_loop.emit import row_shapes
from mdf_loop.emit.scope import Scope, WriteOps, tensor_shape, value_type
from mdf_loop.ir import Loop, Recorded, Shape, Value, body_inputs

ENDLESS = np.iinfo(np.int64).max
"""The trip count of a loop that only its condition ends."""


def write_loop(outer: Scope, loop: Loop, write: WriteOps) -> None:
    """Append the loop to the scope that it stands in."""
    writer = outer.writer
    if loop.trip_count is not None:
        trip = writer.values[loop.trip_count]
    else:
        trip = writer.constant(np.array(loop.bound if loop.bound is not None else ENDLESS))
    if loop.condition is not None:
        condition = writer.values[loop.condition]
    else:
        condition = writer.constant(np.array(True))
    extra = _Extra(outer, loop, trip, condition)
    rows = _Rows(outer, loop)
    body = _body(outer, loop, write, extra, rows)
    outputs = [outer.define(c.final) for c in loop.carried]
    outputs += extra.finals()
    outputs += rows.stacks()
    if outputs:  # a loop that is only counted has none: the runtime would not take it
        initial = [writer.values[c.initial] for c in loop.carried] + extra.initial()
        outer.node("Loop", [trip, condition, *initial], outputs, {"body": body}, loop.where)
    rows.finish()
    extra.finish()


def _body(outer: Scope, loop: Loop, write: WriteOps, extra: _Extra, rows: _Rows) -> oir.Graph:
    writer = outer.writer
    inputs = [writer.define(value) for value in body_inputs(loop)]
    body = Scope(writer, body_inputs(loop))
    write(body, loop.ops)
    extra_inputs = extra.body_inputs()
    if loop.condition is None or loop.condition_out is None:
        condition_out = writer.values[loop.condition_in]
    else:
        condition_out = body.returned(loop.condition_out, _numbering(loop))
    leaves = [body.returned(c.leave, _numbering(loop)) for c in loop.carried]
    leaves += extra.body_outputs(body)
    recorded = rows.body_outputs(body)
    if not body.nodes:
        condition_out = body.copy(condition_out)
    return oir.Graph(
        [*inputs, *extra_inputs],
        [condition_out, *leaves, *recorded],
        nodes=body.nodes,
        name=writer.fresh(loop.name or "body"),
    )


def _numbering(loop: Loop) -> tuple[Value, Value]:
    """What the runtime gives a body in every iteration, and does not take back as it is."""
    return loop.iteration, loop.condition_in


class _Rows:
    """Recorded outputs, some of them with the shapes of their rows beside them."""

    def __init__(self, outer: Scope, loop: Loop) -> None:
        self.outer = outer
        self.loop = loop
        self.watched = row_shapes.watched(loop)
        self.raw: dict[Recorded, oir.Value] = {}
        self.shapes: dict[Recorded, oir.Value] = {}

    def body_outputs(self, body: Scope) -> list[oir.Value]:
        values = self.outer.writer.values
        rows = [body.returned(r.row, _numbering(self.loop)) for r in self.loop.recorded]
        return rows + [body.whole("Shape", values[r.row]) for r in self.watched]

    def stacks(self) -> list[oir.Value]:
        made = []
        for recorded in self.loop.recorded:
            if recorded in self.watched:
                stack = recorded.stack
                self.raw[recorded] = self._helper("rows", stack.dtype, stack.shape)
                self.shapes[recorded] = self._helper("shapes", "int64", None)
                made.append(self.raw[recorded])
            else:
                made.append(self.outer.define(recorded.stack))
        return made + list(self.shapes.values())

    def _helper(self, label: str, dtype: str, shape: Shape) -> oir.Value:
        name = self.outer.writer.fresh(f"{self.loop.name}.{label}")
        return oir.Value(name=name, type=value_type(dtype), shape=tensor_shape(shape))

    def finish(self) -> None:
        """Let a run fail after the loop where rows differ in shape."""
        outer, constant = self.outer, self.outer.writer.constant
        for recorded, raw in self.raw.items():
            zero, one = constant(np.array([0])), constant(np.array([1]))
            shape = row_shapes.checked_shape(outer.whole, zero, one, raw, self.shapes[recorded])
            stack = outer.define(recorded.stack)
            where = row_shapes.place(self.loop, recorded)
            outer.node("Reshape", [raw, shape], [stack], where=where)


class _Extra:
    """Carried values that only count iterations or keep the last condition."""

    def __init__(self, outer: Scope, loop: Loop, trip: oir.Value, condition: oir.Value) -> None:
        self.outer = outer
        self.loop = loop
        self.trip = trip
        self.condition = condition
        self.carries_count = loop.count is not None and loop.kind != "for" and not _rows(loop)
        self.carries_condition = loop.last_condition is not None
        self.index: oir.Value | None = None

    def initial(self) -> list[oir.Value]:
        constant = self.outer.writer.constant
        counts = [constant(np.array(-1))] if self.carries_count else []
        return counts + ([self.condition] if self.carries_condition else [])

    def finals(self) -> list[oir.Value]:
        made = []
        if self.carries_count:
            self.index = self._value("int64", "last_index")
            made.append(self.index)
        if self.loop.last_condition is not None:
            made.append(self.outer.define(self.loop.last_condition))
        return made

    def _value(self, dtype: str, label: str) -> oir.Value:
        name = self.outer.writer.fresh(f"{self.loop.name}.{label}")
        return oir.Value(name=name, type=value_type(dtype), shape=oir.Shape([]))

    def body_inputs(self) -> list[oir.Value]:
        made = [self._value("int64", "index_in")] if self.carries_count else []
        return made + ([self._value("bool", "condition_in")] if self.carries_condition else [])

    def body_outputs(self, body: Scope) -> list[oir.Value]:
        made = []
        if self.carries_count:
            made.append(body.copy(self.outer.writer.values[self.loop.iteration]))
        if self.carries_condition:
            assert self.loop.condition_out is not None
            made.append(body.returned(self.loop.condition_out, _numbering(self.loop)))
        return made

    def finish(self) -> None:
        """Make the iteration count out of what is at hand, after the loop."""
        if self.loop.count is None:
            return
        writer, outer = self.outer.writer, self.outer
        count = outer.define(self.loop.count)
        if self.index is not None:
            outer.node("Add", [self.index, writer.constant(np.array(1))], [count])
        elif self.loop.kind == "for":
            outer.node("Max", [self.trip, writer.constant(np.array(0))], [count])
        else:
            stack = writer.values[_rows(self.loop)[0]]
            extents = oir.Value(
                name=writer.fresh("extents"), type=value_type("int64"), shape=oir.Shape([1])
            )
            outer.node("Shape", [stack], [extents], {"end": 1})
            outer.node("Squeeze", [extents], [count])


def _rows(loop: Loop) -> tuple[Value, ...]:
    return tuple(recorded.stack for recorded in loop.recorded)
