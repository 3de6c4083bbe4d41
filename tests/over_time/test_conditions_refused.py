"""Conditions that only one engine runs, and the errors for refused conditions.

Four verdicts exist: both run and are equal, both fail, the engine fails, the compiler refuses. This
file lists all cases of the last two verdicts.
"""

from __future__ import annotations

import copy
from typing import Any

import pytest

import mdf_loop
from mdf_loop.errors import (
    ConditionError,
    EndlessLoopError,
    LoopError,
    RunError,
    UnknownNameError,
    UnsupportedError,
)
from tests.over_time.schedules import (
    PASSES_3,
    Model,
    compare,
    condition,
    conditioned,
    model,
    short_patience,
)

AT_B = "$.graphs[0].conditions.node_specific['B']"
AT_END = "$.graphs[0].conditions.termination['environment_state_update']"
IN_ENGINE = "engine='modeci'"


@pytest.fixture(autouse=True)
def _short_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    short_patience(monkeypatch)


def _refusal(source: Model, kind: type[LoopError]) -> str:
    with pytest.raises(kind) as caught:
        mdf_loop.compile(copy.deepcopy(source)).run(steps=3)
    return str(caught.value)


def _at_b(type_: str, **arguments: Any) -> Model:
    return model("chain", {"B": condition(type_, **arguments)}, PASSES_3)


# --- no program can express them ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("type_", "arguments", "reason"),
    [
        ("WhenFinished", {"dependency": "A"}, "asks nodes whether they are finished"),
        ("WhenFinishedAny", {}, "asks nodes whether they are finished"),
        ("WhenFinishedAll", {}, "asks nodes whether they are finished"),
        ("While", {"func": "f"}, "calls Python code"),
        ("WhileNot", {"func": "f"}, "calls Python code"),
        ("Condition", {"func": "f"}, "calls Python code"),
        ("BeforeNode", {"nodes": ["A"]}, "changes the order of the graph"),
        ("WithNode", {"nodes": ["A"]}, "changes the order of the graph"),
        ("AfterNodes", {"nodes": ["A"]}, "changes the order of the graph"),
        ("AddEdgeTo", {"nodes": ["A"]}, "changes the order of the graph"),
    ],
)
def test_refused_by_name(type_: str, arguments: dict[str, Any], reason: str) -> None:
    message = _refusal(_at_b(type_, **arguments), UnsupportedError)
    assert f"the scheduler condition '{type_}' cannot be compiled: it {reason}" in message
    assert f"at {AT_B}" in message
    assert IN_ENGINE in message
    assert compare(_at_b(type_, **arguments), 3) in ("both fail", "we refuse")


def test_refused_inside_another() -> None:
    inside = condition("Not", condition=condition("WhenFinished", dependency="A"))
    source = model("chain", {"B": condition("All", dependencies=[PASSES_3, inside])})
    message = _refusal(source, UnsupportedError)
    assert f"at {AT_B}.dependencies[1].condition" in message


@pytest.mark.parametrize("kind", ["Not", "NWhen"])
def test_absolute_time_inside_what_has_no_clock(kind: str) -> None:
    source = _at_b(kind, condition=condition("TimeInterval", repeat=3))
    message = _refusal(source, UnsupportedError)
    assert f"a condition on absolute time inside '{kind}' cannot be compiled" in message
    assert IN_ENGINE in message


# --- wrong conditions -----------------------------------------------------------------------------

_WRONG: list[tuple[Model, type[LoopError], str, str]] = [
    (_at_b("Sometimes"), ConditionError, "there is no scheduler condition 'Sometimes'", AT_B),
    (_at_b("AfterNCalls", n=1), ConditionError, "'AfterNCalls' has no 'dependency'", AT_B),
    (_at_b("AfterNCalls", dependency="A"), ConditionError, "'AfterNCalls' has no 'n'", AT_B),
    (_at_b("AfterCall", dependency="Z", n=1), UnknownNameError, "'AfterCall' names 'Z'", AT_B),
    (_at_b("EveryNPasses", n=0), ConditionError, "must be a whole number above 0, not 0", AT_B),
    (_at_b("AtPass", n=1, time_scale="TimeScale.TRIAL"), ConditionError, "time_scale", AT_B),
    (
        _at_b("AtConsiderationSetExecution", n=1, time_scale="TimeScale.PASS"),
        ConditionError,
        "counts within a pass, where graph-scheduler keeps no count",
        AT_B,
    ),
    (
        model("chain", {"Z": condition("Always")}),
        UnknownNameError,
        "a condition governs 'Z', which is not a node of the graph",
        "$.graphs[0].conditions.node_specific['Z']",
    ),
    (
        model("chain", None, condition("EveryNCalls", dependency="A", n=1)),
        ConditionError,
        "'EveryNCalls' counts the runs of a node between two runs of another",
        AT_END,
    ),
    (
        model("chain", None, condition("TimeInterval", repeat=3)),
        ConditionError,
        "a TimeInterval with 'repeat' belongs to a node",
        AT_END,
    ),
    (_at_b("TimeInterval"), ConditionError, "'TimeInterval' cannot be read: At least one", AT_B),
]


