"""Parsing of value expressions to syntax trees, and lookup of the names that they read.

Python parses an expression, but never evaluates it.
"""

from __future__ import annotations

import ast
import keyword
import math
import re
from typing import Any

from mdf_loop.errors import ExpressionError
from mdf_loop.locks import ForkSafeLock
from mdf_loop.number_check import contains_only_numbers

MAX_EXPRESSION_CHARACTERS = 1_000_000
"""Maximum length of an expression. A longer expression is most likely a mistake."""

_PARSE_LOCK = ForkSafeLock()
"""Lock around `ast.parse`, because Python 3.11 counts the depth of trees for all threads together."""

_MAX_EXPLAINED_CHARACTERS = 10_000
"""Maximum length of an invalid expression that is searched for keywords used as names."""


def parse_number(text: str) -> int | float | None:
    """Return the number that a text such as `5` or `1e-3` represents, or None."""
    if text.strip().lstrip("+-")[:1] not in set(".0123456789"):
        return None
    for convert in (int, float):
        try:
            number: int | float = convert(text)
        except ValueError:
            continue
        return number if abs(number) < math.inf else None
    return None


def parse(text: str) -> ast.Expression:
    """Parse an expression, and return its syntax tree or raise an error with the column."""
    if len(text) > MAX_EXPRESSION_CHARACTERS:
        raise ExpressionError(
            f"an expression of {len(text)} characters is too long",
            hint="give large arrays as lists of numbers, not as text",
        )
    if not text.strip():
        raise ExpressionError("the expression is empty", hint="give a number, list or expression")
    try:
        with _PARSE_LOCK:
            return ast.parse(text.strip(), mode="eval")
    except (RecursionError, MemoryError):
        raise ExpressionError(
            f"'{shorten(text)}' is nested too deeply",
            hint="split it: give parts of it to parameters of their own",
        ) from None
    except (SyntaxError, ValueError) as error:
        column = getattr(error, "offset", None)
        column_text = f" at column {column}" if column else ""
        keyword_name = _keyword_as_name(text)
        reason = (
            f": '{keyword_name}' is a Python keyword and cannot be a name" if keyword_name else ""
        )
        raise ExpressionError(
            f"cannot read the expression '{shorten(text)}'{column_text}{reason}",
            hint=f"rename it where it is defined and wherever it is used, e.g. to '{keyword_name}_'"
            if keyword_name
            else _unit_hint(text) or "expressions are Python arithmetic on the names of the node",
        ) from None


_NUMBER_WITH_UNIT = re.compile(
    r"\s*([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)\s*([^\W\d_][^\W_]*(?:\s*[/*^]\s*\w+)*|%)\s*"
)


def _unit_hint(text: str) -> str:
    """Return a hint for an expression with a unit, such as `20.0mV`, or ""."""
    match = _NUMBER_WITH_UNIT.fullmatch(text[:_MAX_EXPLAINED_CHARACTERS])
    if match is None:
        return ""
    number, unit = match.groups()
    quoted_unit = unit if unit[0].isalpha() else f"'{unit}'"
    return (
        f"a unit belongs into the metadata: value: {number}, metadata: {{units: {quoted_unit}}}; "
        "a product is written with *"
    )


def _keyword_as_name(text: str) -> str:
    """Return the first Python keyword that an expression uses as a name, or "".

    A keyword is a name if the text can be parsed after the keyword is renamed.
    """
    if len(text) > _MAX_EXPLAINED_CHARACTERS:
        return ""
    identifiers = re.findall(r"[^\W\d]\w*", text)
    keywords = [
        identifier for identifier in dict.fromkeys(identifiers) if keyword.iskeyword(identifier)
    ]
    for renamed_keywords in (*([keyword_name] for keyword_name in keywords), keywords):
        pattern = rf"(?<!\w)({'|'.join(renamed_keywords)})(?!\w)"
        try:
            ast.parse(re.sub(pattern, r"\1_", text.strip()), mode="eval")
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            continue
        return next(iter(renamed_keywords), "")
    return ""


def names_in(expression: Any) -> set[str]:
    """Return the names, also dotted names, that an expression reads.

    The result for an invalid expression is the whole text.
    """
    if isinstance(expression, list | tuple):
        expression_elements = () if contains_only_numbers(expression) else expression
        return set().union(*(names_in(element) for element in expression_elements))
    if not isinstance(expression, str) or parse_number(expression) is not None:
        return set()
    try:
        syntax_tree = parse(expression)
    except ExpressionError:
        return {expression.strip()}
    dotted_names = {
        dotted_name(node) for node in ast.walk(syntax_tree) if isinstance(node, ast.Attribute)
    }
    plain_names = {node.id for node in ast.walk(syntax_tree) if isinstance(node, ast.Name)}
    return {expression.strip()} | plain_names | {name for name in dotted_names if name}


def drawing_calls(tree: ast.Expression) -> list[ast.Call]:
    """Return the calls in an expression that draw random numbers, in order of their position."""
    call_nodes = (node for node in ast.walk(tree) if isinstance(node, ast.Call))
    random_calls = (
        call_node
        for call_node in call_nodes
        if "random" in (*dotted_name(call_node.func).split(".")[:2],)
    )
    return sorted(random_calls, key=lambda call: (call.lineno, call.col_offset))


def draws_numbers(expression: Any) -> bool:
    """Return True if an expression calls a function that draws random numbers."""
    if isinstance(expression, list | tuple):
        return not contains_only_numbers(expression) and any(map(draws_numbers, expression))
    if not isinstance(expression, str) or "random" not in expression:
        return False
    try:
        return bool(drawing_calls(parse(expression)))
    except ExpressionError:
        return False


def shorten(expression: Any) -> str:
    """Return the beginning of a long expression, for an error message."""
    expression_text = (
        expression if isinstance(expression, str) else f"a {type(expression).__name__}"
    )
    return expression_text if len(expression_text) <= 80 else expression_text[:77] + "..."


def dotted_name(node: ast.expr) -> str:
    """Return an attribute chain of a syntax tree as text, such as `numpy.linalg.norm`, or ""."""
    attribute_names: list[str] = []
    while isinstance(node, ast.Attribute):
        attribute_names.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return ""
    return ".".join([node.id, *reversed(attribute_names)])
