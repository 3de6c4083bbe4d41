"""Recordings: axis, concatenation, reverse order, the last row and fixed lengths."""

from __future__ import annotations

import numpy as np
import pytest

import mdf_loop
from mdf_loop.errors import LoopError, ModelError, OperandError, RecordShapeError, RunError
from tests.models.loops import loop_model

X = np.arange(24.0).reshape(4, 2, 3)
"""Four rows of [2, 3]."""


def recording(description, *, x=X, count=None, body="1 * x_t"):
    args = {"M": count, "slices": {"x_t": "x"}, "recordings": {"y": description}}
    return loop_model(args, {"y": body}, port_values={"x": x.tolist()}, recorded="y")


@pytest.mark.parametrize(
    ("description", "expected"),
    [
        ({}, X),
        ({"axis": 0}, X),
        ({"axis": 1}, np.moveaxis(X, 0, 1)),
        ({"axis": 2}, np.moveaxis(X, 0, 2)),
        ({"axis": -1}, np.moveaxis(X, 0, -1)),
        ({"axis": -3}, X),
        ({"concat": True}, np.concatenate(X, axis=0)),
        ({"axis": 1, "concat": True}, np.concatenate(X, axis=1)),
        ({"axis": -1, "concat": True}, np.concatenate(X, axis=-1)),
        ({"axis": -2, "concat": True}, np.concatenate(X, axis=0)),
        ({"reverse": True}, X[::-1]),
        ({"reverse": True, "axis": 1}, np.moveaxis(X[::-1], 0, 1)),
        ({"reverse": True, "axis": 1, "concat": True}, np.concatenate(X[::-1], axis=1)),
        ({"keep": "last"}, X[-1]),
        ({"keep": "all"}, X),
        ({"length": 4}, X),
        ({"length": 6, "pad": -1}, np.concatenate([X, np.full((2, 2, 3), -1.0)])),
        ({"length": 6, "axis": 1}, np.moveaxis(np.concatenate([X, np.zeros((2, 2, 3))]), 0, 1)),
        ({"length": 5, "reverse": True}, np.concatenate([X[::-1], np.zeros((1, 2, 3))])),
    ],
    ids=str,
)
def test_recording_options(run_everywhere, description, expected):
    np.testing.assert_array_equal(run_everywhere(recording(description))["r0"], expected)


@pytest.mark.parametrize("rows", [0, 1, 4])
def test_how_many_rows_there_are_is_known_only_at_run_time(run_everywhere, rows):
    described = {
        "a": {"axis": -1},
        "b": {"axis": 1, "concat": True},
        "c": {"reverse": True},
        "d": {"length": "m", "pad": 9.0},
    }
    model = loop_model(
        {"M": "count", "recordings": described},
        {name: f"i + {k} + x" for k, name in enumerate(described)},
        port_values={"count": 4, "m": 5, "x": X[0].tolist()},
        recorded="a b c d",
    )
    results = run_everywhere(model, {"count": rows})
    a, b, c, d = (
        np.array([i + k + X[0] for i in range(rows)]).reshape(rows, 2, 3) for k in range(4)
    )
    np.testing.assert_array_equal(results["r0"], np.moveaxis(a, 0, -1))
    np.testing.assert_array_equal(results["r1"], np.moveaxis(b, 0, 1).reshape(2, rows * 3))
    np.testing.assert_array_equal(results["r2"], c[::-1])
    np.testing.assert_array_equal(
        results["r3"], np.concatenate([d, np.full((5 - rows, 2, 3), 9.0)])
    )


def test_the_last_row_where_it_may_not_exist(run_everywhere):
    model = loop_model(
        {"M": "m", "recordings": {"y": {"keep": "last"}}},
        {"y": "i * 2"},
        port_values={"m": 3},
        recorded="y",
    )
    assert run_everywhere(model)["r0"] == 4
    with pytest.raises(RunError, match="the last row of 'y' is asked for, but the loop had no"):
        mdf_loop.compile(model).run({"m": 0})
    model["model"]["graphs"]["graph"]["nodes"]["A"]["functions"]["loop"]["args"]["M"] = 0
    with pytest.raises(RecordShapeError, match="the last row of 'y' is asked for"):
        mdf_loop.compile(model).run()


def test_the_last_row_of_a_loop_that_stops(run_everywhere):
    args = {"cond": "x < 5", "v_initial": "(x,)", "recordings": {"y": {"keep": "last"}}}
    model = loop_model(
        args,
        {"s_next": "s + 1", "y": "10 * s"},
        port_values={"x": 3.0},
        carried="s",
        recorded="y",
        go="s < 5",
    )
    assert run_everywhere(model)["r1"] == 50.0
    with pytest.raises(RunError, match="had no iteration"):
        mdf_loop.compile(model).run({"x": 6.0})


def test_the_last_row_of_an_extent_known_only_at_run_time(run_everywhere):
    args = {"M": "m", "recordings": {"y": {"keep": "last"}}}
    model = loop_model(args, {"y": "i + numpy.arange(m)"}, port_values={"m": 3}, recorded="y")
    assert run_everywhere(model)["r0"].tolist() == [2, 3, 4]


