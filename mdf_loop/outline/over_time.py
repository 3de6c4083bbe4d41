"""A model over time -> outline: the whole graph as the body of one loop.

    for each time step:
        evaluate the graph      # states, and outputs that lead back, are carried

The nodes are outlined as they are without time. An edge that brings an older value becomes a
carried output: it leaves at its sender and enters at its receiver one step later.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from mdf_loop.document.document import Document
from mdf_loop.importing.opening import Source, open_document
from mdf_loop.outline.annotation import annotate_over_time
from mdf_loop.outline.graphs import outline_with
from mdf_loop.outline.parts import (
    EdgeOutline,
    GraphOutline,
    InputOutline,
    ItemOutline,
    LoopOutline,
    NodeOutline,
    OutputOutline,
    PortOutline,
)
from mdf_loop.outline.scope import known_value
from mdf_loop.outline.values import ArgumentOutline, CaptureOutline, CarriedOutline, RecordedOutline


def outline_over_time(source: Source) -> GraphOutline:
    """The outline of a model over time: one node that owns one loop, whose body is the graph.

    Raises:
        ModelError: the file is missing, is not MDF, or holds no graph.
    """
    document = open_document(source)
    return over_time(outline_with(document, annotate_over_time(document)), document)


def over_time(graph: GraphOutline, document: Document) -> GraphOutline:
    """A graph with everything that is in it inside of one loop."""
    loop = _loop(graph, document)
    recorded = [row.ports[0] for row in loop.recorded]
    owner = NodeOutline(
        id=loop.owner,
        path=graph.path,
        inputs=tuple(PortOutline(i.name, i.path, i.type) for i in graph.inputs),
        blocks=(loop,),
        outputs=tuple(PortOutline(name, graph.path) for name in recorded),
    )
    return replace(
        graph,
        nodes=(owner,),
        edges=(),
        inputs=tuple(replace(i, node=owner.id, port=i.name) for i in graph.inputs),
        outputs=tuple(
            OutputOutline(name, owner.id, name, output.path, row.type)
            for name, output, row in zip(recorded, graph.outputs, loop.recorded, strict=True)
        ),
        cycles=(),
    )


def _loop(graph: GraphOutline, document: Document) -> LoopOutline:
    states = _states(graph, document)
    recorded = _recorded(graph)
    derivatives = any(item.derivative is not None for n in graph.nodes for item in n.items)
    name = f"{graph.id} over time"
    return LoopOutline(
        id=name,
        owner=name,
        path=graph.path,
        kind="over time",
        trip_count=ArgumentOutline("steps"),
        start=None,
        iteration="",
        condition_in="",
        continue_name="",
        continues="",
        carried=tuple(state.pair for state in states),
        recorded=recorded,
        results=(),
        captures=(
            *(CaptureOutline(i.name, "input", "", i.path, type=i.type) for i in graph.inputs),
            *([CaptureOutline(_DT, "argument", "", graph.path)] if derivatives else []),
        ),
        body=_body(graph, states, recorded),
    )


_DT = "dt"


def _body(
    graph: GraphOutline, states: list[_State], recorded: tuple[RecordedOutline, ...]
) -> GraphOutline:
    """The graph as a loop's body: what enters, and what leaves in the order of a signature."""
    going = OutputOutline("", None, "", graph.path)
    leaving = [OutputOutline(s.pair.leave, s.node, s.port, s.path) for s in states]
    rows = [
        OutputOutline(row.name, output.node, output.port, output.path)
        for row, output in zip(recorded, graph.outputs, strict=True)
    ]
    return replace(
        graph,
        edges=tuple(e for e in graph.edges if not e.feedback or graph.scheduled),
        inputs=(
            *(entry for state in states for entry in state.entries),
            *(replace(given, source="captured") for given in graph.inputs),
        ),
        outputs=(going, *leaving, *rows),
        cycles=(),
    )


