"""The table of scheduler conditions: each compiled condition has a text, under every argument name."""

from __future__ import annotations

from typing import Any

import graph_scheduler
import pytest

import mdf_loop
from mdf_loop.errors import UnsupportedError
from mdf_loop.outline import outline
from mdf_loop.reading.schedule.absolute import create_clock
from mdf_loop.reading.schedule.arguments import COMPOSITE_TYPES, NODE_ARGUMENTS
from mdf_loop.reading.schedule.conditions import NEVER, AllOf, Condition, ConstantCondition
from mdf_loop.reading.schedule.table import (
    COMPILED_TYPES,
    CONDITION_TYPES,
    describe_condition,
    read_condition,
)


def of(kind: str, **kwargs: Any) -> dict[str, Any]:
    return {"type": kind, "kwargs": kwargs}


def compiled(written: Any, owner: str | None = "B") -> Condition:
    return read_condition(written, owner, "here", "AB", lambda w: ConstantCondition(True))


PASS_1, AFTER_A = of("AtPass", n=1), of("JustRan", dependency="A")

SAMPLES: dict[str, tuple[dict[str, Any], str]] = {
    "Always": ({}, "always"),
    "Never": ({}, "never"),
    "All": ({"dependencies": [PASS_1, AFTER_A]}, "at pass 1 and just after A"),
    "And": ({"dependencies": [PASS_1, AFTER_A]}, "at pass 1 and just after A"),
    "Any": ({"dependencies": [PASS_1, AFTER_A]}, "at pass 1 or just after A"),
    "Or": ({"dependencies": [PASS_1, AFTER_A]}, "at pass 1 or just after A"),
    "Not": ({"condition": PASS_1}, "not at pass 1"),
    "NWhen": ({"condition": PASS_1, "n": 2}, "2 times at most, at pass 1"),
    "BeforeConsiderationSetExecution": ({"n": 2}, "before execution set 2"),
    "AtConsiderationSetExecution": ({"n": 2}, "at execution set 2"),
    "AfterConsiderationSetExecution": ({"n": 2}, "after execution set 2"),
    "AfterNConsiderationSetExecutions": ({"n": 2}, "after 2 execution sets"),
    "BeforePass": ({"n": 2}, "before pass 2"),
    "AtPass": ({"n": 2}, "at pass 2"),
    "AfterPass": ({"n": 2.0}, "after pass 2"),
    "AfterNPasses": ({"n": 2}, "after 2 passes"),
    "EveryNPasses": ({"n": 2}, "every 2 passes"),
    "BeforeEnvironmentStateUpdate": ({"n": 2}, "before evaluation 2"),
    "AtEnvironmentStateUpdate": ({"n": 2}, "in evaluation 2"),
    "AfterEnvironmentStateUpdate": ({"n": 2}, "after evaluation 2"),
    "AfterNEnvironmentStateUpdates": ({"n": 2}, "after 2 evaluations"),
    "AtEnvironmentSequence": ({"n": 2}, "in sequence 2"),
    "AfterEnvironmentSequence": ({"n": 2}, "after sequence 2"),
    "AfterNEnvironmentSequences": ({"n": 2}, "after 2 sequences"),
    "BeforeNCalls": ({"dependency": "A", "n": 2}, "before 2 calls of A"),
    "AtNCalls": ({"dependency": "A", "n": 2}, "at 2 calls of A"),
    "AfterCall": ({"dependency": "A", "n": 2}, "after more than 2 calls of A"),
    "AfterNCalls": ({"dependency": "A", "n": 2, "time_scale": None}, "after 2 calls of A"),
    "AfterNCallsCombined": (
        {"dependency": ["A", "B"], "n": 2},
        "after 2 calls of A and B together",
    ),
    "EveryNCalls": ({"dependency": "A", "n": 2}, "every 2 calls of A"),
    "JustRan": ({"dependency": "A"}, "just after A"),
    "AllHaveRun": ({"dependency": ["A", "B"]}, "once A and B have run"),
    "AtEnvironmentStateUpdateStart": ({}, "at the start of each evaluation"),
    "AtEnvironmentStateUpdateNStart": ({"n": 2}, "at the start of evaluation 2"),
    "AtEnvironmentSequenceStart": ({}, "in evaluation 0"),
    "AtEnvironmentSequenceNStart": ({"n": 2}, "in evaluation 0 of sequence 2"),
    "Threshold": (
        {"dependency": "A", "parameter": "v", "threshold": 2, "comparator": ">"},
        "when A.v > 2",
    ),
    "TimeInterval": ({"repeat": 2}, "every 2 ms"),
    "TimeTermination": ({"t": 2}, "from 2 ms on"),
}
"""Arguments and words of every type that is compiled."""


def test_the_table_has_every_type_of_graph_scheduler() -> None:
    from graph_scheduler import condition

    base = condition.ConditionBase
    type_names = {
        n for n, t in vars(condition).items() if isinstance(t, type) and issubclass(t, base)
    }
    aliases = {"And", "Or"}
    abstract = {n for n in type_names if n.startswith("_")} | {
        *("ConditionBase", "CompositeCondition", "GraphStructureCondition")
    }
    assert CONDITION_TYPES.keys() == (type_names | aliases) - abstract
    assert SAMPLES.keys() == COMPILED_TYPES.keys()


