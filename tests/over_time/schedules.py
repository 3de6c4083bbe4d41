"""Models with scheduler conditions, and their comparison with modeci_mdf's engine.

Nodes count their runs (`c`) and accumulate their inputs (`a`), and both are outputs. Therefore a node
that runs too often, too late or in the wrong order changes the numbers, too.
"""

from __future__ import annotations

import builtins
import copy
import json
from collections.abc import Iterable, Mapping
from typing import Any
from unittest.mock import patch

import modelspec.utils
import numpy as np
import pytest
from modeci_mdf.execution_engine import EvaluableGraph

import mdf_loop
from mdf_loop.document.document import Document
from mdf_loop.errors import LoopError
from mdf_loop.importing.opening import open_document
from mdf_loop.lower.builder import Options
from mdf_loop.reading import passes_loop
from mdf_loop.reading.binding import BoundValues
from mdf_loop.reading.inputs import bind
from mdf_loop.reading.over_time import read_over_time
from mdf_loop.reading.schedule import plan
from mdf_loop.request.run_options import RunOptions
from mdf_loop.run.modeci import engine_graph
from mdf_loop.run.modeci.engine import EngineRun, run_evaluations
from mdf_loop.run.modeci.engine_graph import EngineGraph, copy_port_values, skip_debug_texts
from mdf_loop.run.modeci.evaluations import Evaluations
from mdf_loop.specification import specify

EVALUATION = "environment_state_update"
SCALES = (
    "CONSIDERATION_SET_EXECUTION",
    "PASS",
    "ENVIRONMENT_STATE_UPDATE",
    "ENVIRONMENT_SEQUENCE",
    "LIFE",
)
SIGNS = ("<", "<=", ">", ">=", "==", "!=")

Model = dict[str, Any]


# --- models -----------------------------------------------------------------------------------


def condition(type_: str, **kwargs: Any) -> dict[str, Any]:
    return {"type": type_, "kwargs": kwargs}


PASSES_3 = condition("AfterNPasses", n=3)


def counter(inputs: Iterable[str] = (), feedback: Iterable[str] = ()) -> dict[str, Any]:
    """Return a node that counts and accumulates; ports of `feedback` have a default."""
    ports: dict[str, Any] = {port: {} for port in inputs}
    ports |= {port: {"default_value": 1} for port in feedback}
    return {
        "input_ports": ports,
        "parameters": {
            "c": {"default_initial_value": 0, "value": "c + 1"},
            "a": {"default_initial_value": 0, "value": " + ".join(["a", "c", *ports])},
        },
        "functions": {"f": {"value": "2 * a"}},
        "output_ports": {"o": {"value": "a"}, "n": {"value": "c"}, "g": {"value": "f"}},
    }


def edge(sender: str, receiver: str, port: str, output: str = "o", **parameters: Any) -> Model:
    ends = {"sender": sender, "receiver": receiver}
    written = {**ends, "sender_port": output, "receiver_port": port}
    return written | ({"parameters": parameters} if parameters else {})


def model(
    shape: str = "chain",
    nodes: Mapping[str, Any] | None = None,
    termination: Mapping[str, Any] | None = None,
) -> Model:
    """Return a graph of counters in one of the `SHAPES`, with conditions of nodes and a termination."""
    ids, edges, feedback = SHAPES[shape]
    written: Model = {
        "nodes": {
            i: counter(
                [f"x{s}" for s, r in edges if r == i], [f"b{s}" for s, r in feedback if r == i]
            )
            for i in ids
        },
        "edges": {s + r: edge(s, r, f"x{s}") for s, r in edges}
        | {f"{s}to{r}": edge(s, r, f"b{s}", "n") for s, r in feedback},
    }
    return conditioned(written, nodes, termination)


def conditioned(
    graph: Model,
    nodes: Mapping[str, Any] | None = None,
    termination: Mapping[str, Any] | None = None,
) -> Model:
    """Return a graph with conditions as a document."""
    conditions: Model = {}
    if nodes:
        conditions["node_specific"] = dict(nodes)
    if termination:
        single = "type" in termination
        conditions["termination"] = {EVALUATION: termination} if single else dict(termination)
    return {"g": {**graph, "conditions": conditions} if conditions else graph}


SHAPES: dict[str, tuple[str, list[str], list[str]]] = {
    "one": ("A", [], []),
    "chain": ("ABC", ["AB", "BC"], []),
    "no edges": ("ABC", [], []),
    "diamond": ("ABCD", ["AB", "AC", "BD", "CD"], []),
    "circle": ("ABC", ["AB", "BC"], ["CA"]),
    "two that feed themselves": ("AB", ["AB"], ["AA", "BB"]),
    "against the order": ("ABC", ["CB", "BA"], []),
}
"""Nodes, edges, and edges back into ports with a default."""


# --- comparison -------------------------------------------------------------------------------


