"""Random numbers of this library in modeci_mdf's engine, with one random stream per call site.

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
from mdf_loop.errors import ExpressionError, OperandError
from mdf_loop.lower.syntax import dotted_name, drawing_calls, parse
from mdf_loop.number_check import contains_only_numbers
from mdf_loop.run.modeci.seeds import seeded

_HOOK = "mdf_loop_draw"

_NAMED = ("shape", "mean", "scale", "low", "high", "dtype")
_READING = ("Like", "Bernoulli")
"""Suffixes of operators that draw numbers for an input."""


class EngineDraws:
    """Document with numbered drawing calls, and the function that draws their numbers.

    Attributes:
        document: Document for the engine.
    """

    def __init__(self, document: Document, seed: int) -> None:
        self._seed = seed
        self._calls: list[tuple[str, str]] = []
        self._place = document.graph.id
        self.document = document
        graph = replace_fields(document.graph, nodes=[*map(self._node, document.graph.nodes)])
        if self._calls:
            self.document = replace(document, graph=graph)

    @contextmanager
    def given(self, turn: Callable[[], int]) -> Iterator[None]:
        """Enable the drawing calls of the document within this context. `turn` returns the current turn."""

        def draw(number: int, *arguments: Any, **named: Any) -> Any:
            function, site = self._calls[number]
            try:
                return FUNCTIONS[function](SiteTurn(site, turn(), self._seed), *arguments, **named)
            except OperandError as error:
                sentence = f"{error.findings[0].what}, drawn by '{site}'"
                raise OperandError(sentence) from None

        with seeded(self._seed), _put(draw):
            yield

    # --- the document -----------------------------------------------------------------------------

    def _node(self, node: Any) -> Any:
        taken_names = {item.id for item in (*node.functions, *node.parameters)}
        return replace_fields(
            node,
            functions=[self._item(node, item) for item in node.functions],
            parameters=[self._item(node, item) for item in node.parameters],
            output_ports=[
                replace_fields(
                    port, value=self._text(port.value, self._port(node, port, taken_names))
                )
                for port in node.output_ports
            ],
        )

    def _port(self, node: Any, port: Any, taken_names: set[str]) -> str:
        name = f"output_ports.{port.id}" if port.id in taken_names else port.id
        return f"{self._place}.{node.id}.{name}"

    def _item(self, node: Any, item: Any) -> Any:
        if graph_function(item.function):
            return item
        site = f"{self._place}.{node.id}.{item.id}"
        if item.function in FUNCTIONS:
            return self._operator(item, site)
        fields = {"value": self._text(item.value, site)}
        if item.args:
            fields["args"] = {k: self._text(v, f"{site}.{k}") for k, v in item.args.items()}
        for part in ("default_initial_value", "time_derivative"):
            if getattr(item, part, None) is not None:
                fields[part] = self._text(getattr(item, part), f"{site}.{part}")
        if getattr(item, "conditions", None):
            fields["conditions"] = [
                self._condition(condition, f"{site}.conditions.{k}")
                for k, condition in enumerate(item.conditions)
            ]
        return replace_fields(item, **fields)

    def _operator(self, item: Any, site: str) -> Any:
        """Replace an ONNX operator that draws by an expression with a numbered drawing call."""
        args = {k: self._text(v, f"{site}.{k}") for k, v in (item.args or {}).items()}
        seed = args.pop("seed", None)
        arguments = [f"{name}={name}" for name in args if name in _NAMED]
        arguments += ["input=input"] * item.function.endswith(_READING)
        number = self._numbered(item.function, f"{site}{_seed(seed)}#0")
        call = f"numpy.random.{_HOOK}({', '.join((str(number), *arguments))})"
        return replace_fields(item, function=None, args=args, value=call)

    def _condition(self, condition: Any, site: str) -> Any:
        if isinstance(condition, dict):
            return {**condition, **{k: self._text(v, f"{site}.{k}") for k, v in condition.items()}}
        fields = {part: getattr(condition, part) for part in ("test", "value")}
        return replace_fields(
            condition, **{k: self._text(v, f"{site}.{k}") for k, v in fields.items()}
        )

    def _text(self, expression: Any, site: str) -> Any:
        """Insert the numbers of the call sites into the drawing calls of an expression."""
        if isinstance(expression, list | tuple) and not contains_only_numbers(expression):
            parts = [self._text(part, f"{site}.{k}") for k, part in enumerate(expression)]
            same = all(map(lambda new, old: new is old, parts, expression))
            return expression if same else parts
        if not isinstance(expression, str) or "random" not in expression:
            return expression
        try:
            tree = parse(expression)
        except ExpressionError:
            return expression
        calls = drawing_calls(tree)
        for k, call in enumerate(calls):
            self._number(call, f"{site}#{k}")
        return ast.unparse(tree) if calls else expression

    def _number(self, call: ast.Call, site: str) -> None:
        function = dotted_name(call.func)
        if function not in FUNCTIONS:
            return
        call.args.insert(0, ast.Constant(self._numbered(function, site)))
        call.func = ast.parse(f"numpy.random.{_HOOK}", mode="eval").body

    def _numbered(self, function: str, site: str) -> int:
        self._calls.append((function, site))
        return len(self._calls) - 1


@contextmanager
def _put(draw: Callable[..., Any]) -> Iterator[None]:
    """Install a drawing function for expressions, and restore the previous function at the end."""
    before = getattr(np.random, _HOOK, None)
    setattr(np.random, _HOOK, draw)
    try:
        yield
    finally:
        if before is None:
            delattr(np.random, _HOOK)
        else:
            setattr(np.random, _HOOK, before)


def _seed(seed: Any) -> str:
    return "" if seed is None else f".seed {float(seed)}"
