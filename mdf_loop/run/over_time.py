"""A model over time: the first evaluation, then all others in one loop of ONNX Runtime."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from mdf_loop.build import Options
from mdf_loop.emit.legalise import runnable
from mdf_loop.emit.onnx_model import refuse_nothing
from mdf_loop.errors import InputError
from mdf_loop.ir import Array, Program, Value
from mdf_loop.passes.record_every import record_every
from mdf_loop.reading.memory import PLACES
from mdf_loop.reading.over_time import EXECUTED, OverTime, after, before, label
from mdf_loop.run.device import Device
from mdf_loop.run.execution_list import ExecutionList, Sets, sets_that_ran
from mdf_loop.run.missing import with_missing
from mdf_loop.run.results import Axis
from mdf_loop.run.session import Session
from mdf_loop.run.states import (
    State,
    checked_state,
    clock,
    in_type,
    is_swept,
    times,
    without_members,
)
from mdf_loop.run.swept import SweptSession


@dataclass(frozen=True, slots=True)
class Wanted:
    """How far a model is run: `steps` evaluations, of which every `every`-th is recorded.

    `arrays` are inputs and settings; those `over_time` have a row for every step.
    """

    arrays: Mapping[str, Array]
    over_time: frozenset[str]
    steps: int
    dt: float | None
    every: int = 1
    state: State | None = None
    executed: bool = False


@dataclass(frozen=True, slots=True)
class Ran:
    """Rows of all outputs, what is carried on, and which nodes ran."""

    rows: Mapping[str, Array]
    axis: Axis
    state: State
    execution_list: ExecutionList | None
    device: Device


class TimedSession:
    """The two programs of a model over time, ready to run for any number of steps.

    `swept` are inputs with an axis of members in front; then all outputs have it.
    """

    def __init__(
        self, programs: OverTime, options: Options, device: str, swept: Collection[str] = ()
    ) -> None:
        refuse_nothing(programs.first.name, programs.recorded)
        self.programs = programs
        self.options = options
        self.swept = frozenset(swept)
        self._wanted_device = device
        self._sessions: dict[tuple[bool, frozenset[str]], Session] = {}

    @cached_property
    def _first(self) -> Session:
        return self._session(self.programs.first, self.swept)

    @cached_property
    def _carried(self) -> dict[str, Value]:
        """What is carried by name, in the type that holds for all steps of one run."""
        inputs = {entry.value.name: entry.value for entry in self.programs.later.inputs}
        return {label(held): inputs[before(held)] for held in self.programs.states}

    @cached_property
    def _per_member(self) -> frozenset[str]:
        """Everything that a sweep may change, except for what the schedule counts."""
        return frozenset(label(held) for held in self.programs.states if held[0] in PLACES)

    def _later(self, state: State, *, thinned: bool) -> Session:
        """The loop over further evaluations, from a state."""
        swept = {
            before(held)
            for held in self.programs.states
            if is_swept(state[label(held)], self._carried[label(held)])
        }
        key = (thinned, self.swept | swept)
        if key not in self._sessions:
            later = self.programs.later
            self._sessions[key] = self._session(record_every(later) if thinned else later, key[1])
        return self._sessions[key]

    def _session(self, program: Program, swept: Collection[str]) -> Session:
        if swept:
            return SweptSession(program, swept, self.options, self._wanted_device)
        return Session(runnable(program, self.options), self._wanted_device)

    # --- running --------------------------------------------------------------------------------

    def run(self, wanted: Wanted) -> Ran:
        """Evaluate the model step by step."""
        self._refuse_sets_of_members(wanted)
        rows, sets = _Rows(int(bool(self.swept))), []
        done = 0
        if wanted.state is None:
            session = self._first
            made = session.run(self._given(wanted, 0))
            state: State = {"step": np.array(1), "time": np.array(0.0), **self._held(made)}
            rows.add({name: np.expand_dims(made[name], rows.axis) for name in self._recorded(made)})
            sets.append(self._sets(made, self.programs.plans[0]))
            done = 1
        else:
            state = checked_state(
                wanted.state, self._carried, self._members(wanted), self._per_member
            )
        axis = _axis(wanted, state, int(state["step"]) - done)
        for chunk in self._chunks(wanted, int(state["step"]), wanted.steps - done):
            session = self._later(state, thinned=chunk.every > 1)
            made = session.run(self._going_on(session, wanted, state, done, chunk))
            state = {**clock(state, wanted.dt, chunk.steps), **self._held(made)}
            recorded = {name: made[name] for name in self._recorded(made)}
            rows.add(recorded if chunk.kept else {n: rows.none_of(a) for n, a in recorded.items()})
            sets += [self._sets(made, self.programs.plans[1])] * chunk.steps
            done += chunk.steps
        executed = None if None in sets else tuple(s for s in sets if s is not None)
        return Ran(with_missing(rows.joined()), axis, state, executed, session.device)

    def _members(self, wanted: Wanted) -> int | None:
        """How many runs a sweep has."""
        return len(wanted.arrays[min(self.swept)]) if self.swept else None

    def _given(self, wanted: Wanted, first: int, last: int | None = None) -> dict[str, Array]:
        """The inputs of one evaluation, or of those up to `last`."""
        given = dict(wanted.arrays)
        for name in wanted.over_time:
            front = (slice(None),) * int(name in self.swept)
            given[name] = given[name][(*front, first if last is None else slice(first, last))]
        return given

    def _going_on(
        self, session: Session, wanted: Wanted, state: State, done: int, chunk: _Chunk
    ) -> dict[str, Array]:
        """What the loop over the next evaluations is given."""
        given = self._given(wanted, done, done + chunk.steps)
        given["steps"] = np.array(chunk.rows, np.int64)
        given["every"] = np.array(chunk.every, np.int64)
        if wanted.dt is not None:
            given["dt"] = np.array(wanted.dt, self.options.precision)
        given |= {before(held): state[label(held)] for held in self.programs.states}
        names = (entry.value.name for entry in session.program.inputs)
        return {name: given[name] for name in names}

    def _chunks(self, wanted: Wanted, number: int, left: int) -> list[_Chunk]:
        """Runs of the loop that do the evaluations from `number` on."""
        if wanted.executed and self.programs.plans[1] is None:
            return [_Chunk(1, 1, kept=k % wanted.every == 0) for k in range(number, number + left)]
        if wanted.every == 1:
            return [_Chunk(left, 1)] if left else []
        chunks = []
        lead = -number % wanted.every + 1
        if lead < wanted.every and lead <= left:
            chunks.append(_Chunk(1, lead))
            left -= lead
        full, rest = divmod(left, wanted.every)
        chunks += [_Chunk(full, wanted.every)] if full else []
        return chunks + ([_Chunk(1, rest, kept=False)] if rest else [])

    # --- what a program gives -------------------------------------------------------------------

    def _recorded(self, made: Mapping[str, Array]) -> list[str]:
        states = {after(held) for held in self.programs.states}
        return [name for name in made if name not in states and name != EXECUTED]

    def _sets(self, made: Mapping[str, Array], plan: Sets | None) -> Sets | None:
        if plan is not None or EXECUTED not in made:
            return plan
        flags = made[EXECUTED]
        return sets_that_ran(flags.reshape(-1, flags.shape[-1]), self.programs.schedule)

    def _held(self, made: Mapping[str, Array]) -> State:
        """What is carried on; a sweep's members share what the schedule counts, if they can."""
        held = {}
        for state in self.programs.states:
            name, array = label(state), made[after(state)]
            if self.swept and name not in self._per_member:
                array = without_members(array)
            value = self._carried[name]
            swept = bool(self.swept) and (name in self._per_member or is_swept(array, value))
            held[name] = in_type(array, value, int(swept))
        return held

    def _refuse_sets_of_members(self, wanted: Wanted) -> None:
        if self.swept and wanted.executed and None in self.programs.plans:
            raise InputError(
                "a sweep has no execution_list where that is decided while running: "
                "each of its members would have its own",
                hint="ask for it in a run of one member",
            )


