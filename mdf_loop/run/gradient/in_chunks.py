"""Gradient of a long run over time, computed in chunks of steps from the last to the first.

    forward    store the carried values at the beginning of each chunk
    backward   run each chunk again, differentiate it with respect to its initial values, and pass these derivatives
               to the chunk before it

Memory holds one chunk and the initial values of all chunks: for N steps, about as much as sqrt(N) steps.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from itertools import pairwise
from typing import Any

import numpy as np
from msgspec.structs import replace

from mdf_loop.cached_property import cached_property
from mdf_loop.ir import Array, InputRole, Output, OutputRole, Value
from mdf_loop.ir.types import kind_of
from mdf_loop.ops.registry import count_elements
from mdf_loop.passes.gradient.differentiate import cotangent_name
from mdf_loop.passes.gradient.objective import OBJECTIVE_OUTPUT
from mdf_loop.passes.whole_run import first_evaluation_rows, whole_run
from mdf_loop.reading.binding import BoundValues
from mdf_loop.reading.over_time import OverTime
from mdf_loop.run.backend import Runnable
from mdf_loop.run.gradient.in_one import GradientInOne
from mdf_loop.run.gradient.loaded import Differentiation
from mdf_loop.run.gradient.terms import ObjectiveData
from mdf_loop.run.recording.recording_plan import RecordingPlan
from mdf_loop.run.states import State, is_swept
from mdf_loop.run.time_session import TimeSession
from mdf_loop.run.time_stepper import TimeStepper
from mdf_loop.specification import RunSpecification, Selection

CHUNK_STATE_BYTES, MIN_CHUNK_STEPS = 1 << 18, 32
"""Bytes of the carried values over all steps of one chunk, and its minimum number of steps."""

MAX_JOINED_CHUNKS = 4
"""Maximum number of large chunks that run as a single program, which avoids a second forward run."""

_NO_RECORDING = RecordingPlan((), Selection())
"""Plan of a run whose rows are discarded."""


class GradientOverTime:
    """Differentiated model over time, which is run in one call or in chunks of steps."""

    def __init__(
        self,
        programs: OverTime,
        session: TimeSession,
        differentiation: Differentiation,
        data: ObjectiveData,
        specification: RunSpecification,
        over_time: frozenset[str],
    ) -> None:
        self._programs = programs
        self._session = session
        self._differentiation, self._max_steps = (
            replace(differentiation, max_iterations=None),
            differentiation.max_iterations,
        )
        self._data = data
        self._over_time = over_time
        self._specification = specification
        self._steps, self._dt = specification.steps or 0, specification.dt
        self._precision = session.options.precision
        later_steps_program = programs.later_program
        float_names = {
            name for name, value in session.carried.items() if kind_of(value.dtype) == "f"
        }
        input_names, output_names = (
            later_steps_program.input_names(InputRole.STATE),
            later_steps_program.output_names(OutputRole.STATE),
        )
        self._state_inputs = {
            name: input_names[name] for name in session.carried if name in float_names
        }
        self._state_outputs = {name: output_names[name] for name in self._state_inputs}
        self._backward_programs: dict[tuple[frozenset[str], Differentiation], Runnable] = {}

    def run(self, bound_values: BoundValues) -> tuple[Array, dict[str, Array]]:
        """Compute the objective and its derivative with respect to each requested input."""
        bound_values = bound_values.with_random_keys(self._programs.later_program)
        state_size = self._state_bytes(max(self._session.members(bound_values), 1))
        max_chunk_steps = max(
            MIN_CHUNK_STEPS, math.isqrt(self._steps), CHUNK_STATE_BYTES // state_size
        )
        if (
            self._steps <= max(max_chunk_steps, MAX_JOINED_CHUNKS * CHUNK_STATE_BYTES // state_size)
            and not self._constant_steps
        ):
            return self._joined_gradient.run(bound_values)
        return self._run_in_chunks(bound_values, max_chunk_steps)

    @property
    def native(self) -> Mapping[str, str]:
        """Execution mode of each loop by name: `native` (machine code) or `standard: <reason>`."""
        backward_programs = list(self._backward_programs.values())
        return backward_programs[-1].native if backward_programs else self._joined_gradient.native

    @cached_property
    def _joined_gradient(self) -> GradientInOne:
        programs, control_inputs = self._programs, {"steps": np.array(self._steps)}
        if self._dt is not None:
            control_inputs["dt"] = np.array(self._dt, self._precision)
        whole_program = whole_run(
            programs.first_program, programs.later_program, programs.recorded_names, self._over_time
        )
        return GradientInOne(
            whole_program, self._differentiation, self._data, self._session.swept, control_inputs
        )

    def _state_bytes(self, members: int) -> int:
        """Return the approximate number of bytes that the model carries from step to step."""
        return members * max(8 * count_elements(tuple(self._session.carried.values())), 1)

    def _run_in_chunks(
        self, bound: BoundValues, max_chunk_steps: int
    ) -> tuple[Array, dict[str, Array]]:
        chunks = self._divide_into_chunks(max_chunk_steps)
        stepper = TimeStepper(self._session, self._specification, bound, _NO_RECORDING)
        state = self._run_forward(stepper, 1)
        start_states = [self._run_forward(stepper, chunk.start) for chunk in chunks]
        zero_derivatives = {name: np.zeros_like(state[name]) for name in self._state_inputs}
        state_derivatives, gradient_sums = (
            zero_derivatives,
            _GradientSums(self._steps, self._over_time, self._session.axis),
        )
        for chunk, start_state in zip(reversed(chunks), reversed(start_states), strict=True):
            is_differentiated = chunk.start >= self._constant_steps
            wrt = self._differentiation.wrt if is_differentiated else ()
            state_derivatives = self._run_backward(
                bound,
                start_state,
                state_derivatives if is_differentiated else zero_derivatives,
                chunk,
                gradient_sums,
                wrt,
            )
        self._run_first_backward(
            bound, zero_derivatives if self._constant_steps else state_derivatives, gradient_sums
        )
        feeds = self._session.step_inputs(bound, 0, self._steps)
        return gradient_sums.value, gradient_sums.fill_with_zeros(
            feeds, self._differentiation.wrt, self._session.swept
        )

    @property
    def _constant_steps(self) -> int:
        """Number of initial steps through which derivatives are not propagated."""
        return 0 if self._max_steps is None else max(self._steps - self._max_steps, 0)

    def _divide_into_chunks(self, max_chunk_steps: int) -> list[range]:
        """Divide all steps after the first into chunks (ranges of steps).

        No chunk has both steps with and steps without derivatives.
        """
        boundaries = [1, *([self._constant_steps] if self._constant_steps > 1 else []), self._steps]
        return [
            range(chunk_start, min(chunk_start + max_chunk_steps, end))
            for start, end in pairwise(boundaries)
            for chunk_start in range(start, end, max_chunk_steps)
        ]

    # --- forward --------------------------------------------------------------------------------

    def _run_forward(self, stepper: TimeStepper, end_step: int) -> State:
        """Run the model forward up to a step, and return the carried values at its beginning."""
        while stepper.done < end_step:
            stepper.advance(end_step - stepper.done, None)
        assert stepper.carried_state is not None
        return stepper.carried_state

    # --- backward -------------------------------------------------------------------------------

    def _run_backward(
        self,
        bound: BoundValues,
        state: State,
        state_derivatives: Mapping[str, Array],
        chunk: range,
        sums: _GradientSums,
        wrt: tuple[str, ...],
    ) -> dict[str, Array]:
        """Return the derivatives of the objective with respect to the state at a chunk's start.

        Other derivatives are added to `sums`.
        """
        session, step_count = self._session, len(chunk)
        backward_program = self._load_backward_program(state, is_last=chunk.stop == self._steps)
        feeds: dict[str, Any] = session.step_inputs(bound, chunk.start, chunk.stop)
        feeds |= self._data.feeds_of_steps(chunk.start, chunk.stop)
        feeds |= {
            cotangent_name(self._state_outputs[name]): derivative
            for name, derivative in state_derivatives.items()
        }
        derivatives = backward_program.run(
            session.loop_feeds(backward_program, feeds, state, step_count, step_count, self._dt)
        )
        sums.add(derivatives, wrt, chunk)
        return {
            name: derivatives[cotangent_name(self._state_inputs[name])]
            for name in state_derivatives
        }

    def _load_backward_program(self, state: State, *, is_last: bool) -> Runnable:
        """Return the loaded program that differentiates a chunk of steps."""
        session = self._session
        swept_states = {
            self._state_inputs.get(name)
            or self._programs.later_program.input_names(InputRole.STATE)[name]
            for name, value in session.carried.items()
            if is_swept(state[name], value)
        }
        differentiation = (
            self._differentiation if is_last else self._differentiation.without_last_terms
        )
        program_key = frozenset(swept_states), differentiation
        if program_key not in self._backward_programs:
            cotangent_inputs = (
                {cotangent_name(name) for name in self._state_outputs.values()}
                if session.swept
                else set()
            )
            self._backward_programs[program_key] = differentiation.load(
                self._programs.later_program,
                session.swept | swept_states | cotangent_inputs,
                tuple(self._state_inputs.values()),
                tuple(self._state_outputs.values()),
            )
        return self._backward_programs[program_key]

    def _run_first_backward(
        self, bound: BoundValues, changes: Mapping[str, Array], sums: _GradientSums
    ) -> None:
        """Differentiate the first evaluation, and add its derivatives to `sums`."""
        session = self._session
        input_arrays: dict[str, Any] = session.step_inputs(bound, 0) | self._data.feeds_of_steps(
            0, 1
        )
        for name, value in self._initial_state_outputs.items():
            input_arrays[cotangent_name(value.name)] = _reduce_to_value(
                changes[name], value.value, session.axis
            )
        feeds = {
            program_input.value.name: input_arrays[program_input.value.name]
            for program_input in self._first_backward_program.program.inputs
        }
        sums.add(
            self._first_backward_program.run(feeds),
            () if self._constant_steps else self._differentiation.wrt,
            range(1),
        )

    @cached_property
    def _initial_state_outputs(self) -> dict[str, Output]:
        """Float outputs of the first step that initialize the carried values of later steps."""
        output_by_name = {output.name: output for output in self._programs.first_program.outputs}
        output_names = self._programs.first_program.output_names(OutputRole.STATE)
        state_outputs = {name: output_by_name[output_names[name]] for name in self._state_inputs}
        return {
            name: output
            for name, output in state_outputs.items()
            if kind_of(output.value.dtype) == "f"
        }

    @cached_property
    def _first_backward_program(self) -> Runnable:
        """Loaded program that differentiates the first evaluation."""
        programs, swept_names = self._programs, self._session.swept
        first_program = first_evaluation_rows(
            programs.first_program, programs.later_program, programs.recorded_names
        )
        output_names = [output.name for output in self._initial_state_outputs.values()]
        cotangent_inputs = map(cotangent_name, output_names) if swept_names else ()
        return self._differentiation.without_last_terms.load(
            first_program, {*swept_names, *cotangent_inputs}, (), output_names
        )


class _GradientSums:
    """Sums of the objective and of its derivatives over the chunks of a run.

    The derivative with respect to an input over time has rows.
    """

    def __init__(self, steps: int, over_time: frozenset[str], leading_ndim: int) -> None:
        self._steps = steps
        self._over_time = over_time
        self._leading_ndim = leading_ndim
        self.value: Array = np.zeros(())
        self.derivatives: dict[str, Array] = {}

    def add(
        self, chunk_derivatives: Mapping[str, Array], wrt: tuple[str, ...], chunk: range
    ) -> None:
        """Add the objective and the derivatives of one chunk of steps to the sums."""
        self.value = self.value + chunk_derivatives[OBJECTIVE_OUTPUT]
        for name in wrt:
            derivative = chunk_derivatives.get(cotangent_name(name))
            if derivative is None:
                continue
            if name in self._over_time:
                self._add_rows(name, derivative, chunk)
            else:
                self.derivatives[name] = derivative + self.derivatives.get(name, 0)

    def fill_with_zeros(
        self, parameters: Mapping[str, Array], wrt: tuple[str, ...], swept: Collection[str]
    ) -> dict[str, Array]:
        """Return all derivatives, which are zeros for inputs without effect on the objective."""
        members_shape = np.shape(self.value)
        zero_derivatives = {
            name: np.zeros_like(parameters[name]) for name in wrt if name not in self.derivatives
        }
        return self.derivatives | {
            name: zero_derivative
            if name in swept
            else np.broadcast_to(zero_derivative, (*members_shape, *zero_derivative.shape))
            for name, zero_derivative in zero_derivatives.items()
        }

    def _add_rows(self, name: str, derivative: Array, chunk: range) -> None:
        leading_index = (slice(None),) * self._leading_ndim
        if chunk.start == 0:
            derivative = np.expand_dims(derivative, self._leading_ndim)
        if name not in self.derivatives:
            row_shape = derivative.shape[self._leading_ndim + 1 :]
            shape = (*derivative.shape[: self._leading_ndim], self._steps, *row_shape)
            self.derivatives[name] = np.zeros(shape, derivative.dtype)
        self.derivatives[name][(*leading_index, slice(chunk.start, chunk.stop))] = derivative


def _reduce_to_value(derivative: Array, value: Value, leading_ndim: int) -> Array:
    """Sum a derivative over the axes along which `value` was broadcast, and cast to its dtype."""
    shape = (*derivative.shape[:leading_ndim], *(value.shape or ()))
    derivative = derivative.astype(value.dtype, copy=False)
    while derivative.ndim > len(shape):
        derivative = derivative.sum(axis=leading_ndim)
    for axis in range(leading_ndim, derivative.ndim):
        if shape[axis] == 1 and derivative.shape[axis] > 1:
            derivative = derivative.sum(axis=axis, keepdims=True)
    return derivative
