"""What a run says of a model, by the names that its outline has."""

from __future__ import annotations

import numpy as np

from mdf_loop.ir import StoppedBy
from mdf_loop.outline import observe
from mdf_loop.outline.observation import MOST_ROWS
from mdf_loop.run.outputs import Axis, LoopReport, Outputs


def outputs(arrays, loops=None, **more):
    return Outputs(arrays, loops or {}, "cpu", "float64", **more)


def test_loops_are_told_in_words():
    report = LoopReport(6, StoppedBy.CONDITION)
    told = observe(
        outputs({}, {"n.f": report}, native={"n.f": "native"}, seconds={"n.f": 0.5})
    ).loop("n.f")
    assert told.iterations == "6 iterations"
    assert told.stopped_by == "its condition became false"
    assert told.is_native
    assert told.seconds == 0.5


def test_what_is_only_known_to_be_native_is_a_loop_too():
    told = observe(outputs({}, native={"time": "standard: it is short"})).loop("time")
    assert (told.iterations, told.seconds, told.is_native) == ("", None, False)


def test_an_evaluation_has_last_values_and_no_rows():
    told = observe(outputs({"n.y": np.arange(3.0)}, units={"n.y": "mV"}))
    assert told.value("n", "y").last.tolist() == [0, 1, 2]
    assert told.value("n", "y").rows is None
    assert told.value("n", "y").unit == "mV"
    assert told.value("n", "z") is None
    assert (told.along, told.count) == ("", 0)


def test_rows_over_time_are_chosen_evenly_with_both_ends():
    time = Axis("time", {"time": np.arange(10_000) * 0.1})
    told = observe(outputs({"n.y": np.arange(10_000)}, axes=(time,)))
    rows = told.value("n", "y").rows
    assert len(rows) == len(told.coordinates) == len(told.numbers) == MOST_ROWS
    assert (rows[0], rows[-1], told.value("n", "y").last) == (0, 9999, 9999)
    assert (told.along, told.count) == ("time", 10_000)
    assert np.array_equal(told.coordinates, told.numbers * 0.1)


def test_of_large_rows_fewer_are_kept():
    time = Axis("time", {"step": np.arange(1000)})
    told = observe(outputs({"n.y": np.zeros((1000, 50_000), np.int8)}, axes=(time,)))
    assert told.value("n", "y").rows.shape == (2, 50_000)


def test_of_members_the_first_is_told():
    swept = Axis("batch", {"n.a": np.arange(4)}, is_swept=True)
    time = Axis("time", {"step": np.arange(5)})
    array = np.arange(20).reshape(4, 5)
    told = observe(outputs({"n.y": array}, axes=(swept, time)))
    assert told.members == "batch 1 of 4"
    assert told.value("n", "y").rows.tolist() == [0, 1, 2, 3, 4]


def test_what_is_no_array_is_left_out():
    assert observe(outputs({"n.y": [np.zeros(2)], "n.z": None})).values == {}
