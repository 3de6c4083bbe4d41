"""The parts of an outline: frozen data, everything a picture or an explanation says of a model.

Expressions are kept as the modeller wrote them. `type` is a text such as `float64[time, n]`;
it is empty where nothing is known. `path` is the place in the MDF document.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class PortOutline:
    """An input port (with its default) or an output port (with its value expression)."""

    id: str
    path: str
    type: str = ""
    default: Any | None = None
    value: Any | None = None


@dataclass(frozen=True, slots=True)
class ItemOutline:
    """A parameter or a function of a node: what computes."""

    id: str
    path: str
    value: Any | None = None
    function: str = ""
    arguments: tuple[tuple[str, Any], ...] = ()
    initial: Any | None = None
    derivative: Any | None = None
    conditions: tuple[tuple[Any, Any], ...] = ()
    type: str = ""
    stateful: bool = False
    reads: tuple[str, ...] = ()

    @property
    def constant(self) -> bool:
        """Whether this is a plain number, list or text that nothing changes."""
        changes = self.function or self.conditions or self.stateful or self.reads
        return self.value is not None and not changes


@dataclass(frozen=True, slots=True)
class ArgumentOutline:
    """A trip count or a start condition: its expression, and its value if that is fixed."""

    expression: Any
    value: Any | None = None


@dataclass(frozen=True, slots=True)
class CarriedOutline:
    """A carried value: `enter` is `initial` first, then what the last iteration's `leave` was.

    `ports` are the output ports of the node that give the final value.
    """

    initial: Any | None
    enter: str
    leave: str
    ports: tuple[str, ...] = ()
    type: str = ""
    initial_value: Any | None = None


@dataclass(frozen=True, slots=True)
class RecordedOutline:
    """A scan output: the body's output of every iteration, stacked on a new first axis."""

    name: str
    ports: tuple[str, ...] = ()
    type: str = ""


@dataclass(frozen=True, slots=True)
class CaptureOutline:
    """A value that the body reads from outside: where it comes from, its value if it is fixed.

    `kind` says what it is there: input port, parameter, function, argument, carried value,
    iteration number or condition; `owner` is the id of the node (or loop) that has it.
    """

    name: str
    kind: str
    owner: str
    path: str
    value: Any | None = None
    type: str = ""


@dataclass(frozen=True, slots=True)
class ResultOutline:
    """Something else that a loop tells and a port takes, such as the iterations run."""

    name: str
    ports: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LoopOutline:
    """A loop: mode, arguments, carried values, recorded values, captures, body.

    `kind` is one of the five operating modes: for, while, do-while, for-while, endless; or it is
    "over time": the body is the whole graph, which is evaluated once for each time step.
    `continues` is the body's condition as it is written there; `notes` say what is not known.
    """

    id: str
    owner: str
    path: str
    kind: str
    trip_count: ArgumentOutline | None
    start: ArgumentOutline | None
    iteration: str
    condition_in: str
    continue_name: str
    continues: str
    carried: tuple[CarriedOutline, ...]
    recorded: tuple[RecordedOutline, ...]
    results: tuple[ResultOutline, ...]
    captures: tuple[CaptureOutline, ...]
    body: GraphOutline | None
    notes: tuple[str, ...] = ()

    @property
    def full_name(self) -> str:
        """`node.function`."""
        return f"{self.owner}.{self.id}"

    @property
    def result_ports(self) -> tuple[tuple[str, ...], ...]:
        """The output ports that take each result: finals, then recordings."""
        finals = tuple(pair.ports for pair in self.carried)
        return finals + tuple(recorded.ports for recorded in self.recorded)

    @property
    def ports(self) -> frozenset[str]:
        """All output ports that plainly give something of the loop."""
        told = (result.ports for result in self.results)
        return frozenset(port for ports in (*self.result_ports, *told) for port in ports)


@dataclass(frozen=True, slots=True)
class NodeOutline:
    """A node: ports, what computes in it, its loops, and when the scheduler lets it run."""

    id: str
    path: str
    inputs: tuple[PortOutline, ...] = ()
    items: tuple[ItemOutline, ...] = ()
    loops: tuple[LoopOutline, ...] = ()
    outputs: tuple[PortOutline, ...] = ()
    condition: str = ""


@dataclass(frozen=True, slots=True)
class EdgeOutline:
    """An edge between two ports; `feedback` if it brings the value of the pass before."""

    id: str
    path: str
    sender: str
    sender_port: str
    receiver: str
    receiver_port: str
    weight: Any | None = None
    feedback: bool = False


@dataclass(frozen=True, slots=True)
class InputOutline:
    """A value that comes from outside the graph into a node: into a port, or into a formula.

    `source` says what it is: given (a model input), iteration, condition, carried, captured,
    default or unbound. `weight` is that of the edge that brings it.
    """

    name: str
    node: str
    port: str | None
    source: str
    path: str
    type: str = ""
    default: Any | None = None
    weight: Any | None = None


@dataclass(frozen=True, slots=True)
class OutputOutline:
    """A value that leaves the graph: an output port, or (no node) an input passed through."""

    name: str
    node: str | None
    port: str
    path: str
    type: str = ""


@dataclass(frozen=True, slots=True)
class GraphOutline:
    """A graph or a loop body; the outputs of a body are in the order of its signature.

    `cycles` are groups of nodes that feed each other; `termination` are the scheduler's words
    for the end of a run; `notes` say why the model cannot be compiled, if it cannot.
    """

    id: str
    path: str
    nodes: tuple[NodeOutline, ...]
    edges: tuple[EdgeOutline, ...]
    inputs: tuple[InputOutline, ...]
    outputs: tuple[OutputOutline, ...]
    cycles: tuple[tuple[str, ...], ...] = ()
    termination: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    source: str = ""
