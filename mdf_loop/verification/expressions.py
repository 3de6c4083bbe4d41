"""Expressions that modeci_mdf's engine evaluates in plain Python, unlike this library.

Python lists are no arrays, Python bools are no NumPy numbers, and Python integers have no limit.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress

import networkx
import numpy as np

from mdf_loop.document.parts import DocumentValue
from mdf_loop.errors import ExpressionError
from mdf_loop.ir import Value
from mdf_loop.lower import names_in
from mdf_loop.lower.syntax import dotted_name, parse, parse_number

ValueByName = Mapping[str, DocumentValue]
"""Value of each name in a node."""


def python_differences(
    expression: str, value_by_name: ValueByName, list_names: Collection[str]
) -> Iterator[str]:
    """Yield notes on parts of an expression that Python evaluates differently than this library.

    Args:
        expression: The expression.
        value_by_name: The values of the names in the expression.
        list_names: Ports whose default is a list.
    """
    for syntax_node in _syntax_nodes(expression):
        if isinstance(syntax_node, ast.BinOp) and isinstance(syntax_node.op, ast.Mult | ast.Add):
            yield from _note_combined_lists(
                (syntax_node.left, syntax_node.right), value_by_name, list_names
            )
            if isinstance(syntax_node.op, ast.Add) and all(
                _is_single_bool(operand, value_by_name)
                for operand in (syntax_node.left, syntax_node.right)
            ):
                yield (
                    "truth values are added as numbers, 1 + 1 is 2; in modeci_mdf's engine the sum is "
                    "true where they are numpy's, as states are from the second evaluation on"
                )
        elif isinstance(syntax_node, ast.Compare):
            yield from _note_combined_lists(
                (syntax_node.left, *syntax_node.comparators), value_by_name, list_names
            )
        elif isinstance(syntax_node, ast.Call) and _returns_float16(syntax_node, value_by_name):
            yield (
                f"{dotted_name(syntax_node.func)} of a truth value is computed in float64; numpy, and so "
                "modeci_mdf's engine, computes it in float16"
            )


def _syntax_nodes(expression: str) -> Iterator[ast.AST]:
    """Yield all syntax nodes of an expression, or none for a number or a name like `/A/Add`."""
    with suppress(ExpressionError):
        if parse_number(expression) is None:
            yield from ast.walk(parse(expression))


def _note_combined_lists(
    operands: Iterable[ast.expr], value_by_name: ValueByName, list_names: Collection[str]
) -> Iterator[str]:
    """Yield a note if an operator combines lists without an array, which Python would join."""
    operands = tuple(operands)
    operand_list_names = [
        operand.id
        for operand in operands
        if isinstance(operand, ast.Name) and operand.id in list_names
    ]
    if operand_list_names and not any(
        _has_array(operand, value_by_name, list_names) for operand in operands
    ):
        yield (
            f"the default of '{operand_list_names[0]}' is an array here; in modeci_mdf's engine it is a list of "
            "Python, which * repeats, + joins and == compares as a whole"
        )


def _has_array(
    expression: ast.expr, value_by_name: ValueByName, list_names: Collection[str] = ()
) -> bool:
    """Return True if an expression reads an array other than a list."""
    values_read = (
        value_by_name.get(name) for name in names_in(ast.unparse(expression)) - set(list_names)
    )
    return any(
        isinstance(program_value, Value) and program_value.shape != ()
        for program_value in values_read
    )


def _is_single_bool(expression: ast.expr, value_by_name: ValueByName) -> bool:
    """Return True if an expression evaluates to a single bool."""
    if isinstance(expression, ast.Name):
        program_value = value_by_name.get(expression.id)
        return isinstance(program_value, Value) and (program_value.dtype, program_value.shape) == (
            "bool",
            (),
        )
    is_comparison = isinstance(expression, ast.Compare)
    return (is_comparison or _is_negation(expression)) and not _has_array(expression, value_by_name)


def _is_negation(expression: ast.expr) -> bool:
    """Return True if an expression has the form `not x`."""
    return isinstance(expression, ast.UnaryOp) and isinstance(expression.op, ast.Not)


def _returns_float16(call: ast.Call, value_by_name: ValueByName) -> bool:
    """Return True for a call of a numpy function of bools that numpy computes in float16."""
    numpy_function = getattr(np, dotted_name(call.func).removeprefix("numpy."), None)
    if not isinstance(numpy_function, np.ufunc) or len(call.args) != numpy_function.nin:
        return False
    if not all(_is_single_bool(argument, value_by_name) for argument in call.args):
        return False
    dtype_signature = (np.dtype(bool),) * numpy_function.nin + (None,) * numpy_function.nout
    return np.dtype(np.float16) in numpy_function.resolve_dtypes(dtype_signature)


# --- unbounded integers ---------------------------------------------------------------------------


def growing_states(expression_by_name: Mapping[str, str]) -> Iterator[str]:
    """Yield the states that may grow exponentially, such as `p` updated by `p * p`.

    Examples are `p * p`, and `a + b` with states a and b that read each other. An expression with `%` is
    ignored, because the modulus bounds the state.

    Args:
        expression_by_name: Expression of each parameter, by name.
    """
    read_edges = [
        (name, state_read)
        for name, expression in expression_by_name.items()
        for state_read in names_in(expression) & expression_by_name.keys()
    ]
    for state_cycle in networkx.strongly_connected_components(networkx.DiGraph(read_edges)):
        for name in sorted(state_cycle):
            if _may_grow(expression_by_name[name], state_cycle):
                yield name


def _may_grow(expression: str, state_cycle: Collection[str]) -> bool:
    """Return True if a state may grow exponentially: its update multiplies a state or reads two."""
    syntax_nodes = list(_syntax_nodes(expression))
    binary_operations = [
        syntax_node for syntax_node in syntax_nodes if isinstance(syntax_node, ast.BinOp)
    ]
    if any(isinstance(binary_operation.op, ast.Mod) for binary_operation in binary_operations):
        return False
    growing_operations = [
        binary_operation
        for binary_operation in binary_operations
        if isinstance(binary_operation.op, ast.Mult | ast.Pow | ast.LShift)
    ]
    is_scaled = any(
        names_in(ast.unparse(growing_operation)) & set(state_cycle)
        for growing_operation in growing_operations
    )
    return (
        is_scaled
        or sum(
            isinstance(syntax_node, ast.Name) and syntax_node.id in state_cycle
            for syntax_node in syntax_nodes
        )
        > 1
    )
