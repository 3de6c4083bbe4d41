"""`to_dataframe`: the index, the columns, dtypes and units."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pandas
import pytest

import mdf_loop
from mdf_loop.errors import InputError
from mdf_loop.results.data import Results
from mdf_loop.run.outputs import Axis

TIME = Axis("time", {"time": np.array([0.0, 0.5, 1.0])})
GAIN = Axis("A.gain", {"A.gain": np.array([1.0, 2.0])}, is_swept=True)
TRIAL = Axis("trial", {"trial": np.array([0, 1, 2])})


def results(*axes: Axis, **arrays: Any) -> Results:
    named = {f"A.{name}": np.asarray(array) for name, array in arrays.items()}
    return Results(named, {}, "cpu", "float64", axes=axes, units={"A.v": "mV", "time": "ms"})


def test_each_step_is_one_row():
    frame = results(TIME, v=[1.0, 2.0, 3.0], yes=[True, False, True], n=[1, 2, 3]).to_dataframe()
    assert frame.index.name == "time"
    assert frame.index.tolist() == [0.0, 0.5, 1.0]
    assert list(frame.columns) == ["A.v", "A.yes", "A.n"]
    assert [str(dtype) for dtype in frame.dtypes] == ["float64", "bool", "int64"]
    assert frame.loc[0.5, "A.v"] == 2.0
    assert frame.attrs == {"units": {"time": "ms", "A.v": "mV"}}


def test_elements_are_columns():
    frame = results(TIME, w=np.arange(12).reshape(3, 2, 2)).to_dataframe()
    assert list(frame.columns) == ["A.w[0,0]", "A.w[0,1]", "A.w[1,0]", "A.w[1,1]"]
    assert frame["A.w[1,0]"].tolist() == [2, 6, 10]


def test_members_and_times_are_levels_of_the_index():
    frame = results(GAIN, TIME, v=np.arange(6.0).reshape(2, 3)).to_dataframe()
    assert frame.index.names == ["A.gain", "time"]
    assert frame.index.tolist() == [(g, t) for g in (1.0, 2.0) for t in (0.0, 0.5, 1.0)]
    assert frame.xs(2.0, level="A.gain")["A.v"].tolist() == [3.0, 4.0, 5.0]
    assert list(frame.reset_index().columns) == ["A.gain", "time", "A.v"]


def test_swept_numbers_are_index_levels_and_swept_arrays_are_columns():
    batch = Axis("batch", {"A.a": np.array([1, 2]), "A.b": np.array([3, 4])}, is_swept=True)
    frame = results(batch, v=[1.0, 2.0]).to_dataframe()
    assert frame.index.names == ["A.a", "A.b"]
    arrays = Axis("batch", {"A.w": np.array([[1.0, 2.0], [3.0, 4.0]])}, is_swept=True)
    frame = results(arrays, v=[1.0, 2.0]).to_dataframe()
    assert frame.index.name == "batch"
    assert list(frame.columns) == ["A.w[0]", "A.w[1]", "A.v"]
    assert frame["A.w[1]"].tolist() == [2.0, 4.0]


def test_trials_and_reductions():
    rows = np.arange(9.0).reshape(3, 3)
    arrays = {"A.v": rows, "A.v.mean": rows.mean(axis=1)}
    run_results = Results(arrays, {}, "cpu", "float64", axes=(TRIAL, TIME), reduced=["A.v.mean"])
    frame = run_results.to_dataframe()
    assert frame.index.names == ["trial", "time"]
    assert frame["A.v.mean"].tolist() == [1.0] * 3 + [4.0] * 3 + [7.0] * 3


def test_one_evaluation_is_one_row():
    frame = results(v=1.5, w=[1, 2]).to_dataframe()
    assert frame.index.tolist() == [0]
    assert frame.iloc[0].tolist() == [1.5, 1, 2]


def test_sequences_are_refused():
    sequence_results = Results(
        {"A.s": [np.ones(1)]}, {}, "cpu", "float64", dtypes={"A.s": "sequence(float64)"}
    )
    with pytest.raises(InputError, match="which only JSON can hold"):
        sequence_results.to_dataframe()


def test_frame_equals_csv_file(tmp_path):
    parameters = {
        "gain": {"value": 1.0},
        "v": {"default_initial_value": [0.0, 1.0], "value": "gain * v + 1"},
    }
    node = {"parameters": parameters, "output_ports": {"o": {"value": "v"}}}
    compiled = mdf_loop.compile({"g": {"nodes": {"A": node}}})
    run_results = compiled.run(
        steps=3, dt=0.5, sweep={"A.gain": [1.0, 2.0]}, reduce={"A.v": "mean,last"}
    )
    run_results.save(tmp_path / "r.csv")
    read = pandas.read_csv(io.StringIO((tmp_path / "r.csv").read_text()))
    frame = run_results.to_dataframe().reset_index()
    pandas.testing.assert_frame_equal(read[sorted(read)], frame[sorted(frame)], check_exact=True)
