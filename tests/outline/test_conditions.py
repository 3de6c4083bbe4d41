"""Words for scheduler conditions."""

import inspect

import pytest

from mdf_loop.outline import outline
from mdf_loop.reading.schedule.table import describe_condition


def condition_dict(kind, **kwargs):
    return {"type": kind, "kwargs": kwargs}


CONDITIONS = [
    ({"type": "Always"}, "always"),
    (condition_dict("Never"), "never"),
    (condition_dict("EveryNCalls", dependency="A", n=2), "every 2 calls of A"),
    (condition_dict("EveryNCalls", dependencies="A", n=1), "every call of A"),
    (condition_dict("AfterNCalls", dependencies="A", n=1), "after 1 call of A"),
    (
        condition_dict("AfterNCalls", dependency="A", n=3, time_scale="TimeScale.LIFE"),
        "after 3 calls of A over all evaluations",
    ),
    (
        condition_dict("AfterNCalls", dependency="A", n=3, time_scale="TimeScale.PASS"),
        "after 3 calls of A in the pass",
    ),
    (condition_dict("AtNCalls", dependency="A", n=2), "at 2 calls of A"),
    (condition_dict("BeforeNCalls", dependency="A", n=2), "before 2 calls of A"),
    (condition_dict("AfterCall", dependency="A", n=2), "after more than 2 calls of A"),
    (
        condition_dict("AfterNCallsCombined", dependencies=["A", "B"], n=5),
        "after 5 calls of A and B together",
    ),
    (condition_dict("JustRan", dependency="A"), "just after A"),
    (condition_dict("AllHaveRun"), "once all have run"),
    ({"type": "AllHaveRun"}, "once all have run"),
    (condition_dict("AllHaveRun", dependencies=["A"]), "once A has run"),
    (condition_dict("AllHaveRun", dependencies=["A", "B", "C"]), "once A, B and C have run"),
    (condition_dict("WhenFinished", dependency="A"), "when A is finished"),
    (condition_dict("WhenFinishedAny", dependencies=["A", "B"]), "when A or B is finished"),
    (condition_dict("WhenFinishedAny"), "when any node is finished"),
    (condition_dict("WhenFinishedAll", dependencies=["A", "B"]), "when A and B are finished"),
    (condition_dict("WhenFinishedAll"), "when all nodes are finished"),
    (condition_dict("BeforePass", n=4), "before pass 4"),
    (condition_dict("AtPass", n=0), "at pass 0"),
    (condition_dict("AfterPass", n=4), "after pass 4"),
    (
        condition_dict("AfterPass", n=4, time_scale="environment_sequence"),
        "after pass 4 over all evaluations",
    ),
    (condition_dict("AfterNPasses", n=4), "after 4 passes"),
    (condition_dict("AfterNPasses", n=1), "after 1 pass"),
    (condition_dict("EveryNPasses", n=3), "every 3 passes"),
    (condition_dict("EveryNPasses", n=1), "every pass"),
    (condition_dict("BeforeConsiderationSetExecution", n=2), "before execution set 2"),
    (condition_dict("AtConsiderationSetExecution", n=2), "at execution set 2"),
    (condition_dict("AfterConsiderationSetExecution", n=2), "after execution set 2"),
    (condition_dict("AfterNConsiderationSetExecutions", n=2), "after 2 execution sets"),
    (condition_dict("BeforeEnvironmentStateUpdate", n=2), "before evaluation 2"),
    (condition_dict("AtEnvironmentStateUpdate", n=2), "in evaluation 2"),
    (condition_dict("AfterEnvironmentStateUpdate", n=2), "after evaluation 2"),
    (condition_dict("AfterNEnvironmentStateUpdates", n=2), "after 2 evaluations"),
    (condition_dict("AtEnvironmentSequence", n=1), "in sequence 1"),
    (condition_dict("AfterEnvironmentSequence", n=1), "after sequence 1"),
    (condition_dict("AfterNEnvironmentSequences", n=2), "after 2 sequences"),
    (condition_dict("AtEnvironmentStateUpdateStart"), "at the start of each evaluation"),
    (condition_dict("AtEnvironmentStateUpdateNStart", n=3), "at the start of evaluation 3"),
    (condition_dict("AtEnvironmentSequenceStart"), "in evaluation 0"),
    (condition_dict("AtEnvironmentSequenceNStart", n=1), "in evaluation 0 of sequence 1"),
    (condition_dict("TimeInterval", repeat="2 ms", start=1), "every 2 ms from 1 ms"),
    (
        condition_dict("TimeInterval", start=1, end=9, unit="s", end_inclusive=False),
        "from 1 s before 9 s",
    ),
    (condition_dict("TimeTermination", t=5), "from 5 ms on"),
    (condition_dict("TimeTermination", t="5 s", inclusive=False), "after 5 s"),
    (
        condition_dict("Threshold", dependency="A", parameter="x", threshold=0.5, comparator=">="),
        "when A.x >= 0.5",
    ),
    (
        condition_dict(
            "Threshold",
            dependency="A",
            parameter="x",
            threshold=1,
            comparator="==",
            indices=[0, 2],
            atol=0.1,
        ),
        "when A.x[0][2] == 1 within atol 0.1",
    ),
    (
        condition_dict("NWhen", condition=condition_dict("AfterPass", n=2), n=3),
        "3 times at most, after pass 2",
    ),
    (
        condition_dict("NWhen", condition=condition_dict("JustRan", dependency="A")),
        "once at most, just after A",
    ),
    (condition_dict("Not", condition=condition_dict("AtPass", n=0)), "not at pass 0"),
    (
        condition_dict(
            "Not",
            condition=condition_dict(
                "Or", args=[condition_dict("AtPass", n=0), condition_dict("Never")]
            ),
        ),
        "not (at pass 0 or never)",
    ),
    (condition_dict("All", args=[condition_dict("AtPass", n=0)]), "at pass 0"),
    (
        condition_dict(
            "And",
            dependencies=[
                condition_dict("JustRan", dependency="A"),
                condition_dict("AfterPass", n=1),
            ],
        ),
        "just after A and after pass 1",
    ),
    (
        condition_dict(
            "Any",
            dependencies=[
                condition_dict("AfterPass", n=4),
                condition_dict("All", args=[{"type": "Never"}, {"type": "Always"}]),
            ],
        ),
        "after pass 4 or (never and always)",
    ),
    (
        condition_dict("Mine", a=1, b="x", c=[condition_dict("AtPass", n=0)]),
        "when Mine(a=1, b=x, c=[at pass 0])",
    ),
    (condition_dict("EveryNCalls"), "every ? calls of ?"),
]


