"""Random value expressions in the language of MDF: operators, Python functions and NumPy functions.

A kind says the shape that an expression is meant to have: `number`, `list` (n numbers) or `table`
(n rows of n). The kind makes models that run more likely, but no test relies on it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hypothesis import strategies as st

N = 2
"""Length of random lists and of the rows of random tables."""

KINDS = ("number", "list", "table")

Names = Mapping[str, str]
"""Kinds of the names that an expression may read, by name."""

INTEGERS = st.integers(-3, 4)
BROKEN = st.sampled_from([0.5, -0.25, 1.5, 2.0, 0.1, -1.0, 0.75, 3.25])


def numbers() -> st.SearchStrategy[Any]:
    """Draw small numbers, integers and floats (some without fraction)."""
    return st.one_of(INTEGERS, BROKEN)


def constants(kind: str) -> st.SearchStrategy[Any]:
    """Draw a constant as a document writes it; lists hold integers, floats or both."""
    if kind == "number":
        return numbers()
    rows = st.one_of(
        *(st.lists(e, min_size=N, max_size=N) for e in (INTEGERS, BROKEN, numbers()))  # type: ignore[arg-type]
    )
    return rows if kind == "list" else st.lists(rows, min_size=N, max_size=N)


_NUMBERS = [
    "({n} + {n})",
    "({n} - {n})",
    "({n} * {n})",
    "{n} + {n}",
    "(0.5 * {n})",
    "({n} / 2)",
    "({n} / (1 + {n} * {n}))",
    "(-{n})",
    "(1 * ({n} > {n}))",
    "((1 * ({n} <= {n})) * {n})",
    "({n} if {n} > {n} else {n})",
    "(1 * ({n} > 0 and {n} < 2))",
    "({n} or {n})",
    "(2 - (not {n}))",
    "({n} % 3)",
    "({n} // 2)",
    "({n} ** 2)",
    "abs({n})",
    "min({n}, {n})",
    "max({n}, 1.5)",
    "int({n})",
    "float({n})",
    "round({n})",
    "math.sin({n})",
    "math.exp(-abs({n}))",
    "math.floor({n})",
    "(math.pi * {n})",
    "numpy.tanh({n})",
    "numpy.sqrt(abs({n}))",
    "numpy.exp(-numpy.abs({n}))",
    "numpy.where({n} > {n}, {n}, {n})",
    "numpy.maximum({n}, {n})",
    "numpy.floor({n})",
    "numpy.sign({n})",
    "numpy.sum({l})",
    "numpy.max({l})",
    "numpy.mean({l})",
    "numpy.dot({l}, {l})",
    "({l} @ {l})",
    "{L}[0]",
    "{L}[-1]",
    "{T}[0, 1]",
    "(1 * numpy.all({l} > {n}))",
    "sum({l})",
    "len({L})",
]
_LISTS = [
    "({l} + {l})",
    "({l} - {n})",
    "({n} * {l})",
    "({l} * {l})",
    "(0.5 * {l})",
    "({l} / 2)",
    "(-{l})",
    "(1 * ({l} > {n}))",
    "{l} * ({l} > 0)",
    "(1 * (({l} > 0) & ({l} < 2)))",
    "({l} % 3)",
    "({l} // 2)",
    "({l} ** 2)",
    "abs({l})",
    "numpy.sin({l})",
    "numpy.tanh({l})",
    "numpy.exp(-numpy.abs({l}))",
    "numpy.where({l} > {n}, {l}, {n})",
    "numpy.where({n} > {n}, {l}, {l})",
    "numpy.minimum({l}, {n})",
    "numpy.clip({l}, -1, 1)",
    "numpy.floor({l})",
    "numpy.array([{n}, {n}])",
    "({t} @ {l})",
    "numpy.dot({t}, {l})",
    "{T}[0]",
    "numpy.cumsum({l})",
    "numpy.zeros(2)",
    "numpy.ones(2) * {n}",
]
_TABLES = [
    "({t} + {t})",
    "({t} * {n})",
    "({t} @ {t})",
    "({t} * {l})",
    "(1.0 * ({t} > 0))",
    "numpy.tanh({t})",
    "numpy.transpose({t})",
    "numpy.outer({l}, {l})",
]
_PATTERNS = {"number": _NUMBERS, "list": _LISTS, "table": _TABLES}
_HOLES = {"{n}": "number", "{l}": "list", "{t}": "table"}
_NAME_HOLES = {"{L}": "list", "{T}": "table"}
_FALLBACK = {"list": "numpy.array([{n}, 1])", "table": "numpy.array([[1, {n}], [{n}, 0.5]])"}


def expression(draw: st.DrawFn, names: Names, kind: str = "number", depth: int = 2) -> str:
    """Draw an expression of this kind that reads `names`."""
    names_of_kind = [name for name, other in names.items() if other == kind]
    if depth == 0 or (names_of_kind and draw(st.integers(0, 3)) == 0):
        return _leaf(draw, names, kind, names_of_kind)
    patterns = [
        pattern
        for pattern in _PATTERNS[kind]
        if all(k in names.values() for hole, k in _NAME_HOLES.items() if hole in pattern)
    ]
    return _filled(draw, draw(st.sampled_from(patterns)), names, depth - 1)


def _leaf(draw: st.DrawFn, names: Names, kind: str, known: list[str]) -> str:
    if known and (kind != "number" or draw(st.integers(0, 3))):
        return draw(st.sampled_from(known))
    if kind == "number":
        return str(draw(numbers()))
    return _filled(draw, _FALLBACK[kind], names, 0)


def _filled(draw: st.DrawFn, pattern: str, names: Names, depth: int) -> str:
    for hole, kind in _HOLES.items():
        while hole in pattern:
            pattern = pattern.replace(hole, expression(draw, names, kind, depth), 1)
    for hole, kind in _NAME_HOLES.items():
        while hole in pattern:
            names_of_kind = [name for name, other in names.items() if other == kind]
            pattern = pattern.replace(hole, draw(st.sampled_from(names_of_kind)), 1)
    return pattern


def update(
    draw: st.DrawFn, name: str, names: Names, kind: str, *, started: bool, depth: int = 1
) -> str:
    """Draw the update expression of a state, mostly a bounded one.

    A state without an initial value (`started` is False) is 0.0 at first. Added values determine its kind.
    """
    grown_expression = expression(draw, {**names, name: kind}, kind, depth)
    other = expression(draw, names, kind, depth)
    patterns = [
        f"{name} + {other}",
        f"0.5 * {name} + {other}",
        f"{name} - 0.25 * {name} + {other}",
    ]
    if kind == "number" or started:
        patterns += [
            f"{name} + 1",
            f"numpy.tanh({grown_expression} + {name})",
            f"({grown_expression} + {name}) % 5",
            f"{name} + ({grown_expression}) / 8",
            f"{grown_expression} + 0 * {name}",
        ]
    return draw(st.sampled_from(patterns))
