"""The features of OpenVINO's Loop-5 in the canonical form of MDF (R2.01 to R2.16).

Where a case is stored, its numbers are those of OpenVINO's own runtime.
"""

from __future__ import annotations

import json

import numpy as np
import pytest

import mdf_loop
from mdf_loop.errors import LoopError, RunError, ScopeError, TripCountError
from tests.models.loops import loop_model


@pytest.fixture
def stored(shared):
    """Return a function of a case name that yields inputs and expected outputs of runs in OpenVINO."""

    def runs(case):
        path = shared / "cases" / "openvino" / f"{case}.json"
        if not path.exists():
            pytest.skip(f"the case '{case}' is not stored here")
        for run in json.loads(path.read_text())["runs"]:
            yield (
                {k: _array(v) for k, v in run["inputs"].items()},
                [_array(v) for v in run["expected"]],
            )

    return runs


def _array(tensor):
    return np.array(tensor["data"], tensor["dtype"]).reshape(tensor["shape"])


def check(run_everywhere, model, runs):
    for inputs, expected in runs:
        results = run_everywhere(model, inputs)
        for k, array in enumerate(expected):
            assert results[f"r{k}"].dtype == array.dtype
            np.testing.assert_allclose(results[f"r{k}"], array, rtol=1e-5)


# --- trip count and condition ----------------------------------------------------------------------------------

DOUBLING = {"x_next": "x + x"}


def doubling(**args):
    return loop_model(
        {"v_initial": "(x0,)", "recordings": {"x_next": {"concat": True}}, **args},
        DOUBLING,
        port_values={"x0": [1.0], "limit": 20.0, "M0": 10, "cond0": True},
        carried="x",
        recorded="x_next",
        go="x + x < limit",
    )


def test_r2_01_without_iterations_outputs_have_length_zero(run_everywhere, stored):
    model = loop_model(
        {"M": "M", "v_initial": "(x,)", "recordings": {"s_next": {"concat": True}}},
        {"s_next": "s + s"},
        port_values={"M": 0, "x": [[1.0, 2.0]]},
        carried="s",
        recorded="s_next",
    )
    compiled = mdf_loop.compile(model)
    shapes = [compiled.run({"M": count})["r1"].shape for count in (0, 2, 0)]
    assert shapes == [(0, 2), (2, 2), (0, 2)]
    check(run_everywhere, model, stored("zero_iterations"))


def test_r2_02_no_trip_count_and_a_condition(run_everywhere):
    model = doubling(M=-1, cond="cond0")
    results = run_everywhere(model)
    assert results["r0"].tolist() == [32.0]
    assert results["r1"].tolist() == [2.0, 4.0, 8.0, 16.0, 32.0]
    results = run_everywhere(model, {"cond0": False})
    assert (results["r0"].tolist(), results["r1"].tolist()) == ([1.0], [])


def test_r2_02_a_trip_count_of_minus_one_at_run_time(run_everywhere):
    model = doubling(M="M0", cond="cond0")
    assert run_everywhere(model, {"M0": -1})["n"] == 5


def test_r2_03_no_trip_count_and_a_condition_that_is_true(run_everywhere):
    model = doubling(M=-1, cond=True)
    assert run_everywhere(model)["r0"].tolist() == [32.0]
    results = run_everywhere(model, {"x0": [50.0]})
    assert (results["r0"].tolist(), results["n"]) == ([100.0], 1)


def test_r2_04_a_trip_count_and_the_current_iteration(run_everywhere, stored):
    model = loop_model(
        {"M": "M", "cond": True, "v_initial": "(x,)", "recordings": {"s_next": {"concat": True}}},
        {"s_next": "s + i"},
        port_values={"M": 5, "x": np.array([100.0], np.float32)},
        carried="s",
        recorded="s_next",
        types={"i": "float32"},
    )
    results = run_everywhere(model)
    assert results["r0"].tolist() == [110.0]
    assert results["r1"].tolist() == [100.0, 101.0, 103.0, 106.0, 110.0]
    check(run_everywhere, model, stored("trip_for_current_iteration"))


