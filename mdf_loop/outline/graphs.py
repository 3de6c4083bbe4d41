"""A document -> `GraphOutline`: nodes, edges, what comes in, what goes out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from mdf_loop.document.document import Document
from mdf_loop.document.graph_functions import graph_function
from mdf_loop.errors import ModelError
from mdf_loop.importing.opening import Source, open_document
from mdf_loop.lower import draws_numbers, function_draws, names_in
from mdf_loop.outline.annotation import Annotations, annotate
from mdf_loop.outline.choices import outline_case, outline_if
from mdf_loop.outline.cycles import cycle_groups, feedback_edges
from mdf_loop.outline.loops import outline_loop
from mdf_loop.outline.parts import (
    Block,
    EdgeOutline,
    GraphOutline,
    InputOutline,
    ItemOutline,
    NodeOutline,
    OutputOutline,
    PortOutline,
)
from mdf_loop.outline.scans import outline_map, outline_scan
from mdf_loop.outline.schedule import node_conditions, termination_texts
from mdf_loop.outline.scope import OutlineScope, body_inputs, local_names
from mdf_loop.outline.site import Site
from mdf_loop.outline.values import CaptureOutline
from mdf_loop.reading import open_ports
from mdf_loop.reading.parameters import condition_fields

BLOCKS: dict[str, Callable[[Site], Block]] = {
    "onnx::Loop": outline_loop,
    "onnx::Scan": outline_scan,
    "onnx::SequenceMap": outline_map,
    "onnx::If": outline_if,
    "case_of": outline_case,
}
"""How each function that owns graphs is outlined."""


def outline(source: Source) -> GraphOutline:
    """What a picture or an explanation says of a model: a path, Model, Graph or Document.

    Any MDF graph can be outlined, also one that cannot be compiled; `notes` say why it cannot.

    Raises:
        ModelError: the file is missing, is not MDF, or holds no graph.
    """
    document = open_document(source)
    return outline_with(document, annotate(document))


def outline_with(document: Document, notes: Annotations) -> GraphOutline:
    """The outline of a document, with what reading it told."""
    reader = _Reader(document, notes)
    graph = reader.graph(document.graph, document.where, None)
    return replace(
        graph,
        inputs=reader.given_inputs(),
        outputs=reader.graph_outputs(),
        notes=reader.notes.notes,
        source=document.name,
        counted=reader.notes.counted,
    )


class _Reader:
    """Outlines graphs of one document."""

    def __init__(self, document: Document, notes: Annotations) -> None:
        self.document = document
        self.notes = notes
        self.within: list[str] = []

    def graph(self, graph: Any, where: str, place: OutlineScope | None) -> GraphOutline:
        """Nodes and edges of a graph whose surroundings are `place`."""
        groups = cycle_groups(graph)
        conditions = node_conditions(graph)
        return GraphOutline(
            id=graph.id,
            path=where,
            nodes=tuple(self._node(n, where, conditions.get(n.id, ""), place) for n in graph.nodes),
            edges=_edges(graph, where, feedback_edges(graph, groups)),
            inputs=(),
            outputs=(),
            cycles=groups,
            termination=termination_texts(graph),
        )

    def _body(
        self,
        body: Any,
        where: str,
        roles: Mapping[str, str],
        outputs: Sequence[str],
        around: OutlineScope,
    ) -> GraphOutline:
        """A body with its inputs and outputs; `around` is the place of the node that owns it."""
        if where in self.within:
            raise ModelError(f"the graph '{body.id}' contains itself", where)
        self.within.append(where)
        place = OutlineScope(_declared(roles, where), around)
        graph = self.graph(body, where, place)
        self.within.pop()
        blocks = {node.id: node.blocks for node in graph.nodes}
        inputs = body_inputs(body, where, blocks, roles, around)
        passed = (*roles, *(name for name in outputs if around.find(name)))
        return replace(
            graph,
            inputs=tuple(replace(i, type=self.notes.type_of(i.path)) for i in inputs),
            outputs=tuple(self._body_output(body, where, n, passed) for n in outputs),
        )

    def _body_output(
        self, body: Any, where: str, name: str, passed: Iterable[str]
    ) -> OutputOutline:
        for node in body.nodes:
            for port in node.output_ports:
                if name in (port.id, f"{node.id}.{port.id}"):
                    path = f"{where}.nodes['{node.id}'].output_ports['{port.id}']"
                    return OutputOutline(name, node.id, port.id, path, self.notes.type_of(path))
        return OutputOutline(name, None, name if name in passed else "", where)

    # --- nodes ----------------------------------------------------------------------------------

    def _node(
        self, node: Any, where: str, condition: str, place: OutlineScope | None
    ) -> NodeOutline:
        path = f"{where}.nodes['{node.id}']"
        return NodeOutline(
            id=node.id,
            path=path,
            inputs=tuple(self._port(p, f"{path}.input_ports['{p.id}']") for p in node.input_ports),
            items=tuple(self._items(node, path)),
            blocks=tuple(self._blocks(node, path, place)),
            outputs=tuple(
                self._port(p, f"{path}.output_ports['{p.id}']") for p in node.output_ports
            ),
            condition=condition,
        )

    def _port(self, port: Any, path: str) -> PortOutline:
        return PortOutline(
            id=port.id,
            path=path,
            type=self.notes.type_of(path, port),
            default=getattr(port, "default_value", None),
            value=getattr(port, "value", None),
        )

    def _blocks(self, node: Any, path: str, place: OutlineScope | None) -> Iterable[Block]:
        for kind, item in _computing(node):
            name = graph_function(item.function)
            if name is not None:
                where = f"{path}.{kind}['{item.id}']"
                yield BLOCKS[name](
                    Site(item, node, path, where, self.document, self.notes, place, self._body)
                )

    def _items(self, node: Any, path: str) -> Iterable[ItemOutline]:
        for kind, item in _computing(node):
            if graph_function(item.function) is None and not _is_graph(item.value):
                yield self._item(item, node, f"{path}.{kind}['{item.id}']")

    def _item(self, item: Any, node: Any, path: str) -> ItemOutline:
        derivative = getattr(item, "time_derivative", None)
        initial = getattr(item, "default_initial_value", None)
        conditions = tuple(condition_fields(c) for c in getattr(item, "conditions", None) or ())
        arguments = tuple((item.args or {}).items())
        expressions = (item.value, derivative, initial, *(v for _, v in arguments))
        expressions += tuple(text for pair in conditions for text in pair)
        names: set[str] = set().union(*map(names_in, expressions))
        remembers = isinstance(item.value, str) and item.id in names_in(item.value)
        return ItemOutline(
            id=item.id,
            path=path,
            value=item.value,
            function=item.function or "",
            arguments=arguments,
            initial=initial,
            derivative=derivative,
            conditions=conditions,
            type=self.notes.type_of(path),
            stateful=derivative is not None or initial is not None or remembers,
            reads=tuple(sorted(names & (local_names(node) | _outside(names)))),
            draws=function_draws(item.function) or any(map(draws_numbers, expressions)),
        )

    # --- inputs and outputs of the whole model --------------------------------------------------

    def given_inputs(self) -> tuple[InputOutline, ...]:
        """The ports that no edge feeds."""
        return tuple(
            InputOutline(
                name=port.name,
                node=port.node,
                port=port.port.id,
                source="given",
                path=port.where,
                type=self.notes.type_of(port.where, port.port),
                default=port.port.default_value,
            )
            for port in open_ports(self.document)
        )

    def graph_outputs(self) -> tuple[OutputOutline, ...]:
        """`metadata.outputs` where given, else every output port that feeds no edge."""
        graph = self.document.graph
        stated = _stated_outputs(graph)
        sent = {(edge.sender, edge.sender_port) for edge in graph.edges}
        found = []
        for node in graph.nodes:
            for port in node.output_ports:
                called = stated.get(f"{node.id}.{port.id}") or stated.get(port.id)
                if called or (not stated and (node.id, port.id) not in sent):
                    path = f"{self.document.where}.nodes['{node.id}'].output_ports['{port.id}']"
                    kind = self.notes.type_of(path)
                    found.append(OutputOutline(called or port.id, node.id, port.id, path, kind))
        return tuple(found)


def _stated_outputs(graph: Any) -> dict[str, str]:
    """`node.port` or `port` -> the name that the graph's metadata give to the output."""
    stated = (graph.metadata or {}).get("outputs") or ()
    if isinstance(stated, Mapping):
        return {str(place): str(name) for name, place in stated.items()}
    listed = stated if isinstance(stated, list | tuple) else ()  # reading says what is wrong
    return {str(place): str(place).rsplit(".", 1)[-1] for place in listed}


