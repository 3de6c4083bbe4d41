"""Statistics over trials equal those of all stored trials."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import mdf_loop
from mdf_loop.api import over_trials
from mdf_loop.cli import cli
from mdf_loop.errors import InputError, LoopError
from tests.models.loops import loop_model

NODE = {
    "parameters": {
        "x": {"value": "numpy.random.normal(2.0, 3.0)"},
        "c": {"value": "1 * (x > 0) + 1 * (x > 4)"},
        "v": {"value": "numpy.random.uniform(size=2) + x"},
        "s": {"value": "s + numpy.random.normal()", "default_initial_value": 100.0},
    },
    "output_ports": {name: {"value": name} for name in "xcvs"},
}
MODEL = {"g": {"nodes": {"A": NODE}}}
EDGES = np.linspace(-10.0, 14.0, 25)
WORDS = ["mean", "var", "std", "min", "max", "count"]
TOLD = [*WORDS, {"quantiles": [0.1, 0.5, 0.9]}, {"histogram": EDGES}]
TRIALS = 3000


def numpy_statistics(values: np.ndarray, name: str = "A.x") -> dict[str, Any]:
    """Compute the statistics with NumPy."""
    statistics = {
        word: getattr(values, word)(axis=0) for word in ("mean", "var", "std", "min", "max")
    }
    parts = {
        "quantiles": np.quantile(values, [0.1, 0.5, 0.9], axis=0),
        "histogram": np.apply_along_axis(lambda v: np.histogram(v, EDGES)[0], 0, values),
    }
    statistics |= {"count": len(values)}
    statistics |= {word: np.moveaxis(part, 0, -1) for word, part in parts.items()}
    return {f"{name}.{word}": value for word, value in statistics.items()}


def compare(results: Any, expected: dict[str, Any], place: Any = ...) -> None:
    for name, value in expected.items():
        np.testing.assert_allclose(results[name][place], value, rtol=1e-12, err_msg=name)


@pytest.fixture
def compiled() -> Any:
    return mdf_loop.compile(MODEL)


def test_of_all_trials(compiled: Any) -> None:
    all_trials = compiled.run(trials=TRIALS)
    results = compiled.run(trials=TRIALS, over_trials={"A.x": TOLD, "A.v": TOLD})
    compare(results, numpy_statistics(all_trials["x"]))
    compare(results, numpy_statistics(all_trials["v"], "A.v"))
    assert results.axes == ()
    assert list(results)[:2] == ["A.x.mean", "A.x.var"]


def test_by_the_values_of_an_output(compiled: Any) -> None:
    all_trials = compiled.run(trials=TRIALS)
    results = compiled.run(trials=TRIALS, over_trials={"x": TOLD}, by="c")
    (axis,) = results.axes
    assert axis.coordinates["c"].tolist() == [0, 1, 2]
    for value in range(3):
        compare(results, numpy_statistics(all_trials["x"][all_trials["c"] == value], "x"), value)
    assert results["x.count"].sum() == TRIALS


def test_of_a_sweep_and_over_time(compiled: Any) -> None:
    options = {"trials": 200, "sweep": {"A.s": [0.0, 50.0]}, "steps": 4}
    all_trials = compiled.run(**options)
    results = compiled.run(**options, over_trials={"s": ["mean", "var", "count", TOLD[6]]})
    assert [axis.name for axis in results.axes] == ["batch", "time"]
    assert results.to_xarray()["s.quantiles"].dims[:2] == ("batch", "time")
    assert results.to_xarray()["s.count"].dims == ("batch",)
    np.testing.assert_allclose(results["s.mean"], all_trials["s"].mean(axis=1), rtol=1e-13)
    np.testing.assert_allclose(results["s.var"], all_trials["s"].var(axis=1), rtol=1e-12)


def test_a_value_that_a_member_never_has_counts_nothing() -> None:
    node = {
        "parameters": {"m": {"value": 0.0}, "x": {"value": "m + numpy.random.rand()"}},
        "output_ports": {"x": {"value": "x"}, "c": {"value": "x > 1"}},
    }
    compiled = mdf_loop.compile({"g": {"nodes": {"A": node}}})
    results = compiled.run(
        trials=50, sweep={"A.m": [0.0, 2.0]}, over_trials={"x": ["mean", "count"]}, by="c"
    )
    assert results["x.count"].tolist() == [[50, 0], [0, 50]]
    assert np.isnan(results["x.mean"][0, 1])
    assert results["x.mean"][1, 1] > 2.0


@pytest.mark.parametrize("first", [1, 7, 1000])
def test_the_same_bits_in_any_batches(
    compiled: Any, first: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {"trials": 700, "over_trials": {"x": TOLD, "v": TOLD}, "by": "c"}
    unbroken_run = compiled.run(**options)
    monkeypatch.setattr(over_trials, "FIRST_BATCH_TRIALS", first)
    monkeypatch.setattr(over_trials, "MAX_BATCH_TRIALS", 3 * first)
    parts = compiled.run(**options)
    for name in unbroken_run:
        np.testing.assert_array_equal(parts[name], unbroken_run[name])


def test_a_stopped_run_returns_statistics_so_far(
    compiled: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(over_trials, "FIRST_BATCH_TRIALS", 10)
    monkeypatch.setattr(over_trials, "MAX_BATCH_TRIALS", 10)
    reports: list[Any] = []

    def stop_late(progress: Any) -> bool:
        reports.append(progress)
        return len(reports) < 25

    results = compiled.run(trials=10**6, steps=5, over_trials={"x": ["count"]}, progress=stop_late)
    assert results.stopped_by.is_asked
    assert 0 < results["x.count"] < 10**6
    assert f"{results['x.count']} trials" in results.reason


def test_a_batch_stopped_between_steps_is_not_counted(
    compiled: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(over_trials, "FIRST_BATCH_TRIALS", 10)
    monkeypatch.setattr(over_trials, "MAX_BATCH_TRIALS", 10)
    batches: list[Any] = []

    def stop_in_the_second(progress: Any) -> bool:
        batches.extend([progress] if progress.done == 0 else [])
        return len(batches) < 2

    results = compiled.run(
        trials=40, steps=6, over_trials={"x": ["mean", "count"]}, progress=stop_in_the_second
    )
    assert results.reason.startswith("10 trials; 1 of 6 steps")
    unbroken_run = compiled.run(trials=10, steps=6, over_trials={"x": ["mean", "count"]})
    assert results["x.count"] == 10
    np.testing.assert_array_equal(results["x.mean"], unbroken_run["x.mean"])
    assert results.to_xarray()["step"].values.tolist() == list(range(6))


def test_of_reductions_over_time(compiled: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Check statistics of one number per trial next to outputs with rows."""
    monkeypatch.setattr(over_trials, "FIRST_BATCH_TRIALS", 7)
    options = {"reduce": {"s": ["mean", "max"]}, "steps": 6}
    all_trials = compiled.run(trials=40, only=["A.x", "A.c"], **options)
    words = {"s.mean": TOLD, "s.max": "mean", "x": ["mean", "count"]}
    results = compiled.run(trials=40, over_trials=words, **options)
    compare(results, numpy_statistics(all_trials["s.mean"], "s.mean"))
    np.testing.assert_allclose(results["s.max.mean"], all_trials["A.s.max"].mean(), rtol=1e-12)
    np.testing.assert_allclose(results["x.mean"], all_trials["x"].mean(axis=0), rtol=1e-12)
    variables = results.to_xarray()
    assert variables["s.mean.mean"].dims == ()
    assert variables["x.mean"].dims == ("time",)


