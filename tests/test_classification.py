"""Classification of trip counts, conditions and indices as constant or variable, with their dependencies."""

from __future__ import annotations

from typing import Any

import pytest

from mdf_loop.classification import Decision, classify, classify_program
from mdf_loop.importing.opening import open_document
from mdf_loop.lower.builder import Options
from mdf_loop.reading.binding import BoundValues
from mdf_loop.reading.inputs import bind
from mdf_loop.reading.program import read_once
from mdf_loop.reading.settings import bind_settings
from tests.models.control import body, case, choose, give, model, repeat


def classification_of(source: Any, **inputs: Any) -> dict[str, str]:
    return {f"{d.name} {d.role}": f"{d.kind}: {d.why}" for d in classify(source, inputs)}


def count_to(limit: str, **args: Any) -> Any:
    step = body("i go n", {"more": f"n < {limit}", "next": "n + 1"})
    return repeat(step, [0], **args)


def test_trip_counts_and_conditions_of_loops() -> None:
    m = model({"y": "loop"}, loop=count_to("9", M=5, cond=True))
    assert classification_of(m) == {
        "m.loop trip count": "constant: 5",
        "m.loop condition": "variable: depends on carried value 'next' of 'm.loop'",
    }
    m = model({"y": "loop"}, loop=count_to("limit", M="2 * k", cond="k > 0"))
    assert classification_of(m) == {
        "m.loop trip count": "variable: depends on input 'k'",
        "m.loop condition": "variable: depends on input 'k', input 'limit'",
    }


def test_a_condition_that_is_false_from_the_start_is_constant() -> None:
    m = model({"y": "loop"}, loop=count_to("limit", cond=False))
    assert classification_of(m) == {"m.loop condition": "constant: false"}


def test_choices_in_loops_follow_their_loop() -> None:
    step = body(
        "i go x",
        {"go": "go", "y": "pick"},
        pick=case("i % 2", [give(r="inner")], "x"),
        inner=choose("x > a", give(r="x"), give(r="-x")),
    )
    m = model({"y": "loop"}, loop=repeat(step, ["x0"], M=4))
    assert classification_of(m) == {
        "m.loop trip count": "constant: 4",
        "m.loop > n.inner condition": "variable: depends on input 'a', input 'x0'",
        "m.loop > n.pick index": "variable: depends on the iteration of 'm.loop'",
    }


def test_unselected_branches_are_omitted() -> None:
    inner = give(r="x")
    m = model({"y": "choice"}, choice=choose(True, inner, give(r="2 * x")))
    assert classification_of(m) == {"m.choice condition": "constant: true"}


def test_dependencies_on_states_and_previous_outputs(mdf) -> None:
    source = mdf(
        """
nodes:
  cell:
    input_ports: {drive: {}, back: {default_value: 0.0}}
    parameters:
      v: {default_initial_value: 0.0, time_derivative: drive - v}
      choice: {function: onnx::If, args: {cond: v > 1, then_branch: A, else_branch: B}}
      other: {function: onnx::If, args: {cond: back > 1, then_branch: A, else_branch: B}}
    output_ports: {v: {value: v}, c: {value: choice}, o: {value: other}}
  sink:
    input_ports: {c: {}}
    output_ports: {c: {value: c}}
edges:
  e: {sender: cell, sender_port: c, receiver: sink, receiver_port: c}
  f: {sender: sink, sender_port: c, receiver: cell, receiver_port: back}
""".replace("A,", "{a: {nodes: {n: {output_ports: {y: {value: 1.0}}}}}},").replace(
            "B}", "{a: {nodes: {n: {output_ports: {y: {value: 0.0}}}}}}}"
        )
    )
    assert classification_of(source) == {
        "cell.choice condition": (
            "variable: depends on state 'cell.v', the time step, input 'drive'"
        ),
        "cell.other condition": "variable: depends on state 'sink.c'",
    }


# --- the examples in MindSpore's documentation ----------------------------------------------------


def decision_of(cond: Any, parameters: Any = None, **inputs: Any) -> Decision:
    m = model({"y": "choice"}, choice=choose(cond, give(r="1"), give(r="0")))
    node = m["graph"]["nodes"]["m"]
    node["parameters"] = parameters or {}
    node["input_ports"] = {name: {} for name in inputs}
    (decision,) = classify(m, inputs)
    return decision


FIXED = {"flag": {"value": True}, "limit": {"value": 7}}
ROWS: list[tuple[str, Any, Any, str, str]] = [
    ("self.flag", "flag", {}, "constant", "true"),
    ("x + 1 < 10, x a scalar constant", "limit + 1 < 10", {}, "constant", "true"),
    ("len(my_list) < 10", "len(x) < 10", {"x": [1.0, 2.0]}, "constant", "true"),
    ("x < y", "x < y", {"x": 1, "y": 2}, "variable", "depends on input 'x', input 'y'"),
    ("x in list", "x == 1 or x == limit", {"x": 1}, "variable", "depends on input 'x'"),
    ("an operation on constants", "abs(limit) > 9", {}, "constant", "false"),
    ("a graph input", "x", {"x": True}, "variable", "depends on input 'x'"),
    ("mixed operands", "x + limit > 3", {"x": 1}, "variable", "depends on input 'x'"),
]


@pytest.mark.parametrize(("expression", "cond", "inputs", "kind", "why"), ROWS)
def test_examples_of_mindspore(
    expression: str, cond: Any, inputs: Any, kind: str, why: str
) -> None:
    decision = decision_of(cond, FIXED, **inputs)
    assert (decision.kind, decision.why) == (kind, why)


def test_a_parameter_is_variable_once_it_is_set() -> None:
    m = model({"y": "choice"}, choice=choose("limit > 3", give(r="1"), give(r="0")))
    node = m["graph"]["nodes"]["m"]
    node["parameters"], node["input_ports"] = FIXED, {}
    assert classification_of(m) == {"m.choice condition": "constant: true"}
    document, options = open_document(m), Options()
    settings = bind_settings(document, {"m.limit": 2}, "float64")
    reading = read_once(document, BoundValues.of(bind(document, {}, options), settings), options)
    (decision,) = classify_program(reading.program, reading.terms_by_path)
    assert decision.why == "depends on parameter 'm.limit', which is set"
