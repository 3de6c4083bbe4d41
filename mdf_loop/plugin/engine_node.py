"""Support for nodes with loops in modeci_mdf's engine, where this library computes the loops."""

from __future__ import annotations

import ast
import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from mdf_loop.document import parts
from mdf_loop.document.document import Document
from mdf_loop.document.graph_functions import graph_function, is_loop
from mdf_loop.document.modeci import from_modeci, to_modeci
from mdf_loop.document.parts import Function, Graph, Node
from mdf_loop.errors import ArityError
from mdf_loop.plugin.loop_call import LoopCall
from mdf_loop.plugin.models import find_graph_id, find_sibling_graphs, has_graph_functions
from mdf_loop.plugin.stand_in import StandIn, build_stand_in
from mdf_loop.reading.names_read import item_path
from mdf_loop.reading.node import LOOP_RESULTS


def accept_any_names(scan: Callable[[Any], list[str]]) -> Callable[[Any], list[str]]:
    """Wrap the engine's function that finds names in expressions so that any text is accepted.

    A text that is not Python (`x.3`, `/A/Add`) is one name. `(a, b[0])` contains the names a and b.

    Args:
        scan: Function of the engine that returns the names in an expression.
    """

    @functools.wraps(scan)
    def names(expr: Any) -> list[str]:
        try:
            return scan(expr)
        except SyntaxError:
            pass
        try:
            syntax_tree = ast.parse(expr.strip(), mode="eval")
        except SyntaxError:
            return [expr.strip()]
        return [
            syntax_node.id
            for syntax_node in ast.walk(syntax_tree)
            if isinstance(syntax_node, ast.Name)
        ]

    return names


def accept_loops(engine: Any) -> Callable[..., None]:
    """Wrap `EvaluableNode.__init__` of modeci_mdf's engine so that nodes may have loops."""
    original_initialize = engine.EvaluableNode.__init__

    @functools.wraps(original_initialize)
    def initialize_with_loops(self: Any, node: Any, verbose: bool | None = False) -> None:
        if not has_graph_functions(node):
            original_initialize(self, node, verbose)
            return
        siblings = from_modeci(find_sibling_graphs(node))
        document = Document(Graph(id=""), "$", siblings, node.id)
        node_part: Node = from_modeci(node)
        loops = [
            node_item
            for node_item in node_part.functions_and_parameters
            if graph_function(node_item.function)
        ]
        substitute = build_stand_in(node_part, loops, document)
        original_initialize(self, to_modeci(substitute.node), verbose)
        self.node = node
        graph_id = find_graph_id(node)
        for loop in loops:
            loop_call = LoopCall(loop, node_part, item_path(loop, node_part), document, graph_id)
            if isinstance(loop, Function):
                _insert_evaluable_loop(
                    self.evaluable_functions, loop.id, EvaluableLoop(loop_call), substitute
                )
            else:
                loop_parameter = EvaluableLoopParameter(loop, loop_call, engine, verbose)
                _insert_evaluable_loop(
                    self.evaluable_parameters, loop.id, loop_parameter, substitute
                )
        _select_by_position(self, {loop.id for loop in loops})

    return initialize_with_loops


def _insert_evaluable_loop(
    evaluable_by_name: dict[str, Any], loop_id: str, loop: EvaluableLoop, substitute: StandIn
) -> None:
    """Replace the placeholder constant of a loop by the loop and by references to its results."""
    evaluables = list(evaluable_by_name.items())
    evaluable_by_name.clear()
    for evaluable_name, evaluable in evaluables:
        reference = substitute.references.get(evaluable_name)
        if evaluable_name == loop_id:
            evaluable_by_name[evaluable_name] = loop
            result_names = LOOP_RESULTS if is_loop(loop.loop_call.item.function) else ()
            evaluable_by_name.update(
                {
                    f"{evaluable_name}.{result_name}": EvaluableReference(loop, result_name)
                    for result_name in result_names
                }
            )
        elif reference is not None and reference.loop_id == loop_id:
            evaluable_by_name[evaluable_name] = EvaluableReference(loop, reference.result_key)
        else:
            evaluable_by_name[evaluable_name] = evaluable


