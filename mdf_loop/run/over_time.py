"""A model over time: the first evaluation, then all others in one loop of ONNX Runtime."""

from __future__ import annotations

import math
import threading
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

import numpy as np

from mdf_loop.build import Options
from mdf_loop.emit.legalise import runnable
from mdf_loop.emit.onnx_model import refuse_nothing
from mdf_loop.errors import InputError
from mdf_loop.ir import Array, Program, Value
from mdf_loop.onnx_types import numpy_dtype
from mdf_loop.passes import drop_unused
from mdf_loop.passes.record_every import record_every
from mdf_loop.randomness import OVER_TIME, refuse_random
from mdf_loop.reading.memory import PLACES
from mdf_loop.reading.over_time import EXECUTED, OverTime, after, before, label
from mdf_loop.run.device import Device
from mdf_loop.run.execution_list import Sets, sets_that_ran
from mdf_loop.run.overseeing.snapshot import Snapshot
from mdf_loop.run.recording.lengths import RowShapes
from mdf_loop.run.session import Session
from mdf_loop.run.states import (
    State,
    checked_state,
    in_type,
    is_swept,
    without_members,
)
from mdf_loop.run.swept import SweptSession

SMALL_ROWS = 4096
"""Bytes of a step's rows up to which it is cheaper to give all of them than to leave some out
(measured: FitzHugh-Nagumo, one number to 100 000)."""

Which: TypeAlias = Literal["first", "later", "thinned"]
"""A program of a model over time: the last one gives rows of every so-many-th step only."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """How far a model is run: `steps` evaluations, `dt` seconds between one and the next.

    `arrays` are inputs and settings; those `over_time` have a row for every step. `thinned` is how
    many evaluations lie from one row to the next that is looked at.
    """

    arrays: Mapping[str, Array]
    over_time: frozenset[str]
    steps: int
    dt: float | None
    thinned: int = 1
    state: State | None = None
    executed: bool = False

    @property
    def first(self) -> int:
        """The number of the first evaluation."""
        return 0 if self.state is None else int(self.state["step"])


class TimedSession:
    """The two programs of a model over time, ready to run for any number of steps.

    `swept` are inputs with an axis of members in front; then all outputs have it.
    """

    def __init__(
        self, programs: OverTime, options: Options, device: str, swept: Collection[str] = ()
    ) -> None:
        refuse_nothing(programs.first.name, programs.recorded)
        refuse_random(OVER_TIME, drop_unused(programs.first), drop_unused(programs.later))
        self.programs = programs
        self.options = options
        self.swept = frozenset(swept)
        self.axis = int(bool(swept))
        self.row_shapes = _row_shapes(programs)
        self._wanted_device = device
        self._sessions: dict[tuple[Which, frozenset[str]], Session] = {}
        self._lock = threading.Lock()
        inputs = {entry.value.name: entry.value for entry in programs.later.inputs}
        self.carried = {label(held): inputs[before(held)] for held in programs.states}
        """What is carried by name, in the type that holds for all steps of one run."""
        self._per_member = frozenset(label(held) for held in programs.states if held[0] in PLACES)
        """Everything that a sweep may change, except for what the schedule counts."""

    @property
    def first(self) -> Session:
        """The first evaluation."""
        return self._made("first", self.swept)

    def later(self, held: State, *, thinned: bool) -> Session:
        """The loop over further evaluations, from what is held."""
        swept = {
            before(state)
            for state in self.programs.states
            if is_swept(held[label(state)], self.carried[label(state)])
        }
        return self._made("thinned" if thinned else "later", self.swept | swept)

    def make_ready(self) -> None:
        """Compile both programs now, so that what cannot be compiled is said before a run."""
        for which in ("first", "later"):
            self._made(which, self.swept)

    def _made(self, which: Which, swept: frozenset[str]) -> Session:
        with self._lock:
            if (which, swept) not in self._sessions:
                self._sessions[which, swept] = self._session(self._program(which), swept)
            return self._sessions[which, swept]

    def _program(self, which: Which) -> Program:
        if which == "thinned":
            return record_every(self.programs.later)
        return self.programs.first if which == "first" else self.programs.later

    def _session(self, program: Program, swept: Collection[str]) -> Session:
        if swept:
            return SweptSession(program, swept, self.options, self._wanted_device)
        return Session(runnable(program, self.options), self._wanted_device)

    @property
    def has_small_rows(self) -> bool:
        """Whether what is recorded of a step is surely small."""
        recorded = set(self.programs.recorded)
        values = [value for name, value in self.programs.later.outputs if name in recorded]
        return sum(map(_row_bytes, values)) <= SMALL_ROWS

    @property
    def dtypes(self) -> dict[str, str]:
        """The dtypes of what is recorded, by name."""
        return {name: value.dtype for name, value in self.programs.later.outputs}

    @property
    def device(self) -> Device:
        """Where the model runs."""
        with self._lock:
            made = tuple(self._sessions.values())
        return (made[-1] if made else self.first).device

    def checked(self, wanted: Wanted) -> Wanted:
        """What is wanted, with the state to go on from in the types of this model.

        Raises:
            InputError: the state that was given is none of this model.
        """
        self._refuse_sets_of_members(wanted)
        if wanted.state is None:
            return wanted
        (members,) = self._members(wanted) or (None,)
        state = checked_state(wanted.state, self.carried, members, self._per_member)
        return replace(wanted, state=state)

    # --- what a program is given ----------------------------------------------------------------

    def given(self, wanted: Wanted, first: int, last: int | None = None) -> dict[str, Array]:
        """The inputs of one evaluation of the run, or of those up to `last`."""
        given = dict(wanted.arrays)
        for name in wanted.over_time:
            front = (slice(None),) * int(name in self.swept)
            given[name] = given[name][(*front, first if last is None else slice(first, last))]
        return given

    def going_on(
        self, session: Session, wanted: Wanted, held: State, done: int, steps: int, rows: int
    ) -> dict[str, Array]:
        """What the loop over the next evaluations is given."""
        given = self.given(wanted, done, done + steps)
        given["steps"] = np.array(rows, np.int64)
        given["every"] = np.array(steps // rows, np.int64)
        if wanted.dt is not None:
            given["dt"] = np.array(wanted.dt, self.options.precision)
        given |= {before(state): held[label(state)] for state in self.programs.states}
        names = (entry.value.name for entry in session.program.inputs)
        return {name: given[name] for name in names}

    # --- what a program gives -------------------------------------------------------------------

    @property
    def decided_while_running(self) -> bool:
        """Whether it is only known while running which nodes run after the first evaluation."""
        return self.programs.plans[1] is None

    def sets(self, made: Mapping[str, Array], which: int) -> Sets | None:
        """Which nodes ran: in the first evaluation (0), or in each further one (1)."""
        plan = self.programs.plans[which]
        if plan is not None or EXECUTED not in made:
            return plan
        flags = made[EXECUTED]
        return sets_that_ran(flags.reshape(-1, flags.shape[-1]), self.programs.schedule)

    def held(self, made: Mapping[str, Array]) -> State:
        """What is carried on; a sweep's members share what the schedule counts, if they can."""
        held = {}
        for state in self.programs.states:
            name, array = label(state), made[after(state)]
            if self.swept and name not in self._per_member:
                array = without_members(array)
            value = self.carried[name]
            swept = bool(self.swept) and (name in self._per_member or is_swept(array, value))
            held[name] = in_type(array, value, int(swept))
        return held

    def restored(self, parts: Snapshot, wanted: Wanted) -> State:
        """What was carried on, as a checkpoint has it."""
        members = self._members(wanted)
        return {
            name: parts.value(name, value, members if is_swept(parts[name], value) else ())
            for name, value in self.carried.items()
        }

    def _members(self, wanted: Wanted) -> tuple[int, ...]:
        """How many members a sweep has."""
        return (len(wanted.arrays[min(self.swept)]),) if self.swept else ()

    def _refuse_sets_of_members(self, wanted: Wanted) -> None:
        if self.swept and wanted.executed and None in self.programs.plans:
            raise InputError(
                "a sweep has no execution_list where that is decided while running: "
                "each of its members would have its own",
                hint="ask for it in a run of one member",
            )


