"""Nodes with loops in modeci_mdf's engine: the engine's own node, its loops computed here."""

from __future__ import annotations

import ast
import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from mdf_loop.document.document import Document
from mdf_loop.document.graph_functions import graph_function, is_loop
from mdf_loop.errors import ArityError
from mdf_loop.plugin.loop_call import LoopCall
from mdf_loop.plugin.models import siblings_of
from mdf_loop.plugin.stand_in import StandIn, stand_in
from mdf_loop.reading.names_read import item_path
from mdf_loop.reading.node import LOOP_RESULTS


def names_of(scan: Callable[[Any], list[str]]) -> Callable[[Any], list[str]]:
    """The engine's scan for names, also for texts that it cannot parse.

    A text that is no Python (`x.3`, `/A/Add`) is one name; `(a, b[0])` holds the names a and b.
    """

    @functools.wraps(scan)
    def names(expr: Any) -> list[str]:
        try:
            return scan(expr)
        except SyntaxError:
            pass
        try:
            tree = ast.parse(expr.strip(), mode="eval")
        except SyntaxError:
            return [expr.strip()]
        return [part.id for part in ast.walk(tree) if isinstance(part, ast.Name)]

    return names


def with_loops(engine: Any) -> Callable[..., None]:
    """The engine's `EvaluableNode.__init__`, for nodes with loops too."""
    make = engine.EvaluableNode.__init__

    @functools.wraps(make)
    def make_with_loops(self: Any, node: Any, verbose: bool | None = False) -> None:
        loops = [x for x in (*node.functions, *node.parameters) if graph_function(x.function)]
        if not loops:
            make(self, node, verbose)
            return
        document = Document(None, "$", siblings_of(node), node.id)
        given = stand_in(node, loops, document)
        make(self, given.node, verbose)
        self.node = node
        for loop in loops:
            call = LoopCall(loop, node, item_path(loop, node), document)
            if any(loop is function for function in node.functions):
                _put(self.evaluable_functions, loop.id, EvaluableLoop(call), given)
            else:
                parameter = EvaluableLoopParameter(call, engine, verbose)
                _put(self.evaluable_parameters, loop.id, parameter, given)
        _choose_by_position(self, {loop.id for loop in loops})

    return make_with_loops


def _put(table: dict[str, Any], loop_id: str, loop: EvaluableLoop, given: StandIn) -> None:
    """Put a loop in the place of its constant, and behind it what can be asked of it."""
    entries = list(table.items())
    table.clear()
    for name, evaluable in entries:
        asked = given.asked.get(name)
        if name == loop_id:
            table[name] = loop
            keys = LOOP_RESULTS if is_loop(loop.call.item.function) else ()
            table.update({f"{name}.{key}": EvaluableAnswer(loop, key) for key in keys})
        elif asked is not None and asked.loop == loop_id:
            table[name] = EvaluableAnswer(loop, asked.what)
        else:
            table[name] = evaluable


class EvaluableLoop:
    """A loop function as the engine evaluates it."""

    def __init__(self, call: LoopCall) -> None:
        self.call = call
        self.curr_value: Any = None

    def evaluate(self, parameters: dict[str, Any], *_: Any, **__: Any) -> Any:
        """Run the loop on the node's current values."""
        self.curr_value = self.call.run(parameters)
        return self.curr_value


class EvaluableLoopParameter(EvaluableLoop):
    """A parameter that is a loop: it may have an initial value, and conditions on the result."""

    _RESULT = "result of the loop"

    def __init__(self, call: LoopCall, engine: Any, verbose: bool | None) -> None:
        from modeci_mdf.mdf import Parameter

        super().__init__(call)
        self.parameter = Parameter(
            id=call.item.id,
            value=self._RESULT,
            default_initial_value=call.item.default_initial_value,
            conditions=call.item.conditions,
        )
        self._after = engine.EvaluableParameter(self.parameter, verbose)

    def get_current_value(self, parameters: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        """The last result; before the first, the initial value, if there is one."""
        if self.curr_value is None and self.parameter.default_initial_value is not None:
            return self._after.get_current_value(parameters, *args, **kwargs)
        return self.curr_value

    def evaluate(self, parameters: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        """Run the loop on the node's current values, then apply the conditions."""
        result = super().evaluate(parameters)
        if self.parameter.conditions:
            values = {**parameters, self._RESULT: result}
            self.curr_value = self._after.evaluate(values, *args, **kwargs)
        return self.curr_value


class EvaluableAnswer:
    """What is asked of a loop: `loop.iterations`, ..., or a result by its position.

    The only result of a loop is also its result 0 when it is one number.
    """

    def __init__(self, loop: EvaluableLoop, what: str | int) -> None:
        self.loop = loop
        self.what = what
        self.curr_value: Any = None

    def evaluate(self, *_: Any, **__: Any) -> Any:
        """What the loop gave when it ran just now."""
        result = self.loop.curr_value
        if isinstance(self.what, str):
            self.curr_value = self.loop.call.named[self.what]
        elif not isinstance(result, tuple) and np.ndim(result) == 0 and self.what == 0:
            self.curr_value = result
        else:
            self.curr_value = result[self.what]
        return self.curr_value

    def get_current_value(self, *_: Any, **__: Any) -> Any:
        """What the loop gave last."""
        return self.curr_value


def _choose_by_position(enode: Any, loops: set[str]) -> None:
    """Ports that share the bare name of a loop get its results by position (importer's way)."""
    for loop in loops:
        ports = [p.id for p in enode.node.output_ports if p.value == loop]
        for position, port in enumerate(ports if len(ports) > 1 else ()):
            output = enode.evaluable_outputs[port]
            enode.evaluable_outputs[port] = _PortByPosition(output, position, len(ports))


class _PortByPosition:
    """An output port that takes one of a loop's results."""

    def __init__(self, output: Any, position: int, n_ports: int) -> None:
        self.output_port = output.output_port
        self.curr_value: Any = None
        self._output = output
        self._position = position
        self._n_ports = n_ports

    def evaluate(self, *args: Any, **kwargs: Any) -> Any:
        """The port's value."""
        value = self._output.evaluate(*args, **kwargs)
        if isinstance(value, tuple):
            if len(value) != self._n_ports:
                raise ArityError(
                    f"the loop gives {len(value)} results, but {self._n_ports} output ports "
                    "take them",
                    hint="write loop[0], loop[1], ... in the ports to choose",
                )
            value = value[self._position]
        self.curr_value = value
        return value