class EvaluableLoop:
    """Loop with the interface of an evaluable function of modeci_mdf's engine."""

    def __init__(self, loop_call: LoopCall) -> None:
        self.loop_call = loop_call
        self.curr_value: Any = None

    def evaluate(self, parameters: dict[str, Any], *_: Any, **__: Any) -> Any:
        """Run the loop on the current values of its node, and return the loop's results."""
        self.curr_value = self.loop_call.run(parameters)
        return self.curr_value


class EvaluableLoopParameter(EvaluableLoop):
    """Loop that is a parameter of a node in modeci_mdf's engine.

    The parameter may have an initial value and conditions on its result.
    """

    _RESULT_NAME = "result of the loop"

    def __init__(
        self, loop: parts.Parameter, loop_call: LoopCall, engine: Any, verbose: bool | None
    ) -> None:
        from modeci_mdf.mdf import Parameter

        super().__init__(loop_call)
        self.parameter = Parameter(
            id=loop.id,
            value=self._RESULT_NAME,
            default_initial_value=loop.default_initial_value,
            conditions=to_modeci(loop.conditions),
        )
        self._evaluable = engine.EvaluableParameter(self.parameter, verbose)

    def get_current_value(self, parameters: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        """Return the loop's last result, or the parameter's initial value before the first run."""
        if self.curr_value is None and self.parameter.default_initial_value is not None:
            return self._evaluable.get_current_value(parameters, *args, **kwargs)
        return self.curr_value

    def evaluate(self, parameters: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        """Run the loop on the current values of its node, and apply the parameter's conditions."""
        loop_result = super().evaluate(parameters)
        if self.parameter.conditions:
            condition_values = {**parameters, self._RESULT_NAME: loop_result}
            self.curr_value = self._evaluable.evaluate(condition_values, *args, **kwargs)
        return self.curr_value


class EvaluableReference:
    """Reference to a result of a loop in modeci_mdf's engine, by name or position.

    A name is `loop.iterations`, for example.

    If the only result of a loop is a scalar, position 0 refers to this result.
    """

    def __init__(self, loop: EvaluableLoop, key: str | int) -> None:
        self.loop = loop
        self.result_key = key
        self.curr_value: Any = None

    def evaluate(self, *_: Any, **__: Any) -> Any:
        """Return the referenced result of the loop's last run."""
        loop_result = self.loop.curr_value
        if isinstance(self.result_key, str):
            self.curr_value = self.loop.loop_call.loop_reports[self.result_key]
        elif (
            not isinstance(loop_result, tuple)
            and np.ndim(loop_result) == 0
            and self.result_key == 0
        ):
            self.curr_value = loop_result
        else:
            self.curr_value = loop_result[self.result_key]
        return self.curr_value

    def get_current_value(self, *_: Any, **__: Any) -> Any:
        """Return the result that the last call of `evaluate` returned."""
        return self.curr_value


def _select_by_position(enode: Any, loops: set[str]) -> None:
    """Assign the results of a loop by position to output ports that only name the loop.

    Importers write output ports in this form.
    """
    for loop_id in loops:
        port_ids = [
            output_port.id
            for output_port in enode.node.output_ports
            if output_port.value == loop_id
        ]
        for port_position, port_id in enumerate(port_ids if len(port_ids) > 1 else ()):
            evaluable_output = enode.evaluable_outputs[port_id]
            enode.evaluable_outputs[port_id] = _PortByPosition(
                evaluable_output, port_position, len(port_ids)
            )


class _PortByPosition:
    """Output port that returns the result of a loop at the port's position."""

    def __init__(self, output: Any, position: int, port_count: int) -> None:
        self.output_port = output.output_port
        self.curr_value: Any = None
        self._output = output
        self._position = position
        self._port_count = port_count

    def evaluate(self, *args: Any, **kwargs: Any) -> Any:
        """Return the result of the loop at the position of the port.

        Raises:
            ArityError: If the number of results of the loop is not the number of ports.
        """
        port_value = self._output.evaluate(*args, **kwargs)
        if isinstance(port_value, tuple):
            if len(port_value) != self._port_count:
                raise ArityError(
                    f"the loop gives {len(port_value)} results, but {self._port_count} output ports "
                    "take them",
                    hint="write loop[0], loop[1], ... in the ports to choose",
                )
            port_value = port_value[self._position]
        self.curr_value = port_value
        return port_value
