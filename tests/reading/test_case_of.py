"""`case_of`: selection of one of many graphs by its index."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mdf_loop.errors import ConditionError, JoinError, ModelError, RunError
from tests.models.control import Graph, case, choices, give, model, refused


@pytest.fixture
def run(run_everywhere):
    def one(source: Any, inputs: Any = None, **options: Any) -> dict[str, Any]:
        results = run_everywhere(source, inputs, engine=False, **options)
        return {name.removeprefix("m."): array for name, array in results.items()}

    return one


def ways(*formulas: str) -> list[Graph]:
    return [give(r=formula) for formula in formulas]


PIECES = ways("x + 1", "x * 10", "x - 5")


@pytest.mark.parametrize("dtype", ["int64", "int32", "uint8", "float64", "bool"])
def test_case_of_takes_the_branch_of_its_index(run, dtype: str) -> None:
    m = model({"y": "pick"}, pick=case("k", PIECES, "x"))
    for k, expected in {0: 3, 1: 20, 2: -3, 3: 2, 99: 2}.items():
        if dtype != "bool" or k < 2:
            assert run(m, {"k": np.array(k, dtype), "x": 2.0}) == {"y": expected}
    assert run(m, {"k": -1, "x": 2.0}) == {"y": 2}


@pytest.mark.parametrize("count", range(1, 8))
def test_any_number_of_branches(run, count: int) -> None:
    branches = [give("x", r=f"x * {k + 2}") for k in range(count)]
    m = model({"a": "pick[0]", "b": "pick[1]"}, pick=case("k", branches, "(-x, x + 1)"))
    for k in range(-2, count + 2):
        expected = (k + 2, 1) if 0 <= k < count else (-1, 2)
        assert tuple(run(m, {"k": k, "x": 1.0}).values()) == expected


@pytest.mark.parametrize("default", ["(x, 7.0)", ["x", "7.0"], give("x", r="7.0")])
def test_what_a_default_can_be(run, default: Any) -> None:
    m = model({"y": "pick[1]"}, pick=case("k", [give("x", "x")], default))
    expected = 5 if isinstance(default, Graph) else 7
    assert run(m, {"k": 4, "x": 5.0}) == {"y": expected}


@pytest.mark.parametrize("count", [1, 2, 3])
def test_without_a_default_an_index_outside_fails_when_it_happens(run, count: int) -> None:
    m = model({"y": "pick"}, pick=case("k", PIECES[:count]))
    assert run(m, {"k": 0, "x": 2.0}) == {"y": 3}
    for k in (-1, count):
        error = refused(m, RunError, k=k, x=2.0)
        assert error.what == (
            f"the index of 'm.pick' is outside: it has {count} branches, counted from 0, and no "
            "default"
        )
        assert error.where.endswith("functions['pick'].args.index")


def test_a_known_index_reads_one_branch_only(run) -> None:
    invalid = give("nobody")
    m = model({"y": "pick"}, pick=case(1, [invalid, give(r="x * 2"), invalid], invalid))
    m["graph"]["nodes"]["m"]["input_ports"] = {"x": {}}
    assert choices(m, x=1.0) == []
    assert run(m, {"x": 4.0}) == {"y": 8}
    outside = model({"y": "pick"}, pick=case(7, PIECES, "x"))
    assert run(outside, {"x": 4.0}) == {"y": 4}
    error = refused(model({"y": "pick"}, pick=case(3, PIECES)), ConditionError, x=1.0)
    assert error.what.startswith("the index of 'm.pick' is 3: it has 3 branches")


def test_an_index_that_is_not_whole() -> None:
    error = refused(model({"y": "pick"}, pick=case(0.5, PIECES)), ConditionError, x=1.0)
    assert error.what == "the index of 'm.pick' must be a whole number, not 0.5"
    m = model({"y": "pick"}, pick=case("k", PIECES))
    assert refused(m, RunError, k=0.5, x=1.0).what == "the index of 'm.pick' must be a whole number"
    error = refused(m, ConditionError, k=[0, 1], x=1.0)
    assert error.what == "the index of 'm.pick' must be one number, not int64[2]"


def test_branches_of_a_case_join() -> None:
    error = refused(
        model({"y": "pick"}, pick=case("k", [give("x"), give("v"), give("x")], "x")),
        JoinError,
        k=1,
        x=1.0,
        v=[1.0, 2.0],
    )
    assert (
        "from branch 1 of 'm.pick' (float64[2]) and branch 2 of 'm.pick' (float64[])" in error.what
    )


def test_branches_in_a_parameter_and_by_id(run, mdf) -> None:
    source = mdf("""
model:
  format: ModECI MDF v0.4
  graphs:
    main:
      nodes:
        n:
          input_ports: {k: {}, x: {}}
          functions: {pick: {function: case_of, args: {index: k, branches: all, default: up}}}
          parameters:
            all: {value: [up, {g: {nodes: {a: {input_ports: {x: {}}, output_ports: {y: {value: x - 1}}}}}}]}
          output_ports: {y: {value: pick}}
    up:
      nodes: {a: {input_ports: {x: {}}, output_ports: {y: {value: x + 1}}}}
""")
    assert [run(source, {"k": k, "x": 5.0})["n.y"] for k in (0, 1, 2)] == [6, 4, 6]


def test_a_case_without_branches() -> None:
    error = refused(model({"y": "pick"}, pick=case("k", [], "k")), ModelError, k=1)
    assert error.what == "'m.pick' has no branches"
