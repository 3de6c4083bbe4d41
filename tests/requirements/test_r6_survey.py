"""The features of loops in other systems in the canonical form of MDF (R6.01 to R6.07).

Numbers are those that these systems gave when they were run.
"""

from __future__ import annotations

import json

import numpy as np
import pytest

import mdf_loop
from mdf_loop.errors import RecordShapeError
from tests.models.derivatives import derivatives
from tests.models.loops import loop_model


@pytest.fixture
def stored(shared):
    """Return a function of a case name that yields inputs and expected outputs of stored runs."""

    def runs(case):
        path = shared / "cases" / "survey" / f"{case}.json"
        if not path.exists():
            pytest.skip(f"the case '{case}' is not stored here")
        return [
            ({k: _array(v) for k, v in run["inputs"].items()}, [_array(v) for v in run["expected"]])
            for run in json.loads(path.read_text())["runs"]
        ]

    return runs


def _array(tensor):
    return np.array(tensor["data"], tensor["dtype"]).reshape(tensor["shape"])


def test_r6_01_a_value_reads_itself_some_iterations_back(run_everywhere):
    """Compute x[t] = 2 x[t - 4] from [1, 2, 3, 4], as with `taps = [-4]` in Theano."""
    delays = {"x_4": {"of": "x", "back": 4, "initial": [1.0, 2.0, 3.0, 4.0]}}
    model = loop_model({"M": 6, "delays": delays}, {"x": "2 * x_4"}, recorded="x")
    assert run_everywhere(model)["r0"].tolist() == [2.0, 4.0, 6.0, 8.0, 4.0, 8.0]


def test_r6_01_two_taps_of_one_value(run_everywhere, stored):
    delays = {"a": {"of": "x", "back": 2, "initial": "(p2, p1)"}, "b": {"of": "x", "back": 1}}
    initial_values = {"M": 8, "p2": 0.0, "p1": 1.0}
    model = loop_model(
        {"M": "M", "delays": delays}, {"x": "a + b"}, port_values=initial_values, recorded="x"
    )
    assert run_everywhere(model)["r0"].tolist() == [1, 2, 3, 5, 8, 13, 21, 34]
    for inputs, (expected,) in stored("theano_output_taps_fibonacci"):
        np.testing.assert_array_equal(run_everywhere(model, inputs)["r0"], expected)


def test_r6_02_a_window_over_a_sequence(run_everywhere):
    """Read taps [-1, 0, 1] as three slices of one array; the shortest slice determines the trip count."""
    slices = {
        "before": "x",
        "now": {"of": "x", "start": 1},
        "after": {"of": "x", "start": 2},
    }
    inputs = {"x": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]}
    model = loop_model(
        {"slices": slices}, {"y": "before + now + after"}, port_values=inputs, recorded="y"
    )
    assert run_everywhere(model)["r0"].tolist() == [6, 9, 12, 15]


@pytest.mark.parametrize("reverse", [False, True])
def test_r6_03_reversed_scans_with_outputs_in_either_order(run_everywhere, reverse):
    """Compute s = 10 s + x_t from the last element, as `go_backwards` in Theano and `reverse` in JAX."""
    model = loop_model(
        {
            "v_initial": "(0.0,)",
            "slices": {"x_t": {"of": "x", "start": -1, "end": 0, "stride": -1}},
            "recordings": {"s_next": {"reverse": reverse}},
        },
        {"s_next": "10 * s + x_t"},
        port_values={"x": [1.0, 2.0, 3.0, 4.0]},
        carried="s",
        recorded="s_next",
    )
    rows = [4, 43, 432, 4321]
    assert run_everywhere(model)["r1"].tolist() == (rows[::-1] if reverse else rows)


def test_r6_04_until_keeps_the_row_that_ends_the_loop(run_everywhere, stored):
    model = loop_model(
        {"M": 1024, "cond": True, "v_initial": "(1.0,)"},
        {"p_next": "p + p"},
        port_values={"mx": 45.0},
        carried="p",
        recorded="p_next",
        go="p + p <= mx",
    )
    assert run_everywhere(model)["r1"].tolist() == [2, 4, 8, 16, 32, 64]
    for inputs, (expected,) in stored("theano_until"):
        np.testing.assert_array_equal(run_everywhere(model, inputs)["r1"], expected)


def test_r6_04_until_a_power_is_large_enough(run_everywhere):
    model = loop_model(
        {"cond": True, "v_initial": "(1.0,)"},
        {"s_next": "s * p"},
        port_values={"p": 3.0},
        carried="s",
        go="s * p <= 50",
    )
    assert run_everywhere(model)["r0"] == 81.0
    assert derivatives(model, {"p": 3.0}, of="A.r0") == {"p": 108.0}


