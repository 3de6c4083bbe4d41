"""Trials of different lengths: each step runs a loop, and the path of each trial is recorded."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import xarray

import mdf_loop
from mdf_loop.errors import InputError, NotFiniteError, UnsupportedError
from mdf_loop.run.recording import rows as rows_module
from tests.long_runs.helpers import Case, chunked, resumed, same_results, unbroken
from tests.soak import some

CLOCK = {"parameters": {"n": {"value": "n + 1"}}, "output_ports": {"n": {"value": "n"}}}
M = [1, 3, 1, 3, 2, 0, 1, 1, 1, 9, 9, 1]
PATHS = [[float(k * (k + 1) // 2) for k in range(1, m + 1)] for m in M]


def trials(**more: Any) -> dict[str, Any]:
    """Return a walk of M iterations in each step: 1, 3, 6, ... from 0."""
    body = {
        "metadata": {"inputs": ["i", "go_in", "x"], "outputs": ["go", "x_next", "x_next"]},
        "nodes": {
            "step": {
                "input_ports": {"i": {}, "x": {}},
                "output_ports": {"x_next": {"value": "x + i + 1"}, "go": {"value": True}},
            }
        },
    }
    args = {"M": "M", "v_initial": "(start,)", "body": {"one_step": body}}
    trial = {
        "input_ports": {"M": {"default_value": 2}},
        "parameters": {"start": {"value": more.pop("start", 0.0)}},
        "functions": {"walk": {"function": "onnx::Loop", "args": args}},
        "output_ports": {"end": {"value": "walk[0]"}, "path": {"value": "walk[1]"}},
    }
    return {"g": {"nodes": {"trial": trial, **more.pop("nodes", {})}, **more}}


def decisions() -> dict[str, Any]:
    """Return a model that accumulates evidence up to a bound, in a number of iterations set by the input."""
    body = {
        "metadata": {"inputs": ["i", "go_in", "x"], "outputs": ["go", "x_next", "x_next"]},
        "nodes": {
            "step": {
                "input_ports": {"x": {}, "drift": {}},
                "parameters": {"x_new": {"value": "x + drift"}},
                "output_ports": {"x_next": {"value": "x_new"}, "go": {"value": "x_new < 1.0"}},
            }
        },
    }
    args = {"M": 50, "cond": True, "v_initial": "(0.0,)", "body": {"add": body}}
    trial = {
        "input_ports": {"drift": {"default_value": 1.0}},
        "functions": {"decide": {"function": "onnx::Loop", "args": args}},
        "output_ports": {"evidence": {"value": "decide[1]"}},
    }
    return {"g": {"nodes": {"trial": trial}}}


def run(model: Mapping[str, Any], values: Any = M, **more: Any) -> mdf_loop.Results:
    return mdf_loop.compile(model).run({"M": np.array(values)}, steps=len(values), **more)


def filled(paths: list[list[float]]) -> np.ndarray[Any, Any]:
    longest = max(map(len, paths))
    return np.array([[*path, *[np.nan] * (longest - len(path))] for path in paths])


# --- what is recorded ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "values", [M, [1, 3, 1, 3], [3, 1, 3, 1], [2, 3, 0, 1], [0, 0, 2], [4, 4, 4]], ids=str
)
def test_each_row_has_its_own_path(values):
    paths = [PATHS[9][:m] for m in values]
    results = run(trials(), values)
    np.testing.assert_array_equal(results["path"], filled(paths))
    np.testing.assert_array_equal(results.lengths["trial.path"], values)
    assert results.lengths["trial.path"].dtype == np.int64
    assert [row.tolist() for row in results.rows("path")] == paths
    assert [row.tolist() for row in results.rows("end")] == results["end"].tolist()


def test_a_loop_that_its_condition_ends():
    drift = np.array([0.25, 1.0, 0.5, 0.25])
    results = mdf_loop.compile(decisions()).run({"drift": drift}, steps=4)
    expected = [[0.25, 0.5, 0.75, 1.0], [1.0], [0.5, 1.0], [0.25, 0.5, 0.75, 1.0]]
    assert [row.tolist() for row in results.rows("evidence")] == expected
    assert mdf_loop.verify(decisions(), {"drift": drift}, steps=4).bit_for_bit


def test_integers_are_padded_with_zero(tmp_path):
    start = 2**62 + 1
    results = run(trials(start=start), [2, 1])
    path = results["path"]
    assert path.dtype == results["end"].dtype == np.int64
    assert path[0, 1] > start
    assert path[1].tolist() == [path[0, 0], 0]
    assert [len(row) for row in results.rows("path")] == [2, 1]
    frame = results.to_dataframe()["trial.path[1]"]
    assert frame.dtype == "Int64"
    assert frame.isna().tolist() == [False, True]
    assert int(frame.iloc[0]) == path[0, 1]
    results.plot(tmp_path / "path.png")
    results.save(tmp_path / "x.csv")
    last = (tmp_path / "x.csv").read_text().splitlines()[-1]
    assert last.split(",")[-3:] == [str(path[1, 0]), "", "1"]


@pytest.mark.parametrize("counts", [[2, 1, 3], [1, 2, 3], [3, 2, 1]])
def test_integers_of_any_length_are_streamed(counts, tmp_path):
    expected = run(trials(start=2**62), counts)
    for every_chunk in ({}, {"checkpoint": tmp_path / "x.ckpt"}):
        place = tmp_path / f"{len(every_chunk)}.zarr"
        streamed = run(trials(start=2**62), counts, output=place, **every_chunk)
        assert streamed["path"].dtype == np.int64
        np.testing.assert_array_equal(streamed["path"][...], expected["path"])
        with xarray.open_zarr(place) as data:
            assert data["trial.path"].attrs["lengths"] == "trial.path.length"
            np.testing.assert_array_equal(data["trial.path"].values, expected["path"])


def test_rows_of_two_axes_have_a_length_for_each():
    model = trials(start=[0.0, 1.0])
    results = run(model, [1, 2])
    assert results["path"].shape == (2, 2, 2)
    assert results.lengths["trial.path"].tolist() == [[1, 2], [2, 2]]
    assert [row.tolist() for row in results.rows("path")] == [[[1, 2]], [[1, 2], [3, 4]]]


def test_float32():
    compiled = mdf_loop.compile(trials(), precision="float32")
    results = compiled.run({"M": np.array([1, 2])}, steps=2)
    assert results["path"].dtype == np.float32
    np.testing.assert_array_equal(results["path"], filled([[1.0], [1.0, 3.0]]))


def test_a_node_that_has_not_run_has_no_path():
    when = {"dependency": "clock", "parameter": "n", "threshold": 2, "comparator": ">="}
    ends = {"environment_state_update": {"type": "AfterNPasses", "kwargs": {"n": 1}}}
    conditions = {
        "node_specific": {"trial": {"type": "Threshold", "kwargs": when}},
        "termination": ends,
    }
    model = trials(nodes={"clock": CLOCK}, conditions=conditions)
    results = run(model, [3, 3, 1, 2])
    assert results.lengths["trial.path"].tolist() == [0, 0, 1, 2]
    np.testing.assert_array_equal(results["path"], filled([[], [], [1.0], [1.0, 3.0]]))


# --- every way of running -----------------------------------------------------------------------

ASKED = {"inputs": {"M": np.array(M)}, "steps": len(M)}
WAYS: dict[str, dict[str, Any]] = {
    "all": {},
    "every third": {"every": 3},
    "some": {"when": "long", "only": ["trial.path"]},
    "the last": {"reduce": {"trial.path": "last"}},
    "an order": {"execution_list": True},
    "a sweep": {"sweep": {"trial.start": [0.0, 0.5, 10.0]}},
}


def with_long() -> dict[str, Any]:
    model = trials()
    model["g"]["nodes"]["trial"]["output_ports"]["long"] = {"value": "M > 1"}
    return model


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
def test_chunks_and_checkpoints_change_nothing(way, tmp_path):
    case = Case(with_long(), {**ASKED, **WAYS[way]})
    unbroken_run = unbroken(case)
    for seed in range(3):
        same_results(chunked(case, seed)[0], unbroken_run)
        same_results(resumed(case, seed, tmp_path / "run.ckpt")[0], unbroken_run)


@pytest.mark.slow
@pytest.mark.soak
@pytest.mark.parametrize("way", some([way for way in WAYS if way != "the last"], 2))
def test_rows_on_the_disk_are_the_same(way, tmp_path):
    case = Case(with_long(), {**ASKED, **WAYS[way]})
    unbroken_run = unbroken(case)
    streamed = {"output": tmp_path / "rows.zarr", "overwrite": True}
    streamed_case = replace(case, arguments={**case.arguments, **streamed})
    for seed in range(3):
        same_results(resumed(streamed_case, seed, tmp_path / "run.ckpt")[0], unbroken_run)
    with xarray.open_zarr(tmp_path / "rows.zarr") as data:
        xarray.testing.assert_equal(data.load(), unbroken_run.to_xarray())


def test_which_rows_are_kept():
    results = run(trials(), every=3)
    assert results.lengths["trial.path"].tolist() == M[::3]
    assert results["path"].shape == (4, 9)
    results = run(with_long(), when="long", only=["trial.path"])
    assert [row.tolist() for row in results.rows("path")] == [p for p in PATHS if len(p) > 1]


def test_each_step_is_computed_about_once():
    """Check that changing lengths do not restart the loop repeatedly."""
    calls = []
    values = [1, 2, 3, 4, 5, 6, 7, 8] * 4
    run(trials(), values, progress=lambda progress: calls.append(progress.done) or True)
    run(trials(), values)
    assert len(calls) <= 2 * len(values)


def test_a_sweep_has_the_lengths_of_each_member():
    results = run(trials(), [1, 2], sweep={"trial.start": [0.0, 10.0]})
    assert results.lengths["trial.path"].tolist() == [[1, 2], [1, 2]]
    np.testing.assert_array_equal(
        results["path"], [filled([[1, np.nan], [1, 3]]), filled([[11, np.nan], [11, 13]])]
    )
    assert [row.tolist() for row in results.rows("path")] == [[[1], [11]], [[1, 3], [11, 13]]]


def test_members_that_would_have_different_lengths_are_refused():
    with pytest.raises(UnsupportedError, match="each member of the sweep would need its own"):
        mdf_loop.compile(trials()).run(sweep={"M": [1, 3]}, steps=2)


@pytest.mark.parametrize("word", ["mean", "min", "max"])
def test_a_reduction_of_different_lengths_is_refused(word):
    with pytest.raises(InputError, match=rf"'trial\.path' has not the same length .* no {word}"):
        run(trials(), [1, 3], reduce={"trial.path": word})
    same = run(trials(), [3, 3], reduce={"trial.path": word})
    assert same[f"trial.path.{word}"].tolist() == PATHS[1]


def test_the_last_row_has_its_own_length():
    assert run(trials(), [3, 1], reduce={"path": "last"})["trial.path.last"].tolist() == [1.0]


def test_nan_is_found_in_the_row_that_has_it():
    model = trials()
    model["g"]["nodes"]["trial"]["output_ports"]["y"] = {"value": "1.0 / (walk[1] - 6.0)"}
    with pytest.raises(NotFiniteError, match=r"'trial\.y' was infinite at step 3") as caught:
        run(model, [1, 2, 2, 3, 1], nan="error")
    assert caught.value.results.lengths["trial.path"].tolist() == [1, 2, 2, 3]


def test_a_run_continued_from_a_state():
    first = run(trials(), [1, 3])
    second_part = run(trials(), [2, 1], state=first.state)
    assert second_part.lengths["trial.path"].tolist() == [2, 1]


# --- modeci_mdf's engine ------------------------------------------------------------------------


def edge(sender: str, out: str, receiver: str, port: str) -> dict[str, Any]:
    return {"sender": sender, "sender_port": out, "receiver": receiver, "receiver_port": port}


def passed_on(default: Any) -> dict[str, Any]:
    """Return a model in which the path goes to a parallel node and comes back in the next step."""
    node = {
        "input_ports": {"p": {"default_value": default}},
        "output_ports": {"q": {"value": "p"}},
    }
    model = trials(
        nodes={"next": node},
        edges={"e": edge("trial", "path", "next", "p"), "f": edge("next", "q", "trial", "z")},
    )
    model["g"]["nodes"]["trial"]["input_ports"]["z"] = {}
    model["g"]["nodes"]["trial"]["output_ports"]["z"] = {"value": "z"}
    return model


def persisting() -> dict[str, Any]:
    """Return a node that does not run in every step; its path persists until it runs again."""
    when = {"type": "EveryNCalls", "kwargs": {"dependency": "clock", "n": 2}}
    ends = {"environment_state_update": {"type": "AfterNPasses", "kwargs": {"n": 1}}}
    return trials(
        nodes={"clock": CLOCK},
        conditions={"node_specific": {"trial": when}, "termination": ends},
    )


def by_threshold() -> dict[str, Any]:
    """Return a model that decides while running which node runs."""
    when = {"dependency": "clock", "parameter": "n", "threshold": 2, "comparator": ">="}
    model = trials(
        nodes={"clock": CLOCK},
        edges={"e": edge("clock", "n", "trial", "c")},
        conditions={"node_specific": {"trial": {"type": "Threshold", "kwargs": when}}},
    )
    model["g"]["nodes"]["trial"]["input_ports"]["c"] = {}
    return model


def selected() -> dict[str, Any]:
    """Return a model that selects one of two paths of different lengths."""
    model = trials()
    ports = model["g"]["nodes"]["trial"]["output_ports"]
    ports["part"] = {"value": "walk[1] if M > 2 else walk[1][0:1]"}
    ports["is_one"] = {"value": "numpy.array_equal(walk[1], walk[1][0:1])"}
    ports["is_five"] = {"value": "numpy.array_equal(walk[1], [1.0, 1.0, 1.0, 1.0, 1.0])"}
    return model


def state_of_path(initial: Any) -> dict[str, Any]:
    """Return a state that has the shape of the last path."""
    model = trials()
    trial = model["g"]["nodes"]["trial"]
    trial["parameters"]["kept"] = {
        "default_initial_value": initial,
        "value": "walk[1] + 0 * numpy.sum(kept)",
    }
    trial["output_ports"]["kept"] = {"value": "kept"}
    return model


MODELS = {
    "walks": trials(),
    "whole numbers": trials(start=0),
    "points": trials(start=[0.0, 1.0]),
    "passed on, from a number": passed_on(0.0),
    "passed on, from an array": passed_on([0.0]),
    "passed on, from a longer array": passed_on([0.0, 1.0]),
    "held": persisting(),
    "by threshold": by_threshold(),
    "chosen": selected(),
    "kept, from a number": state_of_path(0.0),
    "kept, from an array": state_of_path([0.0, 0.0]),
}


@pytest.mark.slow
@pytest.mark.parametrize("values", [[1, 3, 1, 3, 2], [3, 1, 3, 2, 1], [3, 2, 0, 1, 3]], ids=str)
@pytest.mark.parametrize("name", MODELS)
def test_the_engine_has_the_same_rows_in_the_same_shapes(name, values):
    verification = mdf_loop.verify(MODELS[name], {"M": np.array(values)}, steps=len(values))
    assert verification.bit_for_bit, str(verification)
    assert "trial.path" in {c.name for c in verification.comparisons}


def test_the_engine_gives_results_in_the_same_form():
    ours, theirs = run(trials()), run(trials(), engine="modeci")
    np.testing.assert_array_equal(theirs["path"], ours["path"])
    np.testing.assert_array_equal(theirs.lengths["trial.path"], ours.lengths["trial.path"])
    assert run(trials(), engine="modeci", every=3).lengths["trial.path"].tolist() == M[::3]


def repeated(name: str, rows: Any, shape: tuple[int, ...]) -> Any:
    return np.broadcast_to(rows, shape)


def test_verify_finds_rows_that_were_not_computed(monkeypatch):
    """Check that `verify` detects a recorder that repeats short rows."""
    monkeypatch.setattr(
        rows_module, "pad_rows", lambda _, rows, shape: np.broadcast_to(rows, shape)
    )
    monkeypatch.setattr("mdf_loop.run.recording.recording_plan.length_names", lambda *_: {})
    verification = mdf_loop.verify(trials(), {"M": np.array([1, 3, 1, 3])}, steps=4)
    assert not verification.equal
    assert "first at step 2: float64[3] against float64[1]" in str(verification)


# --- files, pictures, text ----------------------------------------------------------------------


@pytest.fixture(scope="module")
def results() -> mdf_loop.Results:
    return run(trials(), [1, 3, 0])


def test_xarray_has_the_lengths_beside_the_rows(results):
    data = results.to_xarray()
    assert data["trial.path"].dims == ("time", "trial.path_0")
    assert data["trial.path.length"].dims == ("time",)
    assert data["trial.path.length"].values.tolist() == [1, 3, 0]


def test_every_file_has_the_lengths(results, tmp_path):
    for suffix in ("npz", "json", "csv", "h5", "nc", "zarr"):
        results.save(tmp_path / f"x.{suffix}")
    expected = [1, 3, 0]
    assert np.load(tmp_path / "x.npz")["trial.path.length"].tolist() == expected
    written = json.loads((tmp_path / "x.json").read_text())["outputs"]["trial.path"]
    assert written["lengths"] == expected
    assert written["data"][0] == [1.0, "nan", "nan"]
    header, first, *_ = (tmp_path / "x.csv").read_text().splitlines()
    assert header.split(",")[-1] == "trial.path.length"
    assert first.split(",")[-4:] == ["1.0", "", "", "1"]
    with h5py.File(tmp_path / "x.h5") as file:
        assert file["trial.path.length"][...].tolist() == expected
    for opened in (xarray.open_dataset(tmp_path / "x.nc"), xarray.open_zarr(tmp_path / "x.zarr")):
        with opened as data:
            xarray.testing.assert_equal(data.load(), results.to_xarray())


def test_an_output_may_be_called_like_lengths(tmp_path):
    model = trials()
    model["g"]["nodes"]["trial"]["output_ports"]["path.length"] = {"value": "M + 0"}
    for more in ({}, {"output": tmp_path / "x.zarr"}):
        data = run(model, [1, 3], **more).to_xarray()
        assert {"trial.path", "trial.path.length", "trial.path.length_"} <= set(data)


def test_paths_can_be_plotted(tmp_path):
    figure = run(trials(), [1, 3, 1, 1]).plot(tmp_path / "x.png", ["path"])
    first, *others = figure.axes[0].get_lines()
    assert first.get_marker() == "None"
    assert {line.get_marker() for line in others} == {"o"}  # single points have no line


def test_the_lengths_of_a_store_grow_beyond_its_chunks(tmp_path: Path):
    values = [0, 1, 100, 3, 200, 1]
    compiled = mdf_loop.compile(trials())
    inputs = {"M": np.array(values)}
    streamed = compiled.run(inputs, steps=6, output=tmp_path / "x.zarr")
    unbroken_run = compiled.run(inputs, steps=6)
    assert streamed["path"].shape == (6, 200)
    np.testing.assert_array_equal(streamed["path"][...], unbroken_run["path"])
    assert [row.tolist() for row in streamed.rows("path")] == [
        r.tolist() for r in unbroken_run.rows("path")
    ]


@pytest.mark.slow
@pytest.mark.parametrize(
    "values", [[2, 2, 2, 2], [2, 2, 2, 1], [1, 1, 3, 1], [2, 1, 2, 2]], ids=str
)
def test_whole_numbers_on_the_disk_become_floats_where_a_row_is_shorter(values, tmp_path):
    results = run(trials(start=0), values, output=tmp_path / "x.zarr")
    unbroken_run = run(trials(start=0), values)
    assert results["path"].dtype == unbroken_run["path"].dtype
    np.testing.assert_array_equal(results["path"][...], unbroken_run["path"])
    with xarray.open_zarr(tmp_path / "x.zarr") as data:
        xarray.testing.assert_equal(data.load(), unbroken_run.to_xarray())
    assert [path.name for path in tmp_path.iterdir()] == ["x.zarr"]


@pytest.mark.slow
def test_a_store_of_whole_numbers_that_is_resumed(tmp_path):
    streamed = {"output": tmp_path / "rows.zarr", "overwrite": True}
    case = Case(trials(start=0), {**ASKED, **streamed})
    unbroken_run = unbroken(Case(trials(start=0), ASKED))
    for seed in range(4):
        same_results(resumed(case, seed, tmp_path / "run.ckpt")[0], unbroken_run)
