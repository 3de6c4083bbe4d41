"""`Loop` -> ONNX Loop.

- A body never returns the iteration number, the incoming condition or an outer value itself,
  but a copy (`i` returned directly silently gives [N, N, ...]).
- Condition and trip count are always given; without a condition in the model the body passes
  `true` on, whatever the model's body computes (the runtime would stop).
- Every loop output has a name, every body input a shape, every body at least one node
  (without one, a run cannot be stopped).
- What is scanned is read by the iteration number, backward from the end: `Gather(rows, -1 - i)`.
- Rows that come from outside are the same in every iteration of a counted loop: they are repeated
  after it, and cost nothing in it.
- What says how often a loop runs and is carried into it, too, is carried as a copy.
- Where members stop each for itself, they are masked (see `masked`).
- Rows of a recorded output are compared where their shape is not known (see `row_shapes`).
"""

from __future__ import annotations

import numpy as np

from mdf_loop.build import Builder
from mdf_loop.emit import row_shapes
from mdf_loop.emit.scope import OnnxScope, WriteOps, Writer, tensor_shape, value_type
from mdf_loop.ir import Loop, Recorded, Scanned, Shape, Value, body_inputs, is_fixed, results
from mdf_loop.onnx_writer import oir
from mdf_loop.passes.legal.masked import masked

ENDLESS = np.iinfo(np.int64).max
"""The trip count of a loop that only its condition ends."""


def write_loop(outer: OnnxScope, loop: Loop, write: WriteOps) -> None:
    """Append the loop to the scope that it stands in."""
    if loop.members is not None:
        b = Builder()
        loop = masked(b, loop, outer.writer.known)
        write(outer, b.ops)
    parts = Parts(outer, loop)
    outputs = parts.outputs()
    if outputs:  # a loop that is only counted has none: the runtime would not take it
        append_loop(outer, parts, write, outputs)
    parts.finish()


class Parts:
    """What a loop is made of in ONNX, beside its body: what ends it, what it carries and gives."""

    def __init__(self, outer: OnnxScope, loop: Loop) -> None:
        writer = outer.writer
        self.outer = outer
        self.loop = loop
        if loop.trip_count is not None:
            self.trip = writer.values[loop.trip_count]
        else:
            self.trip = writer.constant(np.array(ENDLESS if loop.bound is None else loop.bound))
        if loop.condition is not None:
            self.condition = writer.values[loop.condition]
        else:
            self.condition = writer.constant(np.array(True))
        self.extra = _Extra(outer, loop, self.trip, self.condition)
        self.rows = _Rows(outer, loop)

    def initial(self) -> list[oir.Value]:
        """What is carried into the first iteration."""
        values = self.outer.writer.values
        own = [values[carried.initial] for carried in self.loop.carried]
        return [self._apart(value) for value in (*own, *self.extra.initial())]

    def _apart(self, value: oir.Value) -> oir.Value:
        """The value, or the same through an operation, if it says how often the loop runs, too.

        CUDA's loop has a value in one place, and reads what ends it from the CPU's.
        """
        if value not in (self.trip, self.condition):
            return value
        if value is self.trip:
            return self.outer.helper("Max", [value], value)
        return self.outer.helper("And", [value, value], value)

    def outputs(self) -> list[oir.Value]:
        """What the node gives, defined in the scope that it stands in: finals, then stacks."""
        finals = [self.outer.define(carried.final) for carried in self.loop.carried]
        return [*finals, *self.extra.finals(), *self.rows.stacks()]

    def finish(self) -> None:
        """Append what is made of the outputs."""
        self.rows.finish()
        self.extra.finish()
        self.rows.repeat(self.trip)


def append_loop(scope: OnnxScope, parts: Parts, write: WriteOps, outputs: list[oir.Value]) -> None:
    """Append a Loop with these outputs."""
    body = _body(scope.writer, parts, write)
    inputs = [parts.trip, parts.condition, *parts.initial()]
    name = scope.node("Loop", inputs, outputs, {"body": body}, parts.loop.where)
    scope.writer.nodes.loops[name] = parts.loop


