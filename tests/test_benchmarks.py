"""The hand-written loops of the benchmarks compute the same numbers as the models."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import numpy as np
import pytest
import yaml

import mdf_loop
from mdf_loop.ir import Op, loops
from mdf_loop.pipeline import ONNXRUNTIME, prepare
from mdf_loop.run.control import chunks

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
DT = 0.01


def _import_benchmark(name: str):
    sys.path.insert(0, str(BENCHMARKS))
    try:
        return importlib.import_module(name)
    finally:
        sys.path.remove(str(BENCHMARKS))


@pytest.fixture(scope="module")
def numpy_loops():
    return _import_benchmark("numpy_loops")


@pytest.fixture(scope="module")
def chunking():
    return _import_benchmark("chunking")


def test_invariant_products_are_hoisted() -> None:
    invariants = _import_benchmark("invariants")
    for name, work in invariants.WAYS.items():
        program = prepare(invariants.program(work, 20), ONNXRUNTIME)
        (loop,) = loops(program)
        inside = [op.op_type for op in loop.ops if isinstance(op, Op)]
        assert sorted(inside) == ["Add", "Mul"], name
    assert invariants.least_milliseconds(20, 3, 2).keys() == invariants.WAYS.keys()


@pytest.mark.slow
@pytest.mark.parametrize("path", sorted(BENCHMARKS.glob("models/*.yaml")), ids=lambda p: p.stem)
def test_numpy_loops_equal_their_models(numpy_loops, path: Path) -> None:
    dt = DT / 1000 if path.stem in ("FN", "HH") else DT
    constants = numpy_loops.parameters(yaml.safe_load(path.read_text(encoding="utf-8")))
    by_hand = numpy_loops.LOOPS[path.stem](constants, 50, dt)
    ours = mdf_loop.compile(path, device="cpu").run(steps=50, dt=dt)
    assert set(ours) == set(by_hand)
    for name, array in ours.items():
        assert (array.dtype, array.shape) == (by_hand[name].dtype, by_hand[name].shape)
        np.testing.assert_allclose(array, by_hand[name], rtol=1e-12, atol=1e-15)


def test_every_model_has_a_numpy_loop(numpy_loops) -> None:
    assert sorted(numpy_loops.LOOPS) == sorted(p.stem for p in BENCHMARKS.glob("models/*.yaml"))


def test_runs_with_and_without_chunks_are_equal(chunking, monkeypatch) -> None:
    monkeypatch.setattr(chunks, "CHUNK_SECONDS", 0.001)
    compiled = mdf_loop.compile(chunking.MODEL, device="cpu")
    unbroken_run = chunking.build_unbroken_run(compiled, 2000)()
    assert sorted(unbroken_run) == ["FNpop.V", "FNpop.W", "FNpop.spike"]
    assert all(rows.shape == (1999, 1) for rows in unbroken_run.values())
    chunking.check_rows(compiled, unbroken_run, 2000)


def test_chunking_detects_different_numbers(chunking) -> None:
    compiled = mdf_loop.compile(chunking.MODEL, device="cpu")
    unbroken_run = chunking.build_unbroken_run(compiled, 50)()
    unbroken_run["FNpop.V"] = np.nextafter(unbroken_run["FNpop.V"], 9.0)
    with pytest.raises(AssertionError, match=r"FNpop\.V"):
        chunking.check_rows(compiled, unbroken_run, 50)


def test_the_while_loop_of_chunking_stops_at_its_bound(chunking) -> None:
    compiled = mdf_loop.compile(chunking.loop_model(), device="cpu", max_iterations=10**12)
    results = compiled.run({"end": 1000.0})
    expected = 0.3
    for _ in range(1000):
        expected = 2.9 * expected * (1.0 - expected)
    assert results["A.n"] == 1000
    np.testing.assert_allclose(results["A.x"], expected, rtol=1e-9)
    assert results.loops["A.loop"].stopped_by is mdf_loop.StopReason.CONDITION


def test_the_wide_model_of_chunking_has_wide_rows(chunking) -> None:
    compiled = mdf_loop.compile(chunking.wide_model(7), device="cpu")
    assert compiled.run(steps=3)["A.x"].shape == (3, 7)


def test_chunking_returns_ratios_of_minima(chunking, capsys) -> None:
    ways = {"one": lambda: None, "other": lambda: None}
    times = iter([1.0, 3.0, 2.0, 2.4])
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(chunking, "time_call", lambda run: next(times))
        assert chunking.print_table("two ways", ways, 2) == {"one": 1.0, "other": 2.4}
    assert "| other | 2.400 | 2.100 | 2400.0 |" in capsys.readouterr().out


# --- cost of a call ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def cost_of_a_call():
    return _import_benchmark("cost_of_a_call")


def test_models_of_cost_of_a_call_equal_plain_onnxruntime(cost_of_a_call, tmp_path: Path) -> None:
    for name in cost_of_a_call.MODELS:
        pair = cost_of_a_call.pair(name, tmp_path)
        assert 100 <= pair.nodes <= 1000
        cost_of_a_call.check_outputs(pair)


def test_cost_of_a_call_exits_if_a_threshold_is_exceeded(
    cost_of_a_call, monkeypatch, capsys
) -> None:
    monkeypatch.setattr(sys, "argv", ["cost_of_a_call.py", "--rounds", "1", "--only", "recurrent"])
    monkeypatch.setattr(
        cost_of_a_call, "median_microseconds", lambda pair, rounds, turn: (141.0, 100.0)
    )
    with pytest.raises(SystemExit, match="and 30 us: recurrent"):
        cost_of_a_call.main()
    assert "| recurrent | 480 | 141.0 | 100.0 | 1.41 | 41.0 | 140.0 |" in capsys.readouterr().out
    monkeypatch.setattr(
        cost_of_a_call, "median_microseconds", lambda pair, rounds, turn: (139.0, 100.0)
    )
    cost_of_a_call.main()


def test_cost_of_a_call_alternates_both_ways(cost_of_a_call, tmp_path: Path) -> None:
    calls: list[str] = []
    pair = cost_of_a_call.pair("many inputs", tmp_path)
    turns = cost_of_a_call.Pair(
        pair.nodes,
        pair.feeds,
        type("Ours", (), {"run": lambda _, feeds: calls.append("ours")})(),
        type("Plain", (), {"run": lambda _, names, feeds: calls.append("plain")})(),
    )
    cost_of_a_call.median_microseconds(turns, 3, 2)
    assert calls == ["ours", "ours", "plain", "plain"] * (3 + cost_of_a_call.WARM)


# --- native loops --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def native():
    return _import_benchmark("native")


@pytest.fixture(scope="module")
def small_cases(native):
    """Return all cases except the two largest, which only have more cells."""
    return [case for case in native.CASES if case.name not in ("FN 1e5", "FN 1e5, recorded")]


@pytest.mark.slow
@pytest.mark.native
def test_all_ways_of_native_compute_the_same_numbers(native, small_cases) -> None:
    for case in small_cases:
        expected = native.by_numpy(case.system(4), case.iterations(4))
        for way, make in native.list_ways(case, 4).items():
            if way in ("numba", "numba, fresh", "JAX"):
                continue
            native.check_numbers(case, way, make()(), expected)


def test_thresholds_of_native_name_existing_cases(native) -> None:
    names = {case.name for case in native.CASES}
    assert {name for name, _ in native.THRESHOLDS} <= names
    assert len(names) == len(native.CASES)


def test_native_detects_different_numbers(native) -> None:
    case = native.CASES[0]
    expected = native.by_numpy(case.system(4), 3)
    other = {name: array + 1e-8 for name, array in expected.items()}
    with pytest.raises(AssertionError, match="FN 1, recorded, ours: v"):
        native.check_numbers(case, "ours", other, expected)


def test_native_reports_missed_thresholds(native) -> None:
    best = {
        "ours": 2.0,
        "standard": 100.0,
        "ours, loop": 1.0,
        "standard, loop": 400.0,
        "numba": 0.5,
    }
    measured = native.Measurement(10, best, {}, {"time": "native"})
    text, missed = native.format_ratios({"FN 1, recorded": measured})
    assert "| FN 1, recorded | loop | 2 (≤ 1.2) |  (≤ 1.3) | 400 (≥ 300) |" in text
    assert missed == [
        "FN 1, recorded, run: standard / ours is 50, limit: at least 80",
        "FN 1, recorded, loop: ours / numba is 2, limit: at most 1.2",
    ]


@pytest.mark.slow
def test_native_prints_tables_and_draws_the_figure(native, monkeypatch, capsys, tmp_path) -> None:
    figure = tmp_path / "native.svg"
    arguments = ["--only", "FN 1, rec", "--steps", "20", "--rounds", "1", "--figure", str(figure)]
    monkeypatch.setattr(sys, "argv", ["native.py", *arguments])
    monkeypatch.setattr(native.onnxruntime_session, "SINGLE_THREAD_ELEMENTS", 1)
    monkeypatch.setattr(native, "THRESHOLDS", {})
    monkeypatch.setattr(native, "is_installed", lambda peer: False)
    assert native.main() == 0
    printed = capsys.readouterr().out
    assert "numba is not installed: omitted" in printed
    assert "| FN 1, recorded | 20 |" in printed
    assert "standard: there is little to do |" in printed
    assert "</svg>" in figure.read_text(encoding="utf-8")


def test_ways_of_trials_agree_with_the_closed_form(monkeypatch) -> None:
    trials = _import_benchmark("trials")
    ways = {way: make for way, make in trials.ways().items() if "numpy" in way or way == "ours"}
    ways["standard"] = lambda: trials.ours("off")
    monkeypatch.setattr(trials, "ways", lambda: ways)
    best = trials.measure(300, 1)
    assert best.keys() == ways.keys()
    assert "| ours |" in trials.format_table(best)
    slow = {"ours": 3.0, "ssm-simulators": 1.0, "numpy": 3.0, "standard": 1.0}
    assert trials.missed(slow) == ["ours / ssm-simulators: 3 exceeds 1.5"]


def test_trials_detects_wrong_times_and_choices() -> None:
    trials = _import_benchmark("trials")
    times, upper = trials.numpy_way(2000)
    trials.check_decisions("numpy", (times, upper))
    with pytest.raises(AssertionError, match="a mean of"):
        trials.check_decisions("late", (times + 0.5, upper))
    with pytest.raises(AssertionError, match="errors"):
        trials.check_decisions("wrong", (times, ~upper))


# --- imported networks ---------------------------------------------------------------------------


@pytest.fixture(scope="module")
def imported():
    return _import_benchmark("imported")


def test_all_ways_of_imported_compute_the_same_numbers(imported) -> None:
    for name in ("poolings", "gru", "three loops"):
        imported.check_outputs(imported.GRAPHS[name](), imported.WAYS[1:])


def test_imported_reports_missed_thresholds(imported) -> None:
    timings = {way: imported.Timing(1.0, 1.0) for way in imported.WAYS}
    assert imported.missed_thresholds("gru", timings) == []
    timings["file"] = imported.Timing(1.0, 1.3)
    assert imported.missed_thresholds("gru", timings) == ["gru, file: cpu 1.30"]
    forms = {"off": imported.Timing(2.0, 2.0), "require": imported.Timing(4.0, 4.0)}
    assert imported.missed_thresholds("softmax", {**forms, "auto": imported.Timing(2.4, 2.1)}) == [
        "softmax, auto: wall 1.20"
    ]
