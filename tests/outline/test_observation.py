"""Observation of a run, by the names of loops and ports in the outline."""

from __future__ import annotations

import numpy as np

from mdf_loop.ir import StopReason
from mdf_loop.outline import observe
from mdf_loop.outline.observation import MAX_OBSERVED_ROWS
from mdf_loop.run.outputs import Axis, LoopReport, Outputs


def make_outputs(arrays, loops=None, **more):
    return Outputs(arrays, loops or {}, "cpu", "float64", **more)


def test_loops_have_words_for_iterations_and_stop_reason():
    report = LoopReport(6, StopReason.CONDITION)
    observation = observe(
        make_outputs({}, {"n.f": report}, native={"n.f": "native"}, seconds={"n.f": 0.5})
    ).loop("n.f")
    assert observation.iterations_text == "6 iterations"
    assert observation.stopped_by == "its condition became false"
    assert observation.is_native
    assert observation.seconds == 0.5


def test_a_loop_without_report_has_its_native_choice():
    observation = observe(make_outputs({}, native={"time": "standard: it is short"})).loop("time")
    assert (observation.iterations_text, observation.seconds, observation.is_native) == (
        "",
        None,
        False,
    )


def test_an_evaluation_has_last_values_and_no_rows():
    observation = observe(make_outputs({"n.y": np.arange(3.0)}, units={"n.y": "mV"}))
    assert observation.value("n", "y").last_value.tolist() == [0, 1, 2]
    assert observation.value("n", "y").rows is None
    assert observation.value("n", "y").unit == "mV"
    assert observation.value("n", "z") is None
    assert (observation.axis_name, observation.row_count) == ("", 0)


def test_rows_over_time_are_evenly_spaced():
    time = Axis("time", {"time": np.arange(10_000) * 0.1})
    observation = observe(make_outputs({"n.y": np.arange(10_000)}, axes=(time,)))
    rows = observation.value("n", "y").rows
    assert (
        len(rows)
        == len(observation.coordinates)
        == len(observation.row_numbers)
        == MAX_OBSERVED_ROWS
    )
    assert (rows[0], rows[-1], observation.value("n", "y").last_value) == (0, 9999, 9999)
    assert (observation.axis_name, observation.row_count) == ("time", 10_000)
    assert np.array_equal(observation.coordinates, observation.row_numbers * 0.1)


def test_large_outputs_have_fewer_rows():
    time = Axis("time", {"step": np.arange(1000)})
    observation = observe(make_outputs({"n.y": np.zeros((1000, 50_000), np.int8)}, axes=(time,)))
    assert observation.value("n", "y").rows.shape == (2, 50_000)


def test_the_first_member_is_observed():
    swept = Axis("batch", {"n.a": np.arange(4)}, is_swept=True)
    time = Axis("time", {"step": np.arange(5)})
    array = np.arange(20).reshape(4, 5)
    observation = observe(make_outputs({"n.y": array}, axes=(swept, time)))
    assert observation.member_text == "batch 1 of 4"
    assert observation.value("n", "y").rows.tolist() == [0, 1, 2, 3, 4]


def test_sequences_and_absent_values_are_not_observed():
    assert observe(make_outputs({"n.y": [np.zeros(2)], "n.z": None})).values == {}
