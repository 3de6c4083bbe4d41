"""Generator of value names that are unused in a model."""

from __future__ import annotations

import onnx

from mdf_loop.importing.opsets.weights import graphs_of


class NameGenerator:
    """Generator of value names that no graph or body of the model uses."""

    def __init__(self, graph: onnx.GraphProto) -> None:
        self._used_names: set[str] = set()
        for nested_graph in graphs_of(graph):
            self._used_names.update(value.name for value in nested_graph.input)
            self._used_names.update(tensor.name for tensor in nested_graph.initializer)
            for node in nested_graph.node:
                self._used_names.update(node.output)
                self._used_names.update(node.input)
                self._used_names.add(node.name)

    def unique_name(self, base: str) -> str:
        """Return `base`, with a number appended if the name is used."""
        unique_name, number_suffix = base, 1
        while unique_name in self._used_names:
            number_suffix += 1
            unique_name = f"{base}_{number_suffix}"
        self._used_names.add(unique_name)
        return unique_name
