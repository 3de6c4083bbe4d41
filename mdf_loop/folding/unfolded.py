"""A loop node with a constant number of iterations becomes copies of its body's nodes.

    x -> loop 3 [ A -> B ] -> out     x -> loop_in -> A_1 -> B_1 -> A_2 -> ... -> B_3 -> loop -> out

    unfold(graph, loop="loop")

`loop_in` has what enters the body: initial values, captures, iteration numbers. The node `loop`
stays and only collects: its outputs have their old names, recorded rows are stacked there.
The numbers are the same.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from mdf_loop.arguments import text
from mdf_loop.errors import ModelError, UnsupportedError
from mdf_loop.folding.flat import Content, Flat, Port, flat, fresh
from mdf_loop.folding.loops import Unfolded, refuse, trimmed, unfolded_loop
from mdf_loop.importing.opening import Source
from mdf_loop.lower.syntax import names_in, parse
from mdf_loop.reading.names import output_names

_MOST = 1000
"""Iterations beyond which a graph of copies is of no use to anybody."""


def unfold(source: Source, loop: str, *, most: int = _MOST) -> Any:
    """Write out the iterations of a loop node.

    Args:
        source: a path, a modeci_mdf Model or Graph, or a dict.
        loop: the id of the loop node; `node.function` where it has several loops.
        most: the most iterations that are written out.

    Returns:
        A new modeci_mdf Model. The source is left as it is.

    Raises:
        LoopError: there is no such loop, or its number of iterations is not constant.
    """
    graph = flat(source)
    found = unfolded_loop(graph, text(loop, "loop", "loop='node'"), most)
    return _Copies(graph, found).model()


class _Round(Struct, frozen=True):
    """Where the carried values come from that enter one iteration, by the names in the body."""

    number: int
    sources: Mapping[str, Port]


class _Copies:
    """Puts the new graph together."""

    def __init__(self, graph: Flat, loop: Unfolded) -> None:
        self.graph = graph
        self.loop = loop
        taken = [*graph.nodes]
        self.entry = fresh(f"{loop.node}_in", taken)
        taken.append(self.entry)
        self.copies: dict[tuple[str, int], str] = {}
        for number in range(1, loop.count + 1):
            for name in loop.nodes:
                self.copies[name, number] = fresh(f"{name}_{number}", taken)
                taken.append(self.copies[name, number])
        self.nodes: Content = {}
        self.edges: Content = {}
        self.given: Content = {}  # output ports of the entry node: value
        self.functions: Content = {}
        self.parameters: Content = {}

    def model(self) -> Any:
        """The whole model with the copies in it."""
        loop = self.loop
        values = [self._initial(k) for k in range(len(loop.signature.enters))]
        rows: list[list[Port]] = [[] for _ in loop.signature.rows]
        for number in range(1, loop.count + 1):
            entering = _Round(number, dict(zip(loop.signature.enters, values, strict=True)))
            self._copy(entering)
            values = [self._made(name, entering) for name in loop.signature.leaves]
            for row, name in zip(rows, loop.signature.rows, strict=True):
                row.append(self._made(name, entering))
        last = self._collector(values, rows)
        return self._model(last)

    # --- what enters --------------------------------------------------------------------------------

    def _initial(self, k: int) -> Port:
        """The initial value: its dtype does not bend to what it is combined with later."""
        name = self.loop.signature.enters[k]
        port = fresh(f"{name}_0", [*self.loop.own_names, *self.given])
        value = self.loop.initial[k]
        if self.loop.states_type(name):
            self.given[port] = value
        else:
            function = fresh(f"initial_{name}", [*self.loop.own_names, *self.functions])
            self.functions[function] = {"function": "onnx::Identity", "args": {"input": value}}
            self.given[port] = function
        return self.entry, port

    def _number(self, number: int) -> Port:
        return self._typed(f"iteration_{number}", number, "int64")

    def _typed(self, name: str, value: Any, dtype: str) -> Port:
        """A constant of one dtype."""
        if name not in self.given:
            held = fresh(f"{name}_value", self.loop.own_names)
            self.parameters[held] = {"value": value, "metadata": {"dtype": dtype}}
            self.given[name] = held
        return self.entry, name

    def _captured(self, name: str) -> Port:
        self.given.setdefault(name, self.loop.bindings.get(name, name))
        return self.entry, name

    # --- one iteration ------------------------------------------------------------------------------

    def _copy(self, entering: _Round) -> None:
        number = entering.number
        fed = {(e["receiver"], e["receiver_port"]) for e in self.loop.edges.values()}
        for name, content in self.loop.nodes.items():
            copy = self.copies[name, number]
            ports = dict(content.get("input_ports") or {})
            for read in self.loop.read_without_port(name):
                ports[read] = {}
            for port in ports:
                source = None if (name, port) in fed else self._source(port, entering)
                if source is not None:
                    held = ports[port] or {}
                    ports[port] = {k: v for k, v in held.items() if k != "default_value"}
                    self._edge(source, (copy, port))
            self.nodes[copy] = {**content, "input_ports": ports} if ports else content
        for edge_id, edge in self.loop.edges.items():
            ends = {end: self.copies[edge[end], number] for end in ("sender", "receiver")}
            taken = [*self.edges, *(edge.id for edge in self.graph.edges)]
            self.edges[fresh(f"{edge_id}_{number}", taken)] = {**edge, **ends}

    def _source(self, name: str, entering: _Round) -> Port | None:
        if name in entering.sources:
            return entering.sources[name]
        if name == self.loop.signature.iteration:
            return self._number(entering.number - 1)
        if name == self.loop.signature.condition_in:
            return self._typed("go_on", True, "bool")
        return self._captured(name) if name in self.loop.seen else None

    def _made(self, name: str, entering: _Round) -> Port:
        """What a body output is in this iteration."""
        port = self.loop.output(name)
        if port is not None:
            return self.copies[port[0], entering.number], port[1]
        source = self._source(name, entering)
        if source is None:
            raise ModelError(f"the body has no output '{name}'", self.loop.where)
        return source

    def _edge(self, source: Port, to: Port) -> None:
        taken = [*self.edges, *(edge.id for edge in self.graph.edges)]
        self.edges[fresh(f"{'_'.join(source)}_to_{'_'.join(to)}", taken)] = {
            "sender": source[0],
            "sender_port": source[1],
            "receiver": to[0],
            "receiver_port": to[1],
        }

    # --- what leaves --------------------------------------------------------------------------------

    def _collector(self, values: Sequence[Port], rows: Sequence[Sequence[Port]]) -> Content:
        """The node that has the loop's outputs."""
        loop = self.loop
        ports: Content = {}
        results: list[str] = []
        for name, source in zip(loop.signature.leaves, values, strict=True):
            results.append(self._arriving(ports, f"last_{name}", source))
        for name, sources in zip(loop.signature.rows, rows, strict=True):
            if loop.keeps_last(name):
                results.append(self._arriving(ports, f"last_{name}", sources[-1]))
                continue
            arrived = [self._arriving(ports, f"{name}_{k}", s) for k, s in enumerate(sources, 1)]
            results.append(loop.stacked(name, arrived))
        written = {
            port: {**content, "value": self._replaced(content.get("value"), results)}
            for port, content in loop.outputs.items()
        }
        own = loop.own()
        inputs = {**own["input_ports"], **ports}
        return trimmed({**own, "input_ports": inputs, "output_ports": written})

    def _arriving(self, ports: Content, wanted: str, source: Port) -> str:
        plain = "".join(c if c.isalnum() else "_" for c in wanted)
        name = fresh(plain, [*self.loop.own_names, *self.loop.outputs, *ports])
        ports[name] = {}
        self._edge(source, (self.loop.node, name))
        return name

    def _replaced(self, value: Any, results: Sequence[str]) -> Any:
        """An output's expression with the loop's results as they are called now."""
        function = self.loop.function
        if not isinstance(value, str) or function not in {n.split(".")[0] for n in names_in(value)}:
            return value
        tree = _Results(function, results, self.loop).visit(parse(value))
        return ast.unparse(ast.fix_missing_locations(tree))

    def _model(self, last: Content) -> Any:
        graph, loop = self.graph, self.loop
        own = loop.own()
        entry = trimmed(
            {
                **own,
                "functions": {**own.get("functions", {}), **self.functions},
                "parameters": {**own.get("parameters", {}), **self.parameters},
                "output_ports": {name: {"value": value} for name, value in self.given.items()},
            }
        )
        nodes: Content = {}
        for name, content in graph.nodes.items():
            if name == loop.node:
                nodes |= {self.entry: entry, **self.nodes, name: last}
            else:
                nodes[name] = content
        edges: Content = {}
        for edge in graph.edges:
            if edge.receiver[0] != loop.node or edge.receiver[1] in last["input_ports"]:
                edges[edge.id] = dict(edge.content)
            if edge.receiver[0] == loop.node and edge.receiver[1] in entry["input_ports"]:
                name = edge.id
                if name in edges:
                    name = fresh(f"{edge.id}_in", [*edges, *self.edges])
                edges[name] = edge.written(edge.sender, (self.entry, edge.receiver[1]))
        metadata = {**(graph.graph.get("metadata") or {})}
        metadata.setdefault("outputs", list(output_names(self.loop.document)))
        edges |= {
            name: edge
            for name, edge in self.edges.items()
            if edge["receiver"] != loop.node or edge["receiver_port"] in last["input_ports"]
        }
        changed = {"nodes": nodes, "edges": edges, "metadata": metadata}
        return graph.with_graph(**changed)


