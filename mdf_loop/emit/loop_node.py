"""Conversion of a `Loop` to an ONNX Loop node.

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
from mdf_loop.emit.scope import ModelWriter, OnnxScope, WriteOps, tensor_shape, value_type
from mdf_loop.ir import Loop, Recorded, Scanned, Shape, Value, body_inputs, is_fixed, results
from mdf_loop.onnx_writer import oir
from mdf_loop.passes.legalize.mask_finished_members import mask_loop

MAX_TRIP_COUNT = np.iinfo(np.int64).max
"""Trip count of a Loop node that only a condition terminates."""


def write_loop(outer: OnnxScope, loop: Loop, write: WriteOps) -> None:
    """Append an ONNX Loop node to a scope, with the nodes that prepare and postprocess it."""
    if loop.member_axis is not None:
        b = Builder()
        loop = mask_loop(b, loop, outer.writer.constant_array)
        write(outer, b.ops)
    loop_parts = LoopParts(outer, loop)
    loop_outputs = loop_parts.define_outputs()
    if loop_outputs:  # the runtime refuses a Loop without outputs
        append_loop(outer, loop_parts, write, loop_outputs)
    loop_parts.append_postprocessing()


class LoopParts:
    """Inputs and outputs of an ONNX Loop, such as trip count, initial values and stacked rows."""

    def __init__(self, outer: OnnxScope, loop: Loop) -> None:
        writer = outer.writer
        self.outer_scope = outer
        self.loop = loop
        if loop.trip_count is not None:
            self.trip_count = writer.onnx_values[loop.trip_count]
        else:
            self.trip_count = writer.constant(
                np.array(MAX_TRIP_COUNT if loop.max_iterations is None else loop.max_iterations)
            )
        if loop.condition is not None:
            self.condition = writer.onnx_values[loop.condition]
        else:
            self.condition = writer.constant(np.array(True))
        self.extra_carried = _ExtraCarried(outer, loop, self.trip_count, self.condition)
        self.recorded_rows = _RecordedRows(outer, loop)

    def initial_values(self) -> list[oir.Value]:
        """Return the initial values of all carried values of the Loop node."""
        onnx_values = self.outer_scope.writer.onnx_values
        carried_initial_values = [
            onnx_values[carried_value.initial] for carried_value in self.loop.carried
        ]
        return [
            self._copy_if_control(value)
            for value in (*carried_initial_values, *self.extra_carried.initial_values())
        ]

    def _copy_if_control(self, value: oir.Value) -> oir.Value:
        """Return a copy of the trip count or the condition of a loop, and any other value unchanged.

        CUDA's Loop reads trip count and condition from CPU memory and carried values from GPU memory. A value is in
        one of these memories only.
        """
        if value not in (self.trip_count, self.condition):
            return value
        if value is self.trip_count:
            return self.outer_scope.append_like("Max", [value], value)
        return self.outer_scope.append_like("And", [value, value], value)

    def define_outputs(self) -> list[oir.Value]:
        """Define the outputs of the Loop node in the outer graph: final values, then stacked rows."""
        final_values = [
            self.outer_scope.define_value(carried_value.final)
            for carried_value in self.loop.carried
        ]
        return [
            *final_values,
            *self.extra_carried.define_final_values(),
            *self.recorded_rows.define_stacks(),
        ]

    def append_postprocessing(self) -> None:
        """Append the nodes after the Loop that compute values from its outputs."""
        self.recorded_rows.append_row_shape_checks()
        self.extra_carried.append_iteration_count()
        self.recorded_rows.append_repeats(self.trip_count)


def append_loop(
    scope: OnnxScope, loop_parts: LoopParts, write: WriteOps, outputs: list[oir.Value]
) -> None:
    """Append a Loop node with its body graph and with the ONNX values `outputs` as outputs."""
    body_graph = _build_body(scope.writer, loop_parts, write)
    node_inputs = [loop_parts.trip_count, loop_parts.condition, *loop_parts.initial_values()]
    node_name = scope.append_node(
        "Loop", node_inputs, outputs, {"body": body_graph}, loop_parts.loop.where
    )
    scope.writer.node_registry.loop_by_node_name[node_name] = loop_parts.loop


def _build_body(writer: ModelWriter, loop_parts: LoopParts, write: WriteOps) -> oir.Graph:
    """Build the body graph of a Loop node."""
    loop = loop_parts.loop
    carried_inputs = tuple(carried_value.body_input for carried_value in loop.carried)
    iteration_number = (
        writer.new_counter(loop)
        if loop.first_iteration is not None
        else writer.define_value(loop.iteration)
    )
    body_inputs = [
        iteration_number,
        *(writer.define_value(value) for value in (loop.condition_in, *carried_inputs)),
    ]
    body_scope = OnnxScope(writer, (*copied_inputs(loop), *carried_inputs))
    for scanned_input in loop.scanned:
        _read_row(body_scope, scanned_input, iteration_number)
    if loop.first_iteration is not None:
        iteration_from_first = body_scope.define_value(loop.iteration)
        body_scope.append_node(
            "Add",
            [iteration_number, writer.onnx_values[loop.first_iteration]],
            [iteration_from_first],
            where=loop.where,
        )
    write(body_scope, loop.ops)
    extra_carried_inputs = loop_parts.extra_carried.body_inputs()
    if loop.condition is None or loop.condition_out is None:
        continue_condition = writer.onnx_values[loop.condition_in]
    else:
        continue_condition = body_scope.graph_output(loop.condition_out, copied_inputs(loop))
    carried_outputs = [
        body_scope.graph_output(carried_value.body_output, copied_inputs(loop))
        for carried_value in loop.carried
    ]
    carried_outputs += loop_parts.extra_carried.body_outputs(body_scope, iteration_number)
    recorded_outputs = loop_parts.recorded_rows.body_outputs(body_scope)
    if not body_scope.onnx_nodes:
        continue_condition = body_scope.append_copy(continue_condition)
    return oir.Graph(
        [*body_inputs, *extra_carried_inputs],
        [continue_condition, *carried_outputs, *recorded_outputs],
        nodes=body_scope.onnx_nodes,
        name=writer.new_name(loop.name or "body"),
    )


def _read_row(body_scope: OnnxScope, scanned: Scanned, iteration_number: oir.Value) -> None:
    """Append a Gather that reads the row of a scanned input for the current iteration."""
    writer, row_path = body_scope.writer, scanned.row.where
    row_position = iteration_number
    if scanned.is_backward:
        row_position = body_scope.append_int64_node(
            "Sub", writer.constant(np.array(-1)), iteration_number
        )
    row_value = body_scope.define_value(scanned.row)
    scanned_rows = writer.onnx_values[scanned.rows]
    body_scope.append_node(
        "Gather", [scanned_rows, row_position], [row_value], {"axis": scanned.axis}, row_path
    )


def copied_inputs(loop: Loop) -> tuple[Value, Value]:
    """Return the iteration number and the incoming condition, which a Loop body must return as copies."""
    return loop.iteration, loop.condition_in


class _RecordedRows:
    """Recorded outputs of a Loop node, and the additional outputs that check the shapes of rows.

    Attributes:
        repeated_recordings: Records with the same row in every iteration, which an Expand after the loop repeats.
        stacked_recordings: All other records, whose rows the loop stacks.
        compared_recordings: The records among `stacked_recordings` whose rows may differ in shape.
        raw_stacks: Stacks of the rows of `compared_recordings`, before the shapes are compared.
        shape_stacks: Stacks of the shapes of the rows of `compared_recordings`.
    """

    def __init__(self, outer: OnnxScope, loop: Loop) -> None:
        self.outer_scope = outer
        self.loop = loop
        self.repeated_recordings = _find_repeated(loop)
        self.stacked_recordings = tuple(
            recording for recording in loop.recorded if recording not in self.repeated_recordings
        )
        self.compared_recordings = [
            recording
            for recording in row_shapes.records_to_compare(loop)
            if recording not in self.repeated_recordings
        ]
        self.raw_stacks: dict[Recorded, oir.Value] = {}
        self.shape_stacks: dict[Recorded, oir.Value] = {}

    def body_outputs(self, body: OnnxScope) -> list[oir.Value]:
        """Return the body outputs that the Loop node stacks: recorded rows, then their shapes."""
        onnx_values = self.outer_scope.writer.onnx_values
        recorded_row_values = [
            body.graph_output(recording.row, copied_inputs(self.loop))
            for recording in self.stacked_recordings
        ]
        return recorded_row_values + [
            body.append_int64_node("Shape", onnx_values[recording.row])
            for recording in self.compared_recordings
        ]

    def define_stacks(self) -> list[oir.Value]:
        """Define the Loop node's outputs for recorded values: stacks of rows, then stacks of shapes."""
        recording_stacks = []
        for recording in self.stacked_recordings:
            if recording in self.compared_recordings:
                recording_stack = recording.stack
                self.raw_stacks[recording] = self._new_value(
                    "rows", recording_stack.dtype, recording_stack.shape
                )
                self.shape_stacks[recording] = self._new_value("shapes", "int64", None)
                recording_stacks.append(self.raw_stacks[recording])
            else:
                recording_stacks.append(self.outer_scope.define_value(recording.stack))
        return recording_stacks + list(self.shape_stacks.values())

    def _new_value(self, label: str, dtype: str, shape: Shape) -> oir.Value:
        """Return a new ONNX value without a counterpart in the program."""
        value_name = self.outer_scope.writer.new_name(f"{self.loop.name}.{label}")
        return oir.Value(name=value_name, type=value_type(dtype), shape=tensor_shape(shape))

    def append_row_shape_checks(self) -> None:
        """Append nodes after the loop that fail if rows of a recorded output differ in shape."""
        outer_scope, add_constant = self.outer_scope, self.outer_scope.writer.constant
        for recording, unchecked_row_stack in self.raw_stacks.items():
            zero, one = add_constant(np.array([0])), add_constant(np.array([1]))
            stack_shape = row_shapes.append_shape_check(
                outer_scope.append_int64_node,
                zero,
                one,
                unchecked_row_stack,
                self.shape_stacks[recording],
            )
            stack_value = outer_scope.define_value(recording.stack)
            check_path = f"{self.loop.where} rows of: {recording.name or recording.row.name}"
            node_name = outer_scope.append_node(
                "Reshape", [unchecked_row_stack, stack_shape], [stack_value], where=check_path
            )
            outer_scope.writer.node_registry.recording_by_node_name[node_name] = (
                self.loop,
                recording,
            )

    def append_repeats(self, trip_count: oir.Value) -> None:
        """Append an Expand for each recorded row that is the same in every iteration of the loop."""
        outer_scope, add_constant = self.outer_scope, self.outer_scope.writer.constant
        for recording in self.repeated_recordings:
            row_count = outer_scope.append_int64_node("Max", trip_count, add_constant(np.array(0)))
            stack_shape = outer_scope.append_int64_node(
                "Reshape", row_count, add_constant(np.array([1]))
            )
            if recording.row.shape:
                row_extents = add_constant(np.array(recording.row.shape, np.int64))
                stack_shape = outer_scope.append_int64_node(
                    "Concat", stack_shape, row_extents, axis=0
                )
            row_value, stack_value = (
                outer_scope.writer.onnx_values[recording.row],
                outer_scope.define_value(recording.stack),
            )
            outer_scope.append_node(
                "Expand", [row_value, stack_shape], [stack_value], where=self.loop.where
            )


