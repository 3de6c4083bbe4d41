"""Every scheduler condition, compared with modeci_mdf's engine: order, values, kinds of numbers.

Each type is tested alone at a node, as termination, and inside others. It is tested with every time
scale and comparator that it accepts, on chains, diamonds, cycles, without edges, and on one node.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import cycle, product
from typing import Any

import pytest

from mdf_loop.reading.schedule.table import COMPILED_TYPES
from tests.over_time.schedules import (
    EVALUATION,
    PASSES_3,
    SCALES,
    SHAPES,
    SIGNS,
    Model,
    compare,
    condition,
    decide_while_running,
    model,
    short_patience,
)
from tests.soak import some

pytestmark = pytest.mark.slow

STEPS = 12

_COMPOSITE = {"All", "And", "Any", "Or", "Not", "NWhen"}
_ABSOLUTE = {"TimeInterval", "TimeTermination"}
SIMPLE = [kind for kind in COMPILED_TYPES if kind not in _COMPOSITE | _ABSOLUTE]


@pytest.fixture(autouse=True)
def _short_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    short_patience(monkeypatch)


def _arguments(kind: str) -> Iterator[dict[str, Any]]:
    """Yield the arguments for tests of a condition; `dependency` is filled in later."""
    scaled = [{"n": 1, "time_scale": f"TimeScale.{scale}"} for scale in SCALES]
    if kind == "Threshold":
        for sign, parameter in product(SIGNS, ("c", "a", "o")):
            yield {"parameter": parameter, "threshold": 4, "comparator": sign}
        yield {"parameter": "a", "threshold": 6, "comparator": "==", "atol": 1.5}
        yield {"parameter": "a", "threshold": 6, "comparator": "!=", "rtol": 0.2}
    elif kind == "AllHaveRun":
        yield from ({"time_scale": s["time_scale"]} for s in scaled)
        yield {}
    elif kind in _WITHOUT_NUMBER:
        yield {}
    elif kind.endswith(("Sequence", "Sequences", "NStart", "Combined")) or kind == "EveryNCalls":
        yield from ({"n": n} for n in (0, 1, 3))
    else:
        sets = "ConsiderationSet" in kind
        yield from ({"n": n} for n in (1, 2, 3 if kind == "EveryNPasses" else 0))
        yield from (s for s in scaled if not (sets and s["time_scale"].endswith("PASS")))


_WITHOUT_NUMBER = {
    *("Always", "Never", "JustRan"),
    *("AtEnvironmentStateUpdateStart", "AtEnvironmentSequenceStart"),
}
_OF_A_NODE = {
    *("BeforeNCalls", "AtNCalls", "AfterCall", "AfterNCalls"),
    *("EveryNCalls", "JustRan", "Threshold"),
}


def _written(kind: str, dependency: str) -> list[Model]:
    named = {"dependency": dependency} if kind in _OF_A_NODE else {}
    conditions = [condition(kind, **named, **arguments) for arguments in _arguments(kind)]
    if kind == "JustRan":  # the engine fails if the condition is evaluated before the first run
        return [condition("All", dependencies=[_STARTED, part]) for part in conditions * 4]
    return conditions


def _models(kind: str) -> Iterator[Model]:
    """Yield each form of a condition, at a node and as termination, on one shape after the other."""
    shapes, wraps = cycle(SHAPES), cycle(_WRAPPED)
    for index, shape in zip(range(2 * len(_written(kind, "A"))), shapes, strict=False):
        ids = SHAPES[shape][0]
        dependency = ids[0] if index % 2 else ids[-1]
        conditions = _written(kind, dependency)[index // 2]
        governed = ids[len(ids) // 2]
        yield model(shape, {governed: conditions}, PASSES_3 if index % 3 else None)
        if index % 2:
            yield model(shape, {ids[-1]: next(wraps)(conditions)}, PASSES_3)
        elif kind != "EveryNCalls":
            scale = EVALUATION if index % 4 else "ENVIRONMENT_SEQUENCE"
            yield model(shape, None, {scale: conditions})


_STARTED = condition("AfterNConsiderationSetExecutions", n=1, time_scale="TimeScale.LIFE")
_LATER = condition("AfterPass", n=0)
_WRAPPED = (
    lambda part: condition("Not", condition=part),
    lambda part: condition("NWhen", condition=part, n=2),
    lambda part: condition("All", dependencies=[part, _LATER]),
    lambda part: condition("Any", dependencies=[condition("AtPass", n=1), part]),
    lambda part: condition("Or", args=[condition("NWhen", condition=part), _LATER]),
    lambda part: condition("And", dependencies=[condition("Not", condition=part), _LATER]),
)


@pytest.mark.soak
@pytest.mark.parametrize("kind", SIMPLE)
def test_conditions_hold_as_in_the_engine(kind: str) -> None:
    verdicts = Counter(compare(source, STEPS) for source in some(_models(kind), 10))
    assert verdicts["equal"] > sum(verdicts.values()) / 4
    assert not verdicts["we refuse"]
    assert not verdicts["engine fails"]


@pytest.mark.soak
@pytest.mark.parametrize("kind", some(SIMPLE, 2))
def test_the_same_decided_while_running(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    decide_while_running(monkeypatch)
    for source in some(list(_models(kind))[:8], 8):
        assert compare(source, 8) in ("equal", "both fail", "engine fails")


# --- conditions made of conditions --------------------------------------------------------------

_PARTS = [
    condition("AtPass", n=1),
    condition("EveryNCalls", dependency="A", n=2),
    condition("AtEnvironmentStateUpdate", n=3),
    condition("AfterNCalls", dependency="A", n=3, time_scale="TimeScale.LIFE"),
    condition("Threshold", dependency="A", parameter="c", threshold=5, comparator=">"),
    condition("NWhen", condition=condition("AtPass", n=1), n=4),
]


@pytest.mark.soak
@pytest.mark.parametrize("kind", ["All", "And", "Any", "Or"])
def test_pairs(kind: str) -> None:
    for left, right in some(product(_PARTS, _PARTS), 28):
        tested_condition = condition(kind, dependencies=[left, condition("Not", condition=right)])
        source = model("chain", {"B": tested_condition, "C": condition("Always")}, PASSES_3)
        assert compare(source, STEPS) == "equal"


@pytest.mark.parametrize("kind", ["All", "And", "Any", "Or"])
@pytest.mark.parametrize("key", ["dependencies", "args", "conditions"])
def test_names_of_the_list(kind: str, key: str) -> None:
    tested_condition = condition(
        kind, **{key: [condition("AtPass", n=1), condition("AtPass", n=2)]}
    )
    source = model("chain", {"B": tested_condition, "C": condition("Always")}, PASSES_3)
    assert compare(source, STEPS) == "equal"


@pytest.mark.parametrize("kind", ["All", "Any"])
def test_combinations_of_no_condition(kind: str) -> None:
    source = model("chain", {"B": condition(kind), "C": condition("Always")}, PASSES_3)
    assert compare(source, STEPS) == "equal"


_TIMES = [{}, {"n": 0}, {"n": 1}, {"n": 1.5}, {"n": 7}]


@pytest.mark.soak
@pytest.mark.parametrize(("n", "part"), some(product(_TIMES, _PARTS), 3))
def test_nwhen_counts_over_evaluations(n: dict[str, Any], part: Model) -> None:
    tested_condition = condition("NWhen", condition=part, **n)
    source = model("no edges", {"B": tested_condition, "C": condition("Always")}, PASSES_3)
    assert compare(source, STEPS) == "equal"


_ASKED = [
    condition("Not", condition=condition("NWhen", condition=condition("Always"), n=3)),
    condition("NWhen", condition=condition("AfterPass", n=0), n=5),
    condition("BeforeNCalls", dependency="A", n=1, time_scale="TimeScale.PASS"),
    condition("Any", dependencies=[_PARTS[-1], condition("AfterNPasses", n=2)]),
]


@pytest.mark.soak
@pytest.mark.parametrize("ending", _ASKED)
@pytest.mark.parametrize("scale", ["environment_state_update", "ENVIRONMENT_SEQUENCE"])
def test_terminations_whose_evaluation_changes_them(ending: Model, scale: str) -> None:
    """Check the evaluation order of terminations: before a pass, before each layer, and at the end.

    The termination of the sequence is evaluated last.
    """
    for shape in some(SHAPES, 4):
        assert compare(model(shape, None, {scale: ending}), STEPS) in ("equal", "both fail")


def test_a_node_may_let_another_of_its_layer_run() -> None:
    """Check that the nodes of a layer are evaluated again while another one starts."""
    written = {
        "A": condition("AfterNCalls", dependency="B", n=1),
        "B": condition("AfterNCalls", dependency="C", n=1),
        "C": condition("AfterPass", n=0),
    }
    assert compare(model("no edges", written, PASSES_3), STEPS) == "equal"


# --- absolute time --------------------------------------------------------------------------------

_INTERVALS = [
    {"repeat": 2},
    {"repeat": 3, "start": 1},
    {"repeat": 2, "end": 9},
    {"repeat": 2, "start": 2, "end": 9, "start_inclusive": False, "end_inclusive": False},
    {"start": 4},
    {"end": 5},
    {"repeat": 1.5},
    {"repeat": "2 ms"},
    {"repeat": 500, "unit": "us"},
]


_INTERVAL_SHAPES = ["one", "no edges", "two that feed themselves"]


@pytest.mark.soak
@pytest.mark.parametrize(("interval", "shape"), some(product(_INTERVALS, _INTERVAL_SHAPES), 2))
def test_time_intervals(interval: dict[str, Any], shape: str) -> None:
    ids = SHAPES[shape][0]
    written = {ids[-1]: condition("TimeInterval", **interval)}
    assert compare(model(shape, written, condition("AfterNPasses", n=4)), STEPS) == "equal"
    written[ids[0]] = condition("TimeInterval", repeat=3)
    assert compare(model(shape, written, condition("AfterNPasses", n=4)), STEPS) == "equal"


@pytest.mark.parametrize("inclusive", [True, False])
def test_time_termination(inclusive: bool) -> None:
    ending = condition("TimeTermination", t=11, inclusive=inclusive)
    repeated = {"A": condition("TimeInterval", repeat=2), "B": condition("TimeInterval", repeat=4)}
    for shape in ("chain", "no edges", "diamond"):
        assert compare(model(shape, repeated, ending), STEPS) == "equal"
    assert compare(model("one", None, condition("TimeInterval", repeat=3, start=2)), 3) == "equal"


def test_absolute_conditions_inside_others() -> None:
    part = condition("TimeInterval", repeat=3)
    for kind in ("All", "Any"):
        tested_condition = condition(kind, dependencies=[part, condition("AfterPass", n=1)])
        source = model("chain", {"A": tested_condition}, condition("AfterNPasses", n=5))
        assert compare(source, STEPS) == "equal"
