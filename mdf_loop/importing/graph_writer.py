"""Builder of MDF graphs as plain dicts, used by the importers of other file formats.

Each value is an output port with the name of the value. Each reader of the value has an input port with
the same name, and an edge. A value without a producer in the graph is an outer value. In a body, an outer
value is an input or a captured value.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from mdf_loop.document.tensors import array_parameter
from mdf_loop.ir import Array, Shape

Content: TypeAlias = dict[str, Any]
"""Part of an MDF document: mappings, lists, numbers, text, and numpy arrays."""

_FUNCTION_IDS = {"onnx::Loop": "loop", "onnx::Scan": "scan", "onnx::If": "choice"}
"""Ids of functions that reports and pictures show. The id of all other functions is `result`."""


class GraphWriter:
    """Builder of an MDF graph from nodes that refer to their inputs by value names.

    Each node names the values that it reads and provides. The edges are derived from these names.
    """

    def __init__(self, graph_id: str, outer: GraphWriter | None = None) -> None:
        self.graph_id = graph_id
        self.nodes: dict[str, Content] = {}
        self._outer_writer = outer
        self._producers: dict[str, str] = {}
        self._used_names: set[str] = set()
        self._suffix_counts: Counter[str] = Counter()

    # --- names ----------------------------------------------------------------------------------

    def reserve_names(self, names: Iterable[str]) -> None:
        """Reserve value names, so that `unique_name` never returns one of these names."""
        self._used_names.update(names)

    def unique_name(self, base: str) -> str:
        """Return a value name that is unused in this graph and in the enclosing graphs."""
        unused_name = self._first_free_name(base, self._is_taken)
        self._used_names.add(unused_name)
        return unused_name

    def _first_free_name(self, base: str, is_taken: Callable[[str], bool]) -> str:
        unused_name = base
        while is_taken(unused_name):
            self._suffix_counts[base] += 1
            unused_name = f"{base}_{self._suffix_counts[base] + 1}"
        return unused_name

    def _is_taken(self, name: str) -> bool:
        return name in self._used_names or (
            self._outer_writer is not None and self._outer_writer._is_taken(name)
        )

    # --- nodes ----------------------------------------------------------------------------------

    def add_input(
        self, name: str, dtype: str, shape: Shape, other_names: Sequence[str] = ()
    ) -> None:
        """Add a model input as a node with one unconnected input port of the same name."""
        port_content: Content = {"type": dtype} if dtype else {}
        if shape is not None:
            port_content["shape"] = [extent if isinstance(extent, int) else -1 for extent in shape]
            extent_names = [extent for extent in shape if isinstance(extent, str)]
            if extent_names and not any(
                extent_name.startswith("?") for extent_name in extent_names
            ):
                port_content["metadata"] = {"dims": list(shape)}
        if other_names:
            port_content.setdefault("metadata", {})["names"] = list(other_names)
        node_content = {
            "input_ports": {name: port_content},
            "output_ports": {name: {"value": name}},
        }
        self._insert_node(name, node_content, [name])

    def add_constant(self, name: str, array: Array) -> None:
        """Add a node that provides a constant array."""
        node_content = {
            "parameters": {"value": array_parameter(array)},
            "output_ports": {name: {"value": "value"}},
        }
        self._insert_node(name, node_content, [name])

    def add_node(
        self,
        function: str,
        outputs: Sequence[str],
        *,
        args: Mapping[str, Any],
        names_read: Sequence[str],
        node_id: str = "",
    ) -> None:
        """Add a node that evaluates one function, with an output port for each named output."""
        names_read = [name for name in dict.fromkeys(names_read) if name]
        function_id = _FUNCTION_IDS.get(function, "result")
        while any(name == function_id or name.startswith(f"{function_id}[") for name in names_read):
            function_id += "_"
        output_expressions = (
            [function_id]
            if len(outputs) == 1
            else [f"{function_id}[{output_index}]" for output_index in range(len(outputs))]
        )
        node_content: Content = {
            "input_ports": {name: {} for name in names_read},
            "functions": {function_id: {"function": function, "args": dict(args)}},
            "output_ports": {
                name: {"value": expression}
                for name, expression in zip(outputs, output_expressions, strict=True)
                if name
            },
        }
        operator_name = function.rpartition("::")[2]
        self._insert_node(node_id or f"{operator_name}_{len(self.nodes)}", node_content, outputs)

    def _insert_node(self, base_id: str, node: Content, outputs: Iterable[str]) -> None:
        node_id = self._first_free_name(base_id, self.nodes.__contains__)
        self.nodes[node_id] = {
            field_name: field_content for field_name, field_content in node.items() if field_content
        }
        output_names = [name for name in outputs if name]
        self._producers.update((name, node_id) for name in output_names)
        self._used_names.update(output_names)

    # --- the graph ------------------------------------------------------------------------------

    def producer_id(self, name: str) -> str | None:
        """Return the id of the node whose output port provides a value, or None."""
        return self._producers.get(name)

    def graph_content(
        self,
        *,
        outputs: Sequence[str] | Mapping[str, str],
        inputs: Sequence[str] | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> Content:
        """Return the finished graph as a dict `{graph id: content}`.

        `inputs` are the ordered inputs of a body.
        """
        graph_metadata: Content = dict(metadata or {})
        if inputs:
            graph_metadata["inputs"] = list(inputs)
        graph_metadata["outputs"] = dict(outputs) if isinstance(outputs, Mapping) else list(outputs)
        return {
            self.graph_id: {
                "metadata": graph_metadata,
                "nodes": dict(self.nodes),
                "edges": self._edges(),
            }
        }

    def _edges(self) -> Content:
        edge_contents: Content = {}
        for receiver_id, node_content in self.nodes.items():
            for value_name in node_content.get("input_ports", {}):
                sender_id = self._producers.get(value_name)
                if sender_id is not None and sender_id != receiver_id:
                    edge_contents[f"{sender_id}_{receiver_id}_{value_name}"] = {
                        "sender": sender_id,
                        "sender_port": value_name,
                        "receiver": receiver_id,
                        "receiver_port": value_name,
                    }
        return edge_contents
