"""Conversion of a parsed loop to a `Loop` operation, with operations before and after the loop.

    slices of one element    ->  scanned rows
    longer slices            ->  values of the body, indexed by the iteration number
    delays                   ->  carried values
    mid exit                 ->  an `If` in the body
    recordings               ->  operations on the stacked rows

The carried values get dtypes and shapes that hold in all iterations.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from msgspec import Struct

from mdf_loop.document.document import Document
from mdf_loop.ir import (
    Carried,
    Loop,
    Recorded,
    Shape,
    StopReason,
    Value,
    is_true,
    skip_identities,
)
from mdf_loop.ir.types import numpy_dtype
from mdf_loop.lower import Term
from mdf_loop.lower.builder import ModelBuilder
from mdf_loop.lower.operators import check_value
from mdf_loop.reading.body import BodyInputs, BodyScopes, LoweredBody, read_body
from mdf_loop.reading.delays import History, RowType, SharedDelays
from mdf_loop.reading.extents import Extents
from mdf_loop.reading.loop_forms import LoopForm
from mdf_loop.reading.mid_exit import (
    BodyWithExit,
    count_complete_iterations,
    drop_incomplete_row,
    split_at_test,
)
from mdf_loop.reading.optional_carried import unwrap_final, wrap_optional_outputs
from mdf_loop.reading.readers import FunctionResults
from mdf_loop.reading.recordings import arrange_rows, no_row_error, select_last_row
from mdf_loop.reading.signature import Signature
from mdf_loop.reading.slices import Slice, SlicedRows


class LoopArguments(Struct, frozen=True):
    """Arguments of a loop as program values: trip count, condition, initial values, slices, delays."""

    trip_count: Value | None
    condition: Value | None
    initial_values: tuple[Value, ...]
    slices: tuple[Slice, ...] = ()
    delays: tuple[SharedDelays, ...] = ()


class LoopWriter:
    """Writer of a `Loop` operation that converts the body repeatedly until the carried types are stable."""

    def __init__(
        self,
        b: ModelBuilder,
        form: LoopForm,
        arguments: LoopArguments,
        signature: Signature,
        scopes: BodyScopes,
        document: Document,
    ) -> None:
        self.b = b
        self.loop_form = form
        self.arguments = arguments
        self.signature = signature
        self.scopes = scopes
        self.document = document
        self.name = f"{_extract_node_id(form.where)}.{form.name}"
        self.rows_by_slice: dict[Slice, SlicedRows] = {}
        self.has_dynamic_shapes = (form.shape_rule or b.options.shapes) == "dynamic"

    def write(self) -> FunctionResults:
        """Append the loop and return its results."""
        scan_inputs = (
            (input_slice, input_slice.create_rows(self.b)) for input_slice in self.arguments.slices
        )
        self.rows_by_slice = {
            input_slice: sliced_rows
            for input_slice, sliced_rows in scan_inputs
            if sliced_rows is not None
        }
        histories, outer_extents = self._build_histories({}, Extents(())), Extents(())
        initial_values, body = self._read_stable_body(histories)
        row_types = {
            history.source_name: RowType(delayed_value.dtype, delayed_value.shape)
            for history, delayed_value in zip(histories, body.delayed_values, strict=True)
        }
        if not all(row_types[history.source_name].fits(history) for history in histories):
            outer_extents = body.outer_extents
            histories = self._build_histories(row_types, outer_extents)
            for history in histories:
                if not row_types[history.source_name].fits(history):
                    raise row_types[history.source_name].mismatch_error(history)
            self._discard(body)
            initial_values, body = self._read_stable_body(histories)
        body_with_exit = (
            split_at_test(self.b, self.loop_form, body)
            if self.loop_form.has_mid_exit
            else BodyWithExit(body)
        )
        return self._append_loop(initial_values, body_with_exit)

    def _build_histories(
        self, known_row_types: Mapping[str, RowType], outside: Extents
    ) -> tuple[History, ...]:
        """Build the stores of past values from which the delays of the loop are read.

        `known_row_types` are the known types of delayed values.
        """
        row_types = dict(known_row_types)
        for carried_name, initial_value in zip(
            self.signature.carried_outputs, self.arguments.initial_values, strict=True
        ):
            row_types.setdefault(carried_name, RowType(initial_value.dtype, initial_value.shape))
        return tuple(
            delay.build_history(self.b, row_types.get(delay.source_name), outside)
            for delay in self.arguments.delays
        )

    # --- types that hold for all iterations -------------------------------------------------------

    def _read_stable_body(self, histories: tuple[History, ...]) -> tuple[list[Value], LoweredBody]:
        """Find carried shapes that no iteration changes, and convert the loop body for them.

        The initial values with these shapes are returned before the body.
        """
        broadcastable_positions = (
            () if self.has_dynamic_shapes else range(len(self.arguments.initial_values))
        )
        initial_values, body = self._read_to_fixed_point(histories, broadcastable_positions)
        broadcast_positions = [
            k
            for k in broadcastable_positions
            if initial_values[k] is not self.arguments.initial_values[k]
        ]
        if any(
            body.carried_outputs[k].shape != initial_values[k].shape for k in broadcast_positions
        ):  # the shape still changes
            self._discard(body)
            return self._read_to_fixed_point(histories, ())
        for k in broadcast_positions:
            self.b.note(
                f"'{body.carried_names[k]}' starts as one number, and is {initial_values[k].type} after one "
                "iteration: the number stands for all elements",
                self.loop_form.where,
            )
        return initial_values, body

    def _read_to_fixed_point(
        self, histories: tuple[History, ...], positions: Sequence[int]
    ) -> tuple[list[Value], LoweredBody]:
        """Convert the loop body repeatedly until the carried shapes no longer change (fixed point).

        The initial values at the positions `positions` may be broadcast from one number to an array.
        """
        initial_values = [*self.arguments.initial_values]
        for history in histories:
            with self.b.at(history.where, history.source_name):
                initial_values += history.create_initial_values(self.b)
        carried_shapes = [value.shape for value in initial_values]
        body = self._read_body(initial_values, carried_shapes, histories)
        for _ in range(3 + len(positions)):  # a round generalizes or broadcasts a shape
            broadcast_positions = [
                k
                for k in positions
                if self._broadcast_initial(initial_values, k, carried_shapes[k], body)
            ]
            joined_shapes = [
                initial_values[k].shape
                if k in broadcast_positions
                else _join_shapes(shape, carried_output.shape, self.has_dynamic_shapes)
                for k, (shape, carried_output) in enumerate(
                    zip(carried_shapes, body.carried_outputs, strict=True)
                )
            ]
            if joined_shapes == carried_shapes:
                break
            carried_shapes = joined_shapes
            self._discard(body)
            body = self._read_body(initial_values, carried_shapes, histories)
        return initial_values, body

    def _broadcast_initial(
        self, initial_values: list[Value], k: int, carried_shape: Shape, body: LoweredBody
    ) -> bool:
        """Broadcast initial value `k` if it is a scalar that the body turns into an array.

        Return True if the value was broadcast.

        For elementwise operations the result is the same. Other operations are refused later
        (`reading.possible_shapes`).
        """
        output_shape = body.carried_outputs[k].shape
        if (
            carried_shape != ()
            or not output_shape
            or not all(isinstance(extent, int) for extent in output_shape)
        ):
            return False
        initial_number = initial_values[k]
        with self.b.at(self.loop_form.where, body.carried_names[k]):
            broadcast_value = self.b.op(
                "Expand", initial_number, self.b.constant(np.array(output_shape))
            )
        initial_values[k] = self.b.record_broadcast(broadcast_value, initial_number)
        return True

    def _discard(self, body: LoweredBody) -> None:
        """Discard the operations of a loop body that is converted again with other carried types."""
        self.b.discard(body.ops)
        self.b.release(body.inputs)

    def _read_body(
        self, initial: Sequence[Value], shapes: Sequence[Shape], histories: tuple[History, ...]
    ) -> LoweredBody:
        """Convert the loop body for carried values with the dtypes of `initial` and the given shapes."""
        row_types = tuple(
            RowType(value.dtype, shape) for value, shape in zip(initial, shapes, strict=True)
        )
        body_inputs = BodyInputs(row_types, self.arguments.slices, self.rows_by_slice, histories)
        return read_body(
            self.b, self.loop_form, self.signature, body_inputs, self.scopes, self.document
        )

    # --- the loop ---------------------------------------------------------------------------------

    def _append_loop(
        self, initial: Sequence[Value], body_with_exit: BodyWithExit
    ) -> FunctionResults:
        """Append the loop and the operations on its results, and return the results."""
        b, body = self.b, wrap_optional_outputs(self.b, body_with_exit.body)
        with b.at(self.loop_form.where, self.name):
            carried_values = [
                Carried(
                    initial_value,
                    carried_input,
                    carried_output,
                    b.new(
                        carried_input.dtype, carried_input.shape, self._qualify_name(carried_name)
                    ),
                    carried_name,
                )
                for initial_value, carried_input, carried_output, carried_name in zip(
                    initial,
                    body.carried_inputs,
                    body.carried_outputs,
                    body.carried_names,
                    strict=True,
                )
            ]
            last_rows = {
                k: self._carry_last_row(body_with_exit, k) for k in range(len(body.recorded_values))
            }
            recordings = {
                k: Recorded(
                    row,
                    b.new(
                        row.dtype,
                        self._stacked_shape(row.shape, body),
                        self._qualify_name(row_name),
                    ),
                    row_name,
                )
                for k, (row, row_name) in enumerate(
                    zip(body.recorded_values, body.recorded_names, strict=True)
                )
                if last_rows[k] is None
            }
            carried_values += [last_row for last_row in last_rows.values() if last_row is not None]
            loop = b.append(self._build_loop(body, carried_values, list(recordings.values())))
            carried_with_outputs = list(
                zip(carried_values, body_with_exit.body.carried_outputs, strict=False)
            )
            final_values = [
                unwrap_final(b, carried_value.final, carried_output)
                for carried_value, carried_output in carried_with_outputs[
                    : len(self.signature.carried_outputs)
                ]
            ]
            iteration_count = self._count_complete(loop, body_with_exit)
            recorded_rows = [
                self._build_recording(
                    k, last_rows[k], recordings.get(k), loop, iteration_count, body_with_exit
                )
                for k in last_rows
            ]
        loop_outputs = (*final_values, *recorded_rows)
        return FunctionResults(
            loop_outputs[0] if len(loop_outputs) == 1 else loop_outputs,
            self._build_named_results(loop, iteration_count),
        )

    def _build_loop(
        self, body: LoweredBody, carried: list[Carried], recorded: list[Recorded]
    ) -> Loop:
        """Build the `Loop` operation."""
        b = self.b
        return Loop(
            name=self.name,
            trip_count=self.arguments.trip_count,
            condition=self.arguments.condition,
            iteration=body.iteration,
            condition_in=body.condition_in,
            condition_out=body.condition_out,
            carried=tuple(carried),
            recorded=tuple(recorded),
            scanned=body.scanned_inputs,
            ops=body.ops,
            max_iterations=b.options.max_iterations if self.arguments.trip_count is None else None,
            has_dynamic_shapes=self.has_dynamic_shapes,
            iteration_count=b.new("int64", (), f"{self.name}.iterations"),
            last_condition=b.new("bool", (), f"{self.name}.condition"),
            where=self.loop_form.where,
        )

    def _qualify_name(self, name: str) -> str:
        """Return the name in the program for a value of the loop."""
        return f"{self.name}.{name}"

    def _stacked_shape(self, shape: Shape, body: LoweredBody) -> Shape:
        """Return the shape of stacked rows: the number of iterations, then the shape of a row."""
        trip_count = self.b.constant_of(self.arguments.trip_count)
        if shape is None:
            return None
        if trip_count is not None and self._is_for_loop(body):
            return (max(int(trip_count), 0), *shape)
        return (self.b.name(f"{self.loop_form.name}_iterations"), *shape)

    def _is_for_loop(self, body: LoweredBody) -> bool:
        """Return True if the loop has no condition, or a condition that is always true."""
        initial_condition, next_condition = (
            self.arguments.condition,
            skip_identities(body.ops, body.condition_out),
        )
        never_changes = next_condition is body.condition_in or self._is_true(next_condition)
        return initial_condition is None or (self._is_true(initial_condition) and never_changes)

    def _is_true(self, value: Value) -> bool:
        """Return True if a value is a constant that is true."""
        known_array = self.b.constant_of(value)
        return known_array is not None and is_true(known_array)

    # --- results of the loop ----------------------------------------------------------------------

    def _carry_last_row(self, body_with_exit: BodyWithExit, k: int) -> Carried | None:
        """Build a carried value that holds the last row of a recording, or None if all rows are recorded."""
        row, row_name = (
            body_with_exit.body.recorded_values[k],
            body_with_exit.body.recorded_names[k],
        )
        recording_form = self.loop_form.recordings.get(row_name)
        if (
            recording_form is None
            or not recording_form.keeps_last_row
            or k in body_with_exit.row_positions_after_exit
            or row.dtype == "string"
        ):
            return None
        if row.shape is None or any(isinstance(extent, str) for extent in row.shape):
            return None
        zeros = self.b.constant(np.zeros(row.shape, numpy_dtype(row.dtype)))
        carried_input, final_value = (
            self.b.new(row.dtype, row.shape, self._qualify_name(row_name)) for _ in range(2)
        )
        return Carried(zeros, carried_input, row, final_value, row_name)

    def _build_recording(
        self,
        k: int,
        last_row_carried: Carried | None,
        recorded: Recorded | None,
        loop: Loop,
        iterations: Value,
        body_with_exit: BodyWithExit,
    ) -> Value:
        """Return the result of the k-th recording: its arranged rows, or only the last row."""
        b = self.b
        recording_form = self.loop_form.recordings.get(body_with_exit.body.recorded_names[k])
        row_count = (
            iterations
            if k in body_with_exit.row_positions_after_exit
            else self._count_started(loop)
        )
        if last_row_carried is not None:
            assert recording_form is not None
            one = b.constant(np.array(1))
            return check_value(
                b,
                last_row_carried.final,
                b.op("LessOrEqual", one, row_count),
                no_row_error(recording_form),
            )
        assert recorded is not None
        if recording_form is not None and recording_form.keeps_last_row:
            return select_last_row(b, recording_form, recorded.stack, row_count)
        stacked_rows = (
            drop_incomplete_row(b, recorded.stack, iterations)
            if k in body_with_exit.row_positions_after_exit
            else recorded.stack
        )
        if recording_form is None:
            return stacked_rows
        return arrange_rows(b, recording_form, stacked_rows, self.scopes.node_scope)

    def _count_started(self, loop: Loop) -> Value:
        """Return the number of executions of the loop body, including an incomplete last iteration."""
        assert loop.iteration_count is not None
        if loop.condition is None and loop.trip_count is not None:
            return self.b.op("Max", loop.trip_count, self.b.constant(np.array(0)))
        return loop.iteration_count

    def _count_complete(self, loop: Loop, body_with_exit: BodyWithExit) -> Value:
        """Return the number of complete iterations of the loop."""
        assert loop.iteration_count is not None
        assert loop.last_condition is not None
        if not self.loop_form.has_mid_exit:
            return loop.iteration_count
        return count_complete_iterations(self.b, loop.iteration_count, loop.last_condition)

    def _build_named_results(self, loop: Loop, iterations: Value) -> dict[str, Callable[[], Term]]:
        """Return functions that compute `iterations`, `condition` and `stopped_by` of the loop, by name."""
        assert loop.last_condition is not None
        last_condition = loop.last_condition
        return {
            "iterations": lambda: iterations,
            "condition": lambda: last_condition,
            "stopped_by": lambda: self._stop_code(loop, last_condition),
        }

    def _stop_code(self, loop: Loop, last_condition: Value) -> Value:
        """Return the code of the loop's `StopReason`."""

        def code(reason: StopReason) -> Value:
            return self.b.constant(np.array(reason.code))

        limit_reason = (
            StopReason.MAX_ITERATIONS if loop.trip_count is None else StopReason.TRIP_COUNT
        )
        if loop.condition is None:
            return code(limit_reason)
        return self.b.op("Where", last_condition, code(limit_reason), code(StopReason.CONDITION))


def _extract_node_id(where: str) -> str:
    """Return the id of the node in a path like `$.graphs[0].nodes['A'].functions['f']`."""
    return where.rsplit(".nodes['", 1)[-1].split("']", 1)[0] if ".nodes['" in where else "loop"


def _join_shapes(enter: Shape, leave: Shape, dynamic: bool) -> Shape:
    """Return the common shape of a carried value before and after an iteration.

    Different extents become unknown if `dynamic` is true.
    """
    if enter is None or leave is None:
        return None
    if len(enter) != len(leave):
        return None if dynamic else enter
    return tuple(
        input_extent
        if input_extent == output_extent
        or (isinstance(input_extent, int) and isinstance(output_extent, int) and not dynamic)
        else _name_unknown_extent(input_extent, k)
        for k, (input_extent, output_extent) in enumerate(zip(enter, leave, strict=True))
    )


def _name_unknown_extent(dim: int | str, axis: int) -> str:
    """Return a name for the unknown extent of an axis whose extent changes between iterations."""
    return dim if isinstance(dim, str) and dim.startswith("?") else f"?{axis}"
