"""Scheduler conditions in words."""

import inspect

import pytest

from mdf_loop.outline import outline
from mdf_loop.reading.schedule.table import condition_text


def of(kind, **kwargs):
    return {"type": kind, "kwargs": kwargs}


CONDITIONS = [
    ({"type": "Always"}, "always"),
    (of("Never"), "never"),
    (of("EveryNCalls", dependency="A", n=2), "every 2 calls of A"),
    (of("EveryNCalls", dependencies="A", n=1), "every call of A"),
    (of("AfterNCalls", dependencies="A", n=1), "after 1 call of A"),
    (
        of("AfterNCalls", dependency="A", n=3, time_scale="TimeScale.LIFE"),
        "after 3 calls of A over all evaluations",
    ),
    (
        of("AfterNCalls", dependency="A", n=3, time_scale="TimeScale.PASS"),
        "after 3 calls of A in the pass",
    ),
    (of("AtNCalls", dependency="A", n=2), "at 2 calls of A"),
    (of("BeforeNCalls", dependency="A", n=2), "before 2 calls of A"),
    (of("AfterCall", dependency="A", n=2), "after more than 2 calls of A"),
    (of("AfterNCallsCombined", dependencies=["A", "B"], n=5), "after 5 calls of A and B together"),
    (of("JustRan", dependency="A"), "just after A"),
    (of("AllHaveRun"), "once all have run"),
    ({"type": "AllHaveRun"}, "once all have run"),
    (of("AllHaveRun", dependencies=["A"]), "once A has run"),
    (of("AllHaveRun", dependencies=["A", "B", "C"]), "once A, B and C have run"),
    (of("WhenFinished", dependency="A"), "when A is finished"),
    (of("WhenFinishedAny", dependencies=["A", "B"]), "when A or B is finished"),
    (of("WhenFinishedAny"), "when any node is finished"),
    (of("WhenFinishedAll", dependencies=["A", "B"]), "when A and B are finished"),
    (of("WhenFinishedAll"), "when all nodes are finished"),
    (of("BeforePass", n=4), "before pass 4"),
    (of("AtPass", n=0), "at pass 0"),
    (of("AfterPass", n=4), "after pass 4"),
    (of("AfterPass", n=4, time_scale="environment_sequence"), "after pass 4 over all evaluations"),
    (of("AfterNPasses", n=4), "after 4 passes"),
    (of("AfterNPasses", n=1), "after 1 pass"),
    (of("EveryNPasses", n=3), "every 3 passes"),
    (of("EveryNPasses", n=1), "every pass"),
    (of("BeforeConsiderationSetExecution", n=2), "before execution set 2"),
    (of("AtConsiderationSetExecution", n=2), "at execution set 2"),
    (of("AfterConsiderationSetExecution", n=2), "after execution set 2"),
    (of("AfterNConsiderationSetExecutions", n=2), "after 2 execution sets"),
    (of("BeforeEnvironmentStateUpdate", n=2), "before evaluation 2"),
    (of("AtEnvironmentStateUpdate", n=2), "in evaluation 2"),
    (of("AfterEnvironmentStateUpdate", n=2), "after evaluation 2"),
    (of("AfterNEnvironmentStateUpdates", n=2), "after 2 evaluations"),
    (of("AtEnvironmentSequence", n=1), "in sequence 1"),
    (of("AfterEnvironmentSequence", n=1), "after sequence 1"),
    (of("AfterNEnvironmentSequences", n=2), "after 2 sequences"),
    (of("AtEnvironmentStateUpdateStart"), "at the start of each evaluation"),
    (of("AtEnvironmentStateUpdateNStart", n=3), "at the start of evaluation 3"),
    (of("AtEnvironmentSequenceStart"), "in evaluation 0"),
    (of("AtEnvironmentSequenceNStart", n=1), "in evaluation 0 of sequence 1"),
    (of("TimeInterval", repeat="2 ms", start=1), "every 2 ms from 1 ms"),
    (of("TimeInterval", start=1, end=9, unit="s", end_inclusive=False), "from 1 s before 9 s"),
    (of("TimeTermination", t=5), "from 5 ms on"),
    (of("TimeTermination", t="5 s", inclusive=False), "after 5 s"),
    (
        of("Threshold", dependency="A", parameter="x", threshold=0.5, comparator=">="),
        "when A.x >= 0.5",
    ),
    (
        of(
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
    (of("NWhen", condition=of("AfterPass", n=2), n=3), "3 times at most, after pass 2"),
    (of("NWhen", condition=of("JustRan", dependency="A")), "once at most, just after A"),
    (of("Not", condition=of("AtPass", n=0)), "not at pass 0"),
    (
        of("Not", condition=of("Or", args=[of("AtPass", n=0), of("Never")])),
        "not (at pass 0 or never)",
    ),
    (of("All", args=[of("AtPass", n=0)]), "at pass 0"),
    (
        of("And", dependencies=[of("JustRan", dependency="A"), of("AfterPass", n=1)]),
        "just after A and after pass 1",
    ),
    (
        of(
            "Any",
            dependencies=[
                of("AfterPass", n=4),
                of("All", args=[{"type": "Never"}, {"type": "Always"}]),
            ],
        ),
        "after pass 4 or (never and always)",
    ),
    (of("Mine", a=1, b="x", c=[of("AtPass", n=0)]), "when Mine(a=1, b=x, c=[at pass 0])"),
    (of("EveryNCalls"), "every ? calls of ?"),
]


@pytest.mark.parametrize(("condition", "words"), CONDITIONS)
def test_conditions_in_words(condition, words):
    assert condition_text(condition) == words


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


def test_conditions_as_objects_about_nodes():
    from modeci_mdf.mdf import Condition, Node

    first = Condition("EveryNCalls", dependencies=Node(id="A"), n=2)
    both = Condition("All", dependencies=[first, Condition("Not", condition=Condition("Never"))])
    assert condition_text(both) == "every 2 calls of A and not never"


def test_default_conditions_are_not_said():
    ports = {"input_ports": {"x": {}}, "output_ports": {"y": {"value": "x"}}}
    start = {"output_ports": {"y": {"value": "1"}}}
    edge = {"sender": "a", "receiver": "b", "sender_port": "y", "receiver_port": "x"}
    conditions = {
        "node_specific": {"a": {"type": "Always"}, "b": {"type": "Always"}},
        "termination": {
            "environment_state_update": of("AllHaveRun"),
            "environment_sequence": of("Never"),
        },
    }
    graph = outline(
        {"g": {"nodes": {"a": start, "b": ports}, "edges": {"e": edge}, "conditions": conditions}}
    )
    assert [node.condition for node in graph.nodes] == ["", "in every pass"]
    assert graph.termination == ()


@pytest.mark.parametrize(
    ("scale", "words"),
    [
        ("environment_state_update", "each evaluation ends after 3 passes"),
        ("TimeScale.ENVIRONMENT_STATE_UPDATE", "each evaluation ends after 3 passes"),
        ("environment_sequence", "each sequence of evaluations ends after 3 passes"),
        ("LIFE", "each life ends after 3 passes"),
    ],
)
def test_the_end_of_each_time_scale(scale, words):
    conditions = {"termination": {scale: of("AfterNPasses", n=3)}}
    assert outline({"g": {"nodes": {"a": {}}, "conditions": conditions}}).termination == (words,)
