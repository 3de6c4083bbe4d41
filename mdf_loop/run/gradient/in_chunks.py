"""Derivatives of a long run over time, computed chunk by chunk from the last chunk to the first.

    forward    store the carried values at the beginning of each chunk
    backward   run each chunk again, differentiate it by its initial values, and pass these derivatives
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
from mdf_loop.passes.gradient.differentiate import change_of
from mdf_loop.passes.gradient.objective import OBJECTIVE_OUTPUT
from mdf_loop.passes.whole_run import first_evaluation_rows, whole_run
from mdf_loop.reading.binding import Bound
from mdf_loop.reading.over_time import OverTime
from mdf_loop.run.backend import Runnable
from mdf_loop.run.gradient.in_one import GradientInOne
from mdf_loop.run.gradient.loaded import Differentiation
from mdf_loop.run.gradient.terms import Data
from mdf_loop.run.states import State, is_swept
from mdf_loop.run.time_session import TimeSession
from mdf_loop.specification import RunSpecification

AT_ONCE, FEWEST = 1 << 18, 32
"""Bytes of the carried values over all steps of one chunk, and its minimum number of steps."""

IN_ONE = 4
"""Maximum number of large chunks that run as a single program, which avoids a second forward run."""


class GradientOverTime:
    """Differentiated model over time. A short run is one program. A long run is divided into chunks."""

    def __init__(
        self,
        programs: OverTime,
        session: TimeSession,
        differentiation: Differentiation,
        data: Data,
        specification: RunSpecification,
        over_time: frozenset[str],
    ) -> None:
        self._programs = programs
        self._session = session
        self._differentiation, self._most = (
            replace(differentiation, most=None),
            differentiation.most,
        )
        self._data = data
        self._over_time = over_time
        self._steps, self._dt = specification.steps or 0, specification.dt
        self._precision = session.options.precision
        later = programs.later
        floats = {name for name, v in session.carried.items() if kind_of(v.dtype) == "f"}
        before, after = later.input_names(InputRole.STATE), later.output_names(OutputRole.STATE)
        self._before = {name: before[name] for name in session.carried if name in floats}
        self._after = {name: after[name] for name in self._before}
        self._later: dict[tuple[frozenset[str], Differentiation], Runnable] = {}

    def run(self, bound: Bound) -> tuple[Array, dict[str, Array]]:
        """Compute the objective and its derivative by each requested input."""
        bound = bound.with_random_keys(self._programs.later)
        state_size = self._held(max(self._session.members(bound), 1))
        most = max(FEWEST, math.isqrt(self._steps), AT_ONCE // state_size)
        if self._steps <= max(most, IN_ONE * AT_ONCE // state_size) and not self._constant:
            return self._in_one.run(bound)
        return self._in_chunks(bound, most)

    @property
    def native(self) -> Mapping[str, str]:
        """Form of each loop by name: `native`, or `standard: ` followed by the reason."""
        sessions = list(self._later.values())
        return sessions[-1].native if sessions else self._in_one.native

    @cached_property
    def _in_one(self) -> GradientInOne:
        programs, controls = self._programs, {"steps": np.array(self._steps)}
        if self._dt is not None:
            controls["dt"] = np.array(self._dt, self._precision)
        whole = whole_run(programs.first, programs.later, programs.recorded, self._over_time)
        return GradientInOne(
            whole, self._differentiation, self._data, self._session.swept, controls
        )

    def _held(self, members: int) -> int:
        """Return the bytes of the values that are carried from one step to the next."""
        return members * max(8 * count_elements(tuple(self._session.carried.values())), 1)

    def _in_chunks(self, bound: Bound, most: int) -> tuple[Array, dict[str, Array]]:
        chunks = self._chunks(most)
        state, starts = self._begun(bound), []
        brief = self._session.begin_run(self._steps, max(self._session.members(bound), 1))
        for chunk in chunks:
            starts.append(state)
            if chunk.stop < self._steps:
                state = self._forward(bound, state, chunk, brief)
        nothing = {name: np.zeros_like(state[name]) for name in self._before}
        changes, sums = nothing, _Sums(self._steps, self._over_time, self._session.axis)
        for chunk, start in zip(reversed(chunks), reversed(starts), strict=True):
            looked_at = chunk.start >= self._constant
            wrt = self._differentiation.wrt if looked_at else ()
            changes = self._backward(
                bound, start, changes if looked_at else nothing, chunk, sums, wrt
            )
        self._back_to_first(bound, nothing if self._constant else changes, sums)
        feeds = self._session.given(bound, 0, self._steps)
        return sums.value, sums.filled(feeds, self._differentiation.wrt, self._session.swept)

    @property
    def _constant(self) -> int:
        """Number of initial steps through which no derivatives propagate."""
        return 0 if self._most is None else max(self._steps - self._most, 0)

    def _chunks(self, most: int) -> list[range]:
        """Return the ranges of steps after the first one. Constant and differentiated steps are separated."""
        ends = [1, *([self._constant] if self._constant > 1 else []), self._steps]
        return [
            range(begin, min(begin + most, end))
            for start, end in pairwise(ends)
            for begin in range(start, end, most)
        ]

    # --- forward --------------------------------------------------------------------------------

    def _begun(self, bound: Bound) -> State:
        """Run the first evaluation and return the carried values."""
        return self._session.state_of(self._session.first.run(self._session.given(bound, 0)))

    def _forward(self, bound: Bound, state: State, chunk: range, brief: bool) -> State:
        """Run the steps of a chunk and return the carried values."""
        session, begin, end = self._session, chunk.start, chunk.stop
        members = max(session.members(bound), 1)
        while begin < end:
            later = session.later(state, brief=brief, thinned=False)
            some = min(end - begin, session.most_at_once(later, members))
            arrays = session.given(bound, begin, begin + some)
            feeds = session.going_on(later, arrays, state, some, some, self._dt)
            state = session.state_of(later.run(feeds))
            begin += some
        return state

    # --- backward -------------------------------------------------------------------------------

    def _backward(
        self,
        bound: Bound,
        state: State,
        changes: Mapping[str, Array],
        chunk: range,
        sums: _Sums,
        wrt: tuple[str, ...],
    ) -> dict[str, Array]:
        """Run one chunk backward, add its derivatives, and return the derivatives by its initial values."""
        session, steps = self._session, len(chunk)
        back = self._back(state, is_last=chunk.stop == self._steps)
        feeds: dict[str, Any] = session.given(bound, chunk.start, chunk.stop)
        feeds |= self._data.rows(chunk.start, chunk.stop)
        feeds |= {change_of(self._after[name]): change for name, change in changes.items()}
        changes_before = back.run(session.going_on(back, feeds, state, steps, steps, self._dt))
        sums.add(changes_before, wrt, chunk)
        return {name: changes_before[change_of(self._before[name])] for name in changes}

    def _back(self, state: State, *, is_last: bool) -> Runnable:
        """Return the backward program of the later steps, for the last chunk or for the other chunks."""
        session = self._session
        swept = {
            self._before.get(name) or self._programs.later.input_names(InputRole.STATE)[name]
            for name, value in session.carried.items()
            if is_swept(state[name], value)
        }
        differentiation = self._differentiation if is_last else self._differentiation.before_the_end
        key = frozenset(swept), differentiation
        if key not in self._later:
            changed = {change_of(name) for name in self._after.values()} if session.swept else set()
            self._later[key] = differentiation.loaded(
                self._programs.later,
                session.swept | swept | changed,
                tuple(self._before.values()),
                tuple(self._after.values()),
            )
        return self._later[key]

    def _back_to_first(self, bound: Bound, changes: Mapping[str, Array], sums: _Sums) -> None:
        """Run the first evaluation backward."""
        session = self._session
        arrays: dict[str, Any] = session.given(bound, 0) | self._data.rows(0, 1)
        for name, value in self._held_first.items():
            arrays[change_of(value.name)] = _fitted(changes[name], value.value, session.axis)
        feeds = {e.value.name: arrays[e.value.name] for e in self._first.program.inputs}
        sums.add(
            self._first.run(feeds), () if self._constant else self._differentiation.wrt, range(1)
        )

    @cached_property
    def _held_first(self) -> dict[str, Output]:
        """Float outputs of the first evaluation that are carried into later steps."""
        outputs = {output.name: output for output in self._programs.first.outputs}
        output_names = self._programs.first.output_names(OutputRole.STATE)
        state = {name: outputs[output_names[name]] for name in self._before}
        return {name: o for name, o in state.items() if kind_of(o.value.dtype) == "f"}

    @cached_property
    def _first(self) -> Runnable:
        """Loaded backward program of the first evaluation."""
        programs, swept = self._programs, self._session.swept
        rows = first_evaluation_rows(programs.first, programs.later, programs.recorded)
        outputs = [output.name for output in self._held_first.values()]
        changed = map(change_of, outputs) if swept else ()
        return self._differentiation.before_the_end.loaded(rows, {*swept, *changed}, (), outputs)


class _Sums:
    """Sums of the objective and its derivatives over chunks. A derivative by an input over time has rows."""

    def __init__(self, steps: int, over_time: frozenset[str], front: int) -> None:
        self._steps = steps
        self._over_time = over_time
        self._front = front
        self.value: Array = np.zeros(())
        self.derivatives: dict[str, Array] = {}

    def add(
        self, chunk_derivatives: Mapping[str, Array], wrt: tuple[str, ...], chunk: range
    ) -> None:
        """Add the objective and the derivatives of one chunk to the sums."""
        self.value = self.value + chunk_derivatives[OBJECTIVE_OUTPUT]
        for name in wrt:
            change = chunk_derivatives.get(change_of(name))
            if change is None:
                continue
            if name in self._over_time:
                self._put(name, change, chunk)
            else:
                self.derivatives[name] = change + self.derivatives.get(name, 0)

    def filled(
        self, parameters: Mapping[str, Array], wrt: tuple[str, ...], swept: Collection[str]
    ) -> dict[str, Array]:
        """Return all derivatives, with zeros for inputs on which the objective does not depend."""
        members = np.shape(self.value)
        rest = {
            name: np.zeros_like(parameters[name]) for name in wrt if name not in self.derivatives
        }
        return self.derivatives | {
            name: none if name in swept else np.broadcast_to(none, (*members, *none.shape))
            for name, none in rest.items()
        }

    def _put(self, name: str, change: Array, chunk: range) -> None:
        front = (slice(None),) * self._front
        if chunk.start == 0:
            change = np.expand_dims(change, self._front)
        if name not in self.derivatives:
            own = change.shape[self._front + 1 :]
            shape = (*change.shape[: self._front], self._steps, *own)
            self.derivatives[name] = np.zeros(shape, change.dtype)
        self.derivatives[name][(*front, slice(chunk.start, chunk.stop))] = change


def _fitted(change: Array, value: Value, front: int) -> Array:
    """Sum and convert a derivative to the shape and dtype that its value has in the first evaluation."""
    shape = (*change.shape[:front], *(value.shape or ()))
    change = change.astype(value.dtype, copy=False)
    while change.ndim > len(shape):
        change = change.sum(axis=front)
    for axis in range(front, change.ndim):
        if shape[axis] == 1 and change.shape[axis] > 1:
            change = change.sum(axis=axis, keepdims=True)
    return change
