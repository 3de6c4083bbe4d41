"""Random numbers in modeci_mdf's engine that equal those of compiled models.

    x + numpy.random.normal(0.0, 0.3)     ->     x + numpy.random.mdf_loop_draw(2, 0.0, 0.3)

The engine computes a document whose drawing calls contain the number of their call site. The driver of
the engine provides the current turn. If the engine evaluates an expression twice in one turn, both
evaluations draw the same numbers. Loops are computed by this library, which knows the call sites inside
them (see `mdf_loop.plugin`).
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from msgspec.structs import replace

from mdf_loop.distributions import FUNCTIONS, SiteTurn
from mdf_loop.document.changes import replace_fields
from mdf_loop.document.document import Document
from mdf_loop.document.graph_functions import graph_function
from mdf_loop.document.parts import FunctionOrParameter, Node, Parameter
from mdf_loop.errors import ExpressionError, OperandError
from mdf_loop.lower.syntax import dotted_name, drawing_calls, parse
from mdf_loop.number_check import contains_only_numbers
from mdf_loop.run.modeci.seeds import use_seed

_HOOK_NAME = "mdf_loop_draw"

_KEYWORD_ARGUMENTS = ("shape", "mean", "scale", "low", "high", "dtype")
_INPUT_OPERATOR_SUFFIXES = ("Like", "Bernoulli")
"""Suffixes of operators that draw numbers for an input."""


class EngineDraws:
    """Document for modeci_mdf's engine whose random-number calls draw this library's numbers.

    Attributes:
        document: Document for the engine.
    """

    def __init__(self, document: Document, seed: int) -> None:
        self._seed = seed
        self._calls: list[tuple[str, str]] = []
        self._graph_id = document.graph.id
        self.document = document
        graph = replace_fields(
            document.graph, nodes=[*map(self._number_node, document.graph.nodes)]
        )
        if self._calls:
            self.document = replace(document, graph=graph)

    @contextmanager
    def enable_draws(self, turn: Callable[[], int]) -> Iterator[None]:
        """Let modeci_mdf's engine draw this library's random numbers within this context.

        `turn` returns the current turn.
        """

        def draw(number: int, *arguments: Any, **named: Any) -> Any:
            function, site = self._calls[number]
            try:
                return FUNCTIONS[function](SiteTurn(site, turn(), self._seed), *arguments, **named)
            except OperandError as error:
                error_text = f"{error.findings[0].what}, drawn by '{site}'"
                raise OperandError(error_text) from None

        with use_seed(self._seed), _install_hook(draw):
            yield

    # --- the document -----------------------------------------------------------------------------

    def _number_node(self, node: Node) -> Any:
        taken_names = {named_item.id for named_item in node.functions_and_parameters}
        return replace_fields(
            node,
            functions=[self._number_item(node, item) for item in node.functions],
            parameters=[self._number_item(node, item) for item in node.parameters],
            output_ports=[
                replace_fields(
                    port,
                    value=self._number_expression(
                        port.value, self._port_site(node, port, taken_names)
                    ),
                )
                for port in node.output_ports
            ],
        )

    def _port_site(self, node: Node, port: Any, taken_names: set[str]) -> str:
        name = f"output_ports.{port.id}" if port.id in taken_names else port.id
        return f"{self._graph_id}.{node.id}.{name}"

    def _number_item(self, node: Node, item: FunctionOrParameter) -> FunctionOrParameter:
        if graph_function(item.function):
            return item
        site = f"{self._graph_id}.{node.id}.{item.id}"
        if item.function in FUNCTIONS:
            return self._replace_operator(item, item.function, site)
        new_fields = {"value": self._number_expression(item.value, site)}
        if item.args:
            new_fields["args"] = {
                argument_name: self._number_expression(expression, f"{site}.{argument_name}")
                for argument_name, expression in item.args.items()
            }
        if isinstance(item, Parameter):
            for field_name in ("default_initial_value", "time_derivative"):
                if getattr(item, field_name) is not None:
                    new_fields[field_name] = self._number_expression(
                        getattr(item, field_name), f"{site}.{field_name}"
                    )
            if item.conditions:
                new_fields["conditions"] = [
                    self._number_condition(condition, f"{site}.conditions.{k}")
                    for k, condition in enumerate(item.conditions)
                ]
        return replace_fields(item, **new_fields)

    def _replace_operator(
        self, item: FunctionOrParameter, operator: str, site: str
    ) -> FunctionOrParameter:
        """Replace a random ONNX operator by an expression with a numbered random-number call."""
        args = {
            name: self._number_expression(expression, f"{site}.{name}")
            for name, expression in (item.args or {}).items()
        }
        seed = args.pop("seed", None)
        arguments = [f"{name}={name}" for name in args if name in _KEYWORD_ARGUMENTS]
        arguments += ["input=input"] * operator.endswith(_INPUT_OPERATOR_SUFFIXES)
        call_number = self._register_call(operator, f"{site}{_seed_suffix(seed)}#0")
        call = f"numpy.random.{_HOOK_NAME}({', '.join((str(call_number), *arguments))})"
        return replace_fields(item, function=None, args=args, value=call)

    def _number_condition(self, condition: Any, site: str) -> Any:
        if isinstance(condition, dict):
            return {
                **condition,
                **{
                    name: self._number_expression(expression, f"{site}.{name}")
                    for name, expression in condition.items()
                },
            }
        condition_fields = {
            field_name: getattr(condition, field_name) for field_name in ("test", "value")
        }
        return replace_fields(
            condition,
            **{
                field_name: self._number_expression(expression, f"{site}.{field_name}")
                for field_name, expression in condition_fields.items()
            },
        )

    def _number_expression(self, expression: Any, site: str) -> Any:
        """Insert a call-site number into each random-number call of an expression."""
        if isinstance(expression, list | tuple) and not contains_only_numbers(expression):
            numbered_elements = [
                self._number_expression(element, f"{site}.{k}")
                for k, element in enumerate(expression)
            ]
            is_unchanged = all(map(lambda new, old: new is old, numbered_elements, expression))
            return expression if is_unchanged else numbered_elements
        if not isinstance(expression, str) or "random" not in expression:
            return expression
        try:
            tree = parse(expression)
        except ExpressionError:
            return expression
        calls = drawing_calls(tree)
        for k, call in enumerate(calls):
            self._number_call(call, f"{site}#{k}")
        return ast.unparse(tree) if calls else expression

    def _number_call(self, call: ast.Call, site: str) -> None:
        function_name = dotted_name(call.func)
        if function_name not in FUNCTIONS:
            return
        call.args.insert(0, ast.Constant(self._register_call(function_name, site)))
        call.func = ast.parse(f"numpy.random.{_HOOK_NAME}", mode="eval").body

    def _register_call(self, function: str, site: str) -> int:
        self._calls.append((function, site))
        return len(self._calls) - 1


@contextmanager
def _install_hook(draw: Callable[..., Any]) -> Iterator[None]:
    """Make a random-number function callable from expressions within this context."""
    previous_hook = getattr(np.random, _HOOK_NAME, None)
    setattr(np.random, _HOOK_NAME, draw)
    try:
        yield
    finally:
        if previous_hook is None:
            delattr(np.random, _HOOK_NAME)
        else:
            setattr(np.random, _HOOK_NAME, previous_hook)


def _seed_suffix(seed: Any) -> str:
    return "" if seed is None else f".seed {float(seed)}"
