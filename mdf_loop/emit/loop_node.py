"""`Loop` -> ONNX Loop.

- A body returns copies of the iteration number, of the incoming condition and of outer values, never
  these values themselves (`i` returned directly silently gives [N, N, ...]).
- The node always has a condition and a trip count. If the model has no condition, the body returns `true`,
  whatever the model's body computes. Otherwise the runtime would stop the loop.
- Every loop output has a name, every body input a shape, and every body at least one node (a run of a
  loop without nodes cannot be stopped).
- The row of a scanned input is read by the iteration number, for a backward scan as `Gather(rows, -1 - i)`.
- Recorded rows that come from outside of a counted loop are the same in every iteration. They are
  repeated after the loop, and take no time in the loop.
- If the trip count or the start condition is also a carried initial value, a copy of it is carried.
- Batch members with individual termination conditions are masked (see `masked`).
- Rows of a recorded output are compared if their shape is not known (see `row_shapes`).
"""

from __future__ import annotations

import numpy as np

from mdf_loop.build import Builder
from mdf_loop.emit import row_shapes
from mdf_loop.emit.scope import OnnxScope, WriteOps, Writer, tensor_shape, value_type
from mdf_loop.ir import Loop, Recorded, Scanned, Shape, Value, body_inputs, is_fixed, results
from mdf_loop.onnx_writer import oir
from mdf_loop.passes.legalize.mask_finished_members import mask_loop

ENDLESS = np.iinfo(np.int64).max
"""Trip count of a Loop node that only a condition terminates."""


def write_loop(outer: OnnxScope, loop: Loop, write: WriteOps) -> None:
    """Append a Loop node to a scope, with the nodes that prepare its inputs and postprocess its outputs."""
    if loop.members is not None:
        b = Builder()
        loop = mask_loop(b, loop, outer.writer.known)
        write(outer, b.ops)
    parts = LoopParts(outer, loop)
    outputs = parts.outputs()
    if outputs:  # the runtime refuses a Loop without outputs
        append_loop(outer, parts, write, outputs)
    parts.finish()


class LoopParts:
    """Inputs and outputs of an ONNX Loop, such as the trip count, initial values and recorded stacks."""

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
        self.extra = _ExtraCarried(outer, loop, self.trip, self.condition)
        self.rows = _RecordedRows(outer, loop)

    def initial(self) -> list[oir.Value]:
        """Return the initial values of all carried values of the Loop node."""
        values = self.outer.writer.values
        own = [values[carried.initial] for carried in self.loop.carried]
        return [self._copied_if_control(value) for value in (*own, *self.extra.initial())]

    def _copied_if_control(self, value: oir.Value) -> oir.Value:
        """Return a copy of a value if it is the trip count or the condition, else the value.

        CUDA's Loop reads trip count and condition from CPU memory and carried values from GPU memory. A value is in
        one of these memories only.
        """
        if value not in (self.trip, self.condition):
            return value
        if value is self.trip:
            return self.outer.helper("Max", [value], value)
        return self.outer.helper("And", [value, value], value)

    def outputs(self) -> list[oir.Value]:
        """Define the outputs of the Loop node in the outer scope: final values, then recorded stacks."""
        finals = [self.outer.define(carried.final) for carried in self.loop.carried]
        return [*finals, *self.extra.finals(), *self.rows.stacks()]

    def finish(self) -> None:
        """Append the nodes after the Loop that compute values from its outputs."""
        self.rows.finish()
        self.extra.finish()
        self.rows.repeat(self.trip)


def append_loop(
    scope: OnnxScope, parts: LoopParts, write: WriteOps, outputs: list[oir.Value]
) -> None:
    """Append a Loop node with its body graph and with the ONNX values `outputs` as outputs."""
    body = _body(scope.writer, parts, write)
    inputs = [parts.trip, parts.condition, *parts.initial()]
    name = scope.node("Loop", inputs, outputs, {"body": body}, parts.loop.where)
    scope.writer.nodes.loops[name] = parts.loop


