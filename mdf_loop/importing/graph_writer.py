"""An MDF graph put together as plain content, with the value names of the file it comes from.

A value is an output port of that name; who reads it has an input port of that name, and an edge.
What no node of the graph makes is read from outside: in a body that is an input or a capture.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from mdf_loop.document.tensors import typed
from mdf_loop.ir import Array, Shape

Content: TypeAlias = dict[str, Any]
"""A part of an MDF document: mappings, lists, numbers, text, and numpy arrays."""

_WORDS = {"onnx::Loop": "loop", "onnx::Scan": "scan", "onnx::If": "choice"}
"""What functions are called that reports and pictures name; all others are `result`."""


class GraphWriter:
    """Collects nodes; `content` gives the graph with the edges between them."""

    def __init__(self, graph_id: str, outer: GraphWriter | None = None) -> None:
        self.graph_id = graph_id
        self.nodes: dict[str, Content] = {}
        self._outer = outer
        self._makers: dict[str, str] = {}
        self._names: set[str] = set()
        self._tried: Counter[str] = Counter()

    # --- names ----------------------------------------------------------------------------------

    def reserve(self, names: Iterable[str]) -> None:
        """Say which value names the file uses: `fresh` gives none of them."""
        self._names.update(names)

    def fresh(self, wanted: str) -> str:
        """A value name that nobody has yet, here or around this graph."""
        name = self._free(wanted, self._is_taken)
        self._names.add(name)
        return name

    def _free(self, wanted: str, is_taken: Callable[[str], bool]) -> str:
        name = wanted
        while is_taken(name):
            self._tried[wanted] += 1
            name = f"{wanted}_{self._tried[wanted] + 1}"
        return name

    def _is_taken(self, name: str) -> bool:
        return name in self._names or (self._outer is not None and self._outer._is_taken(name))

    # --- nodes ----------------------------------------------------------------------------------

    def input(self, name: str, dtype: str, shape: Shape, other_names: Sequence[str] = ()) -> None:
        """An input of the model: a node whose open port is called as the input is."""
        port: Content = {"type": dtype} if dtype else {}
        if shape is not None:
            port["shape"] = [extent if isinstance(extent, int) else -1 for extent in shape]
            named = [extent for extent in shape if isinstance(extent, str)]
            if named and not any(name.startswith("?") for name in named):
                port["metadata"] = {"dims": list(shape)}
        if other_names:
            port.setdefault("metadata", {})["names"] = list(other_names)
        node = {"input_ports": {name: port}, "output_ports": {name: {"value": name}}}
        self._add(name, node, [name])

    def constant(self, name: str, array: Array) -> None:
        """A value that the file states."""
        node = {
            "parameters": {"value": typed(array)},
            "output_ports": {name: {"value": "value"}},
        }
        self._add(name, node, [name])

    def node(
        self,
        function: str,
        outputs: Sequence[str],
        *,
        args: Mapping[str, Any],
        reads: Sequence[str],
        node_id: str = "",
    ) -> None:
        """A node with one function of other values; an output called "" is not taken."""
        reads = [name for name in dict.fromkeys(reads) if name]
        result = _WORDS.get(function, "result")
        while any(name == result or name.startswith(f"{result}[") for name in reads):
            result += "_"
        values = [result] if len(outputs) == 1 else [f"{result}[{k}]" for k in range(len(outputs))]
        node: Content = {
            "input_ports": {name: {} for name in reads},
            "functions": {result: {"function": function, "args": dict(args)}},
            "output_ports": {
                name: {"value": value} for name, value in zip(outputs, values, strict=True) if name
            },
        }
        short = function.rpartition("::")[2]
        self._add(node_id or f"{short}_{len(self.nodes)}", node, outputs)

    def _add(self, wanted: str, node: Content, outputs: Iterable[str]) -> None:
        node_id = self._free(wanted, self.nodes.__contains__)
        self.nodes[node_id] = {key: part for key, part in node.items() if part}
        made = [name for name in outputs if name]
        self._makers.update((name, node_id) for name in made)
        self._names.update(made)

    # --- the graph ------------------------------------------------------------------------------

    def maker(self, name: str) -> str | None:
        """The id of the node that makes a value."""
        return self._makers.get(name)

    def content(
        self,
        *,
        outputs: Sequence[str] | Mapping[str, str],
        inputs: Sequence[str] | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> Content:
        """The graph under its id; of a body with `inputs`, in order."""
        about: Content = dict(metadata or {})
        if inputs:
            about["inputs"] = list(inputs)
        about["outputs"] = dict(outputs) if isinstance(outputs, Mapping) else list(outputs)
        return {
            self.graph_id: {"metadata": about, "nodes": dict(self.nodes), "edges": self._edges()}
        }

    def _edges(self) -> Content:
        edges: Content = {}
        for receiver, node in self.nodes.items():
            for name in node.get("input_ports", {}):
                sender = self._makers.get(name)
                if sender is not None and sender != receiver:
                    edges[f"{sender}_{receiver}_{name}"] = {
                        "sender": sender,
                        "sender_port": name,
                        "receiver": receiver,
                        "receiver_port": name,
                    }
        return edges