def _axis(wanted: Wanted, state: State, first: int) -> Axis:
    """The axis of time: of the rows of a run whose first evaluation has the number `first`."""
    numbers = np.arange(first, first + wanted.steps)
    numbers = numbers[numbers % wanted.every == 0]
    if wanted.dt is None:
        return Axis("time", {"step": numbers})
    return Axis("time", {"time": times(state, wanted.dt, numbers)})


@dataclass(frozen=True, slots=True)
class _Chunk:
    """One run of the loop: `rows` rows, each after `every` evaluations."""

    rows: int
    every: int
    kept: bool = True

    @property
    def steps(self) -> int:
        return self.rows * self.every


class _Rows:
    """Rows of outputs along the axis of time, put together from parts."""

    def __init__(self, axis: int) -> None:
        self.axis = axis
        self.parts: list[Mapping[str, Array]] = []

    def add(self, part: Mapping[str, Array]) -> None:
        """Add rows; a flag that is absent holds in all of them."""
        self.parts.append(part)

    def none_of(self, rows: Array) -> Array:
        """No rows, but of the same type."""
        return rows[(slice(None),) * self.axis + (slice(0),)]

    def joined(self) -> dict[str, Array]:
        """All rows, in the dtype and row shape that hold for all of them."""
        names = dict.fromkeys(name for part in self.parts for name in part)
        return {name: self._joined(name) for name in names}

    def _joined(self, name: str) -> Array:
        parts = [part[name] if name in part else self._true(part) for part in self.parts]
        if len(parts) == 1:
            return parts[0]
        own = [part.shape[self.axis + 1 :] for part in parts]
        row = np.broadcast_shapes(*own)
        fitted = [
            np.broadcast_to(
                _deepened(part, len(row), self.axis + 1), (*part.shape[: self.axis + 1], *row)
            )
            for part in parts
        ]
        in_front = [np.moveaxis(part, self.axis, 0) for part in fitted]  # as they lie in memory
        return np.moveaxis(np.concatenate(in_front), 0, self.axis)

    def _true(self, part: Mapping[str, Array]) -> Array:
        some = next(iter(part.values()))
        return np.ones(some.shape[: self.axis + 1], bool)