@pytest.mark.parametrize("kind", sorted(CONDITION_TYPES))
def test_a_type_is_compiled_and_worded_or_refused(kind: str) -> None:
    if kind not in SAMPLES:
        with pytest.raises(UnsupportedError, match=f"'{kind}' cannot be compiled"):
            compiled(of(kind))
        return
    arguments, words = SAMPLES[kind]
    compiled(of(kind, **arguments))
    assert describe_condition(of(kind, **arguments)) == words


@pytest.mark.parametrize("name", NODE_ARGUMENTS)
@pytest.mark.parametrize("kind", [k for k in SAMPLES if "dependency" in SAMPLES[k][0]])
def test_every_name_of_the_argument_about_nodes(kind: str, name: str) -> None:
    arguments, words = SAMPLES[kind]
    called = {name if key == "dependency" else key: value for key, value in arguments.items()}
    assert compiled(of(kind, **called)) == compiled(of(kind, **arguments))
    assert describe_condition(of(kind, **called)) == words


@pytest.mark.parametrize("kind", sorted(COMPOSITE_TYPES))
@pytest.mark.parametrize(
    "arguments",
    [
        {"args": [PASS_1, AFTER_A]},
        {"conditions": [PASS_1, AFTER_A]},
        {"first": PASS_1, "second": AFTER_A},
        {"dependencies": [PASS_1], "other": AFTER_A},
    ],
    ids=str,
)
def test_every_name_of_the_parts_of_a_composite(kind: str, arguments: dict[str, Any]) -> None:
    sample, words = SAMPLES[kind]
    assert compiled(of(kind, **arguments)) == compiled(of(kind, **sample))
    assert describe_condition(of(kind, **arguments)) == words


def test_composites_without_parts() -> None:
    assert compiled(of("All")) == AllOf(())
    assert [describe_condition(of(kind)) for kind in ("All", "Any")] == ["always", "never"]
    assert describe_condition(of("AfterNCallsCombined", n=2)) == "after 2 calls of no node together"


@pytest.mark.parametrize("arguments", [{"dependencies": {}}, {"one": {}}, {"parts": [{}]}], ids=str)
def test_the_clock_sees_absolute_time_under_every_name(arguments: dict[str, Any]) -> None:
    interval = of("TimeInterval", repeat=2)
    filled = {k: [interval] if isinstance(v, list) else interval for k, v in arguments.items()}
    clock = create_clock([(of("All", **filled), "here")], [("A",), ("B",)])
    assert (clock.is_used, clock.visit_interval) == (True, 1)


def test_errors_name_the_place_of_a_part() -> None:
    invalid = of("While")
    for arguments, place in (
        ({"args": [PASS_1, invalid]}, "here.args[1]"),
        ({"one": invalid}, "here.one"),
    ):
        with pytest.raises(UnsupportedError) as caught:
            compiled(of("All", **arguments))
        assert caught.value.findings[0].where == place


# --- drawn ----------------------------------------------------------------------------------------


def drawn(section: str, key: str, written: Any) -> tuple[Any, str]:
    node = {"parameters": {"v": {"value": "v + 1"}}, "output_ports": {"y": {"value": "v"}}}
    graph = {"nodes": {"A": node, "B": node}, "conditions": {section: {key: written}}}
    picture = mdf_loop.draw({"g": graph}).dot
    assert "?" not in picture
    return outline({"g": graph}), picture.replace("&gt;", ">")


@pytest.mark.parametrize("name", [*NODE_ARGUMENTS, ""])
@pytest.mark.parametrize("kind", sorted(SAMPLES))
def test_conditions_of_nodes_are_drawn_in_words(kind: str, name: str) -> None:
    arguments, words = SAMPLES[kind]
    called = {name if key == "dependency" and name else key: v for key, v in arguments.items()}
    graph, picture = drawn("node_specific", "B", of(kind, **called))
    label = "" if kind == "Always" else words  # no node waits, so the condition has no text
    assert graph.nodes[1].scheduler_condition == label
    assert all(word in picture for word in label.split())


@pytest.mark.parametrize("kind", sorted(SAMPLES))
def test_ends_are_drawn_in_words(kind: str) -> None:
    arguments, words = SAMPLES[kind]
    graph, picture = drawn("termination", "environment_state_update", of(kind, **arguments))
    assert graph.termination == (f"each evaluation ends {words}",)
    assert all(word in picture for word in words.split())


@pytest.mark.parametrize("scale", list(graph_scheduler.TimeScale.__members__))
def test_time_scales_are_worded(scale: str) -> None:
    text = describe_condition(of("AtNCalls", dependency="A", n=2, time_scale=f"TimeScale.{scale}"))
    assert text.startswith("at 2 calls of A")
    assert scale not in text


def test_unknown_conditions_have_a_text() -> None:
    assert describe_condition(of("Mine", a=1)) == "when Mine(a=1)"
    assert compiled(of("Never")) == NEVER
