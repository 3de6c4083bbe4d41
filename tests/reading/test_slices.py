"""Sliced inputs: axes, part sizes, strides, directions and the resulting trip count."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given as drawn
from hypothesis import settings
from hypothesis import strategies as st

import mdf_loop
from mdf_loop.errors import LoopError, ModelError, RunError, SignatureError, TripCountError
from mdf_loop.run.interpret import interpret
from tests.models.loops import loop_model

X = np.arange(24.0).reshape(2, 3, 4)


def parts(x, axis=0, start=None, end=None, stride=1, part_size=None):
    """Return the parts of a slice according to the OpenVINO specification."""
    dim = x.shape[axis]
    start = (-1 if stride < 0 else 0) if start is None else start
    end = (0 if stride < 0 else -1) if end is None else end
    start, end = (k + dim + 1 if k < 0 else k for k in (start, end))
    size = part_size or 1
    length = start - end if stride < 0 else end - start
    count = max((length - size) // abs(stride) + 1, 0) if length >= size else 0
    firsts = [(start - size if stride < 0 else start) + k * stride for k in range(count)]
    slices = [x.take(range(first, first + size), axis=axis) for first in firsts]
    return slices if part_size else [part.squeeze(axis) for part in slices]


def sliced(description, **more):
    return loop_model(
        {"slices": {"x_t": description}, **more},
        {"y": "1 * x_t"},
        port_values={"x": X.tolist()},
        recorded="y",
    )


@pytest.mark.parametrize(
    ("description", "meant"),
    [
        ("x", {}),
        ({"of": "x", "axis": 1}, {"axis": 1}),
        ({"of": "x", "axis": -1}, {"axis": -1}),
        ({"of": "x", "axis": 2, "start": 1}, {"axis": 2, "start": 1}),
        ({"of": "x", "axis": 2, "end": -2}, {"axis": 2, "end": -2}),
        ({"of": "x", "axis": 2, "stride": 2}, {"axis": 2, "stride": 2}),
        ({"of": "x", "axis": 2, "stride": -1}, {"axis": 2, "stride": -1}),
        (
            {"of": "x", "axis": 1, "start": -1, "end": 0, "stride": -1},
            {"axis": 1, "start": -1, "end": 0, "stride": -1},
        ),
        (
            {"of": "x", "axis": 2, "start": 3, "end": 1, "stride": -1},
            {"axis": 2, "start": 3, "end": 1, "stride": -1},
        ),
        ({"of": "x", "axis": 2, "part_size": 2}, {"axis": 2, "part_size": 2}),
        (
            {"of": "x", "axis": 2, "part_size": 2, "stride": 2},
            {"axis": 2, "part_size": 2, "stride": 2},
        ),
        (
            {"of": "x", "axis": 2, "part_size": 3, "stride": -1},
            {"axis": 2, "part_size": 3, "stride": -1},
        ),
        ({"of": "x", "axis": 1, "part_size": 1}, {"axis": 1, "part_size": 1}),
        (
            {"of": "x", "axis": 1, "part_size": 2, "stride": 3},
            {"axis": 1, "part_size": 2, "stride": 3},
        ),
    ],
    ids=str,
)
def test_parts_along_an_axis(run_everywhere, description, meant):
    results = run_everywhere(sliced(description))
    expected = parts(X, **meant)
    assert expected
    assert results["n"] == len(expected)
    np.testing.assert_array_equal(results["r0"], np.stack(expected))


def test_a_slice_of_no_parts(run_everywhere):
    results = run_everywhere(sliced({"of": "x", "axis": 1, "part_size": 4}))
    assert results["r0"].shape == (0, 2, 4, 4)
    results = run_everywhere(sliced("x"), {"x": np.zeros((0, 3))})
    assert results["r0"].shape == (0, 3)


@pytest.mark.slow
@settings(max_examples=60)
@drawn(
    st.integers(0, 5),
    st.integers(-4, 5),
    st.integers(-4, 5),
    st.sampled_from([-3, -2, -1, 1, 2, 3]),
    st.sampled_from([None, 1, 2, 3]),
)
def test_random_slices(extent, start, end, stride, part):
    x = np.arange(extent * 2.0).reshape(extent, 2)
    description = {"of": "x", "start": start, "end": end, "stride": stride}
    description |= {"part_size": part} if part else {}
    args = {"slices": {"x_t": description}}
    model = loop_model(args, {"y": "1 * x_t"}, port_values={"x": x}, recorded="y")
    first, last = (k + extent + 1 if k < 0 else k for k in (start, end))
    begins = first <= extent if stride < 0 else first >= 0
    backwards = (last - first) * stride < 0
    if not (begins and 0 <= last <= extent) or (backwards and start >= 0 and end >= 0):
        with pytest.raises(LoopError):
            mdf_loop.compile(model).run()
        return
    expected = [] if backwards else parts(x, 0, start, end, stride, part)
    compiled = mdf_loop.compile(model)
    results = compiled.run()
    arrays, program, _ = compiled.prepare({})
    meant = interpret(program, arrays)
    shape = (part, 2) if part else (2,)
    for recorded in (results["r0"], meant["A.r0"]):
        np.testing.assert_array_equal(recorded, np.array(expected).reshape(len(expected), *shape))


SUM = {"s_next": "s + x_t"}


@pytest.mark.parametrize("count", [None, -1, "", "-1"])
def test_without_a_trip_count_the_slices_give_it(run_everywhere, count):
    model = loop_model(
        {"M": count, "v_initial": "(0.0,)", "slices": {"x_t": "x"}},
        SUM,
        port_values={"x": [1.0, 2.0, 3.0]},
        carried="s",
    )
    results = run_everywhere(model)
    assert (results["r0"], results["n"]) == (6.0, 3)


def test_fewer_iterations_than_parts(run_everywhere):
    model = loop_model(
        {"M": 2, "v_initial": "(0.0,)", "slices": {"x_t": "x"}},
        SUM,
        port_values={"x": [1.0, 2.0, 3.0]},
        carried="s",
    )
    assert run_everywhere(model)["r0"] == 3.0


def test_more_iterations_than_parts_are_refused():
    model = loop_model(
        {"M": 4, "v_initial": "(0.0,)", "slices": {"x_t": "x"}},
        SUM,
        port_values={"x": [1.0, 2.0, 3.0]},
        carried="s",
    )
    with pytest.raises(
        TripCountError, match="larger than the slice 'x_t' of 'x' allows, which has only 3"
    ):
        mdf_loop.compile(model).run()


def counted():
    return loop_model(
        {"M": "m", "v_initial": "(0.0,)", "slices": {"x_t": "x"}},
        SUM,
        port_values={"x": [1.0, 2.0, 3.0], "m": 3},
        carried="s",
    )


@pytest.mark.parametrize(("count", "total"), [(3, 6.0), (2, 3.0), (0, 0.0), (-1, 6.0), (-5, 0.0)])
def test_a_trip_count_known_at_run_time(run_everywhere, count, total):
    assert run_everywhere(counted(), {"m": count})["r0"] == total


def test_a_trip_count_too_large_at_run_time():
    with pytest.raises(RunError, match="larger than the slice 'x_t' of 'x' allows"):
        mdf_loop.compile(counted()).run({"m": 4})


def test_the_shortest_slice_decides(run_everywhere):
    args = {"slices": {"x_t": "x", "y_t": "y"}}
    model = loop_model(
        args,
        {"p": "x_t * y_t"},
        port_values={"x": [1.0, 2.0, 3.0, 4.0], "y": [5.0, 6.0]},
        recorded="p",
    )
    assert run_everywhere(model)["r0"].tolist() == [5.0, 12.0]


def test_a_condition_stops_before_the_slices_end(run_everywhere):
    args = {"cond": True, "v_initial": "(0.0,)", "slices": {"x_t": "x"}}
    model = loop_model(
        args, SUM, port_values={"x": [1.0, 2.0, 3.0, 4.0]}, carried="s", go="s + x_t < 3"
    )
    results = run_everywhere(model)
    assert (results["r0"], results["n"]) == (3.0, 2)
    assert run_everywhere(model, {"x": [0.5, 0.5]})["n"] == 2


def test_an_extent_known_only_at_run_time(run_everywhere):
    args = {"slices": {"x_t": "numpy.repeat(x, 2)[:m]"}}
    model = loop_model(
        args, {"y": "2 * x_t"}, port_values={"x": [1.0, 2.0, 3.0], "m": 5}, recorded="y"
    )
    assert run_everywhere(model)["r0"].tolist() == [2.0, 2.0, 4.0, 4.0, 6.0]
    assert run_everywhere(model, {"m": 1})["r0"].tolist() == [2.0]


def test_windows_of_one_source(run_everywhere):
    args = {"slices": {"a": "x", "b": {"of": "x", "start": 1}, "c": {"of": "x", "start": 2}}}
    model = loop_model(
        args, {"y": "a + b + c"}, port_values={"x": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]}, recorded="y"
    )
    assert run_everywhere(model)["r0"].tolist() == [6.0, 9.0, 12.0, 15.0]
    assert run_everywhere(model, {"x": [1.0]})["r0"].tolist() == []


def test_slices_of_whole_numbers_and_truth_values(run_everywhere):
    args = {"slices": {"k_t": "k", "t_t": "t"}}
    model = loop_model(
        args,
        {"y": "k_t", "z": "t_t"},
        port_values={"k": [1, 2], "t": [True, False]},
        recorded="y z",
    )
    results = run_everywhere(model)
    assert results["r0"].dtype == np.int64
    assert results["r1"].tolist() == [True, False]


def test_a_slice_inside_a_loop_inside_a_loop(run_everywhere):
    inner = loop_model(
        {"slices": {"e": "row"}, "v_initial": "(0.0,)"},
        {"s_next": "s + e * w"},
        carried="s",
        port_values={"row": 0, "w": 0},
    )
    node = next(iter(inner["model"]["graphs"].values()))["nodes"]["A"]
    node["input_ports"] = {"row": {}, "w": {}}
    node["output_ports"] = {"total": {"value": "loop"}, "go": {"value": True}}
    outer = loop_model(
        {"slices": {"row": "x"}}, {}, port_values={"x": X[0].tolist(), "w": 10.0}, recorded="total"
    )
    body = next(iter(outer["model"]["graphs"].values()))["nodes"]["A"]["functions"]["loop"]["args"][
        "body"
    ]
    body["b"]["nodes"] = {"inner": node}
    np.testing.assert_allclose(run_everywhere(outer)["r0"], 10 * X[0].sum(axis=1))


@pytest.mark.parametrize(
    ("slices", "kind", "sentence"),
    [
        ("x", ModelError, "'slices' maps names of the body"),
        ({"x_t": {"of": "x", "axes": 1}}, ModelError, "'x_t' has a key 'axes'"),
        ({"x_t": {"axis": 1}}, ModelError, "'x_t' has no 'of'"),
        ({"x_t": {"of": "x", "axis": 1.5}}, ModelError, "'axis' of 'x_t' must be a whole number"),
        ({"x_t": {"of": "x", "axis": True}}, ModelError, "'axis' of 'x_t' must be a whole number"),
        ({"x_t": {"of": "x", "axis": 3}}, LoopError, "axis 3 does not exist"),
        ({"x_t": {"of": "x", "axis": -4}}, LoopError, "axis -4 does not exist"),
        ({"x_t": {"of": "x", "stride": 0}}, ModelError, "stride of the slice 'x_t' is 0"),
        ({"x_t": {"of": "x", "part_size": 0}}, ModelError, "part_size of the slice 'x_t' is 0"),
        ({"x_t": {"of": "x", "start": 2, "end": 0}}, ModelError, "goes up by 1, but from 2 to 0"),
        ({"x_t": {"of": "x", "start": 0, "end": 2, "stride": -1}}, ModelError, "goes down by 1"),
        ({"x_t": {"of": "x", "end": 3}}, TripCountError, "from 0 to 3 leaves axis 0"),
        ({"x_t": {"of": "x", "start": -4}}, TripCountError, "from -4 to -1 leaves axis 0"),
        (
            {"x_t": {"of": "x", "start": 3, "stride": -1}},
            TripCountError,
            "from 3 to 0 leaves axis 0",
        ),
        ({"x_t": "x[0][0][0]"}, TripCountError, "taken of one number"),
        ({"x_t": "xx"}, LoopError, "unknown name 'xx'"),
        ({"i": "x"}, SignatureError, "'i' stands for two inputs"),
    ],
    ids=str,
)
def test_invalid_slices_are_refused(slices, kind, sentence):
    model = loop_model(
        {"slices": slices} if isinstance(slices, dict) else {},
        {"y": "1 * i"},
        port_values={"x": X.tolist()},
        recorded="y",
    )
    node = model["model"]["graphs"]["graph"]["nodes"]["A"]
    node["functions"]["loop"]["args"]["slices"] = slices
    with pytest.raises(kind, match=sentence):
        mdf_loop.compile(model).run()


def test_a_misspelt_argument():
    with pytest.raises(ModelError, match="no argument 'slice'") as caught:
        mdf_loop.compile(
            loop_model(
                {"M": 1, "slice": {"x_t": "x"}},
                {"y": "1 * i"},
                port_values={"x": [1.0]},
                recorded="y",
            )
        ).run()
    assert caught.value.findings[0].hint == "did you mean 'slices'?"


def test_a_strict_body_captures_nothing(run_everywhere):
    def model(args):
        return loop_model(
            {"v_initial": "(0.0,)", "slices": {"x_t": "x"}, **args},
            {"s_next": "s + x_t * w"},
            port_values={"x": [1.0, 2.0], "w": 10.0},
            carried="s",
            metadata={"strict": True},
        )

    with pytest.raises(
        LoopError,
        match="'w' of node 'step' in the body of the loop is not declared, and the body is strict",
    ) as caught:
        mdf_loop.compile(model({})).run()
    assert "add w: w to the loop's args" in caught.value.findings[0].hint
    assert run_everywhere(model({"w": "2 * w"}))["r0"] == 60.0


def test_strict_is_true_or_false():
    model = loop_model({"M": 1}, {"y": "1 * i"}, recorded="y", metadata={"strict": "yes"})
    with pytest.raises(ModelError, match=r"metadata\.strict is true or false"):
        mdf_loop.compile(model).run()
