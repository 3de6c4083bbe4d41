"""Names that nobody uses yet."""

from __future__ import annotations

import onnx

from mdf_loop.importing.opsets.weights import graphs_of


class Names:
    """Names of values that nobody uses yet, anywhere in the model."""

    def __init__(self, graph: onnx.GraphProto) -> None:
        self._taken: set[str] = set()
        for current in graphs_of(graph):
            self._taken.update(value.name for value in current.input)
            self._taken.update(tensor.name for tensor in current.initializer)
            for node in current.node:
                self._taken.update(node.output)
                self._taken.update(node.input)
                self._taken.add(node.name)

    def fresh(self, wanted: str) -> str:
        """`wanted`, with a number behind it if it is taken."""
        name, number = wanted, 1
        while name in self._taken:
            number += 1
            name = f"{wanted}_{number}"
        self._taken.add(name)
        return name
