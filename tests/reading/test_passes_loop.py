"""Loops over scheduler passes equal the unrolled execution plan, and have the expected structure."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import yaml

import mdf_loop
from mdf_loop.errors import ConditionError, RunError
from mdf_loop.ir import If, Loop, walk
from mdf_loop.reading import passes_loop
from mdf_loop.reading.program import read
from tests.over_time.schedules import (
    PASSES_3,
    Model,
    condition,
    decide_while_running,
    model,
)

ABOVE_1 = condition("Threshold", dependency="A", parameter="c", threshold=1, comparator=">")

BOTH_WAYS = [
    model("chain"),
    model("circle", None, PASSES_3),
    model("diamond", {"B": condition("EveryNCalls", dependency="A", n=2)}),
    model("two that feed themselves", {"A": condition("AtPass", n=1)}),
    model(
        "no edges", {"B": condition("NWhen", condition=condition("AfterPass", n=0), n=3)}, PASSES_3
    ),
    model("no edges", {"B": condition("JustRan", dependency="A")}, PASSES_3),
    model("chain", {"B": condition("TimeInterval", repeat=3)}, PASSES_3),
    model("one", None, condition("Always")),
]


def _run(source: Model) -> tuple[Any, dict[str, Any]]:
    names = [f"{n}.{p}" for n in source["g"]["nodes"] for p in ("a", "f", "n")]
    compiled = mdf_loop.compile(copy.deepcopy(source))
    results = compiled.run(steps=6, record=names, execution_list=True)
    return results.execution_list, {name: results[name] for name in names}


@pytest.mark.slow
@pytest.mark.parametrize("source", BOTH_WAYS)
def test_planned_and_unplanned_schedules_are_equal(
    source: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    order, planned = _run(source)
    decide_while_running(monkeypatch)
    same_order, unplanned_results = _run(source)
    assert same_order == order
    for name, array in planned.items():
        np.testing.assert_array_equal(unplanned_results[name], array)
        assert unplanned_results[name].dtype == array.dtype


def _loop_of(source: Model) -> Loop:
    program = read(copy.deepcopy(source))
    (loop,) = (op for op in program.ops if isinstance(op, Loop))
    return loop


def test_a_pass_is_a_body_and_a_node_is_a_choice() -> None:
    loop = _loop_of(model("chain", {"B": ABOVE_1}, PASSES_3))
    assert loop.name == "$.graphs[0] passes"
    assert loop.kind == "while"
    names = [op.name for op in walk(loop.ops) if isinstance(op, If)]
    assert names == ["B runs", "C runs"], "A runs in every pass"


def test_only_used_values_are_carried() -> None:
    loop = _loop_of(model("one", None, ABOVE_1))
    assert sorted(carried.name for carried in loop.carried) == ["", "a", "c", "g", "n", "o"]


def test_the_limit_of_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passes_loop, "MAX_PASSES", 20)
    within = condition("Threshold", dependency="A", parameter="c", threshold=20, comparator=">=")
    assert mdf_loop.compile(model("one", None, within)).run()["n"] == 20
    beyond = condition("Threshold", dependency="A", parameter="c", threshold=21, comparator=">=")
    with pytest.raises(RunError, match="never ends: it is not over after"):
        mdf_loop.compile(model("one", None, beyond)).run()


def test_an_output_of_a_node_that_has_not_run() -> None:
    source = model("no edges", {"B": ABOVE_1}, condition("AfterNPasses", n=1))
    compiled = mdf_loop.compile(source)
    assert np.isnan(compiled.run(steps=1)["B.n"]).all()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"parameter": "none"}, "the node 'A' has no parameter, function or output 'none'"),
        ({"parameter": "l"}, "a Threshold compares one number, but 'A.l' is int64[2]"),
    ],
)
def test_invalid_thresholds_are_refused(arguments: Model, sentence: str) -> None:
    source = model("one", None, condition("AfterCall", dependency="A", n=1))
    source["g"]["nodes"]["A"]["parameters"]["l"] = {"value": [1, 2]}
    tested_condition = condition(
        "Threshold", dependency="A", threshold=1, comparator=">", **arguments
    )
    later = condition("All", dependencies=[condition("AfterPass", n=0), tested_condition])
    source["g"]["conditions"]["termination"]["environment_state_update"] = later
    with pytest.raises(ConditionError) as caught:
        read(source)
    assert sentence in str(caught.value)
    assert ".dependencies[1]" in str(caught.value)


WATCHED = """
g:
  nodes:
    A:
      parameters: {n: {value: n + 1, default_initial_value: 0}}
      output_ports: {n: {value: n}}
    B:
      parameters: {m: {value: m + 1, default_initial_value: 0}}
      output_ports: {m: {value: m}}
  conditions:
    node_specific:
      A: {type: AtPass, kwargs: {n: 1}}
      B: {type: Threshold, kwargs: {dependency: A, parameter: n, threshold: 3, comparator: ">="}}
    termination:
      environment_state_update: {type: AfterPass, kwargs: {n: 2}}
"""


@pytest.mark.parametrize("start", [0, 3, 7.0, 2.5])
def test_a_threshold_on_a_state_that_is_set(start: float) -> None:
    """Check that a threshold tests a state passed to `set` before the node has run."""
    written = yaml.safe_load(WATCHED)
    written["g"]["nodes"]["A"]["parameters"]["n"]["default_initial_value"] = start
    expected = mdf_loop.compile(written).run()
    results = mdf_loop.compile(yaml.safe_load(WATCHED)).run(set={"A.n": start})
    for name in ("A.n", "B.m"):
        np.testing.assert_array_equal(results[name], expected[name])
