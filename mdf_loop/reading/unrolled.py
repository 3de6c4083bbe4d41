"""Unrolling of a loop with a constant number of iterations: `compile(..., unroll=64)`.

    loop i < 3: x = f(x, i); record x     ->     a = f(x, 0); b = f(a, 1); c = f(b, 2)
                                                  finals (c,), recording stack(a, b, c)

The results equal those of the loop bit for bit. Numbers that only unrolling makes known are computed before
the run only if every runtime gives the same bits (`ModelBuilder.unrolled_constant`).

The iteration number is a constant, so it may select from a list or be a shape. Carried values may change
their shape, but not their dtype. A condition must be known while the model is read. A loop with any other
condition, with delays or with a mid-body exit is not unrolled.

Source: MindSpore, network in graph mode, which unrolls constant loops; its limit is a call depth.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from msgspec.structs import replace

from mdf_loop.errors import CarryTypeError, RecordShapeError, TripCountError
from mdf_loop.ir import StopReason, Value
from mdf_loop.lower import Term
from mdf_loop.lower.builder import ModelBuilder
from mdf_loop.lower.terms import fits_dtype
from mdf_loop.ops.build_helpers import cast, ints, kind
from mdf_loop.reading.body import BodyInputs, LoweredBody, UnrolledIteration, read_body
from mdf_loop.reading.delays import RowType
from mdf_loop.reading.loop_writer import LoopWriter
from mdf_loop.reading.readers import FunctionResults
from mdf_loop.reading.recordings import arrange_rows


def unroll_loop(writer: LoopWriter) -> FunctionResults | None:
    """Append the operations of an unrolled loop and return its results, or None if that is impossible.

    Raises:
        TripCountError: If the loop has more iterations than the option `unroll` allows.
    """
    iteration_limit = writer.b.options.unroll
    if iteration_limit is None or _cannot_unroll(writer):
        return None
    return _Unroller(writer, iteration_limit).write()


def _cannot_unroll(writer: LoopWriter) -> bool:
    """Return True if the loop cannot be unrolled, for example if its number of iterations is not constant."""
    loop_arguments, b = writer.arguments, writer.b
    known_trip_count, known_condition = (
        b.constant_of(control_argument)
        for control_argument in (loop_arguments.trip_count, loop_arguments.condition)
    )
    is_variable = (loop_arguments.trip_count is not None and known_trip_count is None) or (
        loop_arguments.condition is not None and known_condition is None
    )
    is_endless = loop_arguments.trip_count is None and loop_arguments.condition is None
    has_no_iterations = bool(
        (known_trip_count is not None and known_trip_count <= 0)
        or (known_condition is not None and not known_condition)
    )
    has_optional_values = any(
        initial_value.dtype.startswith("optional")
        for initial_value in loop_arguments.initial_values
    )
    return (
        is_variable
        or is_endless
        or has_no_iterations
        or has_optional_values
        or writer.loop_form.has_mid_exit
        or bool(loop_arguments.delays)
    )


class _Unroller:
    """Writer of an unrolled loop, which converts the body once per iteration."""

    def __init__(self, writer: LoopWriter, limit: int) -> None:
        self.b = writer.b
        self.writer = writer
        self.iteration_limit = limit
        self.loop_form = writer.loop_form
        self.has_condition = writer.arguments.condition is not None
        trip_count = self.b.constant_of(writer.arguments.trip_count)
        self.trip_count = None if trip_count is None else int(trip_count)

    def write(self) -> FunctionResults | None:
        """Append all iterations of the loop, and return the results of the loop.

        Return None if the condition is not known.
        """
        if (
            self.trip_count is not None
            and self.trip_count > self.iteration_limit
            and not self.has_condition
        ):
            raise self._limit_error(f"{self.trip_count}")
        initial_values = [
            _fix_dtype(self.b, initial_value)
            for initial_value in self.writer.arguments.initial_values
        ]
        bodies = self._read_iterations(initial_values)
        if bodies is None:
            return None
        broadcast_values = self._broadcast_initial(initial_values, bodies[0])
        if broadcast_values is not None:
            new_bodies = self._read_iterations(broadcast_values)
            if new_bodies is not None and _keeps_shapes(broadcast_values, new_bodies):
                bodies = new_bodies
        for body in bodies:
            self.b.ops.extend(body.ops)
        with self.b.at(self.loop_form.where, self.writer.name):
            final_values = bodies[-1].carried_outputs
            recorded_rows = [
                self._build_recording(recording_position, bodies)
                for recording_position in range(len(bodies[0].recorded_values))
            ]
        loop_results = (*final_values, *recorded_rows)
        return FunctionResults(
            loop_results[0] if len(loop_results) == 1 else loop_results,
            self._build_named_results(bodies),
        )

    def _read_iterations(self, carried_inputs: Sequence[Value]) -> list[LoweredBody] | None:
        """Convert the body once per iteration, or return None if the loop's condition is unknown."""
        bodies: list[LoweredBody] = []
        has_next_iteration = True
        while has_next_iteration and (self.trip_count is None or len(bodies) < self.trip_count):
            if len(bodies) == self.iteration_limit:
                iteration_count_text = (
                    f"up to {self.trip_count}"
                    if self.trip_count
                    else f"more than {self.iteration_limit}"
                )
                raise self._limit_error(iteration_count_text)
            body = self._read_iteration(len(bodies), carried_inputs)
            condition = self.b.constant_of(body.condition_out)
            if self.has_condition and condition is None:
                return None
            has_next_iteration = not self.has_condition or bool(condition)
            carried_inputs = body.carried_outputs
            bodies.append(body)
        return bodies

    def _limit_error(self, iterations: str) -> TripCountError:
        """Return the error for a loop with too many iterations."""
        return TripCountError(
            f"the loop '{self.loop_form.name}' has {iterations} iterations, unroll allows {self.iteration_limit}",
            self.loop_form.where,
            "leave unroll out, or allow more (--unroll); a loop of many iterations is faster",
        )

    def _read_iteration(self, k: int, carried_values: Sequence[Value]) -> LoweredBody:
        """Append the operations of iteration `k`, and return its outputs."""
        writer, b = self.writer, self.b
        iteration = UnrolledIteration(
            k,
            self.trip_count or self.iteration_limit,
            b.unrolled_constant(np.array(k)),
            b.unrolled_constant(np.array(True)),
            tuple(carried_values),
        )
        row_types = tuple(
            RowType(carried_input.dtype, carried_input.shape) for carried_input in carried_values
        )
        body_inputs = BodyInputs(row_types, writer.arguments.slices, {}, (), iteration)
        body = read_body(
            b, self.loop_form, writer.signature, body_inputs, writer.scopes, writer.document
        )
        carried_pairs = zip(carried_values, body.carried_outputs, strict=True)
        body = replace(
            body,
            carried_outputs=tuple(_cast_like(b, *carried_pair) for carried_pair in carried_pairs),
        )
        for carried_name, carried_input, carried_output in zip(
            body.carried_names, carried_values, body.carried_outputs, strict=True
        ):
            if carried_input.dtype != carried_output.dtype:
                raise CarryTypeError(
                    f"carried values must keep their dtype, but '{carried_name}' is {carried_input.type} before "
                    f"iteration {k} and {carried_output.type} after it",
                    self.loop_form.where,
                    "cast one of them",
                )
        return body

    def _broadcast_initial(
        self, initial: Sequence[Value], first: LoweredBody
    ) -> list[Value] | None:
        """Broadcast scalar initial values to the shapes that the carried values have after one iteration.

        Return None if no value is broadcast.
        """
        broadcast_values = list(initial)
        for k, (initial_value, carried_output) in enumerate(
            zip(initial, first.carried_outputs, strict=True)
        ):
            is_fixed_array = carried_output.shape and all(
                isinstance(extent, int) for extent in carried_output.shape
            )
            if initial_value.shape == () and is_fixed_array and not self.writer.has_dynamic_shapes:
                broadcast_value = self.b.op(
                    "Expand", initial_value, self.b.constant(np.array(carried_output.shape))
                )
                broadcast_values[k] = self.b.record_broadcast(broadcast_value, initial_value)
        return broadcast_values if broadcast_values != list(initial) else None

    def _build_recording(self, k: int, bodies: Sequence[LoweredBody]) -> Value:
        """Return the result of the k-th recording: the stacked rows of all iterations, or the last row."""
        b, row_name = self.b, bodies[0].recorded_names[k]
        rows_with_fixed_dtype = [
            body.recorded_values[k] for body in bodies if not b.is_weak(body.recorded_values[k])
        ]
        recorded_rows = [
            _cast_like(
                b, (rows_with_fixed_dtype or [body.recorded_values[k]])[0], body.recorded_values[k]
            )
            for body in bodies
        ]
        recording_form = self.loop_form.recordings.get(row_name)
        if recording_form is not None and recording_form.keeps_last_row:
            return recorded_rows[-1]
        for iteration_number, row in enumerate(recorded_rows):
            if row.shape != recorded_rows[0].shape and None not in (
                row.shape,
                recorded_rows[0].shape,
            ):
                raise RecordShapeError(
                    f"the recorded value '{row_name}' is {recorded_rows[0].type} at first, but {row.type} in "
                    f"iteration {iteration_number}",
                    self.loop_form.where,
                    "a recorded value must have one shape in all iterations",
                )
        stacked_rows = b.op(
            "Concat", *(b.op("Unsqueeze", row, ints(b, 0)) for row in recorded_rows), axis=0
        )
        return (
            stacked_rows
            if recording_form is None
            else arrange_rows(b, recording_form, stacked_rows, self.writer.scopes.node_scope)
        )

    def _build_named_results(self, bodies: Sequence[LoweredBody]) -> dict[str, Callable[[], Term]]:
        """Return functions that compute `iterations`, `condition` and `stopped_by` of the loop, by name."""
        b, last_condition = self.b, bodies[-1].condition_out
        known_condition = b.constant_of(last_condition)
        is_stopped_by_condition = (
            self.has_condition and known_condition is not None and not known_condition
        )
        reason = StopReason.CONDITION if is_stopped_by_condition else StopReason.TRIP_COUNT
        return {
            "iterations": lambda: b.constant(np.array(len(bodies))),
            "condition": lambda: last_condition,
            "stopped_by": lambda: b.constant(np.array(reason.code)),
        }


def _fix_dtype(b: ModelBuilder, value: Value) -> Value:
    """Return an initial value with a fixed dtype that does not adapt to other operands."""
    known_array = b.constant_of(value)
    if known_array is not None:
        return b.unrolled_constant(known_array)
    return b.op("Identity", value) if b.is_weak(value) else value


def _cast_like(b: ModelBuilder, other: Value, value: Value) -> Value:
    """Cast a plain number to the dtype of another value.

    Return any other value unchanged.
    """
    is_plain_number = (
        b.is_weak(value) and value.dtype != "string" and fits_dtype(b, value, other.dtype)
    )
    is_lossless = kind(other) == "f" or kind(value) in "biu"
    return cast(b, value, other.dtype) if is_plain_number and is_lossless else value


def _keeps_shapes(initial: Sequence[Value], bodies: Sequence[LoweredBody]) -> bool:
    """Return True if every carried value keeps its initial shape."""
    initial_output_pairs = (
        initial_output_pair
        for body in bodies
        for initial_output_pair in zip(initial, body.carried_outputs, strict=True)
    )
    return all(
        carried_input.shape == carried_output.shape
        for carried_input, carried_output in initial_output_pairs
    )