def _find_repeated(loop: Loop) -> tuple[Recorded, ...]:
    """Return the recorded outputs of a loop whose row is the same in every iteration."""
    if loop.kind != "for":
        return ()
    values_in_body = {body_value for operation in loop.ops for body_value in results(operation)}
    values_in_body.update(body_inputs(loop))
    return tuple(
        recording
        for recording in loop.recorded
        if recording.row not in values_in_body and _can_repeat(recording.row)
    )


def _can_repeat(row: Value) -> bool:
    """Return True if a row has a known shape and a dtype that ONNX Runtime's Expand supports."""
    return is_fixed(row.shape) and row.dtype in ("float64", "float32", "int64", "int32", "bool")


class _ExtraCarried:
    """Carried values that only the Loop node has: the last iteration number and the last condition."""

    def __init__(self, outer: OnnxScope, loop: Loop, trip: oir.Value, condition: oir.Value) -> None:
        self.outer_scope = outer
        self.loop = loop
        self.trip_count = trip
        self.condition = condition
        self.carries_count = (
            loop.iteration_count is not None and loop.kind != "for" and not _recorded_stacks(loop)
        )
        self.carries_condition = loop.last_condition is not None
        self.last_index: oir.Value | None = None

    def initial_values(self) -> list[oir.Value]:
        """Return the Loop node's initial values of the carried iteration number and condition."""
        add_constant = self.outer_scope.writer.constant
        initial_counts = [add_constant(np.array(-1))] if self.carries_count else []
        return initial_counts + ([self.condition] if self.carries_condition else [])

    def define_final_values(self) -> list[oir.Value]:
        """Define the Loop node's outputs for the last iteration number and the last condition."""
        final_values = []
        if self.carries_count:
            self.last_index = self._new_scalar("int64", "last_index")
            final_values.append(self.last_index)
        if self.loop.last_condition is not None:
            final_values.append(self.outer_scope.define_value(self.loop.last_condition))
        return final_values

    def _new_scalar(self, dtype: str, label: str) -> oir.Value:
        """Return a new scalar ONNX value."""
        value_name = self.outer_scope.writer.new_name(f"{self.loop.name}.{label}")
        return oir.Value(name=value_name, type=value_type(dtype), shape=oir.Shape([]))

    def body_inputs(self) -> list[oir.Value]:
        """Return the body inputs for the carried iteration number and condition of a Loop node."""
        extra_inputs = [self._new_scalar("int64", "index_in")] if self.carries_count else []
        return extra_inputs + (
            [self._new_scalar("bool", "condition_in")] if self.carries_condition else []
        )

    def body_outputs(self, body: OnnxScope, number: oir.Value | None = None) -> list[oir.Value]:
        """Return the body outputs for the carried iteration number and condition of a Loop node.

        `number` is the iteration number.
        """
        extra_outputs = []
        if self.carries_count:
            assert number is not None
            extra_outputs.append(body.append_copy(number))
        if self.carries_condition:
            assert self.loop.condition_out is not None
            extra_outputs.append(
                body.graph_output(self.loop.condition_out, copied_inputs(self.loop))
            )
        return extra_outputs

    def append_iteration_count(self) -> None:
        """Append the nodes after the loop that compute the number of executed iterations.

        The count is the last iteration number plus 1, the trip count or the length of a recorded stack.
        """
        if self.loop.iteration_count is None:
            return
        writer, outer_scope = self.outer_scope.writer, self.outer_scope
        iteration_count = outer_scope.define_value(self.loop.iteration_count)
        if self.last_index is not None:
            outer_scope.append_node(
                "Add", [self.last_index, writer.constant(np.array(1))], [iteration_count]
            )
        elif self.loop.kind == "for":
            outer_scope.append_node(
                "Max", [self.trip_count, writer.constant(np.array(0))], [iteration_count]
            )
        else:
            stack_value = writer.onnx_values[_recorded_stacks(self.loop)[0]]
            first_extent = oir.Value(
                name=writer.new_name("extents"), type=value_type("int64"), shape=oir.Shape([1])
            )
            outer_scope.append_node("Shape", [stack_value], [first_extent], {"end": 1})
            outer_scope.append_node("Squeeze", [first_extent], [iteration_count])


def _recorded_stacks(loop: Loop) -> tuple[Value, ...]:
    """Return the program values that stack the rows of a loop's recorded outputs."""
    return tuple(recording.stack for recording in loop.recorded)
