"""The text of a value expression -> Python's syntax tree, the names it reads, the number it spells.

Nothing is ever evaluated by Python: an expression is data.
"""

from __future__ import annotations

import ast
import keyword
import math
import re
from typing import Any

from mdf_loop.errors import ExpressionError
from mdf_loop.locks import ForkSafeLock
from mdf_loop.numbers_only import only_numbers

LONGEST = 1_000_000
"""An expression of more characters is taken for a mistake."""

_PARSING = ForkSafeLock()
"""Python 3.11 counts how deep trees are for all threads together, and takes that for a mistake."""

_LONGEST_EXPLAINED = 10_000
"""In one of more characters, keywords that stand where names belong are not looked for."""


def number_of(text: str) -> int | float | None:
    """The number that a text spells (`5`, `1e-3`), if it spells one."""
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
    """The syntax tree of an expression, or an error that shows the place."""
    if len(text) > LONGEST:
        raise ExpressionError(
            f"an expression of {len(text)} characters is too long",
            hint="give large arrays as lists of numbers, not as text",
        )
    if not text.strip():
        raise ExpressionError("the expression is empty", hint="give a number, list or expression")
    try:
        with _PARSING:
            return ast.parse(text.strip(), mode="eval")
    except (RecursionError, MemoryError):
        raise ExpressionError(
            f"'{shortened(text)}' is nested too deeply",
            hint="split it: give parts of it to parameters of their own",
        ) from None
    except (SyntaxError, ValueError) as error:
        column = getattr(error, "offset", None)
        place = f" at column {column}" if column else ""
        word = _keyword_as_name(text)
        why = f": '{word}' is a Python keyword and cannot be a name" if word else ""
        raise ExpressionError(
            f"cannot read the expression '{shortened(text)}'{place}{why}",
            hint=f"rename it where it is defined and wherever it is used, e.g. to '{word}_'"
            if word
            else _unit_hint(text) or "expressions are Python arithmetic on the names of the node",
        ) from None


_WITH_UNIT = re.compile(
    r"\s*([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)\s*([^\W\d_][^\W_]*(?:\s*[/*^]\s*\w+)*|%)\s*"
)


def _unit_hint(text: str) -> str:
    """What to write instead of a number with a unit, `20.0mV`; empty if it is none."""
    found = _WITH_UNIT.fullmatch(text[:_LONGEST_EXPLAINED])
    if found is None:
        return ""
    number, unit = found.groups()
    written = unit if unit[0].isalpha() else f"'{unit}'"
    return (
        f"a unit belongs into the metadata: value: {number}, metadata: {{units: {written}}}; "
        "a product is written with *"
    )


def _keyword_as_name(text: str) -> str:
    """The first Python keyword that keeps a text from being an expression; empty if none does.

    If those that do were ordinary names, the text could be read.
    """
    if len(text) > _LONGEST_EXPLAINED:
        return ""
    words = re.findall(r"[^\W\d]\w*", text)
    keywords = [word for word in dict.fromkeys(words) if keyword.iskeyword(word)]
    for renamed in (*([word] for word in keywords), keywords):
        pattern = rf"(?<!\w)({'|'.join(renamed)})(?!\w)"
        try:
            ast.parse(re.sub(pattern, r"\1_", text.strip()), mode="eval")
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            continue
        return next(iter(renamed), "")
    return ""


def names_in(expression: Any) -> set[str]:
    """The names an expression reads (dotted ones whole); an unreadable text is one name."""
    if isinstance(expression, list | tuple):
        parts = () if only_numbers(expression) else expression
        return set().union(*(names_in(part) for part in parts))
    if not isinstance(expression, str) or number_of(expression) is not None:
        return set()
    try:
        tree = parse(expression)
    except ExpressionError:
        return {expression.strip()}
    chains = {dotted(node) for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    plain = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    return {expression.strip()} | plain | {name for name in chains if name}


def drawing_calls(tree: ast.Expression) -> list[ast.Call]:
    """The calls of an expression that draw random numbers, in the order in which they are written."""
    calls = (node for node in ast.walk(tree) if isinstance(node, ast.Call))
    drawing = (call for call in calls if "random" in (*dotted(call.func).split(".")[:2],))
    return sorted(drawing, key=lambda call: (call.lineno, call.col_offset))


def draws_numbers(expression: Any) -> bool:
    """Whether an expression draws random numbers, so that it has another value each time."""
    if isinstance(expression, list | tuple):
        return not only_numbers(expression) and any(map(draws_numbers, expression))
    if not isinstance(expression, str) or "random" not in expression:
        return False
    try:
        return bool(drawing_calls(parse(expression)))
    except ExpressionError:
        return False


def shortened(expression: Any) -> str:
    """An expression as errors show it: its beginning."""
    text = expression if isinstance(expression, str) else f"a {type(expression).__name__}"
    return text if len(text) <= 80 else text[:77] + "..."


def dotted(node: ast.expr) -> str:
    """`numpy.linalg.norm` of a chain of attributes; empty if it does not begin with a name."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return ""
    return ".".join([node.id, *reversed(parts)])
