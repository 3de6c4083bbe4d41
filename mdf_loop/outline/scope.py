"""Which names of a model mean what: the places around a loop body, and what it captures.

Name precedence in a body: declared input > enclosing node's port, parameter or function (then
the place around that) > port default.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from msgspec import Struct, field

from mdf_loop.document.graph_functions import BODIES, graph_function
from mdf_loop.lower import names_in
from mdf_loop.outline.parts import Block, InputOutline
from mdf_loop.outline.values import CaptureOutline
from mdf_loop.reading.parameters import condition_fields


class OutlineScope(Struct, frozen=True):
    """The names of a node or of a body's signature, with the place around it behind them."""

    names: Mapping[str, CaptureOutline] = field(default_factory=dict)
    outer: OutlineScope | None = None

    def find(self, name: str) -> CaptureOutline | None:
        """What a name stands for here or further out."""
        if name in self.names:
            return self.names[name]
        return self.outer.find(name) if self.outer else None


def known_value(node: Any, expression: Any) -> Any | None:
    """The number, truth value or list that an expression of the node plainly is."""
    for _ in range(8):
        if not isinstance(expression, str):
            return expression
        parameter = next((p for p in node.parameters if p.id == expression.strip()), None)
        if parameter is None or parameter.conditions:
            return literal_value(expression)
        if isinstance(parameter.value, str) and parameter.value == expression:
            return literal_value(expression)
        expression = parameter.value
    return None


def literal_value(text: str) -> Any | None:
    """The number or truth value that a text spells."""
    try:
        value = ast.literal_eval(text.strip())
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
        return None
    return None if isinstance(value, str) else value


def node_place(
    node: Any, where: str, bindings: Iterable[str], outer: OutlineScope | None
) -> OutlineScope:
    """The names that a loop of `node` can capture."""
    names: dict[str, CaptureOutline] = {}
    for kind, items in (
        ("input port", node.input_ports),
        ("parameter", node.parameters),
        ("function", node.functions),
    ):
        field_name = kind.replace(" ", "_") + "s"
        for item in items:
            path = f"{where}.{field_name}['{item.id}']"
            value = known_value(node, item.id) if kind == "parameter" else None
            names[item.id] = CaptureOutline(item.id, kind, node.id, path, value)
    for name in bindings:
        names[name] = CaptureOutline(name, "argument", node.id, where)
    return OutlineScope(names, outer)


def local_names(node: Any) -> frozenset[str]:
    """The names that belong to a node itself."""
    items = (*node.input_ports, *node.parameters, *node.functions)
    return frozenset(item.id for item in items)


def direct_reads(node: Any, blocks: Iterable[Block]) -> Iterator[str]:
    """Names that the node's expressions (and its bodies) use and that are not its own."""
    local = local_names(node)
    seen = dict.fromkeys(name for text in _expressions(node) for name in sorted(names_in(text)))
    seen.update(dict.fromkeys(c.name for block in blocks for c in block.captures))
    yield from (name for name in seen if name not in local and name.split(".")[0] not in local)


def _expressions(node: Any) -> Iterator[Any]:
    for item in (*node.functions, *node.parameters):
        for name in ("value", "default_initial_value", "time_derivative"):
            yield from _texts(getattr(item, name, None))
        for value in _arguments(item):
            yield from _texts(value)
        for condition in getattr(item, "conditions", None) or ():
            for text in condition_fields(condition):
                yield from _texts(text)
    for port in node.output_ports:
        yield from _texts(port.value)


def _arguments(item: Any) -> Iterator[Any]:
    """The arguments of a function that are expressions, and those inside of `slices` and others."""
    name = graph_function(item.function)
    bodies = BODIES[name] if name else ()
    for key, value in (item.args or {}).items():
        if name and isinstance(value, Mapping) and key not in bodies:
            for said in value.values():
                yield from said.values() if isinstance(said, Mapping) else [said]
        elif key not in bodies or (key == "default" and isinstance(value, list | tuple)):
            yield value


def _texts(value: Any) -> Iterator[Any]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list | tuple):
        for part in value:
            if isinstance(part, str):
                yield part


def body_inputs(
    graph: Any,
    where: str,
    blocks: Mapping[str, tuple[Block, ...]],
    declared: Mapping[str, str],
    outer: OutlineScope,
) -> tuple[InputOutline, ...]:
    """What comes into a body's nodes from its signature and from outside.

    `declared` says what each input of the signature is (iteration, condition, carried...).
    """
    fed = {(edge.receiver, edge.receiver_port) for edge in graph.edges}
    found: list[InputOutline] = []
    for node in graph.nodes:
        place = f"{where}.nodes['{node.id}']"
        for port in node.input_ports:
            if (node.id, port.id) not in fed:
                source = _source(port, declared, outer)
                path = f"{place}.input_ports['{port.id}']"
                found.append(
                    InputOutline(
                        port.id, node.id, port.id, source, path, default=port.default_value
                    )
                )
        for name in direct_reads(node, blocks.get(node.id, ())):
            if name in declared or outer.find(name) is not None:
                source = declared.get(name, "captured")
                found.append(InputOutline(name, node.id, None, source, place))
    return tuple(found)


def _source(port: Any, declared: Mapping[str, str], outer: OutlineScope) -> str:
    if port.id in declared:
        return declared[port.id]
    if outer.find(port.id) is not None:
        return "captured"
    return "unbound" if port.default_value is None else "default"


def captured(inputs: Iterable[InputOutline], outer: OutlineScope) -> tuple[CaptureOutline, ...]:
    """The captures of a body, each value once, in order of first use."""
    names = dict.fromkeys(entry.name for entry in inputs if entry.source == "captured")
    found = ((name, outer.find(name)) for name in names)
    return tuple(capture for _, capture in found if capture is not None)
