"""Results: names, axes, units, JSON, xarray."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys

import numpy as np
import pytest

import mdf_loop
from mdf_loop.ir import StopReason
from mdf_loop.results.data import Results
from mdf_loop.run.outputs import Axis, LoopReport


@pytest.fixture
def results() -> Results:
    arrays = {
        "A.x": np.array([1.5, np.nan, np.inf]),
        "A.n": np.array(3),
        "B.n": np.array([[True], [False]]),
        "B.word": np.array(["a", "b"], dtype=object),
        "B.none": np.zeros((0, 2), np.float32),
    }
    loops = {"A.f": LoopReport(3, StopReason.CONDITION)}
    return Results(arrays, loops, "cpu", "float64")


def test_a_unique_port_id_names_an_output(results: Results) -> None:
    assert results["x"] is results["A.x"]
    with pytest.raises(KeyError, match=r"no output 'n'; there are A\.x"):
        results["n"]
    assert list(results) == ["A.x", "A.n", "B.n", "B.word", "B.none"]
    assert len(results) == 5


def test_json_is_one_object_with_nan_and_infinities_as_text(results: Results) -> None:
    content = json.loads(results.to_json())
    assert content["outputs"]["A.x"] == {
        "dtype": "float64",
        "shape": [3],
        "data": [1.5, "nan", "inf"],
    }
    assert content["outputs"]["A.n"] == {"dtype": "int64", "shape": [], "data": 3}
    assert content["outputs"]["B.n"] == {
        "dtype": "bool",
        "shape": [2, 1],
        "data": [[True], [False]],
    }
    assert content["outputs"]["B.word"] == {"dtype": "string", "shape": [2], "data": ["a", "b"]}
    assert content["outputs"]["B.none"] == {"dtype": "float32", "shape": [0, 2], "data": []}
    assert content["loops"] == {"A.f": {"iterations": 3, "stopped_by": "condition"}}
    assert (content["device"], content["precision"]) == ("cpu", "float64")


def test_repr_shows_types(results: Results) -> None:
    assert "A.x: float64[3]" in repr(results)


def test_stop_reasons_have_words_codes_and_sentences() -> None:
    loop_reasons = [StopReason.TRIP_COUNT, StopReason.CONDITION, StopReason.MAX_ITERATIONS]
    assert [r.word for r in loop_reasons] == ["trip_count", "condition", "max_iterations"]
    assert [r.code for r in loop_reasons] == [0, 1, 2]
    assert all(len(r.value.split()) > 2 for r in StopReason)


# --- axes and units -----------------------------------------------------------------------------


@pytest.fixture
def sweep() -> Results:
    """Return results of three members and two steps, whose swept parameter is an output, too."""
    arrays = {
        "A.v": np.arange(12.0).reshape(3, 2, 2),
        "A.gain": np.array([[1.0, 1.0], [2.0, 2.0], [3.0, 3.0]]),
        "A.v_0": np.zeros((3, 2), np.int64),
    }
    axes = (
        Axis("batch", {"A.gain": np.array([1.0, 2.0, 3.0]), "A.seed": np.array([7, 8, 9])}),
        Axis("time", {"time": np.array([0.0, 0.1])}),
    )
    units = {"A.v": "mV", "A.gain": "nS", "B.other": "mA"}
    return Results(arrays, {}, "cpu", "float64", axes=axes, units=units)


def test_time_is_the_coordinate_of_its_axis(sweep: Results, results: Results) -> None:
    assert sweep.time is not None
    assert sweep.time.tolist() == [0.0, 0.1]
    assert results.time is None
    steps = Axis("time", {"step": np.arange(2)})
    assert Results({"A.x": np.zeros(2)}, {}, "cpu", "float64", axes=(steps,)).time is None


def test_units_are_those_of_outputs_and_coordinates(sweep: Results, results: Results) -> None:
    assert sweep.units == {"A.gain": "nS", "time": "s", "A.v": "mV"}
    assert results.units == {}


def test_results_have_the_state_of_the_run(results: Results) -> None:
    assert results.state is None
    state = {"A.x": np.array(1.0)}
    assert Results({}, {}, "cpu", "float64", state=state).state is state


def test_json_has_axes_and_units_where_there_are_any(sweep: Results, results: Results) -> None:
    content = json.loads(sweep.to_json())
    assert content["axes"] == {
        "A.gain (swept)": [1.0, 2.0, 3.0],
        "A.seed": [7, 8, 9],
        "time": [0.0, 0.1],
    }
    assert content["outputs"]["A.v"]["units"] == "mV"
    assert "units" not in content["outputs"]["A.v_0"]
    assert list(json.loads(results.to_json())) == ["outputs", "loops", "device", "precision"]


def test_xarray_has_dims_coordinates_units_and_origin(sweep: Results) -> None:
    dataset = sweep.to_xarray()
    assert {str(name): array.dims for name, array in dataset.data_vars.items()} == {
        "A.v": ("batch", "time", "A.v_0_"),
        "A.gain": ("batch", "time"),
        "A.v_0": ("batch", "time"),
    }
    assert {str(name): array.dims for name, array in dataset.coords.items()} == {
        "A.gain (swept)": ("batch",),
        "A.seed": ("batch",),
        "time": ("time",),
    }
    assert dataset["A.v"].attrs == {"units": "mV"}
    assert dataset["time"].attrs == {"units": "s"}
    assert dataset["A.gain (swept)"].attrs == {"units": "nS"}
    assert dataset["A.v_0"].attrs == {}
    assert dataset.attrs == {
        "device": "cpu",
        "precision": "float64",
        "mdf_loop_version": mdf_loop.__version__,
    }
    np.testing.assert_array_equal(dataset["A.v"].sel(time=0.1), sweep["A.v"][:, 1])


def test_xarray_of_one_evaluation(results: Results) -> None:
    dataset = results.to_xarray()
    assert dataset["A.n"].dims == ()
    assert dataset["B.none"].dims == ("B.none_0", "B.none_1")
    assert dataset["B.word"].values.tolist() == ["a", "b"]
    assert [dataset[name].dtype for name in ("A.x", "A.n", "B.n", "B.none")] == [
        np.float64,
        np.int64,
        np.bool_,
        np.float32,
    ]
    assert dict(dataset.coords) == {}


@pytest.mark.slow
def test_optional_packages_are_not_imported() -> None:
    code = (
        "import sys, mdf_loop, mdf_loop.results.data\n"
        "print([m for m in ('matplotlib', 'xarray', 'h5py', 'pandas') if m in sys.modules])"
    )
    process = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert process.stdout.strip() == "[]"


# --- immutability ---------------------------------------------------------------------------------


def test_results_are_immutable() -> None:
    results = Results({"A.x": np.array(1.5)}, {}, "cpu", "float64")
    with pytest.raises(AttributeError, match="results are immutable, and 'reason' cannot be set"):
        results.reason = "another"  # type: ignore[misc]
    changed = results.with_changes({"A.y": np.array(2)}, reason="another")
    assert (list(changed), changed.reason) == (["A.y"], "another")
    assert (list(results), results.reason) == (["A.x"], results.stopped_by.value)
    assert pickle.loads(pickle.dumps(changed)).reason == "another"
