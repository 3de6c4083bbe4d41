"""A model over time: its first evaluation, then one loop whose body is one evaluation.

    first:  y, states = evaluate(inputs)                       # no time has passed
    later:  for i in range(steps):
                y, states = evaluate(inputs, states, dt)       # states are carried, y recorded

What is carried is found by reading: every parameter whose old value something reads, every output
that an edge brings back. A carried value gets the dtype and shape that hold for all steps.

Source: modeci_mdf.execution_engine.EvaluableGraph.evaluate (0.4.15), called again and again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from mdf_loop.build import Builder, Options
from mdf_loop.check import check
from mdf_loop.errors import CarryShapeError, CarryTypeError, Poisoned, raise_findings
from mdf_loop.ir import Array, Carried, Loop, Program, Recorded, Shape, Value
from mdf_loop.lower import Term, tensor
from mdf_loop.reading.document import Document
from mdf_loop.reading.graph import GraphReader
from mdf_loop.reading.node import Later
from mdf_loop.reading.program import ProgramReader

State = tuple[str, str, str]
"""What is carried: `parameter` or `output`, the node's id, its own id."""

_ROUNDS = 4
"""How often carried values may widen: first dtypes, then shapes, through one chain of states."""


def before(state: State) -> str:
    """The input of a program that takes the state."""
    kind, node, item = state
    return f"{kind} {node}.{item} before"


def after(state: State) -> str:
    """The output of a program that gives the state."""
    kind, node, item = state
    return f"{kind} {node}.{item} after"


@dataclass(frozen=True, slots=True)
class OverTime:
    """The two programs of a model over time.

    `first` gives recorded values, then states; `later` takes inputs, states, `steps` and `dt`, and
    gives recorded values with an axis of time, then states.
    """

    first: Program
    later: Program
    recorded: tuple[str, ...]
    states: tuple[State, ...]


def read_over_time(
    document: Document,
    arrays: Mapping[str, Array],
    record: Sequence[str],
    *,
    options: Options,
    has_dt: bool,
) -> OverTime:
    """Read a model as its first evaluation and a loop over all others.

    Raises:
        LoopError: everything that is wrong with the model, at once.
    """
    first = ProgramReader(document, options)
    first.declare(arrays)
    graph = first.read_graph(first.b)
    outputs = first.outputs(graph, record)
    raise_findings(first.b.findings.found)
    known = _Known(first.b, graph)
    for _ in range(_ROUNDS):
        later = _LaterReader(document, options, known)
        program = later.read_loop_over(arrays, record, has_dt)
        if not later.widened():
            break
    states = {after(state): known.value(state) for state in later.carried}
    programs = (first.program({**outputs, **states}), program)
    for made in programs:
        raise_findings(check(made))
    return OverTime(*programs, tuple(outputs), tuple(later.carried))


class _Known:
    """What the first evaluation made of each state, and the types that all steps share."""

    def __init__(self, b: Builder, graph: GraphReader) -> None:
        self.b = b
        self.graph = graph
        self.types: dict[State, tuple[str, Shape]] = {}

    def value(self, state: State) -> Value:
        """The state after the first evaluation."""
        return tensor(self.b, current(self.graph, state))

    def type(self, state: State) -> tuple[str, Shape]:
        """The dtype and shape of the state in the loop."""
        if state not in self.types:
            value = self.value(state)
            self.types[state] = (value.dtype, value.shape)
        return self.types[state]


def current(graph: GraphReader, state: State) -> Term:
    """What a parameter or an output port holds after an evaluation."""
    kind, node, item = state
    if node not in graph.readers:
        raise Poisoned
    if kind == "parameter":
        return graph.readers[node].scope.get(item)
    if (node, item) not in graph.outputs:
        raise Poisoned
    return graph.outputs[node, item]