@pytest.mark.parametrize(("condition", "expected"), CONDITIONS)
def test_conditions_in_words(condition, expected):
    assert describe_condition(condition) == expected


@pytest.mark.slow
def test_every_condition_type_of_the_scheduler_has_words():
    from graph_scheduler import condition

    types = {
        name
        for name, kind in vars(condition).items()
        if inspect.isclass(kind) and issubclass(kind, condition.Condition)
    }
    need_code = {"Condition", "While", "WhileNot", "AbsoluteCondition", "CompositeCondition"}
    assert {c["type"] for c, _ in CONDITIONS} | {"Or"} >= types - need_code


def test_condition_objects_refer_to_nodes():
    from modeci_mdf.mdf import Condition, Node

    every_two_calls = Condition("EveryNCalls", dependencies=Node(id="A"), n=2)
    condition = Condition(
        "All", dependencies=[every_two_calls, Condition("Not", condition=Condition("Never"))]
    )
    assert describe_condition(condition) == "every 2 calls of A and not never"


def test_default_conditions_have_no_words():
    ports = {"input_ports": {"x": {}}, "output_ports": {"y": {"value": "x"}}}
    start = {"output_ports": {"y": {"value": "1"}}}
    edge = {"sender": "a", "receiver": "b", "sender_port": "y", "receiver_port": "x"}
    conditions = {
        "node_specific": {"a": {"type": "Always"}, "b": {"type": "Always"}},
        "termination": {
            "environment_state_update": condition_dict("AllHaveRun"),
            "environment_sequence": condition_dict("Never"),
        },
    }
    graph = outline(
        {"g": {"nodes": {"a": start, "b": ports}, "edges": {"e": edge}, "conditions": conditions}}
    )
    assert [node.scheduler_condition for node in graph.nodes] == ["", "in every pass"]
    assert graph.termination == ()


@pytest.mark.parametrize(
    ("scale", "expected"),
    [
        ("environment_state_update", "each evaluation ends after 3 passes"),
        ("TimeScale.ENVIRONMENT_STATE_UPDATE", "each evaluation ends after 3 passes"),
        ("environment_sequence", "each sequence of evaluations ends after 3 passes"),
        ("LIFE", "each life ends after 3 passes"),
    ],
)
def test_words_for_the_end_of_each_time_scale(scale, expected):
    conditions = {"termination": {scale: condition_dict("AfterNPasses", n=3)}}
    assert outline({"g": {"nodes": {"a": {}}, "conditions": conditions}}).termination == (expected,)
