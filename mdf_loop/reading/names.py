"""Names of the values that a run can return: `node.port`, `node.parameter` and `node.function`."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from weakref import ref

from msgspec import Struct

from mdf_loop.document.bodies import parameters_with_bodies
from mdf_loop.document.document import Document
from mdf_loop.document.parts import DocumentValue, Graph
from mdf_loop.errors import ModelError, UnknownNameError
from mdf_loop.name_suggestions import suggest
from mdf_loop.reading.memory import State, StateKind
from mdf_loop.specification import Selection

STATE_KIND_BY_FIELD: dict[str, StateKind] = {
    "output_ports": "output",
    "parameters": "parameter",
    "functions": "function",
}
"""Attribute of a node -> kind of state. If ids clash, a name refers to the first kind in this order."""


class Item(Struct, frozen=True):
    """Output port, parameter or function of a node, whose value a run can return."""

    node_field: str
    node: str
    id: str

    @property
    def name(self) -> str:
        """Name of the output port, parameter or function, as `node.id`."""
        return f"{self.node}.{self.id}"

    @property
    def state(self) -> State:
        """Key under which a `Memory` stores the value of the port, parameter or function."""
        return (STATE_KIND_BY_FIELD[self.node_field], self.node, self.id)


def items(document: Document) -> tuple[Item, ...]:
    """Return the output ports, parameters and functions of all nodes of a model."""
    items_by_name: dict[str, Item] = {}
    for node in document.graph.nodes:
        for node_field in STATE_KIND_BY_FIELD:
            for node_part in getattr(node, node_field):
                node_item = Item(node_field, node.id, node_part.id)
                items_by_name.setdefault(node_item.name, node_item)
    return tuple(items_by_name.values())


def find_item(document: Document, name: str) -> Item:
    """Return the output port, parameter or function with the name `node.item`.

    The id of an output port alone is also a name.

    Raises:
        UnknownNameError: If no item has the name.
    """
    return _find_name_index(document).find(name)


class _NameIndex:
    """Index of the output ports, parameters and functions of a document by all of their names.

    Attributes:
        outputs: Outputs of the model by their names in results. Filled at the first use.
    """

    def __init__(self, document: Document) -> None:
        self._where = document.where
        self.outputs: dict[str, Item] = {}
        self._items_by_name: dict[str, Item] = {}
        self._port_names: list[str] = []
        for node_item in items(document):
            self._items_by_name.setdefault(node_item.name, node_item)
            if node_item.node_field == "output_ports":
                self._items_by_name.setdefault(node_item.id, node_item)
                self._port_names.append(node_item.name)

    def find(self, name: str) -> Item:
        """Return the output port, parameter or function with a name, or raise UnknownNameError.

        Raise UnknownNameError if no item has the name.
        """
        if name not in self._items_by_name:
            hint = suggest(name, self._port_names)
            raise UnknownNameError(f"the model has no output '{name}'", self._where, hint)
        return self._items_by_name[name]


_NAME_INDEXES: dict[int, tuple[ref[Document], _NameIndex]] = {}
"""Index of each live document, by the document's identity. Documents are not always hashable."""


def _find_name_index(document: Document) -> _NameIndex:
    """Return the index of a document's output ports, parameters and functions by name.

    The index is computed once, since every run needs it.
    """
    document_id = id(document)
    if document_id not in _NAME_INDEXES:
        document_ref = ref(document, lambda _: _NAME_INDEXES.pop(document_id, None))
        _NAME_INDEXES[document_id] = document_ref, _NameIndex(document)
    return _NAME_INDEXES[document_id][1]