def _body(writer: Writer, parts: LoopParts, write: WriteOps) -> oir.Graph:
    """Build the body graph of a Loop node."""
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
    """Append a Gather that reads the row of a scanned input for the current iteration."""
    writer, where = body.writer, scanned.row.where
    position = number
    if scanned.backward:
        position = body.int64_node("Sub", writer.constant(np.array(-1)), number)
    row = body.define(scanned.row)
    rows = writer.values[scanned.rows]
    body.node("Gather", [rows, position], [row], {"axis": scanned.axis}, where)


def numbering(loop: Loop) -> tuple[Value, Value]:
    """Return the iteration number and the incoming condition, which a Loop body must return as copies."""
    return loop.iteration, loop.condition_in


class _RecordedRows:
    """Recorded outputs of a Loop node, some of them with an additional output of the shapes of their rows.

    Attributes:
        repeated: Records with the same row in every iteration, which an Expand after the loop repeats.
        stacked: All other records, whose rows the loop stacks.
        compared: The records among `stacked` whose rows may differ in shape.
        raw: Stacks of the rows of `compared`, before the shapes are compared.
        shapes: Stacks of the shapes of the rows of `compared`.
    """

    def __init__(self, outer: OnnxScope, loop: Loop) -> None:
        self.outer = outer
        self.loop = loop
        self.repeated = _repeated(loop)
        self.stacked = tuple(r for r in loop.recorded if r not in self.repeated)
        self.compared = [r for r in row_shapes.compared(loop) if r not in self.repeated]
        self.raw: dict[Recorded, oir.Value] = {}
        self.shapes: dict[Recorded, oir.Value] = {}

    def body_outputs(self, body: OnnxScope) -> list[oir.Value]:
        """Return the body outputs for the recorded values: the rows, then the shapes of the compared rows."""
        values = self.outer.writer.values
        rows = [body.returned(r.row, numbering(self.loop)) for r in self.stacked]
        return rows + [body.int64_node("Shape", values[r.row]) for r in self.compared]

    def stacks(self) -> list[oir.Value]:
        """Define the outputs of the Loop node for the recorded values: stacks of rows, then stacks of shapes."""
        stacks = []
        for recorded in self.stacked:
            if recorded in self.compared:
                stack = recorded.stack
                self.raw[recorded] = self._new_value("rows", stack.dtype, stack.shape)
                self.shapes[recorded] = self._new_value("shapes", "int64", None)
                stacks.append(self.raw[recorded])
            else:
                stacks.append(self.outer.define(recorded.stack))
        return stacks + list(self.shapes.values())

    def _new_value(self, label: str, dtype: str, shape: Shape) -> oir.Value:
        """Return a new ONNX value without a counterpart in the program."""
        name = self.outer.writer.fresh(f"{self.loop.name}.{label}")
        return oir.Value(name=name, type=value_type(dtype), shape=tensor_shape(shape))

    def finish(self) -> None:
        """Append nodes after the loop that fail if the rows of a record differ in shape."""
        outer, constant = self.outer, self.outer.writer.constant
        for recorded, raw in self.raw.items():
            zero, one = constant(np.array([0])), constant(np.array([1]))
            shape = row_shapes.checked_shape(
                outer.int64_node, zero, one, raw, self.shapes[recorded]
            )
            stack = outer.define(recorded.stack)
            where = f"{self.loop.where} rows of: {recorded.name or recorded.row.name}"
            name = outer.node("Reshape", [raw, shape], [stack], where=where)
            outer.writer.nodes.rows[name] = (self.loop, recorded)

    def repeat(self, trip: oir.Value) -> None:
        """Append an Expand for each row that is the same in every iteration of the loop."""
        outer, constant = self.outer, self.outer.writer.constant
        for recorded in self.repeated:
            count = outer.int64_node("Max", trip, constant(np.array(0)))
            shape = outer.int64_node("Reshape", count, constant(np.array([1])))
            if recorded.row.shape:
                extents = constant(np.array(recorded.row.shape, np.int64))
                shape = outer.int64_node("Concat", shape, extents, axis=0)
            row, stack = outer.writer.values[recorded.row], outer.define(recorded.stack)
            outer.node("Expand", [row, shape], [stack], where=self.loop.where)


