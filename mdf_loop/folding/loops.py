"""A loop node that is to be unfolded: what it is given, its body, how often it runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from msgspec import Struct

from mdf_loop.document.bodies import parameters_with_bodies
from mdf_loop.document.content import content_of
from mdf_loop.document.document import Document
from mdf_loop.document.graph_functions import graph_function
from mdf_loop.errors import LoopError, TripCountError, UnknownNameError, UnsupportedError
from mdf_loop.folding.flat import Content, Flat, Port
from mdf_loop.importing.opening import open_document
from mdf_loop.lower.syntax import names_in, number_of
from mdf_loop.reading.loop_forms import LoopForm, carried_expressions, loop_form
from mdf_loop.reading.parameters import is_stateful
from mdf_loop.reading.recordings import RecordingForm
from mdf_loop.reading.signature import Signature, find_signature
from mdf_loop.suggestion import suggestion


class Unfolded(Struct, frozen=True):
    """A loop of `count` iterations. `own_names` are those that its node has inside."""

    node: str
    function: str
    where: str
    document: Document
    count: int
    signature: Signature
    initial: tuple[Any, ...]
    bindings: Mapping[str, Any]
    recordings: Mapping[str, RecordingForm]
    content: Content
    body: Content
    own_names: tuple[str, ...]
    seen: frozenset[str]

    @property
    def nodes(self) -> dict[str, Content]:
        """The body's nodes."""
        return dict(self.body.get("nodes") or {})

    @property
    def edges(self) -> dict[str, Content]:
        """The body's edges."""
        return dict(self.body.get("edges") or {})

    @property
    def outputs(self) -> dict[str, Content]:
        """The loop node's output ports."""
        return dict(self.content.get("output_ports") or {})

    def own(self) -> Content:
        """The loop's node without the loop, its bodies and its outputs."""
        kept = {
            section: {
                name: content
                for name, content in (self.content.get(section) or {}).items()
                if name in self.own_names and name != self.function
            }
            for section in ("input_ports", "functions", "parameters")
        }
        return {**kept}

    def output(self, name: str) -> Port | None:
        """The body's output port of that name."""
        found = [
            (node, port)
            for node, content in self.nodes.items()
            for port in content.get("output_ports") or {}
            if name in (port, f"{node}.{port}")
        ]
        if len(found) > 1:
            raise refuse(self.where, f"the body output '{name}' could be several")
        return found[0] if found else None

    def keeps_last(self, name: str) -> bool:
        """Whether only the last row of a recording is kept."""
        return name in self.recordings and self.recordings[name].last

    def stacked(self, name: str, rows: Sequence[str]) -> str:
        """The recording as an expression of its rows."""
        form = self.recordings.get(name) or RecordingForm(name)
        ordered = ", ".join(reversed(rows) if form.reverse else rows)
        function = "numpy.concatenate" if form.concat else "numpy.stack"
        return f"{function}(({ordered},), axis={form.axis})"

    def states_type(self, name: str) -> bool:
        """Whether an input port of the body states the dtype of a carried value."""
        ports = [(n.get("input_ports") or {}).get(name) for n in self.nodes.values()]
        return any((port or {}).get("type") for port in ports)

    def read_without_port(self, node: str) -> list[str]:
        """Names that the expressions of a body node read from around it."""
        content = self.nodes[node]
        own = {
            name for section in content.values() if isinstance(section, dict) for name in section
        }
        read = {name for text in _texts(content) for name in names_in(text)}
        signature = self.signature
        entering = {signature.iteration, signature.condition_in, *signature.enters}
        return sorted((read & (self.seen | entering)) - own)


def trimmed(node: Content) -> Content:
    """The node without ports, parameters and functions that its outputs do not need."""
    parts: dict[str, Any] = {}
    for section in ("input_ports", "functions", "parameters"):
        parts |= node[section]
    needed: set[str] = set()
    waiting = [node["output_ports"]]
    while waiting:
        read = {name.split(".")[0] for text in _texts(waiting.pop()) for name in names_in(text)}
        new = (read & parts.keys()) - needed
        needed |= new
        waiting += [parts[name] for name in new]
    sections = {
        section: {name: content for name, content in node[section].items() if name in needed}
        for section in ("input_ports", "functions", "parameters")
    }
    kept = {section: found for section, found in sections.items() if found}
    return {"input_ports": {}, **kept, "output_ports": node["output_ports"]}


def _texts(content: Any) -> Iterator[str]:
    if isinstance(content, str):
        yield content
    elif isinstance(content, Mapping):
        for part in content.values():
            yield from _texts(part)
    elif isinstance(content, list | tuple):
        for part in content:
            yield from _texts(part)


def refuse(where: str, why: str) -> UnsupportedError:
    """The error for a loop that cannot be written out."""
    return UnsupportedError(f"the loop cannot be unfolded: {why}", where, "leave it a loop")