def test_r6_05_the_shortest_sequence_is_the_trip_count(run_everywhere):
    inputs = {"x": [1.0, 2.0, 3.0, 4.0, 5.0], "y": [1.0, 2.0, 3.0]}
    args = {"slices": {"x_t": "x", "y_t": "y"}}
    model = loop_model(args, {"z": "x_t * y_t"}, port_values=inputs, recorded="z")
    assert run_everywhere(model)["r0"].tolist() == [1, 4, 9]


def test_r6_05_a_scan_requires_equal_lengths():
    args = {"initial_state_and_scan_inputs": ["x", "y"], "num_scan_inputs": 2}
    model = loop_model(
        args,
        {"z": "x_t * y_t"},
        port_values={"x": [1.0, 2.0, 3.0, 4.0], "y": [1.0, 2.0, 3.0]},
        recorded="z",
        metadata={"scanned": ["x_t", "y_t"]},
        function="onnx::Scan",
    )
    with pytest.raises(mdf_loop.LoopError, match="'x_t' and 'y_t' have different lengths"):
        mdf_loop.compile(model).run()


def test_r6_06_a_fixed_length_with_a_count(run_everywhere, stored):
    """Pad rows to a fixed number and count the real ones, as `while_loop` in MXNet does."""
    model = loop_model(
        {
            "M": "maxit",
            "cond": "i0 <= 5",
            "v_initial": "(i0, s0)",
            "recordings": {"out": {"length": "maxit"}},
        },
        {"out": "k + s", "k_next": "k + 1", "s_next": "s + k"},
        port_values={"maxit": 10, "i0": 0, "s0": 1},
        carried="k s",
        recorded="out",
        go="k + 1 <= 5",
    )
    results = run_everywhere(model)
    assert results["r2"].tolist() == [1, 2, 4, 7, 11, 16, 0, 0, 0, 0]
    assert (results["r0"], results["r1"], results["n"]) == (6, 16, 6)
    for inputs, (out, *others) in stored("mxnet_while_loop_padding"):
        results = run_everywhere(model, inputs)
        np.testing.assert_array_equal(results["r2"], out)
        assert [results[k] for k in ("r0", "r1", "n")] == others


def test_r6_06_more_rows_than_the_fixed_length(stored):
    args = {"M": 4, "recordings": {"k": {"length": 3}}}
    with pytest.raises(RecordShapeError, match="'k' has more rows than its length"):
        mdf_loop.compile(loop_model(args, {"k": "1 * i"}, recorded="k")).run()


def test_r6_06_the_number_of_rows_is_the_number_of_iterations(run_everywhere, stored):
    model = loop_model(
        {"M": "maxit", "cond": "i0 <= lim", "v_initial": "(i0, s0)"},
        {"k_next": "k + 1", "s_next": "s + k"},
        port_values={"maxit": 1000, "lim": 5, "i0": 1, "s0": 0},
        carried="k s",
        recorded="k",
        go="k + 1 <= lim",
    )
    for inputs, (out, *finals) in stored("mxnet_sum_1_to_n"):
        results = run_everywhere(model, inputs)
        np.testing.assert_array_equal(results["r2"], out)
        assert [results["r0"], results["r1"]] == finals


def test_r6_07_writing_at_computed_indices(run_everywhere):
    """Write `10 (i + 1)` at index `2 - i` of an array of 4 elements, as in a TensorArray."""
    write = {
        "function": "onnx::ScatterND",
        "args": {"data": "t", "indices": "place", "updates": "10.0 * (i + 1)"},
    }
    model = loop_model(
        {"M": 3, "v_initial": "(numpy.zeros(4),)"}, {"t_next": "written"}, carried="t"
    )
    args = model["model"]["graphs"]["graph"]["nodes"]["A"]["functions"]["loop"]["args"]
    args["body"]["b"]["nodes"]["step"] |= {
        "input_ports": {"t": {}, "i": {}},
        "parameters": {"place": {"value": "numpy.array([2 - i])"}},
        "functions": {"written": write},
    }
    assert run_everywhere(model)["r0"].tolist() == [30, 20, 10, 0]


def test_r6_07_writing_one_element_by_where(run_everywhere):
    """Check that `where(position == k, value, old)` writes one element of an array."""
    model = loop_model(
        {"M": 3, "v_initial": "(numpy.zeros(4),)"},
        {"t_next": "numpy.where(numpy.arange(4) == 2 - i, 10.0 * (i + 1), t)"},
        carried="t",
    )
    assert run_everywhere(model)["r0"].tolist() == [30, 20, 10, 0]
