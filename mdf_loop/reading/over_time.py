"""A model over time: its first evaluation, then one loop whose body is one evaluation.

    first:  y, states = evaluate(inputs)                       # no time has passed
    later:  for i in range(steps):
                y, states = evaluate(inputs, states, dt)       # states are carried, y recorded

What is carried is found by reading: every parameter whose old value something reads, every output
that an edge brings back, what scheduler conditions count. A carried value gets the dtype and shape
that hold for all steps.

Source: modeci_mdf.execution_engine.EvaluableGraph.evaluate (0.4.15), called again and again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mdf_loop.build import Options
from mdf_loop.check import check
from mdf_loop.errors import Finding, raise_findings
from mdf_loop.ir import Loop, Program, Recorded, Shape, Value
from mdf_loop.lower import Term, tensor
from mdf_loop.onnx_types import is_tensor
from mdf_loop.reading.document import Document
from mdf_loop.reading.graph import GraphReader
from mdf_loop.reading.inputs import Given
from mdf_loop.reading.memory import PLACES, LoopMemory, State
from mdf_loop.reading.names import Chosen
from mdf_loop.reading.passes_loop import SETS
from mdf_loop.reading.program import ProgramReader, current
from mdf_loop.reading.schedule.plan import Schedule, Sets
from mdf_loop.reading.settings import Settings
from mdf_loop.reading.widened import widened_findings

EXECUTED = "executed"
"""The output that says which nodes ran, where that is decided while running (see `SETS`)."""


def before(state: State) -> str:
    """The input of a program that takes the state."""
    return f"{label(state)} before"


def after(state: State) -> str:
    """The output of a program that gives the state."""
    return f"{label(state)} after"


def label(state: State) -> str:
    """What a state is called outside of programs."""
    kind, node, item = state
    return f"{kind} {node}.{item}" if kind in PLACES else f"{kind} {node}{item}"


@dataclass(frozen=True, slots=True)
class OverTime:
    """The two programs of a model over time.

    `first` gives recorded values, then states; `later` takes inputs, states, `steps` and `dt`, and
    gives recorded values with an axis of time, then states. `plans` are the orders of execution in
    both programs, None where that is decided while running. `types` are what the places of the
    model became in the later one. `watched` are floats by the name of the model, and which output
    each is: in the first program, and in the later one.
    """

    first: Program
    later: Program
    recorded: tuple[str, ...]
    watched: tuple[Mapping[str, str], Mapping[str, str]]
    states: tuple[State, ...]
    schedule: Schedule
    plans: tuple[Sets | None, Sets | None]
    types: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class What:
    """What of a model over time is read."""

    document: Document
    given: Given
    settings: Settings
    chosen: Chosen
    options: Options
    has_dt: bool
    executed: bool = False


def read_over_time(what: What) -> OverTime:
    """Read a model as its first evaluation and a loop over all others.

    Raises:
        LoopError: everything that is wrong with the model, at once.
    """
    first = _FirstReader(what)
    while (later := _LaterReader(what, first)).read():
        continue  # some state takes a wider type than it has entered with
    program = later.finish()
    states = tuple(later.carrying.enters)
    raise_findings(_not_arrays(what.document, later.carrying.enters))
    programs = (first.finish(states), program)
    own = {later.inputs[before(s)].value: first.state(s).shape for s in states}
    shapes = {value: shape for value, shape in own.items() if shape != value.shape}
    for made in programs:
        raise_findings(check(made))
    raise_findings(
        (
            *widened_findings(programs[0], first.b),
            *widened_findings(programs[1], later.b, shapes),
        )
    )
    plans = (first.graph.plan, later.graph.plan)
    return OverTime(
        *programs,
        later.recorded,
        (first.watched, later.watched),
        states,
        first.graph.schedule,
        plans,
        later.b.types,
    )


def _not_arrays(document: Document, enters: Mapping[State, Value]) -> Iterator[Finding]:
    """What is kept from one step to the next and is no array: no state file could hold it."""
    for (kind, node, name), value in enters.items():
        if not is_tensor(value.dtype):
            yield Finding(
                "UnsupportedError",
                f"'{name}' of node '{node}' is {value.dtype}, which cannot be kept from one step "
                "to the next",
                f"{document.where}.nodes['{node}'].{PLACES[kind]}['{name}']",
                "keep an array, or carry it in a loop inside of one evaluation",
            )


class _FirstReader(ProgramReader):
    """Reads the first evaluation."""

    def __init__(self, what: What) -> None:
        super().__init__(what.document, what.options, what.settings, what.chosen)
        self.declare(what.given)
        self.graph = self.read_graph(self.memory)
        self.recorded = self.outputs(self.graph)
        self.raise_found()
        self.watched = self.watch(self.graph, self.recorded) if what.chosen.watch else {}
        if what.executed and self.graph.plan is None:
            self.recorded[EXECUTED] = tensor(self.b, self.memory.get(SETS))

    def state(self, state: State) -> Value:
        """What is held after the first evaluation."""
        return tensor(self.b, current(self.graph, state))

    def finish(self, states: Sequence[State]) -> Program:
        """The program that also gives these states."""
        return self.program({**self.recorded, **{after(s): self.state(s) for s in states}})


class _LaterReader(ProgramReader):
    """Reads the loop; states are carried as they are asked for."""

    def __init__(self, what: What, first: _FirstReader) -> None:
        super().__init__(what.document, what.options, what.settings, what.chosen)
        self.what = what
        self.first = first
        self.given_rows: dict[str, Value] = {}
        self.declare(what.given, what.given.over_time)
        self.steps = self.declare_one("steps", "int64", ())
        self.dt = self.declare_one("dt", self.b.float_dtype, ()) if what.has_dt else None
        self.body = self.b.body()
        self.iteration = self.body.new("int64", (), "step")
        nodes = [node.id for node in what.document.graph.nodes]
        surely = [node for node in nodes if first.memory.ran(node) is True]
        self.carrying = LoopMemory(self.body, first.memory.types, self._initial, surely)

    def _initial(self, state: State) -> Value:
        types = self.carrying.types
        if state[0] in PLACES and state not in types.of:
            types.widen(state, self.first.state(state))
        return self.declare_one(before(state), *types.type(state))

    def supply(self, node: Any, port: Any, where: str) -> Term:
        """What an open port holds: the row of this step, if it was given over time."""
        name = self.ports[node.id, port.id].name
        if name in self.what.given.over_time and name not in self.given_rows:
            rows = self.inputs[name].value
            self.given_rows[name] = self.body.op("Gather", rows, self.iteration, axis=0)
        return self.given_rows.get(name) or super().supply(node, port, where)

    def read(self) -> bool:
        """Read the body; whether it must be read again, with wider types."""
        self.graph: GraphReader = self.read_graph(self.carrying, self.dt)
        self.rows = self.outputs(self.graph)
        self.watched = self.watch(self.graph, self.rows) if self.what.chosen.watch else {}
        if self.what.executed and self.graph.plan is None:
            self.rows[EXECUTED] = tensor(self.body, self.carrying.get(SETS))
        self.raise_found()
        return self.carrying.leave(self.document.where)

    def finish(self) -> Program:
        """The loop as a program."""
        carried = self.carrying.carried(self.b, after)
        stacks = {name: self._stack(name, row) for name, row in self.rows.items()}
        self.b.append(
            Loop(
                name="time",
                trip_count=self.steps,
                condition=None,
                iteration=self.iteration,
                condition_in=self.body.new("bool", (), "go"),
                condition_out=None,
                carried=carried,
                recorded=tuple(
                    Recorded(row, stacks[name], name) for name, row in self.rows.items()
                ),
                ops=tuple(self.body.ops),
                where=self.document.where,
            )
        )
        self.recorded = tuple(stacks)
        finals = zip(self.carrying.enters, carried, strict=True)
        return self.program({**stacks, **{after(state): c.final for state, c in finals}})

    def _stack(self, name: str, row: Value) -> Value:
        shape: Shape = None if row.shape is None else ("time", *row.shape)
        return self.b.new(row.dtype, shape, name)