class _Results(ast.NodeTransformer):
    """Puts the names of results in place of `f`, `f[0]` and `f.iterations`."""

    def __init__(self, function: str, results: Sequence[str], loop: Unfolded) -> None:
        self.function = function
        self.results = results
        self.loop = loop

    def _is_loop(self, node: ast.AST) -> bool:
        return isinstance(node, ast.Name) and node.id == self.function

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        """`f[0]`."""
        single = len(self.results) == 1
        if single or not self._is_loop(node.value):
            return self.generic_visit(node)
        if not isinstance(node.slice, ast.Constant) or not isinstance(node.slice.value, int):
            raise UnsupportedError("a loop's result is taken by a number", self.loop.where)
        return ast.parse(self.results[node.slice.value], mode="eval").body

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        """`f.iterations`."""
        if not self._is_loop(node.value):
            return self.generic_visit(node)
        if node.attr != "iterations":
            raise refuse(self.loop.where, f"an output reads '{self.function}.{node.attr}'")
        return ast.Constant(self.loop.count)

    def visit_Name(self, node: ast.Name) -> ast.AST:
        """`f`, of a loop with one result."""
        if not self._is_loop(node):
            return node
        if len(self.results) != 1:
            raise refuse(self.loop.where, "an output reads all of its results at once")
        return ast.parse(self.results[0], mode="eval").body
