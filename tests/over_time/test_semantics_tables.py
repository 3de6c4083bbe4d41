"""Example tables of modeci_mdf's semantics: expected numbers of compiler, engine and reference.

Each row has a model, the time between evaluations, and the values of some ports, parameters and
functions after each evaluation.
"""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mdf_loop
from mdf_loop.errors import CycleError, LoopError
from mdf_loop.importing.opening import open_document
from mdf_loop.run.modeci.engine_graph import to_modeci_graph
from tests.models.timed import edge, graph
from tests.over_time.engine import trace

Values = dict[str, list[Any]]


@dataclass(frozen=True)
class Row:
    """Model with its expected values."""

    model: dict[str, Any]
    values: Values
    dt: float | None = None

    @property
    def steps(self) -> int:
        """Number of evaluations in the row."""
        return max(map(len, self.values.values()))

    @property
    def dts(self) -> list[float | None]:
        """Time increments of the evaluations."""
        return [None] + [self.dt] * (self.steps - 1)


def node(
    parameters: dict[str, Any] | None = None,
    functions: dict[str, Any] | None = None,
    ports: dict[str, Any] | None = None,
    outputs: dict[str, str] | None = None,
) -> dict[str, Any]:
    """Return a node; functions are texts, and outputs are those in the argument or `o: "0"`."""
    written = {
        name: {"value": f} if isinstance(f, str) else f for name, f in (functions or {}).items()
    }
    output_ports = {name: {"value": value} for name, value in (outputs or {"o": "0"}).items()}
    parts = {"input_ports": ports, "parameters": parameters, "functions": written}
    return {**{k: v for k, v in parts.items() if v}, "output_ports": output_ports}


def state(value: str, initial: Any = None, **more: Any) -> dict[str, Any]:
    start = {} if initial is None else {"default_initial_value": initial}
    return {**start, "value": value, **more}


def derived(derivative: str, initial: Any, **more: Any) -> dict[str, Any]:
    return {"default_initial_value": initial, "time_derivative": derivative, **more}


def when(**conditions: tuple[str, Any]) -> dict[str, Any]:
    return {name: {"test": test, "value": value} for name, (test, value) in conditions.items()}


COUNTER = node({"n": state("n + 1")}, outputs={"o": "n"})


def fed(receiver: dict[str, Any]) -> dict[str, Any]:
    """Return a counter that feeds port `i` of node A."""
    return graph({"e": edge("C", "o", "A", "i")}, C=COUNTER, A=receiver)


X, Y = derived("y", 1.0), derived("-x", 0.0)

ONE_NODE = {
    "a function sees the old value of a state": Row(
        graph(A=node({"p": state("p + 1", 5)}, {"f": "p*10"})),
        {"A.p": [6, 7, 8], "A.f": [50, 60, 70]},
    ),
    "a state without a beginning is 0": Row(
        graph(A=node({"p": state("p + 1")})), {"A.p": [1, 2, 3]}
    ),
    "a function sees a computed parameter one step late": Row(
        graph(A=node({"p": state("p + 1", 5), "q": {"value": "p*10"}}, {"f": "q"})),
        {"A.q": [60, 70, 80], "A.f": [50, 60, 70]},
    ),
    "also one that is computed from a port": Row(
        fed(node({"q": {"value": "i*10"}}, {"f": "q"}, {"i": {}})),
        {"A.q": [10, 20, 30, 40], "A.f": [10, 10, 20, 30]},
    ),
    "two states that take each other's value": Row(
        graph(A=node({"p": state("q", 1), "q": state("p", 10)})),
        {"A.p": [10, 10, 10], "A.q": [10, 10, 10]},
    ),
    "derivatives one after the other": Row(
        graph(A=node({"x": X, "y": Y})), {"A.x": [1, 1, 0.99], "A.y": [0, -0.1, -0.199]}, 0.1
    ),
    "derivatives in the other order": Row(
        graph(A=node({"y": Y, "x": X})), {"A.x": [1, 0.99, 0.9701]}, 0.1
    ),
    "a derivative, and no time before the first evaluation": Row(
        graph(A=node({"p": derived("2", 5)})), {"A.p": [5, 6, 7]}, 0.5
    ),
    "without time, a derivative's state is what it starts from": Row(
        graph(A=node({"p": derived("2", 5)})), {"A.p": [5, 5, 5]}
    ),
    "a derivative sees the old value of what follows": Row(
        fed(node({"x": derived("q", 0), "q": {"value": "i"}}, ports={"i": {}})),
        {"A.x": [0, 1, 3, 6]},
        1.0,
    ),
    "a derivative sees the new value of what precedes": Row(
        fed(node({"q": {"value": "i"}, "x": derived("q", 0)}, ports={"i": {}})),
        {"A.x": [0, 2, 5, 9]},
        1.0,
    ),
    "a condition resets a derivative's state": Row(
        graph(A=node({"v": derived("10", 0, conditions=when(reset=("v >= 2", 0)))})),
        {"A.v": [0, 1, 2, 0, 1, 2]},
        0.1,
    ),
    "a condition sees the old value": Row(
        graph(A=node({"p": state("p+1", 0, conditions=when(jump=("p >= 2", 100)))})),
        {"A.p": [1, 2, 100, 100]},
    ),
    "conditions one after the other": Row(
        graph(
            A=node(
                {
                    "p": {
                        "value": 3,
                        "conditions": when(a=("True", 100), b=("p == 100", 200), c=("p == 3", 300)),
                    }
                }
            )
        ),
        {"A.p": [300, 100, 200, 100]},
    ),
    "a parameter with a function and a beginning": Row(
        graph(
            A=node(
                {
                    "pf": {
                        "function": "linear",
                        "default_initial_value": 1,
                        "args": {"variable0": "pf", "slope": 2, "intercept": 1},
                    }
                },
                {"f": "pf"},
            )
        ),
        {"A.pf": [3, 7, 15], "A.f": [1, 3, 7]},
    ),
    "a value goes before a function and a derivative": Row(
        graph(A=node({"p": {**derived("100", 5), "value": "p + 1", "function": "linear"}})),
        {"A.p": [6, 7, 8]},
        1.0,
    ),
    "conditions alone start from 0 and stay": Row(
        graph(A=node({"n": state("n + 1"), "p": {"conditions": when(once=("n == 2", 7))}})),
        {"A.p": [0, 7, 7, 7]},
    ),
}