@pytest.mark.parametrize(("source", "kind", "sentence", "where"), _WRONG)
def test_wrong_conditions(source: Model, kind: type[LoopError], sentence: str, where: str) -> None:
    message = _refusal(source, kind)
    assert sentence in message
    assert f"at {where}" in message
    assert compare(source, 3) == "both fail"


# --- we refuse what the engine takes ------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "sentence"),
    [
        (_at_b("AtPass", n="1"), "'n' of the condition 'AtPass' must be a number, not '1'"),
        (_at_b("EveryNPasses", n=1.5), "must be a whole number above 0, not 1.5"),
        (
            model("chain", None, {"TimeScale.PASS": condition("Always")}),
            "a termination condition for 'TimeScale.PASS' ends nothing",
        ),
    ],
)
def test_meaningless_conditions_are_refused(source: Model, sentence: str) -> None:
    assert sentence in _refusal(source, ConditionError)
    assert compare(source, 3) == "we refuse"


def test_a_threshold_on_an_input_port() -> None:
    arguments = {"parameter": "xA", "threshold": 1, "comparator": ">"}
    source = _at_b("Threshold", dependency="B", **arguments)
    message = _refusal(source, ConditionError)
    assert "a Threshold on the input port 'xA' never changes" in message
    assert "compare an output port of the sender" in message
    assert compare(source, 3) == "we refuse"


@pytest.mark.parametrize("name", ["threshold", "atol"])
def test_a_threshold_beyond_all_numbers(name: str) -> None:
    arguments = {"parameter": "b", "threshold": 1, "comparator": "==", name: 10**400}
    message = _refusal(_at_b("Threshold", dependency="B", **arguments), ConditionError)
    assert f"'{name}' of a Threshold is larger than a number with a point can be" in message


# --- the engine fails on what we take -------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "executed"),
    [
        # nothing has run yet, so nothing just ran; the engine: list index out of range
        (
            model("no edges", {"A": condition("JustRan", dependency="B")}, PASSES_3),
            (("B", "C"), ("A", "B", "C"), ("A", "B", "C")),
        ),
        # names in a list are nodes; the engine takes them only as Python objects
        (
            model("chain", None, condition("AllHaveRun", dependencies=["A", "B"])),
            (("A",), ("B",)),
        ),
        (
            model("chain", None, condition("AfterNCallsCombined", dependencies=["A", "B"], n=3)),
            (("A",), ("B",), ("C",), ("A",)),
        ),
        # one condition, without a list
        (
            model("chain", {"B": condition("All", dependencies=condition("Always"))}),
            (("A",), ("B",), ("C",)),
        ),
        # a time scale without "TimeScale."
        (
            model("chain", {"B": condition("AfterNCalls", dependency="A", n=1, time_scale="LIFE")}),
            (("A",), ("B",), ("C",)),
        ),
        # a function of a node that has not run counts as 0
        (
            model(
                "chain",
                {
                    "B": condition(
                        "Threshold", dependency="C", parameter="f", threshold=1, comparator="<"
                    )
                },
                condition("AfterNPasses", n=1),
            ),
            (("A",), ("B",), ("C",)),
        ),
    ],
)
def test_conditions_on_which_the_engine_fails(
    source: Model, executed: tuple[tuple[str, ...], ...]
) -> None:
    assert compare(source, 3) == "engine fails"
    results = mdf_loop.compile(copy.deepcopy(source)).run(steps=3, execution_list=True)
    assert results.execution_list is not None
    assert results.execution_list[0] == executed


def test_nodes_as_python_objects_in_a_list() -> None:
    from modeci_mdf.mdf import Condition, ConditionSet

    from mdf_loop.importing.opening import open_document
    from mdf_loop.run.modeci.engine_graph import to_modeci_graph

    def graph() -> Any:
        graph_object = to_modeci_graph(open_document(model("chain")))
        both = graph_object.nodes[:2]
        ending = Condition(type="AfterNCallsCombined", dependencies=both, n=5)
        graph_object.conditions = ConditionSet(termination={"environment_state_update": ending})
        return graph_object

    ours = mdf_loop.compile(graph()).run(steps=20, execution_list=True)
    theirs = mdf_loop.compile(graph()).run(steps=20, execution_list=True, engine="modeci")
    assert ours.execution_list == theirs.execution_list