def _deepened(part: Array, rank: int, front: int) -> Array:
    """The rows with as many axes of their own as others have."""
    missing = rank - (part.ndim - front)
    return part.reshape(*part.shape[:front], *(1,) * missing, *part.shape[front:])


def checked_steps(steps: Any, dt: Any, every: Any = 1) -> tuple[int, float | None, int]:
    """The number of evaluations, the time between them, and how many lie from row to row.

    Raises:
        InputError: `steps` or `every` is no whole number above 0, or `dt` is no finite number.
    """
    for what, number in (("steps", steps), ("every", every)):
        whole = isinstance(number, int | np.integer) and not isinstance(number, bool)
        if not whole or number < 1:
            raise InputError(f"{what} must be a whole number above 0, not {number!r}")
    if dt is None:
        return int(steps), None, int(every)
    number = isinstance(dt, int | float | np.number) and not isinstance(dt, bool)
    if not number or not np.isfinite(dt):
        raise InputError(f"dt must be a number of seconds, not {dt!r}", hint="e.g. dt=5e-5")
    return int(steps), float(dt), int(every)


def refuse_without_steps(**given: Any) -> None:
    """Refuse what only a run over time takes."""
    for name, value in given.items():
        if value is not None:
            raise InputError(
                f"{name} needs steps: it is about a run over time", hint="give steps too"
            )