TWO = [10.0, 20.0]


def constant(value: Any) -> dict[str, Any]:
    return node({"p": {"value": value}}, outputs={"o": "p"})


def arriving(weights: list[Any], **port: Any) -> dict[str, Any]:
    """Return senders of 2, 5, ... to port `i` of node A, over edges with weights (None for no weight)."""
    senders = {f"S{k}": constant(3 * k + 2) for k in range(len(weights))}
    edges = {
        f"e{k}": edge(f"S{k}", "o", "A", "i")
        | ({} if weight is None else {"parameters": {"weight": weight}})
        for k, weight in enumerate(weights)
    }
    return graph(edges, **senders, A=node(ports={"i": port}, outputs={"o": "i"}))


PORTS = {
    "a weight of 1 changes nothing": Row(arriving([1]), {"A.o": [2, 2]}),
    "a weight": Row(arriving([1.5]), {"A.o": [3, 3]}),
    "the last edge overwrites": Row(arriving([None, None]), {"A.o": [5, 5]}),
    "edges are added": Row(arriving([None, 10], reduce="add"), {"A.o": [52, 52]}),
    "edges are multiplied": Row(arriving([None, None, None], reduce="multiply"), {"A.o": [80, 80]}),
    "a default is no arrival": Row(
        arriving([None, None], reduce="add", default_value=100), {"A.o": [7, 7]}
    ),
    "a list as weight, element by element": Row(
        graph(
            {"e": edge("S", "o", "A", "i") | {"parameters": {"weight": [2, 3]}}},
            S=constant(TWO),
            A=node(ports={"i": {}}, outputs={"o": "i"}),
        ),
        {"A.o": [[20, 60], [20, 60]]},
    ),
    "a sum leaves its senders alone": Row(
        graph(
            {"x": edge("X", "o", "A", "i"), "y": edge("Y", "o", "A", "i")},
            X=constant([1.0, 2.0]),
            Y=constant(TWO),
            A=node(ports={"i": {"reduce": "add"}}, outputs={"o": "i"}),
        ),
        {"A.o": [[11, 22], [11, 22]], "X.o": [[1, 2], [1, 2]], "Y.o": [TWO, TWO]},
    ),
    "a port that nothing feeds": Row(
        graph(A=node(ports={"i": {"shape": [2]}}, outputs={"o": "i + 1"})),
        {"A.o": [[1, 1], [1, 1]]},
    ),
    "a port with a default": Row(
        graph(A=node(ports={"i": {"default_value": 4}}, outputs={"o": "i + 1"})), {"A.o": [5, 5]}
    ),
}


def circle(**back: Any) -> dict[str, Any]:
    """Return a cycle: A sends a + 1 to B, and B sends 2 b back."""
    parameters = {"parameters": back} if back else {}
    return graph(
        {"go": edge("A", "o", "B", "b"), "back": edge("B", "o", "A", "a") | parameters},
        A=node(ports={"a": {"default_value": 0}}, outputs={"o": "a + 1"}),
        B=node(ports={"b": {}}, outputs={"o": "2 * b"}),
    )