def output_names(document: Document) -> dict[str, str]:
    """Map the names of the model's outputs in results to their names in the document.

    The outputs are those in `metadata.outputs`, else all output ports that feed no edge. A mapping in
    `metadata.outputs` renames the outputs. A graph without output ports returns its parameters.
    """
    graph = document.graph
    stated_outputs = (graph.metadata or {}).get("outputs")
    if isinstance(stated_outputs, Mapping) and stated_outputs:
        return {str(name): str(output_name) for name, output_name in stated_outputs.items()}
    if isinstance(stated_outputs, list | tuple) and stated_outputs:
        name_index = _find_name_index(document)
        return {name_index.find(str(name)).name: str(name) for name in stated_outputs}
    if stated_outputs:
        raise ModelError(
            f"metadata.outputs is a list of names, or a mapping of them, not {str(stated_outputs)[:60]!r}",
            document.where,
            "write outputs: [node.port, ...] or outputs: {name: node.port}",
        )
    sent_ports = {(edge.sender, edge.sender_port) for edge in graph.edges}
    output_ports = [(node.id, port.id) for node in graph.nodes for port in node.output_ports]
    unsent_names = (
        [port for port in output_ports if port not in sent_ports]
        if output_ports
        else _list_parameters(graph)
    )
    return {f"{node}.{part_id}": f"{node}.{part_id}" for node, part_id in unsent_names}


def refuse_without_outputs(document: Document, outputs: Collection[DocumentValue]) -> None:
    """Raise an error for a model without outputs.

    Such a model has no output ports, or all its output ports feed other nodes.

    Raises:
        ModelError: If `outputs` is empty.
    """
    if outputs:
        return
    graph = document.graph
    port_names = [f"{node.id}.{port.id}" for node in graph.nodes for port in node.output_ports]
    if not port_names:
        raise ModelError(
            f"there is nothing to compute: '{graph.id}' has no output ports",
            document.where,
            "add an output port, or name what a run is to give: record=['node.parameter'] "
            "(--record node.parameter)",
        )
    port_list = ", ".join(port_names[:3]) + (", ..." if len(port_names) > 3 else "")
    raise ModelError(
        f"there is nothing to compute: all output ports of '{graph.id}' feed nodes, so none is an "
        "output of the graph",
        document.where,
        f"name the outputs in the metadata of the graph, metadata: {{outputs: [{port_list}]}}, or "
        f"what a run is to give, record=['{port_names[0]}'] (--record {port_names[0]})",
    )


def _list_parameters(graph: Graph) -> list[tuple[str, str]]:
    """Return the parameters of all nodes, without parameters that are graphs."""
    graph_parameters = {
        (node.id, name)
        for node in graph.nodes
        for node_part in node.functions_and_parameters
        for name in parameters_with_bodies(node_part, node)
    }
    parameter_keys = [
        (node.id, parameter.id) for node in graph.nodes for parameter in node.parameters
    ]
    return [name for name in parameter_keys if name not in graph_parameters]


ALL_OUTPUTS = Selection()
"""Selection of the model's own outputs."""


def named_items(document: Document, selection: Selection = ALL_OUTPUTS) -> dict[str, Item]:
    """Map each name in the results of a run to its output port, parameter or function.

    The model may name its own outputs.

    Raises:
        UnknownNameError: If the model does not have a selected item.
    """
    name_index = _find_name_index(document)
    if not name_index.outputs:
        output_name_by_shown_name = output_names(document)
        name_index.outputs = {
            shown_name: name_index.find(name)
            for shown_name, name in output_name_by_shown_name.items()
        }
    model_outputs = name_index.outputs
    result_names = {
        node_item: shown_name for shown_name, node_item in reversed(model_outputs.items())
    }
    requested_items = [
        name_index.find(name) for name in (*(selection.only or ()), *selection.extra_names)
    ]
    selected_outputs = model_outputs if selection.only is None else {}
    selected_items = set(selected_outputs.values())
    return {
        **selected_outputs,
        **{
            result_names.get(node_item, node_item.name): node_item
            for node_item in requested_items
            if node_item not in selected_items
        },
    }


def stated_shapes(document: Document) -> dict[str, tuple[int, ...]]:
    """Map names in the results to the shapes that the document states for output ports."""
    shape_by_port = {
        (node.id, port.id): port.shape
        for node in document.graph.nodes
        for port in node.output_ports
    }
    shape_by_name = {
        name: shape_by_port.get((node_item.node, node_item.id))
        for name, node_item in named_items(document).items()
    }
    return {name: tuple(shape) for name, shape in shape_by_name.items() if shape}
