"""Random nested loops and choices as statements, with a Python interpreter and an MDF document."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from tests.models.control import Graph, case, choose, repeat

FORMULAS = ("{a} + 1", "{a} - {b}", "(2 * {a} + {b}) % 13", "{b} - 3", "0 - {a}", "7")


TESTS = ("{a} > {b}", "{a} % 3 == 1", "{b} < 4", "{a}", "True", "1 > 2")


@dataclass(frozen=True)
class Set:
    name: str
    formula: str


@dataclass(frozen=True)
class Choice:
    test: str
    then: Sequence[Any]
    otherwise: Sequence[Any]


@dataclass(frozen=True)
class Case:
    ways: Sequence[Sequence[Any]]


@dataclass(frozen=True)
class For:
    """Loop of at most `times` iterations that ends when its test is true."""

    times: int
    end: str | None
    block: Sequence[Any]


formulas, conditions = st.sampled_from(FORMULAS), st.sampled_from(TESTS)


simple = st.builds(Set, st.sampled_from("ab"), formulas)


def nested(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    block = st.lists(inner, min_size=0, max_size=3)
    return st.one_of(
        st.builds(Choice, conditions, block, block),
        st.builds(Case, st.lists(block, min_size=1, max_size=4)),
        st.builds(For, st.integers(0, 4), st.none() | conditions, block),
    )


blocks = st.lists(st.recursive(simple, nested, max_leaves=8), min_size=1, max_size=4)


def execute(block: Sequence[Any], values: dict[str, int]) -> None:
    def evaluated(formula: str) -> Any:
        return eval(formula.format(**values))

    for statement in block:
        if isinstance(statement, Set):
            values[statement.name] = evaluated(statement.formula)
        elif isinstance(statement, Choice):
            execute(statement.then if evaluated(statement.test) else statement.otherwise, values)
        elif isinstance(statement, Case):
            k = values["a"] % 5
            execute(statement.ways[k] if k < len(statement.ways) else (), values)
        else:
            for _ in range(statement.times):
                execute(statement.block, values)
                if statement.end is not None and evaluated(statement.end):
                    break


def graph(block: Sequence[Any], names: dict[str, str], fresh: Iterator[int]) -> Graph:
    """Return the block as a graph that outputs a and b; `names` are their names outside."""
    functions: dict[str, Any] = {}
    now = dict(names)
    for statement in block:
        k = next(fresh)
        if isinstance(statement, Set):
            functions[f"s{k}"] = statement.formula.format(**now)
            now[statement.name] = f"s{k}"
            continue
        functions[f"c{k}"] = control(statement, now, functions, k, fresh)
        for index, name in enumerate("ab"):
            functions[f"{name}{k}"] = f"c{k}[{index}]"
            now[name] = f"{name}{k}"
    k = next(fresh)
    return Graph({f"a_{k}": now["a"], f"b_{k}": now["b"]}, functions)


def control(
    statement: Any, now: dict[str, str], functions: dict[str, Any], k: int, fresh: Iterator[int]
) -> Any:
    if isinstance(statement, Choice):
        ways = (graph(block, now, fresh) for block in (statement.then, statement.otherwise))
        return choose(statement.test.format(**now), *ways)
    if isinstance(statement, Case):
        functions[f"k{k}"] = "{a} % 5".format(**now)
        ways = [graph(block, now, fresh) for block in statement.ways]
        return case(f"k{k}", ways, [now["a"], now["b"]])
    enters = {"a": f"ain{k}", "b": f"bin{k}"}
    inner = graph(statement.block, enters, fresh)
    left = dict(zip("ab", inner.outputs.values(), strict=True))
    more = "True" if statement.end is None else f"not ({statement.end.format(**left)})"
    outputs = {f"more{k}": more, **inner.outputs}
    body = Graph(outputs, inner.functions, (f"i{k}", f"go{k}", *enters.values()))
    return repeat(body, list(now.values()), M=statement.times, cond=True)


def document(block: Sequence[Any]) -> dict[str, Any]:
    """Return the block as a model of one node 'm' that reads a and b, and outputs their final values."""
    node = graph(block, {"a": "a", "b": "b"}, itertools.count()).node()
    node["input_ports"] = {"a": {}, "b": {}}
    return {"g": {"nodes": {"m": node}}}