@pytest.mark.parametrize(
    ("count", "condition", "limit", "result"),
    [
        (10, True, 20, 32),
        (3, True, 20, 8),
        (10, False, 20, 1),
        (0, True, 20, 1),
        (-1, True, 20, 32),
        (10, True, 40, 64),
    ],
)
def test_r2_05_a_trip_count_and_a_condition(run_everywhere, count, condition, limit, result):
    model = doubling(M="M0", cond="cond0")
    inputs = {"M0": count, "cond0": condition, "limit": float(limit)}
    assert run_everywhere(model, inputs)["r0"].tolist() == [result]


@pytest.mark.parametrize("dtype", ["int32", "int64"])
@pytest.mark.parametrize("shape", [(), (1,)])
def test_r2_06_dtypes_and_shapes_of_trip_count_and_condition(run_everywhere, dtype, shape):
    model = loop_model(
        {"M": "M", "cond": "cond", "v_initial": "(x,)"},
        {"s_next": "s + i"},
        port_values={"M": 4, "cond": True, "x": [1.0]},
        carried="s",
        go="numpy.array([i < 100])",
    )
    inputs = {"M": np.full(shape, 4, dtype), "cond": np.full(shape, True)}
    assert run_everywhere(model, inputs)["r0"].tolist() == [7.0]
    assert run_everywhere(model, {**inputs, "cond": np.full(shape, False)})["r0"].tolist() == [1.0]


def test_r2_06_stored_numbers(run_everywhere, stored):
    model = loop_model(
        {"M": "M", "cond": "cond", "v_initial": "(x,)"},
        {"s_next": "s + i"},
        port_values={"M": 4, "cond": True, "x": [1.0]},
        carried="s",
        go="numpy.array([i < 100])",
        types={"i": "float32"},
    )
    check(run_everywhere, model, stored("trip_1d_int32"))


# --- scope of the body -----------------------------------------------------------------------------


def test_r2_07_a_strict_body_reads_only_declared_inputs(run_everywhere):
    def model(args):
        return loop_model(
            {"M": 2, "v_initial": "(1.0,)", **args},
            {"s_next": "s * w"},
            port_values={"w": 3.0},
            carried="s",
            metadata={"strict": True},
        )

    with pytest.raises(ScopeError, match=r"the input port 'w' .* the body is strict"):
        mdf_loop.compile(model({})).run()
    assert run_everywhere(model({"w": "w"}))["r0"] == 9.0


# --- slices ---------------------------------------------------------------------------------------

X = np.arange(24, dtype=np.float32).reshape(2, 3, 4)


def digits(description, *, axis=0, **args):
    """Return a loop `s = 10 s + x_t` over slices x_t, so that the digits of s are the slices."""
    return loop_model(
        {
            "v_initial": "(0 * w,)",
            "slices": {"x_t": {"of": "x", "part_size": 1, **description}},
            "recordings": {"s_next": {"concat": True, "axis": axis}},
            **args,
        },
        {"s_next": "10 * s + x_t"},
        port_values={"x": X, "w": X.take([0], axis)},
        carried="s",
        recorded="s_next",
    )


@pytest.mark.parametrize(
    ("description", "args", "case", "axis"),
    [
        ({"axis": 0}, {}, "sliced_axis0", 0),
        ({"axis": 1}, {}, "sliced_axis1", 1),
        ({"axis": -1}, {}, "sliced_axis_neg1", 2),
        ({"axis": 1}, {"M": 2}, "sliced_axis_fewer", 1),
        ({"axis": 1, "start": -1, "end": 0, "stride": -1}, {}, "sliced_reverse", 1),
    ],
)
def test_r2_08_slices_on_any_axis_in_both_directions_and_ranges(
    run_everywhere, shared, description, args, case, axis
):
    model = digits(description, axis=axis, **args)
    parts = [X.take([k], axis) for k in range(X.shape[axis])]
    parts = parts[:: description.get("stride", 1)][: args.get("M")]
    total, rows = np.zeros_like(parts[0]), []
    for part in parts:
        total = 10 * total + part
        rows.append(total)
    results = run_everywhere(model)
    np.testing.assert_array_equal(results["r0"], total)
    np.testing.assert_array_equal(results["r1"], np.concatenate(rows, axis))
    path = shared / "cases" / "openvino" / f"{case}.json"
    if path.exists():
        final, recorded = (_array(t) for t in json.loads(path.read_text())["runs"][0]["expected"])
        np.testing.assert_array_equal(results["r0"], final)
        np.testing.assert_array_equal(results["r1"], recorded)