def _computing(node: Any) -> Iterable[tuple[str, Any]]:
    """Functions and parameters with the name of their list."""
    yield from (("functions", item) for item in node.functions)
    yield from (("parameters", item) for item in node.parameters)


def _is_graph(value: Any) -> bool:
    """Whether a parameter holds a body: a graph, `{nodes: ...}`, `{id: {nodes: ...}}`, a list."""
    if isinstance(value, list) and value:
        return all(map(_is_graph, value))
    if not isinstance(value, dict):
        return hasattr(value, "nodes")
    inner = next(iter(value.values()), None) if len(value) == 1 else None
    return "nodes" in value or (inner is not value and _is_graph(inner))


def _outside(names: Iterable[str]) -> set[str]:
    """Plain names, which may belong to an enclosing place."""
    return {name for name in names if name.isidentifier()}


def _declared(roles: Mapping[str, str], where: str) -> Mapping[str, CaptureOutline]:
    words = {"iteration": "iteration number"}
    words |= {role: f"{role} value" for role in ("carried", "sliced", "delayed")}
    return {
        name: CaptureOutline(name, words.get(role, role), "", where) for name, role in roles.items()
    }


def _edges(graph: Any, where: str, feedback: frozenset[str]) -> tuple[EdgeOutline, ...]:
    return tuple(
        EdgeOutline(
            id=edge.id,
            path=f"{where}.edges['{edge.id}']",
            sender=edge.sender,
            sender_port=edge.sender_port,
            receiver=edge.receiver,
            receiver_port=edge.receiver_port,
            weight=_weight(edge),
            feedback=edge.id in feedback,
        )
        for edge in graph.edges
    )


def _weight(edge: Any) -> Any | None:
    weight = (edge.parameters or {}).get("weight")
    return None if isinstance(weight, int | float) and weight == 1 else weight
