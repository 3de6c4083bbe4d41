"""Per-member early exit: a lane takes the next member when its own has finished."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import mdf_loop
from mdf_loop.errors import UnsupportedError
from mdf_loop.native import loop_decisions, machine
from tests.long_runs.helpers import Case, chunked, same_results, unbroken
from tests.models.loops import loop_model
from tests.placements import kernels_checked
from tests.soak import times
from tests.strategies.members import noisy_loop

SEEDS = times(15, 3000)


@pytest.fixture(autouse=True)
def native_for_little_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make loops native even if they have little work."""
    monkeypatch.setattr(loop_decisions, "MIN_NATIVE_MICROSECONDS", 0.0)


def without_native_report(results: mdf_loop.Results) -> mdf_loop.Results:
    return results.with_changes(native={})


@pytest.mark.soak
@pytest.mark.parametrize("width", [2, 4, 8])
def test_random_noisy_loops_equal_the_standard_loop(
    width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "vector_width", lambda: width)
    native_count = 0
    for seed in range(width, SEEDS, 3):
        model, sweep = noisy_loop(seed, records=False)
        run_options: dict[str, Any] = {"trials": (1, 7, 50)[seed % 3]} | (
            {"sweep": sweep} if sweep else {}
        )
        with kernels_checked(seed % 2 == 0):
            native_model = mdf_loop.compile(model, device="cpu")
            results = unbroken(Case(model, run_options), native_model)
            native_count += results.native["A.loop"] == "native"
            expected = unbroken(Case(model, run_options, {"native": "off"}))
            same_results(results, expected)
            same_results(chunked(Case(model, run_options), seed, native_model)[0], expected)
    assert native_count > SEEDS / 3 / 2


def counting(**inputs: Any) -> dict[str, Any]:
    """Return a loop that adds `step` to `x` until `x` reaches `last`."""
    return loop_model(
        {"cond": "begins", "v_initial": "(x0, 0, True)", "M": 40},
        {
            "x_next": "x + step",
            "k_next": "k + i * 2",
            "odd_next": "not odd",
        },
        port_values={"x0": 0.0, "step": 1.0, "last": 5.0, "begins": True, **inputs},
        carried="x k odd",
        go="x + step < last",
    )


@pytest.mark.parametrize("members", [1, 2, 15, 16, 17, 100, 1000])
@pytest.mark.parametrize("checked", [False, True])
def test_any_number_of_members(members: int, checked: bool) -> None:
    rng = np.random.default_rng(members)
    sweep = {
        "last": rng.integers(-3, 60, members).astype(float),
        "x0": rng.integers(0, 4, members).astype(float),
        "begins": rng.random(members) < 0.8,
    }
    with kernels_checked(checked):
        results = mdf_loop.compile(counting(), device="cpu", native="require").run(sweep=sweep)
        expected = mdf_loop.compile(counting(), device="cpu", native="off").run(sweep=sweep)
    same_results(results, expected)
    iteration_counts = (
        np.clip(np.maximum(np.ceil(sweep["last"] - sweep["x0"]), 1), 1, 40) * sweep["begins"]
    )
    assert results.loops["A.loop"].iterations.tolist() == iteration_counts.tolist()
    assert results["r0"].tolist() == (sweep["x0"] + iteration_counts).tolist()
    assert results["r1"].tolist() == (iteration_counts * (iteration_counts - 1)).tolist()
    assert results["r2"].tolist() == (iteration_counts % 2 == 0).tolist()


def test_members_whose_condition_is_false_at_first() -> None:
    compiled = mdf_loop.compile(counting(), device="cpu", native="require")
    results = compiled.run(sweep={"begins": [False] * 20, "x0": np.arange(20.0)})
    assert results["r0"].tolist() == list(range(20))
    assert not results.loops["A.loop"].iterations.any()


@pytest.mark.parametrize(
    ("body", "recorded", "why"),
    [
        ({"x_next": "x + 1", "y": "x"}, "y", "each member has a number of rows of its own"),
        ({"x_next": "x + int(8 // x)"}, "", "it has onnx::Size of arrays"),
    ],
)
def test_unsupported_loops_are_standard(body: dict[str, str], recorded: str, why: str) -> None:
    model = loop_model(
        {"cond": True, "v_initial": "(1,)"},
        body,
        port_values={"last": 4},
        carried="x",
        recorded=recorded,
        go="x < last",
    )
    with pytest.raises(UnsupportedError, match=why):
        mdf_loop.compile(model, device="cpu", native="require").run(sweep={"last": [3, 9]})
    results = mdf_loop.compile(model, device="cpu").run(sweep={"last": [3, 9]})
    assert results.loops["A.loop"].iterations.shape == (2,)


def test_a_time_limit_stops_an_endless_member() -> None:
    model = counting()
    del model["model"]["graphs"]["graph"]["nodes"]["A"]["functions"]["loop"]["args"]["M"]
    compiled = mdf_loop.compile(model, device="cpu", native="require")
    # The first run compiles the kernel, so that the time limit of the next run covers only the loop.
    compiled.run(sweep={"last": [3.0, 5.0, 7.0]})
    results = compiled.run(sweep={"last": [3.0, np.inf, 7.0]}, time_limit=1)
    assert results["r0"][[0, 2]].tolist() == [3.0, 7.0]
    assert results.loops["A.loop"].iterations[1] > 1000