# --- thresholds -----------------------------------------------------------------------------------


def _lists(arguments: dict[str, Any]) -> Model:
    nodes = {
        "A": {
            "parameters": {
                "l": {"default_initial_value": [0, 10], "value": "l + 1"},
                "s": {"value": "l * 2"},
            },
            "output_ports": {"o": {"value": "l"}, "shaped": {"value": "l", "shape": [2]}},
        },
        "B": {
            "parameters": {"c": {"default_initial_value": 0, "value": "c + 1"}},
            "output_ports": {"n": {"value": "c"}},
        },
    }
    conditions_by_node = {"B": condition("Threshold", dependency="A", **arguments)}
    return conditioned(
        {"nodes": nodes, "edges": {}}, conditions_by_node, condition("AfterNPasses", n=1)
    )


@pytest.mark.parametrize(
    ("arguments", "verdict"),
    [
        ({"parameter": "l", "indices": 1, "threshold": 13, "comparator": ">="}, "equal"),
        ({"parameter": "l", "indices": [0], "threshold": 3, "comparator": "<"}, "equal"),
        ({"parameter": "l", "indices": -1, "threshold": 15, "comparator": "!="}, "equal"),
        ({"parameter": "shaped", "indices": 0, "threshold": 5, "comparator": ">"}, "equal"),
        ({"parameter": "o", "indices": 0, "threshold": 5, "comparator": ">"}, "engine fails"),
        ({"parameter": "s", "indices": 0, "threshold": 5, "comparator": ">"}, "engine fails"),
        ({"parameter": "l", "threshold": 5, "comparator": ">"}, "both fail"),
        ({"parameter": "l", "indices": 7, "threshold": 5, "comparator": ">"}, "both fail"),
        ({"parameter": "none", "threshold": 5, "comparator": ">"}, "both fail"),
        ({"parameter": "l", "threshold": 5, "comparator": "=>"}, "both fail"),
        ({"parameter": "l", "threshold": "x", "comparator": ">"}, "both fail"),
    ],
)
def test_thresholds_on_elements(arguments: dict[str, Any], verdict: str) -> None:
    assert compare(_lists(arguments)) == verdict


# --- evaluations that never end -------------------------------------------------------------------


@pytest.mark.parametrize("type_", ["Never", "AfterEnvironmentStateUpdate"])
def test_nothing_can_run_any_more(type_: str) -> None:
    arguments = {} if type_ == "Never" else {"n": 2}
    source = model("one", {"A": condition(type_, **arguments)})
    message = _refusal(source, EndlessLoopError)
    assert "no node can run any more, and the termination condition does not hold" in message
    assert "at $.graphs[0].conditions" in message
    assert compare(source, 3) == "both fail"


def test_nothing_can_run_any_more_detected_at_run_time() -> None:
    threshold = condition("Threshold", dependency="A", parameter="c", threshold=2, comparator="<")
    source = model("one", {"A": threshold}, condition("AfterNCalls", dependency="A", n=3))
    message = _refusal(source, RunError)
    assert "an evaluation of the graph never ends: no node can run any more" in message
    assert "at $.graphs[0].conditions" in message
    assert compare(source, 3) == "both fail"


@pytest.mark.parametrize(
    "governed",
    [
        condition("AtPass", n=10**9),
        condition("TimeInterval", start=10**9, start_inclusive=False),
    ],
)
def test_a_time_that_does_not_come(governed: Model) -> None:
    source = model("one", {"A": governed})
    assert "it is not over after 400 passes" in _refusal(source, LoopError)
    assert compare(source, 3) == "both fail"


def test_an_unreachable_threshold() -> None:
    never = condition("Threshold", dependency="A", parameter="c", threshold=-1, comparator="<")
    source = model("chain", None, never)
    assert "it is not over after 400 passes" in _refusal(source, RunError)
    assert compare(source, 3) == "both fail"


def test_a_condition_without_a_time_scale_says_which_have_one() -> None:
    tested_condition = condition("EveryNCalls", dependency="A", n=2, time_scale="TimeScale.LIFE")
    with pytest.raises(ConditionError, match="'time_scale', which nothing reads") as error:
        mdf_loop.compile(model("chain", {"B": tested_condition})).run(steps=2)
    assert "EveryNPasses and AtNCalls, AfterCall, AfterNCalls have a time_scale" in str(error.value)
