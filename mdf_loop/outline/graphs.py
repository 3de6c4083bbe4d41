"""Outline of an MDF document: the nodes, edges, inputs and outputs of its graphs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from msgspec.structs import replace

from mdf_loop.document.document import Document
from mdf_loop.document.graph_functions import graph_function
from mdf_loop.document.parts import (
    DocumentValue,
    Edge,
    FunctionOrParameter,
    Graph,
    InputPort,
    Node,
    OutputPort,
)
from mdf_loop.errors import ModelError
from mdf_loop.importing.opening import Source, open_document
from mdf_loop.lower import draws_numbers, function_draws, names_in
from mdf_loop.outline.annotation import Annotations, annotate
from mdf_loop.outline.block_context import BlockContext
from mdf_loop.outline.conditionals import outline_case, outline_if
from mdf_loop.outline.cycles import cycle_groups, feedback_edges
from mdf_loop.outline.loops import outline_loop
from mdf_loop.outline.parts import (
    Block,
    DefinitionOutline,
    EdgeOutline,
    GraphOutline,
    InputOutline,
    NodeOutline,
    OutputOutline,
    PortOutline,
)
from mdf_loop.outline.scans import outline_map, outline_scan
from mdf_loop.outline.schedule import node_conditions, termination_texts
from mdf_loop.outline.scope import OutlineScope, body_inputs, local_names
from mdf_loop.outline.values import CaptureOutline
from mdf_loop.reading import open_ports
from mdf_loop.reading.parameters import condition_fields

BLOCK_OUTLINERS: dict[str, Callable[[BlockContext], Block]] = {
    "onnx::Loop": outline_loop,
    "onnx::Scan": outline_scan,
    "onnx::SequenceMap": outline_map,
    "onnx::If": outline_if,
    "case_of": outline_case,
}
"""Function that outlines the graphs of each MDF function that owns graphs."""


def outline(source: Source) -> GraphOutline:
    """Return the outline of a model, for pictures and explanations.

    Args:
        source: Path, Model, Graph or Document. A model that cannot be compiled has `notes` with the reasons.

    Raises:
        ModelError: The file is missing, is not MDF, or has no graph.
    """
    document = open_document(source)
    return outline_document(document, annotate(document))


def outline_document(document: Document, annotations: Annotations) -> GraphOutline:
    """Return the outline of an MDF document with the given annotations."""
    reader = _Reader(document, annotations)
    graph = reader.graph(document.graph, document.where, None)
    return replace(
        graph,
        inputs=reader.model_inputs(),
        outputs=reader.model_outputs(),
        notes=reader.annotations.notes,
        source_name=document.name,
        counted_events=reader.annotations.counted_events,
    )


class _Reader:
    """Builder of the outlines of all graphs in one MDF document."""

    def __init__(self, document: Document, annotations: Annotations) -> None:
        self.document = document
        self.annotations = annotations
        self.open_bodies: list[str] = []

    def graph(self, graph: Graph, where: str, scope: OutlineScope | None) -> GraphOutline:
        """Return the description of a graph for pictures and texts, given the names of enclosing graphs."""
        cycles = cycle_groups(graph)
        conditions_by_node = node_conditions(graph)
        return GraphOutline(
            id=graph.id,
            path=where,
            nodes=tuple(
                self._node(node, where, conditions_by_node.get(node.id, ""), scope)
                for node in graph.nodes
            ),
            edges=_edges(graph, where, feedback_edges(graph, cycles)),
            inputs=(),
            outputs=(),
            cycles=cycles,
            termination=termination_texts(graph),
        )

    def _body(
        self,
        body: Graph,
        where: str,
        roles: Mapping[str, str],
        outputs: Sequence[str],
        outer_scope: OutlineScope,
    ) -> GraphOutline:
        """Return the outline of a loop body or branch, with its inputs and outputs.

        `outer_scope` belongs to the node that owns the body.
        """
        if where in self.open_bodies:
            raise ModelError(f"the graph '{body.id}' contains itself", where)
        self.open_bodies.append(where)
        scope = OutlineScope(_signature_captures(roles, where), outer_scope)
        graph = self.graph(body, where, scope)
        self.open_bodies.pop()
        blocks_by_node = {node.id: node.blocks for node in graph.nodes}
        input_outlines = body_inputs(body, where, blocks_by_node, roles, outer_scope)
        passed_through_names = (*roles, *(name for name in outputs if outer_scope.find(name)))
        return replace(
            graph,
            inputs=tuple(
                replace(input_outline, type=self.annotations.type_of(input_outline.path))
                for input_outline in input_outlines
            ),
            outputs=tuple(
                self._body_output(body, where, name, passed_through_names) for name in outputs
            ),
        )

    def _body_output(
        self, body: Graph, where: str, name: str, passed_through_names: Iterable[str]
    ) -> OutputOutline:
        """Return the description of a body's output, which is an output port or a value passed through."""
        for node in body.nodes:
            for port in node.output_ports:
                if name in (port.id, f"{node.id}.{port.id}"):
                    port_path = f"{where}.nodes['{node.id}'].output_ports['{port.id}']"
                    return OutputOutline(
                        name, node.id, port.id, port_path, self.annotations.type_of(port_path)
                    )
        return OutputOutline(name, None, name if name in passed_through_names else "", where)

    # --- nodes ----------------------------------------------------------------------------------

    def _node(
        self, node: Node, where: str, condition: str, scope: OutlineScope | None
    ) -> NodeOutline:
        """Return the outline of a node of an MDF graph."""
        node_path = f"{where}.nodes['{node.id}']"
        return NodeOutline(
            id=node.id,
            path=node_path,
            inputs=tuple(
                self._port(port, f"{node_path}.input_ports['{port.id}']")
                for port in node.input_ports
            ),
            definitions=tuple(self._definitions(node, node_path)),
            blocks=tuple(self._blocks(node, node_path, scope)),
            outputs=tuple(
                self._port(port, f"{node_path}.output_ports['{port.id}']")
                for port in node.output_ports
            ),
            scheduler_condition=condition,
        )

    def _port(self, port: InputPort | OutputPort, path: str) -> PortOutline:
        """Return the outline of an input or output port, with its type."""
        return PortOutline(
            id=port.id,
            path=path,
            type=self.annotations.type_of(path, port),
            default=getattr(port, "default_value", None),
            value=getattr(port, "value", None),
        )

    def _blocks(self, node: Node, path: str, scope: OutlineScope | None) -> Iterable[Block]:
        """Yield the outlines of a node's loops and conditionals."""
        for list_name, definition in _functions_and_parameters(node):
            function_name = graph_function(definition.function)
            if function_name is not None:
                definition_path = f"{path}.{list_name}['{definition.id}']"
                yield BLOCK_OUTLINERS[function_name](
                    BlockContext(
                        definition,
                        node,
                        path,
                        definition_path,
                        self.document,
                        self.annotations,
                        scope,
                        self._body,
                    )
                )

    def _definitions(self, node: Node, path: str) -> Iterable[DefinitionOutline]:
        """Yield the outlines of a node's parameters and functions that contain no graphs."""
        for list_name, definition in _functions_and_parameters(node):
            if graph_function(definition.function) is None and not _is_graph(definition.value):
                yield self._definition(definition, node, f"{path}.{list_name}['{definition.id}']")

    def _definition(
        self, definition: FunctionOrParameter, node: Node, path: str
    ) -> DefinitionOutline:
        """Return the outline of a parameter or function."""
        derivative = getattr(definition, "time_derivative", None)
        initial_value = getattr(definition, "default_initial_value", None)
        tests_with_values = tuple(
            condition_fields(condition)
            for condition in getattr(definition, "conditions", None) or ()
        )
        arguments = tuple((definition.args or {}).items())
        expressions = (
            definition.value,
            derivative,
            initial_value,
            *(argument_value for _, argument_value in arguments),
        )
        expressions += tuple(
            text for test_and_value in tests_with_values for text in test_and_value
        )
        read_names: set[str] = set().union(*map(names_in, expressions))
        is_self_referencing = isinstance(definition.value, str) and definition.id in names_in(
            definition.value
        )
        return DefinitionOutline(
            id=definition.id,
            path=path,
            value=definition.value,
            function=definition.function or "",
            arguments=arguments,
            initial_expression=initial_value,
            derivative=derivative,
            conditions=tests_with_values,
            type=self.annotations.type_of(path),
            is_stateful=derivative is not None or initial_value is not None or is_self_referencing,
            read_names=tuple(sorted(read_names & (local_names(node) | _identifiers(read_names)))),
            is_random=function_draws(definition.function) or any(map(draws_numbers, expressions)),
        )

    # --- inputs and outputs of the whole model --------------------------------------------------

    def model_inputs(self) -> tuple[InputOutline, ...]:
        """Return the outlines of the model's input ports that no edge feeds."""
        return tuple(
            InputOutline(
                name=port.name,
                node_id=port.node,
                port_id=port.port.id,
                role="given",
                path=port.where,
                type=self.annotations.type_of(port.where, port.port),
                default=port.port.default_value,
            )
            for port in open_ports(self.document)
        )

    def model_outputs(self) -> tuple[OutputOutline, ...]:
        """Return the model's outputs that the metadata names, or else all unconnected output ports."""
        graph = self.document.graph
        name_by_port = _stated_outputs(graph)
        connected_ports = {(edge.sender, edge.sender_port) for edge in graph.edges}
        model_outputs = []
        for node in graph.nodes:
            for port in node.output_ports:
                metadata_name = name_by_port.get(f"{node.id}.{port.id}") or name_by_port.get(
                    port.id
                )
                if metadata_name or (
                    not name_by_port and (node.id, port.id) not in connected_ports
                ):
                    port_path = (
                        f"{self.document.where}.nodes['{node.id}'].output_ports['{port.id}']"
                    )
                    type_text = self.annotations.type_of(port_path)
                    model_outputs.append(
                        OutputOutline(
                            metadata_name or port.id, node.id, port.id, port_path, type_text
                        )
                    )
        return tuple(model_outputs)