def _row_shapes(programs: OverTime) -> RowShapes:
    """What the programs say of the rows of everything that is recorded."""
    first, later = dict(programs.first.outputs), dict(programs.later.outputs)
    stacks = {name: later[name].shape for name in programs.recorded if name in first}
    rows = {name: None if shape is None else shape[1:] for name, shape in stacks.items()}
    return RowShapes.of({name: first[name].shape for name in rows}, rows)


def _row_bytes(stack: Value) -> float:
    """The bytes of a row of what is recorded; infinite if nobody knows."""
    own = stack.shape[1:] if stack.shape else (stack.name,)
    known = [extent for extent in own if isinstance(extent, int)]
    if len(known) < len(own) or stack.dtype == "string":
        return math.inf
    return math.prod(known) * numpy_dtype(stack.dtype).itemsize


def checked_steps(steps: Any, dt: Any, every: Any = 1) -> tuple[int, float | None, int]:
    """The number of evaluations, the time between them, and how many lie from row to row.

    Raises:
        InputError: `steps` or `every` is no whole number above 0, or `dt` is no finite number.
    """
    for what, number in (("steps", steps), ("every", every)):
        whole = isinstance(number, int | np.integer) and not isinstance(number, bool)
        if not whole or not 1 <= number <= np.iinfo(np.int64).max:
            raise InputError(f"{what} must be a whole number above 0, not {number!r}")
    if dt is None:
        return int(steps), None, int(every)
    number = isinstance(dt, int | float | np.integer | np.floating) and not isinstance(dt, bool)
    if not number or not abs(dt) <= np.finfo(np.float64).max:
        raise InputError(f"dt must be a number of seconds, not {dt!r}", hint="e.g. dt=5e-5")
    return int(steps), float(dt), int(every)


def refuse_without_steps(**given: Any) -> None:
    """Refuse what only a run over time takes."""
    for name, value in given.items():
        if value is not None:
            raise InputError(
                f"{name} needs steps: it is about a run over time", hint="give steps too"
            )
