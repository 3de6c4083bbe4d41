"""Program that runs the next iterations of one loop of a larger program.

    loop %i < %n                        loop %i < %most after %done
      carry %x from %b to %y     ->       carry %x from %x_before to %y
      scan %row of %rows                  scan %row of %rows_of_chunk
      %y = Add(%x, %row)                  %y = Add(%x, %row)

The final values of one run are the inputs of the next run. The caller passes the scanned rows of the
iterations to run. Preserves: results bit for bit, names and places.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from mdf_loop.build import Builder
from mdf_loop.ir import (
    Carried,
    Constant,
    Input,
    Loop,
    Operation,
    Output,
    Program,
    Recorded,
    Scanned,
    Shape,
    Value,
    body_outputs,
    is_fixed,
    reads,
    results,
)
from mdf_loop.ir.types import element_type, kind_of
from mdf_loop.ops.build_helpers import ints


class LoopSegment(Struct, frozen=True, eq=False):
    """Program that runs the next iterations of one loop of a larger program.

    Attributes:
        loop: The loop of the whole program.
        program: The program with only this loop. Its outputs are final values, stacks, and the values below.
        captured_inputs: Inputs with the same value in every run of the segment.
        max_iterations: Input for the maximum number of iterations.
        first_iteration: Input for the number of the first iteration; None if no iteration reads its number.
        condition: Input for the condition of each member after earlier runs; None for a loop without a
            condition.
        carried_inputs: Inputs for the carried values, in the order of `loop.carried`.
        row_inputs: Inputs for the scanned rows, in the order of `loop.scanned`.
        iteration_count: Number of iterations that ran; None for a loop without a condition, which runs
            `max_iterations`.
        last_condition: Condition after the last iteration; None if it cannot change or is not needed.
        watched_values: Floats of every iteration, in the order in which they are computed.
    """

    loop: Loop
    program: Program
    captured_inputs: tuple[Value, ...]
    max_iterations: Value
    first_iteration: Value | None
    condition: Value | None
    carried_inputs: tuple[Value, ...]
    row_inputs: tuple[Value, ...]
    iteration_count: Value | None
    last_condition: Value | None
    watched_values: Mapping[str, Value]


def loop_segment(b: Builder, program: Program, loop: Loop, watch: bool) -> LoopSegment:
    """Build the program that runs the next iterations of one loop.

    `program` has the constants and inputs that the loop captures.
    """
    with b.at(loop.where):
        return _SegmentBuilder(b, loop, watch).build_segment(program)


class _SegmentBuilder:
    """Builder of the program that runs the next iterations of one loop."""

    def __init__(self, b: Builder, loop: Loop, watch: bool) -> None:
        self.b = b.body()  # its constants come before the loop
        self.outer_builder = b
        self.loop = loop
        self.max_iterations = b.new("int64", (), "most")
        member_shape = () if loop.member_axis is None else (loop.member_axis,)
        self.condition = b.new("bool", member_shape, "condition_before") if loop.condition else None
        self.carried_inputs = tuple(_carried_input(b, carried) for carried in loop.carried)
        self.row_inputs = tuple(_rows_input(b, scanned) for scanned in loop.scanned)
        self.first_iteration = b.new("int64", (), "done") if _reads_iteration_number(loop) else None
        self.iteration_count = (
            (loop.iteration_count or b.new("int64", member_shape, "count"))
            if loop.condition
            else None
        )
        self.last_condition = self._last_condition(member_shape)
        self.watched_values: dict[str, Value] = {}
        self.extra_recordings: list[Recorded] = []
        if watch:
            self._record_watched()

    def build_segment(self, program: Program) -> LoopSegment:
        captured_inputs = program.inputs
        segment_inputs = (
            self.max_iterations,
            self.first_iteration,
            self.condition,
            *self.carried_inputs,
            *self.row_inputs,
        )
        loop = self._segment_loop()
        loop_results = dict.fromkeys(results(loop))
        return LoopSegment(
            self.loop,
            replace(
                program,
                inputs=(
                    *captured_inputs,
                    *(Input(value) for value in segment_inputs if value is not None),
                ),
                ops=(*program.ops, *self._new_constants(), loop),
                outputs=tuple(Output(value.name, value) for value in loop_results),
            ),
            tuple(program_input.value for program_input in captured_inputs),
            self.max_iterations,
            self.first_iteration,
            self.condition,
            self.carried_inputs,
            self.row_inputs,
            self.iteration_count,
            self.last_condition,
            self.watched_values,
        )

    def _new_constants(self) -> list[Operation]:
        constant_ops = [op for op in self.outer_builder.ops if isinstance(op, Constant)]
        read_values = {value for operation in self.b.ops for value in reads(operation)}
        return [constant for constant in constant_ops if constant.value in read_values]

    def _segment_loop(self) -> Loop:
        original_loop = self.loop
        carried_and_inputs = zip(original_loop.carried, self.carried_inputs, strict=True)
        scans_and_inputs = zip(original_loop.scanned, self.row_inputs, strict=True)
        return replace(
            original_loop,
            trip_count=self.max_iterations,
            max_iterations=None,
            condition=self.condition,
            first_iteration=self.first_iteration,
            carried=tuple(replace(carried, initial=value) for carried, value in carried_and_inputs),
            recorded=(*original_loop.recorded, *self.extra_recordings),
            scanned=tuple(replace(scanned, rows=value) for scanned, value in scans_and_inputs),
            ops=(*original_loop.ops, *self.b.ops),
            iteration_count=self.iteration_count,
            last_condition=self.last_condition,
        )

    def _last_condition(self, shape: Shape) -> Value | None:
        loop = self.loop
        if loop.condition_out is None or not (loop.condition or loop.last_condition):
            return None
        return loop.last_condition or self.b.new("bool", shape, "last_condition")

    # --- watched floats -------------------------------------------------------------------------

    def _record_watched(self) -> None:
        """Record all float values that iterations carry or record, for a later check for nan."""
        stacks_by_value = {recording.row: recording.stack for recording in self.loop.recorded}
        computed_values = [value for operation in self.loop.ops for value in results(operation)]
        computation_order = {value: position for position, value in enumerate(computed_values)}
        names_by_value = {
            recorded.row: recorded.name or recorded.row.name for recorded in self.loop.recorded
        }
        names_by_value |= {
            carried.body_output: carried.name or carried.body_output.name
            for carried in self.loop.carried
        }
        float_values = [
            value
            for value in names_by_value
            if kind_of(value.dtype) == "f" and value in computation_order
        ]
        for value in sorted(float_values, key=computation_order.__getitem__):
            watched_stack = (
                None if self.loop.member_axis else stacks_by_value.get(value)
            ) or self._record_stack(value)
            watched_name = f"{self.loop.name}.{names_by_value[value]}"
            self.watched_values[
                watched_name if watched_name not in self.watched_values else value.name
            ] = watched_stack

    def _record_stack(self, value: Value) -> Value:
        """Record a value in each iteration, for a later check for nan.

        If the shape may change, record 0.0 or nan instead (`_finiteness_mark`).
        """
        watched_row = (
            value
            if is_fixed(value.shape)
            else self._finiteness_mark(self._zero_finished_members(value))
        )
        watched_stack = self.b.new(
            watched_row.dtype, ("iterations", *(watched_row.shape or ())), f"{value.name}_watched"
        )
        self.extra_recordings.append(Recorded(watched_row, watched_stack, value.name))
        return watched_stack

    def _zero_finished_members(self, value: Value) -> Value:
        """Set the undefined elements of finished batch members to 0."""
        member_axis, value_shape = self.loop.member_axis, value.shape or ()
        if member_axis not in value_shape:
            return value
        with self.b.at(value.where, value.name):
            if value.dtype not in ("float64", "float32"):
                value = self.b.op("Cast", value, to=element_type("float32"))
            is_active, axes_after_members = (
                self.loop.condition_in,
                range(1, len(value_shape) - value_shape.index(member_axis)),
            )
            active_mask = (
                self.b.op("Unsqueeze", is_active, ints(self.b, *axes_after_members))
                if axes_after_members
                else is_active
            )
            return self.b.op(
                "Where", active_mask, value, self.b.constant(np.array(0.0, value.dtype))
            )

    def _finiteness_mark(self, value: Value) -> Value:
        """Compute a scalar that is 0.0 if all elements are finite, and nan otherwise."""
        with self.b.at(value.where, value.name):
            float_dtype = "float64" if value.dtype == "float64" else "float32"
            if value.dtype != float_dtype:
                value = self.b.op("Cast", value, to=element_type(float_dtype))
            zero_products = self.b.op("Mul", value, self.b.constant(np.array(0.0, float_dtype)))
            return self.b.op("ReduceSum", zero_products, keepdims=0)


def _reads_iteration_number(loop: Loop) -> bool:
    """Return True if the body of a loop reads the iteration number."""
    read_values = {value for operation in loop.ops for value in reads(operation)}
    return loop.iteration in read_values or loop.iteration in body_outputs(loop)


def _rows_input(b: Builder, scanned: Scanned) -> Value:
    """Create the program input for the rows that the next iterations scan."""
    scanned_rows, rows_shape = scanned.rows, scanned.rows.shape
    if rows_shape is not None:
        row_extent = b.name("iterations")
        rows_shape = (*rows_shape[: scanned.axis], row_extent, *rows_shape[scanned.axis + 1 :])
    return b.new(scanned_rows.dtype, rows_shape, f"{scanned_rows.name}_of_chunk")


def _carried_input(b: Builder, carried: Carried) -> Value:
    """Create the program input for the current value of a carried value."""
    input_shape = _common_shape(b, carried.initial.shape, carried.body_output.shape)
    return b.new(carried.body_input.dtype, input_shape, f"{carried.body_input.name}_before")


def _common_shape(b: Builder, initial_shape: Shape, output_shape: Shape) -> Shape:
    """Return the common extents of two shapes, with a new name for each differing extent.

    None means an unknown shape, if the ranks differ.
    """
    if initial_shape is None or output_shape is None or len(initial_shape) != len(output_shape):
        return None
    extent_pairs = zip(initial_shape, output_shape, strict=True)
    return tuple(
        initial_extent if initial_extent == final_extent else b.name("extent")
        for initial_extent, final_extent in extent_pairs
    )