def test_of_reductions_by_the_reduction_of_a_sweep(compiled: Any) -> None:
    """Check that `by` accepts a reduction of an output."""
    options = {"reduce": {"c": "max", "x": "mean"}, "steps": 3, "sweep": {"A.s": [0.0, 1.0]}}
    all_trials = compiled.run(trials=50, only=[], **options)
    results = compiled.run(trials=50, over_trials={"x.mean": "mean"}, by="c.max", **options)
    for index, value in enumerate(np.unique(all_trials["c.max"])):
        for member in range(2):
            chosen = all_trials["x.mean"][member][all_trials["c.max"][member] == value]
            assert results["x.mean.mean"][member, index] == pytest.approx(chosen.mean(), rel=1e-12)


WRONG = {
    "a reduction of which nothing is told": (
        {"over_trials": {"x": "mean"}, "reduce": {"s": "mean"}, "steps": 3},
        "'s.mean' would be a number of each trial, and nothing is told of it",
    ),
    "no word": ({"over_trials": {"x": ["mea"]}}, "did you mean 'mean'"),
    "quantiles": (
        {"over_trials": {"x": [{"quantiles": [1.5]}]}},
        "quantiles over trials cannot be",
    ),
    "edges": (
        {"over_trials": {"x": [{"histogram": [1.0, 0.0]}]}},
        "histogram over trials cannot be",
    ),
    "texts": ({"over_trials": {"x": [{"quantiles": ["a"]}]}}, "are no numbers"),
    "no output": ({"over_trials": {"z": "mean"}}, "no output 'z'"),
    "by an array": ({"over_trials": {"x": "mean"}, "by": "v"}, "no single number in each trial"),
    "by alone": ({"by": "c"}, "by needs over_trials"),
    "no trials": ({"over_trials": {"x": "mean"}, "trials": None}, "over_trials needs trials"),
    "record": ({"over_trials": {"x": "mean"}, "record": ["A.c"]}, "outputs of each trial"),
    "a checkpoint": ({"over_trials": {"x": "mean"}, "checkpoint": "c.ckpt"}, "a checkpoint"),
    "the engine": ({"over_trials": {"x": "mean"}, "engine": "modeci"}, "modeci_mdf's engine"),
}