def _stated_outputs(graph: Graph) -> dict[str, str]:
    """Map output ports (`node.port` or `port`) to the names that the graph's metadata states."""
    output_metadata = (graph.metadata or {}).get("outputs") or ()
    if isinstance(output_metadata, Mapping):
        return {str(port): str(name) for name, port in output_metadata.items()}
    listed_ports = (
        output_metadata if isinstance(output_metadata, list | tuple) else ()
    )  # the reader reports other types
    return {str(port): str(port).rsplit(".", 1)[-1] for port in listed_ports}


def _functions_and_parameters(node: Node) -> Iterable[tuple[str, FunctionOrParameter]]:
    """Yield each function and parameter of a node, after its section name in the document.

    The section name is "functions" or "parameters".
    """
    yield from (("functions", definition) for definition in node.functions)
    yield from (("parameters", definition) for definition in node.parameters)


def _is_graph(value: DocumentValue) -> bool:
    """Return True if a value is a graph, a mapping that describes a graph, or a list of graphs."""
    if isinstance(value, list) and value:
        return all(map(_is_graph, value))
    if not isinstance(value, dict):
        return isinstance(value, Graph)
    only_entry = next(iter(value.values()), None) if len(value) == 1 else None
    return "nodes" in value or (only_entry is not value and _is_graph(only_entry))