FEEDBACK = {
    "an edge back": Row(circle(), {"A.o": [1, 3, 7], "B.o": [2, 6, 14]}),
    "an edge back with a weight": Row(circle(weight=10), {"A.o": [1, 21, 421]}),
    "an edge of a node to itself": Row(
        graph(
            {"e": edge("A", "o", "A", "a")},
            A=node(ports={"a": {"default_value": 0}}, outputs={"o": "a + 1"}),
        ),
        {"A.o": [1, 2, 3]},
    ),
    "an edge forward to a default waits for no one": Row(
        graph(
            {"e": edge("C", "o", "A", "i")},
            A=node(ports={"i": {"default_value": 100}}, outputs={"o": "i"}),
            C=COUNTER,
        ),
        {"A.o": [100, 1, 2, 3]},
    ),
    "both ports of a circle with defaults, in the order of the document": Row(
        graph(
            {"ab": edge("A", "o", "B", "b"), "ba": edge("B", "o", "A", "a")},
            A=node(ports={"a": {"default_value": 0}}, outputs={"o": "a + 1"}),
            B=node(ports={"b": {"default_value": 100}}, outputs={"o": "2 * b + 1"}),
        ),
        {"A.o": [1, 4, 10], "B.o": [3, 9, 21]},
    ),
}

ROWS = {**ONE_NODE, **PORTS, **FEEDBACK}


def assert_close(values: Any, expected: list[Any]) -> None:
    np.testing.assert_allclose(np.asarray(values, float), np.asarray(expected, float), rtol=1e-12)


@pytest.mark.parametrize("name", ROWS)
def test_ours(name: str) -> None:
    row = ROWS[name]
    compiled = mdf_loop.compile(row.model, device="cpu")
    results = compiled.run(steps=row.steps, dt=row.dt, record=list(row.values))
    for item, values in row.values.items():
        assert_close(results[item], values)


@pytest.mark.parametrize("name", ROWS)
def test_the_engine(name: str) -> None:
    row = ROWS[name]
    record = trace(row.model, row.dts)
    assert record.error is None
    for item, values in row.values.items():
        assert_close([step[item] for step in record.rows], values)


@pytest.mark.parametrize("name", ROWS)
def test_the_reference(name: str, shared: Path) -> None:
    row = ROWS[name]
    path = shared / "reference" / "mdf_semantics.py"
    if not path.exists():
        pytest.skip("the reference is not here")
    spec = importlib.util.spec_from_file_location("mdf_semantics", path)
    assert spec is not None
    assert spec.loader is not None
    reference = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(reference)
    simulation = reference.Sim(to_modeci_graph(open_document(row.model)))
    rows: dict[str, list[Any]] = {item: [] for item in row.values}
    for dt in row.dts:
        simulation.step(dt)
        for item, values in rows.items():
            node_id, part = item.split(".")
            node_state = simulation.nodes[node_id]
            values.append({**node_state.cur, **node_state.fn, **node_state.out}[part])
    for item, expected in row.values.items():
        assert_close(rows[item], expected)


# --- rows that are refused ----------------------------------------------------------------------

FAILING = {
    "a derivative that starts from nothing": (
        graph(A=node({"p": {"time_derivative": "2"}}, outputs={"o": "p"})),
        "nothing to start from",
    ),
    "a condition's value is always computed": (
        graph(
            A=node(
                {"p": {"value": 3, "conditions": when(never=("False", "1/0"))}},
                outputs={"o": "p"},
            )
        ),
        "division by zero",
    ),
}


@pytest.mark.parametrize("name", FAILING)
def test_models_that_fail_in_both(name: str) -> None:
    model, sentence = FAILING[name]
    assert trace(model, [None, 0.5]).error is not None
    with pytest.raises(LoopError, match=sentence):
        mdf_loop.compile(model, device="cpu").run(steps=2, dt=0.5)


def test_a_cycle_without_a_default_is_refused() -> None:
    model = circle()
    del model["g"]["nodes"]["A"]["input_ports"]["a"]["default_value"]
    with pytest.raises(CycleError, match="wait for each other"):
        mdf_loop.compile(model, device="cpu").run(steps=2)


def test_a_function_that_reads_a_parameter_before_it_has_a_value_is_refused() -> None:
    doubled = {"function": "linear", "args": {"variable0": "n", "slope": 2, "intercept": 0}}
    model = graph(A=node({"n": state("n + 1"), "pf": doubled}, {"f": "pf"}))
    rows = trace(model, [None] * 3).rows
    assert [row["A.pf"] for row in rows] == [2, 4, 6]
    assert [row["A.f"] for row in rows] == [None, 2, 4]
    with pytest.raises(LoopError, match="has no value yet when a function reads it"):
        mdf_loop.compile(model, device="cpu").run(steps=3)


def test_a_list_times_a_plain_number_is_refused() -> None:
    model = graph(A=node({"n": {"value": 2}, "l": {"value": "[n, 1] * n"}}, outputs={"o": "l"}))
    assert trace(model, [None]).rows[0]["A.l"] == [2, 1, 2, 1]
    with pytest.raises(LoopError, match="join or repeat the list"):
        mdf_loop.compile(model, device="cpu").run(steps=1)