def unfolded_loop(graph: Flat, name: str, most: int) -> Unfolded:
    """The loop that a node's id (or `node.function`) means.

    Raises:
        LoopError: there is none, or it cannot be written out.
    """
    document = open_document(graph.model)
    node = next((n for n in document.graph.nodes if name in (n.id, *_full_names(n))), None)
    loops = (
        [f for f in node.functions if graph_function(f.function) == "onnx::Loop"] if node else []
    )
    loops = [f for f in loops if node is not None and name in (node.id, f"{node.id}.{f.id}")]
    if node is None or not loops:
        known = [n.id for n in document.graph.nodes if _full_names(n)]
        raise UnknownNameError(
            f"there is no loop '{name}'",
            graph.where,
            suggestion(name, known) or f"there are {', '.join(known) or 'none'}",
        )
    if len(loops) > 1:
        ways = ", ".join(f"'{node.id}.{f.id}'" for f in loops)
        raise LoopError(f"'{name}' could be {ways}", graph.where, "write node.function")
    item = loops[0]
    where = f"{document.where}.nodes['{node.id}'].functions['{item.id}']"
    form = loop_form(item, node, where, document)
    _refuse_forms(form, node)
    initial = carried_expressions(form)
    signature = find_signature(form, node, len(initial))
    count = _count(form, node, document.graph, most)
    if count == 0 and signature.rows:
        raise refuse(where, "without iterations, the shape of what it records is not known")
    _refuse_condition(form, signature, node, document.graph)
    bodies = parameters_with_bodies(item, node)
    items = (*node.input_ports, *node.parameters, *node.functions)
    own = tuple(x.id for x in items if x.id not in bodies)
    captured = [] if form.owned.strict else [name for name in own if name != item.id]
    return Unfolded(
        node=node.id,
        function=item.id,
        where=where,
        document=document,
        count=count,
        signature=signature,
        initial=initial,
        bindings=form.bindings,
        recordings=form.recordings,
        content=graph.nodes[node.id],
        body=_body_content(form),
        own_names=own,
        seen=frozenset((*captured, *form.bindings)),
    )


def _full_names(node: Any) -> list[str]:
    return [
        f"{node.id}.{f.id}" for f in node.functions if graph_function(f.function) == "onnx::Loop"
    ]


def _body_content(form: LoopForm) -> Content:
    (model,) = content_of(open_document(form.body)).values()
    found: Content = model["graphs"][form.body.id]
    return found


def _refuse_forms(form: LoopForm, node: Any) -> None:
    padded = [r.name for r in form.recordings.values() if r.length is not None]
    states = [p.id for p in node.parameters if is_stateful(p)]
    defaults = {
        (n.id, p.id) for n in form.body.nodes for p in n.input_ports if p.default_value is not None
    }
    early = [e for e in form.body.edges if (e.receiver, e.receiver_port) in defaults]
    reasons = (
        (form.slices, "it has slices"),
        (form.delays, "it has delays"),
        (form.mid_exit, "its condition is tested in the middle of the body"),
        (padded, f"the recording '{padded[0] if padded else ''}' has a fixed length"),
        (states, f"its node keeps a state ('{states[0] if states else ''}')"),
        (form.body.conditions, "its body has conditions of a scheduler"),
        (early, "an edge of its body leads to a port with a default_value"),
    )
    for found, why in reasons:
        if found:
            raise refuse(form.where, why)


def _constant(value: Any, node: Any, graph: Any) -> Any:
    """The number that an expression is for sure: written, a fixed parameter, or one over an edge."""
    if not isinstance(value, str):
        single = isinstance(value, list | tuple | np.ndarray)
        return (np.asarray(value).item() if np.size(value) == 1 else None) if single else value
    name, number = value.strip(), number_of(value)
    if number is not None or name in ("True", "False"):
        return number if number is not None else name == "True"
    held = next((p for p in node.parameters if p.id == name), None)
    if held is not None:
        fixed = not (held.function or held.conditions or is_stateful(held))
        return _constant(held.value, node, graph) if fixed else None
    edges = [e for e in graph.edges if (e.receiver, e.receiver_port) == (node.id, name)]
    if len(edges) != 1 or edges[0].parameters:
        return None
    sender = next(n for n in graph.nodes if n.id == edges[0].sender)
    port = next((p for p in sender.output_ports if p.id == edges[0].sender_port), None)
    return None if port is None else _constant(port.value, sender, graph)


def _count(form: LoopForm, node: Any, graph: Any, most: int) -> int:
    number = _constant(form.trip_count, node, graph)
    if number is None or number == -1:
        what = "no trip count" if form.trip_count is None or number == -1 else "a variable one"
        raise TripCountError(
            f"the loop '{form.name}' has {what}: only a constant number of iterations can be "
            "unfolded",
            form.where,
            "give M a number",
        )
    if isinstance(number, str) or number != int(number):
        raise TripCountError(f"the trip count of '{form.name}' is {number!r}", form.where)
    if number > most:
        raise TripCountError(
            f"the loop '{form.name}' has {int(number)} iterations, unfold allows {most}",
            form.where,
            "leave it a loop, or give most=...",
        )
    return max(int(number), 0)


def _refuse_condition(form: LoopForm, signature: Signature, node: Any, graph: Any) -> None:
    """Refuse a condition that may become false."""
    if form.condition is None:
        return
    name = signature.condition_out
    values = [p.value for n in form.body.nodes for p in n.output_ports if p.id == name]
    stays = not name or (name == signature.condition_in and not values)
    always = stays or [str(value) for value in values] == ["True"]
    if _constant(form.condition, node, graph) is not True or not always:
        raise TripCountError(
            f"the loop '{form.name}' has a condition: how often it runs is known only then",
            form.where,
            "leave the condition out, if it does not decide",
        )