def test_r2_08_slices_of_two_elements(run_everywhere):
    model = loop_model(
        {
            "slices": {"x_t": {"of": "x", "axis": 2, "part_size": 2, "stride": 2}},
            "recordings": {"y": {"concat": True, "axis": 2, "reverse": True}},
        },
        {"y": "1 * x_t"},
        port_values={"x": X},
        recorded="y",
    )
    np.testing.assert_array_equal(run_everywhere(model)["r0"], X[..., [2, 3, 0, 1]])


def test_r2_09_the_number_of_slices_is_the_trip_count(run_everywhere, stored):
    for count in (None, -1):
        check(
            run_everywhere, digits({"axis": 1}, axis=1, M=count), stored("sliced_trip_from_slices")
        )


def test_r2_09_slices_with_a_condition(run_everywhere):
    model = digits({"axis": 1}, axis=1, M=-1, cond="True")
    body = model["model"]["graphs"]["graph"]["nodes"]["A"]["functions"]["loop"]["args"]["body"]["b"]
    step = body["nodes"]["step"]
    step["input_ports"]["i"] = {}
    step["output_ports"]["go"]["value"] = "i < 1"
    assert run_everywhere(model)["n"] == 2


def test_r2_09_more_iterations_than_slices_are_refused():
    with pytest.raises(
        TripCountError, match="larger than the slice 'x_t' of 'x' allows, which has only 3"
    ):
        mdf_loop.compile(digits({"axis": 1}, axis=1, M=4)).run()


# --- back edges -----------------------------------------------------------------------------------


def test_r2_10_back_edges_that_cross(run_everywhere):
    model = loop_model(
        {"M": 5, "v_initial": "(1.0, 2.0)"}, {"a_next": "1 * b", "b_next": "1 * a"}, carried="a b"
    )
    results = run_everywhere(model)
    assert (results["r0"], results["r1"]) == (2.0, 1.0)


def test_r2_10_a_delay_line(run_everywhere, stored):
    model = loop_model(
        {"M": "M", "v_initial": "(x, x, x)", "recordings": {"a_next": {"concat": True}}},
        {"a_next": "a + b + c", "b_next": "1 * a", "c_next": "1 * b"},
        port_values={"M": 6, "x": [1.0]},
        carried="a b c",
        recorded="a_next",
    )
    assert run_everywhere(model)["r3"].tolist() == [3.0, 5.0, 9.0, 17.0, 31.0, 57.0]
    for inputs, (final, rows) in stored("back_edge_delay_line"):
        results = run_everywhere(model, inputs)
        np.testing.assert_array_equal(results["r0"], final)
        np.testing.assert_array_equal(results["r3"], rows)


# --- outputs --------------------------------------------------------------------------------------


def test_r2_11_concatenated_on_another_axis_than_sliced(run_everywhere, stored):
    model = loop_model(
        {
            "slices": {"x_t": {"of": "x", "part_size": 1}},
            "recordings": {"y": {"concat": True, "axis": 1}},
        },
        {"y": "numpy.transpose(x_t)"},
        port_values={"x": [[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]]},
        recorded="y",
    )
    check(run_everywhere, model, stored("slice0_concat1"))


def test_r2_11_outputs_in_reverse_order(run_everywhere):
    args = {"M": 3, "recordings": {"y": {"concat": True, "reverse": True}}}
    model = loop_model(args, {"y": "i + w"}, port_values={"w": [[0, 10]]}, recorded="y")
    assert run_everywhere(model)["r0"].tolist() == [[2, 12], [1, 11], [0, 10]]


def test_r2_11_the_last_value_as_an_output(run_everywhere):
    args = {"M": "M", "recordings": {"y": {"keep": "last"}}}
    model = loop_model(args, {"y": "i * w"}, port_values={"M": 4, "w": [1, 10]}, recorded="y")
    assert run_everywhere(model)["r0"].tolist() == [3, 30]
    with pytest.raises(RunError, match="the last row of 'y' is asked for, but the loop had no"):
        mdf_loop.compile(model).run({"M": 0})


