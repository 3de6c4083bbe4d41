"""The execution order of one evaluation, where it is known at compile time."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from mdf_loop.errors import ConditionError, EndlessLoopError, UnknownNameError
from mdf_loop.importing.opening import open_document
from mdf_loop.lower.builder import ModelBuilder
from mdf_loop.reading.graph import find_required_senders, sort_into_layers
from mdf_loop.reading.schedule import plan as plan_module
from mdf_loop.reading.schedule.conditions import JustRan, TimeScale
from mdf_loop.reading.schedule.counters import Counters
from mdf_loop.reading.schedule.plan import NodeSets, Schedule, read_schedule
from tests.over_time.schedules import PASSES_3, Model, condition, model


def _schedule(source: Model) -> Schedule:
    graph = open_document(copy.deepcopy(source)).graph
    waits = find_required_senders(graph, graph.edges)
    return read_schedule(graph, sort_into_layers(graph, waits, "$"), waits, "$")


def _counters(schedule: Schedule) -> Counters:
    return Counters(
        ModelBuilder(), {k: not isinstance(k, JustRan) and 0 for k in schedule.count_keys}
    )


def flat(passes: tuple[NodeSets, ...] | None) -> NodeSets | None:
    """Concatenate the execution sets of all passes."""
    return None if passes is None else tuple(together for sets in passes for together in sets)


def _plan(source: Model, most: int = 64) -> NodeSets | None:
    schedule = _schedule(source)
    return flat(schedule.plan(_counters(schedule), most))


def test_without_conditions_layers_run_once() -> None:
    schedule = _schedule(model("diamond"))
    assert schedule.has_only_defaults
    assert schedule.runs_all_nodes
    assert _plan(model("diamond")) == schedule.layers == (("A",), ("B", "C"), ("D",))


@pytest.mark.parametrize(
    ("source", "planned"),
    [
        (model("chain", None, condition("AfterNCalls", dependency="B", n=2)), "A B C A B"),
        (model("chain", {"B": condition("EveryNCalls", dependency="A", n=2)}), "A A B C"),
        (model("chain", {"B": condition("Never")}, PASSES_3), "A A A"),
        (model("no edges", {"B": condition("AfterPass", n=0)}), "AC ABC"),
        (model("one", {"A": condition("AtPass", n=2)}), "- - A"),
        (model("one", None, condition("Always")), ""),
        (
            model("no edges", {"B": condition("TimeInterval", repeat=2)}, PASSES_3),
            "ABC ABC ABC",
        ),
        (
            model("one", {"A": condition("TimeInterval", start=1, end=2)}, PASSES_3),
            "A A -",
        ),
    ],
)
def test_plans(source: Model, planned: str) -> None:
    """Check the execution sets of one evaluation, where `-` is an empty set."""
    expected = tuple(tuple(word.strip("-")) for word in planned.split())
    assert _plan(source) == expected


@pytest.mark.parametrize(
    "written",
    [
        condition("Threshold", dependency="A", parameter="c", threshold=1, comparator=">"),
        condition("AfterNPasses", n=100),
    ],
)
def test_no_plan(written: Model) -> None:
    """Check that there is no plan if a value is unknown or the plan is too long."""
    assert _plan(model("chain", None, written)) is None


def test_counters_continue_in_the_next_evaluation() -> None:
    schedule = _schedule(model("one", {"A": condition("AtEnvironmentStateUpdate", n=1)}, PASSES_3))
    counters = _counters(schedule)
    assert flat(schedule.plan(counters, 64)) == ((), (), ())
    assert flat(schedule.plan(counters, 64)) == (("A",), ("A",), ("A",))
    (key,) = schedule.persistent_keys
    assert counters.counts[key] == 2


def test_endless(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(EndlessLoopError, match="no node can run any more"):
        _plan(model("one", {"A": condition("Never")}))
    monkeypatch.setattr(plan_module, "MAX_PASSES", 30)
    with pytest.raises(EndlessLoopError, match="it is not over after 30 passes"):
        _plan(model("one", {"A": condition("AtPass", n=31)}))
    assert _plan(model("one", {"A": condition("AtPass", n=28)})) is not None


def test_a_condition_that_changes_when_evaluated() -> None:
    ends = condition("Not", condition=condition("NWhen", condition=condition("Always"), n=3))
    assert _plan(model("one", None, ends)) == (("A",), ())


@pytest.mark.parametrize(
    ("written", "wakes"),
    [
        (condition("EveryNCalls", dependency="A", n=2), False),
        (condition("AfterNCalls", dependency="A", n=2), False),
        (condition("AfterNCalls", dependency="A", n=2, time_scale="TimeScale.PASS"), True),
        (condition("AfterPass", n=2), True),
        (condition("Not", condition=condition("JustRan", dependency="A")), True),
        (condition("NWhen", condition=condition("Always"), n=2), True),
        (condition("TimeInterval", repeat=2), True),
    ],
)
def test_conditions_that_can_become_true_without_runs(written: Model, wakes: bool) -> None:
    assert _schedule(model("chain", {"B": written})).can_resume is wakes


@pytest.mark.parametrize(
    "scale", ["environment_state_update", "TimeScale.ENVIRONMENT_STATE_UPDATE", TimeScale(2)]
)
def test_names_of_time_scales(scale: Any) -> None:
    assert _plan(model("one", None, {str(getattr(scale, "name", scale)): PASSES_3})) == (
        *(("A",),) * 3,
    )


def test_the_sequence_ends_an_evaluation_too() -> None:
    ends = {"ENVIRONMENT_SEQUENCE": condition("AfterNEnvironmentStateUpdates", n=1)}
    schedule = _schedule(model("chain", None, ends))
    counters = _counters(schedule)
    assert flat(schedule.plan(counters, 64)) == (("A",), ("B",), ("C",))
    assert flat(schedule.plan(counters, 64)) == ()


def test_invalid_schedules_are_refused() -> None:
    with pytest.raises(UnknownNameError, match="a condition governs 'Z'"):
        _schedule(model("one", {"Z": PASSES_3}))
    with pytest.raises(ConditionError, match=r"for 'TimeScale\.LIFE' ends nothing"):
        _schedule(model("one", None, {"TimeScale.LIFE": PASSES_3}))