def _identifiers(names: Iterable[str]) -> set[str]:
    """Return the names in `names` that are valid Python identifiers."""
    return {name for name in names if name.isidentifier()}


def _signature_captures(roles: Mapping[str, str], where: str) -> Mapping[str, CaptureOutline]:
    """Return the inputs of a loop body as values that nested bodies can capture."""
    role_texts = {"iteration": "iteration number"}
    role_texts |= {role: f"{role} value" for role in ("carried", "sliced", "delayed")}
    return {
        name: CaptureOutline(name, role_texts.get(role, role), "", where)
        for name, role in roles.items()
    }


def _edges(graph: Graph, where: str, feedback: frozenset[str]) -> tuple[EdgeOutline, ...]:
    """Return the outlines of all edges of a graph."""
    return tuple(
        EdgeOutline(
            id=edge.id,
            path=f"{where}.edges['{edge.id}']",
            sender=edge.sender,
            sender_port=edge.sender_port,
            receiver=edge.receiver,
            receiver_port=edge.receiver_port,
            weight=_weight(edge),
            is_feedback=edge.id in feedback,
        )
        for edge in graph.edges
    )


def _weight(edge: Edge) -> DocumentValue:
    """Return the weight of an edge, or None if the weight is 1 or absent."""
    weight = (edge.parameters or {}).get("weight")
    return None if isinstance(weight, int | float) and weight == 1 else weight