@pytest.mark.parametrize("name", WRONG)
def test_invalid_statistics_are_refused(compiled: Any, name: str) -> None:
    options, message = WRONG[name]
    with pytest.raises(LoopError) as caught:
        compiled.run(**{"trials": 20, **options})
    assert message in str(caught.value)
    assert isinstance(caught.value, InputError) or name == "no output"


def test_on_the_command_line(tmp_path: Path) -> None:
    (tmp_path / "m.json").write_text(json.dumps({"m": {"graphs": MODEL}}))
    words = ["run", str(tmp_path / "m.json"), "--trials", "500", "--seed", "3", "--by", "c"]
    words += ["--over-trials", "x=mean,quantiles:0.1:0.9", "--over-trials", "x=histogram:-10:14:7"]
    document = json.loads(CliRunner().invoke(cli, [*words, "--json"]).stdout)
    outputs = document["outputs"]
    assert outputs["x.histogram"]["shape"] == [3, 6]
    assert outputs["x.quantiles"]["shape"] == [3, 2]
    assert document["axes"] == {"c": [0, 1, 2]}
    assert document["seed"] == 3
    text = CliRunner().invoke(cli, words).stdout
    assert "x.mean: float64[c=3]" in text
    assert "seed: 3" in text


def test_recordings_of_different_lengths_are_refused() -> None:
    """Check that statistics of padded recordings are refused, also for integers, which have no nan."""
    source = loop_model(
        {"M": 30, "cond": True, "v_initial": "(0.0,)"},
        {"x_next": "x + numpy.random.normal()", "n": "i"},
        carried="x",
        recorded="n",
        go="abs(x) < 1.0",
    )
    with pytest.raises(InputError, match="another number of rows in some trials than in others"):
        mdf_loop.compile(source).run(trials=20, over_trials={"r1": ["mean"]})