class _LaterReader(ProgramReader):
    """Reads the loop; states are carried as they are asked for."""

    def __init__(self, document: Document, options: Options, known: _Known) -> None:
        super().__init__(document, options)
        self.known = known
        self.carried: dict[State, Value] = {}
        self.leaves: dict[State, Value] = {}

    def read_loop_over(
        self, arrays: Mapping[str, Array], record: Sequence[str], has_dt: bool
    ) -> Program:
        """The loop as a program."""
        self.declare(arrays)
        steps = self.declare_one("steps", "int64", ())
        dt = self.declare_one("dt", self.b.float_dtype, ()) if has_dt else None
        self.body = self.b.body()
        iteration = self.body.new("int64", (), "step")
        go = self.body.new("bool", (), "go")
        later = Later(self._old("parameter"), self._old("output"), dt)
        graph = self.read_graph(self.body, later)
        rows = self.outputs(graph, record)
        raise_findings(self.b.findings.found)
        self._leave(graph)
        finals = {s: self.b.new(v.dtype, v.shape, after(s)) for s, v in self.carried.items()}
        stacks = {name: self._stack(name, row) for name, row in rows.items()}
        loop = Loop(
            name="time",
            trip_count=steps,
            condition=None,
            iteration=iteration,
            condition_in=go,
            condition_out=None,
            carried=tuple(
                Carried(self.inputs[before(s)].value, enter, self.leaves[s], finals[s], s[2])
                for s, enter in self.carried.items()
            ),
            recorded=tuple(Recorded(row, stacks[name], name) for name, row in rows.items()),
            ops=tuple(self.body.ops),
            where=self.document.where,
        )
        self.b.append(loop)
        return self.program({**stacks, **{after(s): v for s, v in finals.items()}})

    def _old(self, kind: str) -> Callable[[str, str], Term]:
        def carried(node: str, item: str) -> Value:
            state = (kind, node, item)
            if state not in self.carried:
                dtype, shape = self.known.type(state)
                self.declare_one(before(state), dtype, shape)
                self.carried[state] = self.body.new(dtype, shape, f"{node}.{item}")
            return self.carried[state]

        return carried

    def _leave(self, graph: GraphReader) -> None:
        """What each state becomes; asking for one may carry another."""
        while waiting := [state for state in self.carried if state not in self.leaves]:
            for state in waiting:
                self.leaves[state] = tensor(self.body, current(graph, state))

    def _stack(self, name: str, row: Value) -> Value:
        shape = None if row.shape is None else ("time", *row.shape)
        return self.b.new(row.dtype, shape, name)

    def widened(self) -> bool:
        """Whether a state needs a wider dtype or shape than it was read with."""
        wider: dict[State, tuple[str, Shape]] = {}
        for state, enter in self.carried.items():
            kind, node, item = state
            with self.b.at(f"{self.document.where}.nodes['{node}'].{_PLACES[kind]}['{item}']"):
                wider[state] = _joined(item, enter, self.leaves[state])
        changed = any(wider[s] != (v.dtype, v.shape) for s, v in self.carried.items())
        self.known.types.update(wider)
        return changed


_PLACES = {"parameter": "parameters", "output": "output_ports"}


def _joined(name: str, enter: Value, leave: Value) -> tuple[str, Shape]:
    """The dtype and shape that hold for a state before and after a step."""
    try:
        dtype = str(np.result_type(enter.dtype, leave.dtype))
    except TypeError:
        raise CarryTypeError(f"'{name}' changes from {enter.type} to {leave.type}") from None
    if enter.shape is None or leave.shape is None or enter.shape == leave.shape:
        return dtype, enter.shape
    known = (tuple(d if isinstance(d, int) else 1 for d in v.shape or ()) for v in (enter, leave))
    try:
        return dtype, np.broadcast_shapes(*known)
    except ValueError:
        raise CarryShapeError(
            f"'{name}' changes its shape over time: {enter.type} becomes {leave.type}",
            hint="give it an initial value of the shape that it has later",
        ) from None