def _repeated(loop: Loop) -> tuple[Recorded, ...]:
    """Return the records of a counted loop whose row is an outer value, which is the same in every iteration."""
    if loop.kind != "for":
        return ()
    inside = {value for operation in loop.ops for value in results(operation)}
    inside.update(body_inputs(loop))
    return tuple(r for r in loop.recorded if r.row not in inside and _can_repeat(r.row))


def _can_repeat(row: Value) -> bool:
    """Return True if Expand can repeat a row, which requires a known shape and a dtype with a kernel."""
    return is_fixed(row.shape) and row.dtype in ("float64", "float32", "int64", "int32", "bool")


class _ExtraCarried:
    """Carried values of a Loop node without a counterpart in the program: iteration count and last condition."""

    def __init__(self, outer: OnnxScope, loop: Loop, trip: oir.Value, condition: oir.Value) -> None:
        self.outer = outer
        self.loop = loop
        self.trip = trip
        self.condition = condition
        self.carries_count = loop.count is not None and loop.kind != "for" and not _stacks(loop)
        self.carries_condition = loop.last_condition is not None
        self.index: oir.Value | None = None

    def initial(self) -> list[oir.Value]:
        """Return the initial values of the extra carried values: iteration number -1, and the start condition."""
        constant = self.outer.writer.constant
        counts = [constant(np.array(-1))] if self.carries_count else []
        return counts + ([self.condition] if self.carries_condition else [])

    def finals(self) -> list[oir.Value]:
        """Define the outputs of the Loop node for the final values of the extra carried values."""
        finals = []
        if self.carries_count:
            self.index = self._scalar("int64", "last_index")
            finals.append(self.index)
        if self.loop.last_condition is not None:
            finals.append(self.outer.define(self.loop.last_condition))
        return finals

    def _scalar(self, dtype: str, label: str) -> oir.Value:
        """Return a new scalar ONNX value."""
        name = self.outer.writer.fresh(f"{self.loop.name}.{label}")
        return oir.Value(name=name, type=value_type(dtype), shape=oir.Shape([]))

    def body_inputs(self) -> list[oir.Value]:
        """Return the body inputs for the extra carried values."""
        inputs = [self._scalar("int64", "index_in")] if self.carries_count else []
        return inputs + ([self._scalar("bool", "condition_in")] if self.carries_condition else [])

    def body_outputs(self, body: OnnxScope, number: oir.Value | None = None) -> list[oir.Value]:
        """Return the body outputs for the extra carried values; `number` is the iteration number."""
        outputs = []
        if self.carries_count:
            assert number is not None
            outputs.append(body.copy(number))
        if self.carries_condition:
            assert self.loop.condition_out is not None
            outputs.append(body.returned(self.loop.condition_out, numbering(self.loop)))
        return outputs

    def finish(self) -> None:
        """Append the nodes after the loop that compute the iteration count, if the program reads the count.

        The count is the last iteration number plus 1, the trip count or the length of a recorded stack.
        """
        if self.loop.count is None:
            return
        writer, outer = self.outer.writer, self.outer
        count = outer.define(self.loop.count)
        if self.index is not None:
            outer.node("Add", [self.index, writer.constant(np.array(1))], [count])
        elif self.loop.kind == "for":
            outer.node("Max", [self.trip, writer.constant(np.array(0))], [count])
        else:
            stack = writer.values[_stacks(self.loop)[0]]
            extents = oir.Value(
                name=writer.fresh("extents"), type=value_type("int64"), shape=oir.Shape([1])
            )
            outer.node("Shape", [stack], [extents], {"end": 1})
            outer.node("Squeeze", [extents], [count])


def _stacks(loop: Loop) -> tuple[Value, ...]:
    """Return the recorded stacks of a loop."""
    return tuple(recorded.stack for recorded in loop.recorded)
