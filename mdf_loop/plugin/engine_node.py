"""Nodes with loops in modeci_mdf's engine: the engine's own node, its loops computed here."""

from __future__ import annotations

import copy
from collections.abc import Callable
from graphlib import CycleError, TopologicalSorter
from typing import Any

import numpy as np

from mdf_loop.errors import ArityError
from mdf_loop.lower import names_in
from mdf_loop.plugin.loop_call import LoopCall
from mdf_loop.reading.document import Document, is_loop
from mdf_loop.reading.loop_forms import loop_form
from mdf_loop.reading.node import LOOP_RESULTS
from mdf_loop.reading.signature import free_ports

FindSiblings = Callable[[Any], dict[str, Any]]


def tolerant(scan: Callable[[Any], list[str]]) -> Callable[[Any], list[str]]:
    """The engine's scan for names; a text that is no Python (`x.3`, `/A/Add`) names nothing new."""

    def scan_or_nothing(expr: Any) -> list[str]:
        try:
            return scan(expr)
        except SyntaxError:
            return []

    scan_or_nothing.__doc__ = scan.__doc__
    return scan_or_nothing


def loop_node_class(engine: Any, find_siblings: FindSiblings) -> type:
    """A subclass of the engine's `EvaluableNode` that can evaluate loops."""
    base = engine.EvaluableNode

    class LoopNode(base):  # type: ignore[misc, valid-type]
        """A node of the engine; what loops it has are compiled and run here."""

        def __init__(self, node: Any, verbose: bool | None = False) -> None:
            loops = [x for x in (*node.functions, *node.parameters) if is_loop(x.function)]
            if not loops:
                super().__init__(node, verbose)
                return
            document = Document(None, "$", find_siblings(node), node.id)
            calls = {x.id: LoopCall(x, node, _path(x, node), document) for x in loops}
            super().__init__(_stand_in(node, set(calls), document), verbose)
            self.node = node
            for table in ("evaluable_functions", "evaluable_parameters"):
                setattr(self, table, _with_loops(getattr(self, table), calls))
            for port_id, output in self.evaluable_outputs.items():
                if output.output_port.value in calls:
                    position = _position(output.output_port, node, calls)
                    self.evaluable_outputs[port_id] = _PortByPosition(output, position)

    LoopNode.__name__ = base.__name__
    LoopNode.__qualname__ = base.__qualname__
    return LoopNode


def _path(item: Any, node: Any) -> str:
    kind = "functions" if any(f is item for f in node.functions) else "parameters"
    return f"$.graphs[0].nodes['{node.id}'].{kind}['{item.id}']"


# --- the copy of the node that the engine is given --------------------------------------------


def _stand_in(node: Any, loops: set[str], document: Document) -> Any:
    """The node with constants in place of loops, without graphs, functions in order of use."""
    from modeci_mdf.mdf import Function, Parameter

    copied = copy.copy(node)
    copied.functions = [
        Function(id=f.id, value="0") if f.id in loops else f for f in _in_order(node, document)
    ]
    copied.parameters = [
        Parameter(id=p.id, value=0) if p.id in loops else p
        for p in node.parameters
        if not _holds_graph(p)
    ]
    return copied


def _holds_graph(parameter: Any) -> bool:
    return isinstance(parameter.value, dict) or hasattr(parameter.value, "nodes")


def _in_order(node: Any, document: Document) -> list[Any]:
    """The node's functions, each after those that it reads; a loop reads what its body captures."""
    functions = {f.id: f for f in node.functions}
    reads: dict[str, set[str]] = {}
    for function in functions.values():
        names = {function.value} | names_in(function.value)
        for expression in (function.args or {}).values():
            names |= names_in(expression)
        if is_loop(function.function):
            form = loop_form(function, node, _path(function, node), document)
            names |= _names_of_body(form.body, node, document)
        heads = {str(name).split(".")[0].split("[")[0] for name in names}
        reads[function.id] = (heads & functions.keys()) - {function.id}
    try:
        return [functions[name] for name in TopologicalSorter(reads).static_order()]
    except CycleError:
        return list(node.functions)  # the engine says what is wrong


def _names_of_body(graph: Any, node: Any, document: Document) -> set[str]:
    """Names that a body, or a body inside it, may read from outside."""
    names = set(free_ports(graph))
    for inner in graph.nodes:
        for item in (*inner.functions, *inner.parameters):
            names |= names_in(item.value)
            for key, expression in (item.args or {}).items():
                names |= names_in(expression) if key != "body" else set()
            if is_loop(item.function):
                form = loop_form(item, inner, "$", document)
                names |= _names_of_body(form.body, inner, document)
    return names


# --- evaluables -------------------------------------------------------------------------------


class EvaluableLoop:
    """A loop function as the engine evaluates it."""

    def __init__(self, call: LoopCall) -> None:
        self.call = call
        self.curr_value: Any = None

    def evaluate(self, parameters: dict[str, Any], *_: Any, **__: Any) -> Any:
        """Run the loop on the node's current values."""
        self.curr_value = self.call.run(parameters)
        return self.curr_value

    def get_current_value(self, *_: Any, **__: Any) -> Any:
        """The last result; a loop that is a parameter has none before its first execution."""
        return self.curr_value


class EvaluableLoopResult:
    """What else a loop says: `loop.iterations`, ..., and `loop[0]` of a loop with one number."""

    def __init__(self, loop: EvaluableLoop, key: str) -> None:
        self.loop = loop
        self.key = key
        self.curr_value: Any = None

    def evaluate(self, *_: Any, **__: Any) -> Any:
        """What the loop said when it ran just now."""
        if self.key == "[0]":
            value = self.loop.curr_value
            self.curr_value = value[0] if isinstance(value, tuple) or np.ndim(value) else value
        else:
            self.curr_value = self.loop.call.named[self.key]
        return self.curr_value

    def get_current_value(self, *_: Any, **__: Any) -> Any:
        """What the loop said last."""
        return self.curr_value


def _with_loops(table: Any, calls: dict[str, LoopCall]) -> Any:
    """The engine's table of evaluables with loops in the place of their stand-ins."""
    made = type(table)()
    for key, evaluable in table.items():
        if key not in calls:
            made[key] = evaluable
            continue
        loop = EvaluableLoop(calls[key])
        made[key] = loop
        for name in LOOP_RESULTS:
            made[f"{key}.{name}"] = EvaluableLoopResult(loop, name)
        made[f"{key}[0]"] = EvaluableLoopResult(loop, "[0]")
    return made


class _PortByPosition:
    """An output port that says a loop's bare name: all results, or its own if ports share them."""

    def __init__(self, output: Any, position: tuple[int, int] | None) -> None:
        self.output_port = output.output_port
        self.curr_value: Any = None
        self._output = output
        self._position = position

    def evaluate(self, *args: Any, **kwargs: Any) -> Any:
        """The port's value."""
        value = self._output.evaluate(*args, **kwargs)
        if self._position is not None and isinstance(value, tuple):
            k, n_ports = self._position
            if len(value) != n_ports:
                raise ArityError(
                    f"the loop gives {len(value)} results, but {n_ports} output ports take them",
                    hint="write loop[0], loop[1], ... in the ports to choose",
                )
            value = value[k]
        self.curr_value = value
        return value


def _position(port: Any, node: Any, calls: dict[str, LoopCall]) -> tuple[int, int] | None:
    """Which of several ports with the same loop this is, and how many there are."""
    ports = [p.id for p in node.output_ports if p.value == port.value]
    return (ports.index(port.id), len(ports)) if len(ports) > 1 else None