def test_r2_12_a_recurrent_network_over_a_batch(run_everywhere, stored):
    """Run a recurrent layer whose number of steps is the length of the input."""
    body = {"h_next": "numpy.tanh(x_t @ w + h @ u + b)"}
    model = loop_model(
        {
            "M": "M",
            "v_initial": "(numpy.zeros((2, 4), numpy.float32),)",
            "slices": {"x_t": {"of": "x", "axis": 1}},
            "recordings": {"h_next": {"axis": 1}},
        },
        body,
        port_values={
            "M": 5,
            "x": np.zeros((2, 5, 3), np.float32),
            "w": np.zeros((3, 4), np.float32),
            "u": np.zeros((4, 4), np.float32),
            "b": np.zeros((4,), np.float32),
        },
        carried="h",
        recorded="h_next",
    )
    rng = np.random.default_rng(0)
    x, w, u, b = (rng.normal(size=s).astype(np.float32) for s in ((2, 7, 3), (3, 4), (4, 4), (4,)))
    results = run_everywhere(model, {"M": 7, "x": x, "w": w, "u": u, "b": b})
    h = np.zeros((2, 4), np.float32)
    for t in range(7):
        h = np.tanh(x[:, t] @ w + h @ u + b)
        np.testing.assert_allclose(results["r1"][:, t], h, rtol=1e-5)
    np.testing.assert_allclose(results["r0"], h, rtol=1e-5)


def test_r2_13_a_carried_value_may_grow(run_everywhere):
    model = loop_model(
        {"M": 3, "v_initial": "(x,)"},
        {"s_next": "numpy.concatenate((s, y))"},
        port_values={"x": [1.0], "y": [7.0]},
        carried="s",
        metadata={"shapes": "dynamic"},
    )
    assert run_everywhere(model)["r0"].tolist() == [1.0, 7.0, 7.0, 7.0]


def test_r2_14_loops_in_loops(run_everywhere):
    inner = loop_model(
        {"M": "i", "v_initial": "(s,)"}, {"t_next": "t + i + k"}, port_values={"k": 0}, carried="t"
    )
    node = inner["model"]["graphs"]["graph"]["nodes"]["A"]
    body = node["functions"]["loop"]["args"]["body"]["b"]
    body["metadata"]["inputs"] = ["j", "go_in", "t"]
    body["nodes"]["step"]["input_ports"] = {"t": {}, "i": {}, "j": {}}
    body["nodes"]["step"]["output_ports"]["t_next"]["value"] = "t + i * 1 + j"
    node["input_ports"] = {"i": {}, "s": {}}
    node["output_ports"] = {"s_next": {"value": "loop"}, "go": {"value": True}}
    model = loop_model(
        {"M": "m", "v_initial": "(0,)"}, {}, port_values={"m": 5}, carried="s", recorded="s_next"
    )
    outer = model["model"]["graphs"]["graph"]["nodes"]["A"]["functions"]["loop"]["args"]["body"][
        "b"
    ]
    outer["nodes"] = {"inner": node}
    total, rows = 0, []
    for i in range(5):
        for j in range(i):
            total += i + j
        rows.append(total)
    results = run_everywhere(model)
    assert (results["r0"], results["r1"].tolist()) == (total, rows)


def test_r2_15_the_body_must_compute_a_condition():
    model = loop_model({"M": 2, "v_initial": "(1.0,)"}, {"s_next": "2 * s"}, carried="s")
    body = model["model"]["graphs"]["graph"]["nodes"]["A"]["functions"]["loop"]["args"]["body"]["b"]
    body["metadata"]["outputs"] = ["s_next"]
    with pytest.raises(
        LoopError, match=r"needs at least 1 . 1 outputs .condition, carried values."
    ) as caught:
        mdf_loop.compile(model).run()
    assert "the first output is the condition" in caught.value.findings[0].hint


@pytest.mark.parametrize("dtype", ["float64", "int32"])
def test_r2_16_the_iteration_number_in_any_dtype_or_omitted(run_everywhere, dtype):
    def model(update, count):
        return loop_model(
            {"M": count, "v_initial": "(x,)"},
            {"s_next": update},
            port_values={"x": np.array(2, dtype)},
            carried="s",
            types={"i": dtype},
        )

    for update, count, result in (("s + x * i", 4, 14), ("s + s", 3, 16)):
        final = run_everywhere(model(update, count))["r0"]
        assert (final, final.dtype) == (result, dtype)