def test_only_the_last_row_is_kept():
    """Check that a recording with only its last row requested becomes a carried value."""
    program = mdf_loop.read(recording({"keep": "last"}))
    (loop,) = mdf_loop.ir.loops(program)
    assert not loop.recorded


def test_a_fixed_length_has_a_fixed_shape():
    args = {"M": "m", "recordings": {"y": {"length": 10}}}
    program = mdf_loop.read(
        loop_model(args, {"y": "i + v"}, port_values={"m": 3, "v": [1.0, 2.0]}, recorded="y")
    )
    assert {o.name: o.value.shape for o in program.outputs}["A.r0"] == (10, 2)


def test_more_rows_than_the_length():
    with pytest.raises(RecordShapeError, match="'y' has more rows than its length"):
        mdf_loop.compile(recording({"length": 3})).run()
    args = {"M": "m", "recordings": {"y": {"length": 3}}}
    model = loop_model(args, {"y": "1 * i"}, port_values={"m": 3}, recorded="y")
    assert mdf_loop.compile(model).run()["r0"].tolist() == [0, 1, 2]
    with pytest.raises(RunError, match="'y' has more rows than its length"):
        mdf_loop.compile(model).run({"m": 4})


@pytest.mark.parametrize(
    ("value", "pad", "filled"),
    [("1 * i", 7, 7), ("1.0 * i", 7, 7.0), ("i > 0", True, True), ("1.0 * i", "numpy.nan", np.nan)],
)
def test_padding_has_the_dtype_of_the_rows(run_everywhere, value, pad, filled):
    args = {"M": 1, "recordings": {"y": {"length": 2, "pad": pad}}}
    results = run_everywhere(loop_model(args, {"y": value}, recorded="y"))
    np.testing.assert_array_equal(results["r0"][1], filled)


@pytest.mark.parametrize(
    ("description", "kind", "sentence"),
    [
        ({"axes": 1}, ModelError, "'y' has a key 'axes'"),
        (1, ModelError, "'y' is written as {axis: "),
        ({"axis": 3}, OperandError, "axis 3 does not exist"),
        (
            {"axis": 2, "concat": True},
            OperandError,
            "axis 2 does not exist: the rows of 'y' have 2",
        ),
        ({"concat": 1}, ModelError, "'concat' of 'y' must be true or false"),
        ({"keep": "lats"}, ModelError, "'keep' of the recording 'y' is 'lats'"),
        (
            {"keep": "last", "axis": 1},
            ModelError,
            "keeps the last row only, so 'axis' means nothing",
        ),
        ({"pad": 1}, ModelError, "has a 'pad', but no 'length'"),
        ({"length": 2.5}, ModelError, "length of the recording 'y' must be one whole number"),
        ({"length": [5, 6]}, ModelError, "length of the recording 'y' must be one whole number"),
        ({"length": 5, "pad": [1, 2]}, ModelError, "pad of the recording 'y' must be one number"),
    ],
    ids=str,
)
def test_invalid_recordings_are_refused(description, kind, sentence):
    with pytest.raises(kind, match=sentence):
        mdf_loop.compile(recording(description)).run()


def test_a_pad_outside_the_dtype_is_refused():
    args = {"M": 1, "recordings": {"y": {"length": 2, "pad": 0.5}}}
    with pytest.raises(OperandError, match="'y' is int64, which does not hold its pad"):
        mdf_loop.compile(loop_model(args, {"y": "1 * i"}, recorded="y")).run()


def test_numbers_have_no_axis_to_be_joined_along():
    args = {"M": 1, "recordings": {"y": {"concat": True}}}
    with pytest.raises(OperandError, match="rows of 'y' are numbers: there is no axis"):
        mdf_loop.compile(loop_model(args, {"y": "1 * i"}, recorded="y")).run()


@pytest.mark.parametrize(
    ("name", "sentence", "hint"),
    [
        ("yy", "'yy' is not one of the body's recorded outputs", "did you mean 'y'?"),
        ("s_next", "'s_next' is carried, not recorded", "name it once more"),
    ],
)
def test_a_recording_of_an_unrecorded_output_is_refused(name, sentence, hint):
    args = {"M": 1, "v_initial": "(0,)", "recordings": {name: {"reverse": True}}}
    model = loop_model(args, {"s_next": "s + 1", "y": "1 * i"}, carried="s", recorded="y")
    with pytest.raises(LoopError, match=sentence) as caught:
        mdf_loop.compile(model).run()
    assert hint in caught.value.findings[0].hint
    assert caught.value.findings[0].where.endswith(f".args.recordings['{name}']")


def test_a_value_carried_and_recorded(run_everywhere):
    args = {"M": 3, "v_initial": "(1,)", "recordings": {"s_next": {"reverse": True}}}
    model = loop_model(args, {"s_next": "2 * s"}, carried="s", recorded="s_next")
    results = run_everywhere(model)
    assert (results["r0"], results["r1"].tolist()) == (8, [8, 4, 2])
