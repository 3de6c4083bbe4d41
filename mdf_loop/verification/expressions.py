"""Expressions that Python, as in modeci_mdf's engine, evaluates differently from this library.

Python lists are no arrays, Python bools are no NumPy numbers, and Python integers have no limit.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any

import networkx
import numpy as np

from mdf_loop.errors import ExpressionError
from mdf_loop.ir import Value
from mdf_loop.lower import names_in
from mdf_loop.lower.syntax import dotted_name, parse, parse_number

Terms = Mapping[str, Any]
"""Value of each name in a node."""


def python_differences(text: str, terms: Terms, lists: Collection[str]) -> Iterator[str]:
    """Yield sentences on parts of an expression that Python evaluates differently.

    Args:
        text: The expression.
        terms: The values of the names in the expression.
        lists: Ports whose default is a list.
    """
    for syntax_node in _syntax_nodes(text):
        if isinstance(syntax_node, ast.BinOp) and isinstance(syntax_node.op, ast.Mult | ast.Add):
            yield from _note_combined_lists((syntax_node.left, syntax_node.right), terms, lists)
            if isinstance(syntax_node.op, ast.Add) and all(
                _is_single_bool(side, terms) for side in (syntax_node.left, syntax_node.right)
            ):
                yield (
                    "truth values are added as numbers, 1 + 1 is 2; in modeci_mdf's engine the sum is "
                    "true where they are numpy's, as states are from the second evaluation on"
                )
        elif isinstance(syntax_node, ast.Compare):
            yield from _note_combined_lists(
                (syntax_node.left, *syntax_node.comparators), terms, lists
            )
        elif isinstance(syntax_node, ast.Call) and _returns_float16(syntax_node, terms):
            yield (
                f"{dotted_name(syntax_node.func)} of a truth value is computed in float64; numpy, and so "
                "modeci_mdf's engine, computes it in float16"
            )


def _syntax_nodes(text: str) -> Iterator[ast.AST]:
    """Yield all syntax nodes of an expression, or none for a number or a name like `/A/Add`."""
    with suppress(ExpressionError):
        if parse_number(text) is None:
            yield from ast.walk(parse(text))


def _note_combined_lists(
    sides: Iterable[ast.expr], terms: Terms, lists: Collection[str]
) -> Iterator[str]:
    """Yield a note if an operator combines lists without an array, which Python would join."""
    sides = tuple(sides)
    list_ports = [side.id for side in sides if isinstance(side, ast.Name) and side.id in lists]
    if list_ports and not any(_has_array(side, terms, lists) for side in sides):
        yield (
            f"the default of '{list_ports[0]}' is an array here; in modeci_mdf's engine it is a list of "
            "Python, which * repeats, + joins and == compares as a whole"
        )


def _has_array(side: ast.expr, terms: Terms, lists: Collection[str] = ()) -> bool:
    """Return True if an expression reads an array other than a list."""
    terms_read = (terms.get(name) for name in names_in(ast.unparse(side)) - set(lists))
    return any(isinstance(term, Value) and term.shape != () for term in terms_read)


def _is_single_bool(side: ast.expr, terms: Terms) -> bool:
    """Return True if an expression evaluates to a single bool."""
    if isinstance(side, ast.Name):
        term = terms.get(side.id)
        return isinstance(term, Value) and (term.dtype, term.shape) == ("bool", ())
    is_comparison = isinstance(side, ast.Compare)
    return (is_comparison or _is_negation(side)) and not _has_array(side, terms)


def _is_negation(side: ast.expr) -> bool:
    """Return True if an expression has the form `not x`."""
    return isinstance(side, ast.UnaryOp) and isinstance(side.op, ast.Not)


def _returns_float16(call: ast.Call, terms: Terms) -> bool:
    """Return True for a call of a numpy function of bools that numpy computes in float16."""
    function = getattr(np, dotted_name(call.func).removeprefix("numpy."), None)
    if not isinstance(function, np.ufunc) or len(call.args) != function.nin:
        return False
    if not all(_is_single_bool(argument, terms) for argument in call.args):
        return False
    signature = (np.dtype(bool),) * function.nin + (None,) * function.nout
    return np.dtype(np.float16) in function.resolve_dtypes(signature)


# --- unbounded integers ---------------------------------------------------------------------------


def growing_states(values: Mapping[str, str]) -> Iterator[str]:
    """Yield the states that may grow exponentially, such as `p` updated by `p * p`.

    Examples are `p * p`, and `a + b` with states a and b that read each other. An expression with `%` is
    ignored, because the modulus bounds the state.

    Args:
        values: Expression of each parameter, by name.
    """
    edges = [
        (name, source)
        for name, expression in values.items()
        for source in names_in(expression) & values.keys()
    ]
    for cycle in networkx.strongly_connected_components(networkx.DiGraph(edges)):
        for name in sorted(cycle):
            if _may_grow(values[name], cycle):
                yield name


def _may_grow(text: str, cycle: Collection[str]) -> bool:
    """Return True if an expression may grow: it multiplies a state of a cycle or reads it twice."""
    syntax_nodes = list(_syntax_nodes(text))
    binary_operations = [
        syntax_node for syntax_node in syntax_nodes if isinstance(syntax_node, ast.BinOp)
    ]
    if any(isinstance(operation.op, ast.Mod) for operation in binary_operations):
        return False
    products = [
        operation
        for operation in binary_operations
        if isinstance(operation.op, ast.Mult | ast.Pow | ast.LShift)
    ]
    is_scaled = any(names_in(ast.unparse(product)) & set(cycle) for product in products)
    return (
        is_scaled
        or sum(
            isinstance(syntax_node, ast.Name) and syntax_node.id in cycle
            for syntax_node in syntax_nodes
        )
        > 1
    )
