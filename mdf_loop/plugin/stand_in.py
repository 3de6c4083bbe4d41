"""What modeci_mdf's engine is given in place of a node with loops.

    functions: {loop_1: {function: onnx::Loop, args: ...}}    ->   {loop_1: 0, loop_1__iterations: 0}
    output_ports: {n: loop_1.iterations * 2}                  ->   {n: loop_1__iterations * 2}

A copy of the node: constants stand for loops and for what is asked of them, parameters that hold
bodies are left out, functions come after those that they read. The node itself is never touched.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from graphlib import CycleError as GraphCycleError
from graphlib import TopologicalSorter
from typing import Any

from msgspec import Struct, field

from mdf_loop.document.bodies import parameters_with_bodies
from mdf_loop.document.changes import changed
from mdf_loop.document.document import Document
from mdf_loop.document.graph_functions import graph_function
from mdf_loop.errors import CycleError
from mdf_loop.reading.names_read import names_read_by
from mdf_loop.reading.node import LOOP_RESULTS
from mdf_loop.reading.parameters import condition_fields


class Asked(Struct, frozen=True):
    """Something asked of a loop in an expression: `loop.iterations`, `loop[0]`."""

    loop: str
    what: str | int


class StandIn(Struct):
    """The copy of a node, and what its added names stand for."""

    node: Any
    asked: dict[str, Asked] = field(default_factory=dict)


def stand_in(node: Any, loops: Iterable[Any], document: Document) -> StandIn:
    """The node as the engine can hold it.

    Raises:
        LoopError: a loop's form is wrong, or functions of the node need each other.
    """
    loops = list(loops)
    bodies = {name for loop in loops for name in parameters_with_bodies(loop, node)}
    asking = _Asking(node, loops)
    functions = [_renamed(f, asking) for f in in_order(node, document)]
    parameters = [_renamed(p, asking) for p in node.parameters if p.id not in bodies]
    made = changed(
        node,
        output_ports=[_renamed(port, asking) for port in node.output_ports],
        functions=list(_with_constants(functions, loops, asking.asked)),
        parameters=list(_with_constants(parameters, loops, asking.asked)),
    )
    return StandIn(made, asking.asked)


def _with_constants(
    items: Iterable[Any], loops: list[Any], asked: Mapping[str, Asked]
) -> Iterator[Any]:
    """The items with constants for loops, followed by constants for what is asked of them."""
    for item in items:
        if all(item is not loop for loop in loops):
            yield item
            continue
        for name in (item.id, *(name for name, what in asked.items() if what.loop == item.id)):
            yield type(item)(id=name, value="0")


# --- names for what is asked of loops ---------------------------------------------------------


class _Asking(ast.NodeTransformer):
    """Gives `loop.iterations` and `loop[0]` in expressions names that Python can evaluate."""

    def __init__(self, node: Any, loops: Iterable[Any]) -> None:
        self.loops = {loop.id for loop in loops}
        self.taken = {
            x.id for x in (*node.input_ports, *node.functions, *node.parameters, *node.output_ports)
        }
        self.asked: dict[str, Asked] = {}

    def text(self, text: str) -> str:
        """The expression with such names; itself where it asks nothing."""
        if text in self.taken:
            return text
        whole = _WHOLE.fullmatch(text.strip())
        if whole and whole["loop"] in self.loops:
            what = whole["key"] or int(whole["position"])
            if what == 0 or whole["key"] or not whole["loop"].isidentifier():
                return self._name(whole["loop"], what)
        try:
            tree = self.visit(ast.parse(text.strip(), mode="eval"))
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return text
        asks = any(isinstance(part, ast.Name) and part.id in self.asked for part in ast.walk(tree))
        return ast.unparse(tree) if asks else text

    def _name(self, loop: str, what: str | int) -> str:
        for name, asked in self.asked.items():
            if asked == Asked(loop, what):
                return name
        name = re.sub(r"\W", "_", f"_{loop}__{what}")
        while name in self.taken | self.asked.keys():
            name += "_"
        self.asked[name] = Asked(loop, what)
        return name

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        """`loop.iterations`."""
        loop = node.value
        if isinstance(loop, ast.Name) and loop.id in self.loops and node.attr in LOOP_RESULTS:
            return ast.Name(self._name(loop.id, node.attr), ast.Load())
        return self.generic_visit(node)

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        """`loop[0]`, which is also how the only result is written when it is one number."""
        loop, index = node.value, node.slice
        first = isinstance(index, ast.Constant) and type(index.value) is int and index.value == 0
        if isinstance(loop, ast.Name) and loop.id in self.loops and first:
            return ast.Name(self._name(loop.id, 0), ast.Load())
        return self.generic_visit(node)


_WHOLE = re.compile(rf"(?P<loop>.+?)(\.(?P<key>{'|'.join(LOOP_RESULTS)})|\[(?P<position>\d+)\])")


def _renamed(item: Any, asking: _Asking) -> Any:
    """A function, parameter or output port with the new names in its expressions."""
    if graph_function(getattr(item, "function", None)):
        return item
    said: dict[str, Any] = {}
    for name in ("value", "default_initial_value", "time_derivative"):
        value = getattr(item, name, None)
        if isinstance(value, str):
            said[name] = asking.text(value)
    args = getattr(item, "args", None) or {}
    texts = {name: _text(arg, asking) for name, arg in args.items()}
    if texts != args:
        said["args"] = texts
    if getattr(item, "conditions", None):
        said["conditions"] = [_renamed_condition(c, asking) for c in item.conditions]
    return changed(item, **said)


def _renamed_condition(condition: Any, asking: _Asking) -> Any:
    test, value = (_text(part, asking) for part in condition_fields(condition))
    if isinstance(condition, dict):
        return {**condition, "test": test, "value": value}
    return changed(condition, test=test, value=value)


def _text(expression: Any, asking: _Asking) -> Any:
    """The same for an expression, which may be no text."""
    return asking.text(expression) if isinstance(expression, str) else expression


# --- order ------------------------------------------------------------------------------------


def in_order(node: Any, document: Document) -> list[Any]:
    """The node's functions, each after those that it reads; a loop reads what its body captures.

    Raises:
        CycleError: functions need each other.
    """
    functions = {f.id: f for f in node.functions}
    reads: dict[str, set[str]] = {}
    for function in functions.values():
        names = names_read_by(function, node, document)
        owners = {_owner(name, functions) for name in names} & functions.keys()
        reads[function.id] = owners - {function.id}
    try:
        order = TopologicalSorter(reads).static_order()
        return [functions[name] for name in order]
    except GraphCycleError as error:
        circle = " -> ".join(error.args[1])
        raise CycleError(
            f"the values of node '{node.id}' need each other: {circle}",
            f"$.graphs[0].nodes['{node.id}']",
            "give a parameter a default_initial_value to make it a state",
        ) from None


def _owner(name: str, functions: Mapping[str, Any]) -> str:
    """The function that a name belongs to: itself, or the loop in `loop.iterations`, `loop[1]`."""
    whole = None if name in functions else _WHOLE.fullmatch(name)
    return whole["loop"] if whole else name