def _body(writer: Writer, parts: Parts, write: WriteOps) -> oir.Graph:
    loop = parts.loop
    enters = tuple(carried.enter for carried in loop.carried)
    number = writer.number(loop) if loop.first is not None else writer.define(loop.iteration)
    inputs = [number, *(writer.define(value) for value in (loop.condition_in, *enters))]
    body = OnnxScope(writer, (*numbering(loop), *enters))
    for scanned in loop.scanned:
        _read_row(body, scanned, number)
    if loop.first is not None:
        iteration = body.define(loop.iteration)
        body.node("Add", [number, writer.values[loop.first]], [iteration], where=loop.where)
    write(body, loop.ops)
    extra_inputs = parts.extra.body_inputs()
    if loop.condition is None or loop.condition_out is None:
        condition_out = writer.values[loop.condition_in]
    else:
        condition_out = body.returned(loop.condition_out, numbering(loop))
    leaves = [body.returned(c.leave, numbering(loop)) for c in loop.carried]
    leaves += parts.extra.body_outputs(body, number)
    recorded = parts.rows.body_outputs(body)
    if not body.nodes:
        condition_out = body.copy(condition_out)
    return oir.Graph(
        [*inputs, *extra_inputs],
        [condition_out, *leaves, *recorded],
        nodes=body.nodes,
        name=writer.fresh(loop.name or "body"),
    )


def _read_row(body: OnnxScope, scanned: Scanned, number: oir.Value) -> None:
    """Take the row of an iteration; one that does not exist lets the run fail."""
    writer, where = body.writer, scanned.row.where
    place = number
    if scanned.backward:
        place = body.whole("Sub", writer.constant(np.array(-1)), number)
    row = body.define(scanned.row)
    rows = writer.values[scanned.rows]
    body.node("Gather", [rows, place], [row], {"axis": scanned.axis}, where)


def numbering(loop: Loop) -> tuple[Value, Value]:
    """What the runtime gives a body in every iteration, and does not take back as it is."""
    return loop.iteration, loop.condition_in


class _Rows:
    """Recorded outputs, some of them with the shapes of their rows beside them.

    `kept` are those that the loop keeps the rows of, all but those that are `repeated` after it.
    """

    def __init__(self, outer: OnnxScope, loop: Loop) -> None:
        self.outer = outer
        self.loop = loop
        self.repeated = _repeated(loop)
        self.kept = tuple(r for r in loop.recorded if r not in self.repeated)
        self.watched = [r for r in row_shapes.watched(loop) if r not in self.repeated]
        self.raw: dict[Recorded, oir.Value] = {}
        self.shapes: dict[Recorded, oir.Value] = {}

    def body_outputs(self, body: OnnxScope) -> list[oir.Value]:
        values = self.outer.writer.values
        rows = [body.returned(r.row, numbering(self.loop)) for r in self.kept]
        return rows + [body.whole("Shape", values[r.row]) for r in self.watched]

    def stacks(self) -> list[oir.Value]:
        made = []
        for recorded in self.kept:
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
            where = f"{self.loop.where} rows of: {recorded.name or recorded.row.name}"
            name = outer.node("Reshape", [raw, shape], [stack], where=where)
            outer.writer.nodes.rows[name] = (self.loop, recorded)

    def repeat(self, trip: oir.Value) -> None:
        """Stack the rows that are the same in every iteration: as many as there were."""
        outer, constant = self.outer, self.outer.writer.constant
        for recorded in self.repeated:
            count = outer.whole("Max", trip, constant(np.array(0)))
            shape = outer.whole("Reshape", count, constant(np.array([1])))
            if recorded.row.shape:
                extents = constant(np.array(recorded.row.shape, np.int64))
                shape = outer.whole("Concat", shape, extents, axis=0)
            row, stack = outer.writer.values[recorded.row], outer.define(recorded.stack)
            outer.node("Expand", [row, shape], [stack], where=self.loop.where)


def _repeated(loop: Loop) -> tuple[Recorded, ...]:
    """The records of rows from outside, of a loop whose trip count says how many they are."""
    if loop.kind != "for":
        return ()
    inside = {value for operation in loop.ops for value in results(operation)}
    inside.update(body_inputs(loop))
    return tuple(r for r in loop.recorded if r.row not in inside and _can_repeat(r.row))


def _can_repeat(row: Value) -> bool:
    return is_fixed(row.shape) and row.dtype in ("float64", "float32", "int64", "int32", "bool")


class _Extra:
    """Carried values that only count iterations or keep the last condition."""

    def __init__(self, outer: OnnxScope, loop: Loop, trip: oir.Value, condition: oir.Value) -> None:
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

    def body_outputs(self, body: OnnxScope, number: oir.Value | None = None) -> list[oir.Value]:
        """What leaves an iteration; `number` is how many there were before it."""
        made = []
        if self.carries_count:
            assert number is not None
            made.append(body.copy(number))
        if self.carries_condition:
            assert self.loop.condition_out is not None
            made.append(body.returned(self.loop.condition_out, numbering(self.loop)))
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