class DifferentError(AssertionError):
    """Error for a compiled model that differs from the engine."""

    def __init__(self, what: str, source: Model) -> None:
        super().__init__(f"{what}\n{json.dumps(source)}")


def opened(source: Model) -> Document:
    """Return the document of a copy, because modeci_mdf changes the conditions of a dict that it reads."""
    return open_document(copy.deepcopy(source))


def decides_while_running(source: Model, record: list[str], dt: float | None) -> bool:
    """Return True if the order of execution is not known at compile time."""
    document = opened(source)
    bound_inputs = bind(document, {}, Options(), 2)
    spec = specify(RunOptions(record=tuple(record), steps=2, dt=dt))
    return None in read_over_time(document, BoundValues.of(bound_inputs), Options(), spec).plans


_EVALUATE_EDGE = EvaluableGraph.evaluate_edge


def _pass_on(graph: EvaluableGraph, edge: Any, **options: Any) -> None:
    """Deliver nothing over an edge of a node to itself before the node has run; the engine delivers None."""
    sent = graph.enodes[edge.sender].evaluable_outputs[edge.sender_port].curr_value
    if edge.sender != edge.receiver or sent is not None:
        _EVALUATE_EDGE(graph, edge, **options)


def by_engine(source: Model, steps: int, dt: float | None = None) -> EngineRun:
    """Run the engine with the changes in semantics.md: sums in place, edges of a node to itself."""
    with skip_debug_texts(), patch.object(EvaluableGraph, "evaluate_edge", _pass_on):
        engine = EngineGraph(opened(source))
        copy_port_values(engine)
        return run_evaluations(Evaluations(engine, dt=dt), steps=steps)


def _keeping_floats(value: Any) -> Any:
    """Return `int(value)` for the engine's test `int(v) == v`, but a float as itself."""
    whole = builtins.int(value)
    return value if type(value) is float else whole


def meant_kinds(source: Model, steps: int, dt: float | None) -> dict[str, str]:
    """Return the kinds of numbers if a float stays a float; the engine converts 2.0 to an int."""
    with patch.object(modelspec.utils, "int", _keeping_floats, create=True):
        return {name: a.dtype.kind for name, a in by_engine(source, steps, dt).arrays.items()}


def compare(source: Model, steps: int = 20, dt: float | None = None) -> str:
    """Compare a run with the engine: `equal`, `both fail`, `engine fails` or `we refuse`.

    Raises:
        DifferentError: both ran, and differ in order, values or kinds of numbers.
    """
    failure: LoopError | None
    try:
        theirs = by_engine(source, steps, dt)
        arrays, failure = theirs.arrays, theirs.failure
    except LoopError as error:
        theirs, arrays, failure = EngineRun({}, (), {}), {}, error
    try:
        record = list(arrays)
        compiled = mdf_loop.compile(copy.deepcopy(source))
        ours = compiled.run(steps=steps, dt=dt, record=record, execution_list=True)
    except LoopError:
        return "both fail" if failure else "we refuse"
    executed = ours.execution_list
    assert executed is not None
    for k, (mine, their) in enumerate(zip(executed, theirs.execution_list, strict=False)):
        if mine != their:
            raise DifferentError(f"evaluation {k}: {mine} ran, in the engine {their}", source)
    if failure:
        return "engine fails"
    for name, array in arrays.items():
        mine = ours[name]
        if mine.shape != array.shape or not _equal(mine, array):
            raise DifferentError(
                f"{name} is {mine.tolist()}, in the engine {array.tolist()}", source
            )
    if [ours[n].dtype.kind for n in record] != [a.dtype.kind for a in arrays.values()]:
        _check_kinds({name: ours[name].dtype for name in record}, source, steps, dt)
    return "equal"


def _check_kinds(ours: dict[str, Any], source: Model, steps: int, dt: float | None) -> None:
    """Check that number types are the intended ones.

    If the order is decided while running, the value of a port may or may not come from an edge. Then a
    number has a type that holds for both cases.
    """
    if decides_while_running(source, list(ours), dt):
        return
    meant = meant_kinds(source, steps, dt)
    for name, dtype in ours.items():
        if dtype.kind != meant[name]:
            raise DifferentError(f"{name} is {dtype}, in the engine '{meant[name]}'", source)


def _equal(left: Any, right: Any) -> bool:
    floats = "f" in (left.dtype.kind, right.dtype.kind)
    return np.array_equal(left, right, equal_nan=floats)


def short_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reduce the limits at which evaluations count as endless, in both engines."""
    monkeypatch.setattr(engine_graph, "MAX_IDLE_PASSES", 60)
    monkeypatch.setattr(engine_graph, "MAX_PASSES", 400)
    monkeypatch.setattr(plan, "MAX_PASSES", 400)
    monkeypatch.setattr(passes_loop, "MAX_PASSES", 400)


def decide_while_running(monkeypatch: pytest.MonkeyPatch) -> None:
    """Disable the planning of the order of execution at compile time."""
    monkeypatch.setattr(plan.Schedule, "plan", lambda *_: None)