def _recorded(graph: GraphOutline) -> tuple[RecordedOutline, ...]:
    times = Counter(output.name for output in graph.outputs)
    names = [o.name if times[o.name] == 1 else f"{o.node}.{o.port}" for o in graph.outputs]
    return tuple(
        RecordedOutline(f"{name}[t]", (name,), _stacked(output.type))
        for name, output in zip(names, graph.outputs, strict=True)
    )


def _stacked(type_: str) -> str:
    """A type with the axis of time in front, where its shape is known."""
    dtype, bracket, shape = type_.partition("[")
    if not bracket:
        return ""
    return f"{dtype}[time]" if shape == "]" else f"{dtype}[time, {shape}"


# --- states -----------------------------------------------------------------------------------


class _State(Struct, frozen=True):
    """A carried pair, where it enters the body, and the node and port that it leaves from."""

    pair: CarriedOutline
    entries: tuple[InputOutline, ...]
    node: str
    port: str
    path: str


def _states(graph: GraphOutline, document: Document) -> list[_State]:
    """The parameters that remember, then the outputs that lead back."""
    remembered = [(n, item) for n in graph.nodes for item in n.items if item.stateful]
    times = Counter(item.id for _, item in remembered)
    times.update([_DT, *(given.name for given in graph.inputs)])
    taken = {_DT, *(given.name for given in graph.inputs)}
    found = []
    for node, item in remembered:
        name = item.id if times[item.id] == 1 else _free(f"{node.id}.{item.id}", taken)
        found.append(_parameter(name, node, item, document))
        taken.add(name)
    for edges in _older(graph):
        name = _free(f"{edges[0].sender}.{edges[0].sender_port}", taken)
        found.append(_output(name, edges, graph))
        taken.add(name)
    return found


def _free(name: str, taken: set[str]) -> str:
    """The name, or with a word behind it: a port may have the name of a state."""
    return name if name not in taken else _free(f"{name} sent", taken)


def _parameter(name: str, node: NodeOutline, item: ItemOutline, document: Document) -> _State:
    written = next(n for n in document.graph.nodes if n.id == node.id)
    by_itself = item.initial is None and item.derivative is None
    initial = 0 if by_itself else item.initial
    value = None if initial is None else known_value(written, initial)
    port = next((port.id for port in node.outputs if port.value == item.id), "")
    return _State(
        CarriedOutline(initial, name, f"{name}'", type=item.type, initial_value=value),
        (InputOutline(name, node.id, None, "carried", item.path),),
        node.id,
        port,
        item.path,
    )


def _older(graph: GraphOutline) -> Iterator[list[EdgeOutline]]:
    """The edges that bring an older value, those of one sender's port together."""
    nodes = {node.id for node in graph.nodes}
    groups: dict[tuple[str, str], list[EdgeOutline]] = {}
    for edge in graph.edges:
        if edge.feedback and {edge.sender, edge.receiver} <= nodes:
            groups.setdefault((edge.sender, edge.sender_port), []).append(edge)
    yield from groups.values()


def _output(name: str, edges: list[EdgeOutline], graph: GraphOutline) -> _State:
    """An output that leads back; until its sender has run, the receiving ports' defaults hold."""
    nodes = {node.id: node for node in graph.nodes}
    sender = edges[0]
    ports = [
        port
        for edge in edges
        for port in nodes[edge.receiver].inputs
        if port.id == edge.receiver_port
    ]
    sent = next((p for p in nodes[sender.sender].outputs if p.id == sender.sender_port), None)
    return _State(
        CarriedOutline(_default(ports), name, f"{name}'", type=sent.type if sent else ""),
        tuple(
            InputOutline(name, e.receiver, e.receiver_port, "carried", e.path, weight=e.weight)
            for e in edges
        ),
        sender.sender,
        sender.sender_port,
        sender.path,
    )


def _default(ports: list[PortOutline]) -> Any | None:
    """The default that the ports share; a sentence where they have different ones."""
    defaults = [port.default for port in ports]
    if all(default == defaults[0] for default in defaults):
        return defaults[0] if defaults else None
    return "the default of each port"
