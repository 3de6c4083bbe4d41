"""Short constructors of models with loops and choices; inputs are inferred from the formulas.

model({"y": "choice"}, choice=choose("x > 0", give(r="x"), give(r="-x")))
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

import mdf_loop
from mdf_loop.errors import Finding, LoopError
from mdf_loop.ir import If, walk

_NAME = re.compile(r"(?<![\w.'\"])[A-Za-z_]\w*(?!\w*\s*\()(?!\w*\.)")
_WORDS = {"and", "or", "not", "if", "else", "in", "True", "False", "true", "false", "numpy", "math"}


def read_in(text: Any) -> set[str]:
    """Return the names that a formula reads."""
    if isinstance(text, str):
        return set(_NAME.findall(text)) - _WORDS
    parts = text if isinstance(text, list | tuple) else ()
    return {name for part in parts for name in read_in(part)}


@dataclass(frozen=True)
class Control:
    """A function that owns graphs."""

    function: str
    args: Mapping[str, Any]
    graphs: Mapping[str, Any]

    def reads(self) -> set[str]:
        """Return the names that the function and its graphs read."""
        names = {name for text in self.args.values() for name in read_in(text)}
        return names | {name for graph in _flat(self.graphs.values()) for name in graph.reads()}

    def content(self) -> dict[str, Any]:
        """Return the function as written in a document."""
        return {"function": self.function, "args": {**self.args, **_contents(self.graphs)}}


@dataclass(frozen=True)
class Graph:
    """A graph of one node, with functions by name and formulas for its outputs."""

    outputs: Mapping[str, Any]
    functions: Mapping[str, Any] = field(default_factory=dict)
    inputs: Sequence[str] | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    passed: Sequence[str] = ()

    def inside(self) -> set[str]:
        """Return the names that the node of the graph reads."""
        items = self.functions.values()
        names = {
            n
            for item in items
            for n in (item.reads() if isinstance(item, Control) else read_in(item))
        }
        names |= {name for text in self.outputs.values() for name in read_in(text)}
        return names - set(self.functions)

    def reads(self) -> set[str]:
        """Return the names that the graph reads from outside."""
        return (self.inside() | set(self.passed)) - set(self.inputs or ())

    def node(self) -> dict[str, Any]:
        """Return the node of the graph as written in a document."""
        functions = {
            key: item.content() if isinstance(item, Control) else {"value": item}
            for key, item in self.functions.items()
        }
        return {
            "input_ports": {name: {} for name in sorted(self.inside())},
            "functions": functions,
            "output_ports": {key: {"value": text} for key, text in self.outputs.items()},
        }

    def content(self) -> dict[str, Any]:
        """Return the graph as written in a document."""
        metadata = {"outputs": [*self.outputs, *self.passed], **self.metadata}
        if self.inputs is not None:
            metadata["inputs"] = list(self.inputs)
        return {"g": {"metadata": metadata, "nodes": {"n": self.node()}}}


def _flat(graphs: Iterable[Any]) -> Iterator[Graph]:
    for graph in graphs:
        yield from graph if isinstance(graph, list) else [graph]


def _contents(graphs: Mapping[str, Any]) -> dict[str, Any]:
    return {
        key: [g.content() for g in graph] if isinstance(graph, list) else graph.content()
        for key, graph in graphs.items()
    }


def give(*passed: str, **outputs: Any) -> Graph:
    """Build a branch whose outputs are formulas, followed by the names passed through."""
    return Graph(outputs, passed=passed)


def choose(cond: Any, then: Graph, otherwise: Graph, **args: Any) -> Control:
    """Build an `onnx::If` function."""
    graphs = {"then_branch": then, "else_branch": otherwise}
    return Control("onnx::If", {"cond": cond, **args}, graphs)


def case(index: Any, branches: Sequence[Graph], default: Any = None) -> Control:
    """Build a `case_of` function, whose default is a graph or names."""
    if isinstance(default, Graph):
        return Control(
            "case_of", {"index": index}, {"branches": list(branches), "default": default}
        )
    args = {"index": index} if default is None else {"index": index, "default": default}
    return Control("case_of", args, {"branches": list(branches)})


def repeat(body: Graph, initial: Sequence[Any], **args: Any) -> Control:
    """Build an `onnx::Loop` function; `args` are `M` and `cond`."""
    return Control("onnx::Loop", {**args, "v_initial": list(map(str, initial))}, {"body": body})


def body(inputs: str, outputs: Mapping[str, Any], **functions: Any) -> Graph:
    """Build a loop body; `inputs` names the iteration number, the condition and carried values."""
    return Graph(outputs, functions, inputs.split())


def model(outputs: Mapping[str, Any], **functions: Any) -> dict[str, Any]:
    """Build a model whose node has an input port for each name in its formulas."""
    return {"graph": {"nodes": {"m": Graph(outputs, functions).node()}}}


# --- reading them ----------------------------------------------------------------------------------


def choices(source: Any, **inputs: Any) -> list[If]:
    """Return the choices in the program of a model."""
    program = mdf_loop.read(source, inputs)
    return [operation for operation in walk(program.ops) if isinstance(operation, If)]


def refused(source: Any, kind: type[LoopError], *, options: Any = None, **inputs: Any) -> Finding:
    """Check that compiling or running a model fails, and return the only finding of the error."""
    with pytest.raises(kind) as caught:
        mdf_loop.compile(source, device="cpu", **(options or {})).run(inputs)
    (finding,) = caught.value.findings
    return finding
