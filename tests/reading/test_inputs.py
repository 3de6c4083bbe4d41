"""Inputs of a run: constant, or with one row per step."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import mdf_loop
from mdf_loop.errors import InputError, OperandError
from mdf_loop.importing.opening import open_document
from mdf_loop.lower.builder import Options
from mdf_loop.reading import bind
from tests.models.timed import ARRAYS, NEURON, PAIR, edge, graph, same


def port(**stated: Any) -> dict[str, Any]:
    """Return a node that forwards an input and accumulates it."""
    return graph(
        n={
            "input_ports": {"x": stated},
            "parameters": {"s": {"default_initial_value": 0, "value": "s + x"}},
            "output_ports": {"x": {"value": "x"}, "s": {"value": "s"}},
        }
    )


@pytest.mark.parametrize(
    ("stated", "value", "over_time", "shape"),
    [
        ({"default_value": 1.0}, 2.0, False, ()),
        ({"default_value": 1.0}, [1, 2, 3, 4], True, (4,)),
        ({"default_value": 1.0}, [[1], [2], [3], [4]], True, (4, 1)),
        ({"default_value": [1.0]}, [1, 2, 3, 4], True, (4, 1)),
        ({"default_value": [1.0]}, [[1], [2], [3], [4]], True, (4, 1)),
        ({"default_value": [[1.0]]}, [1, 2, 3, 4], True, (4, 1, 1)),
        ({"shape": [4]}, [1, 2, 3, 4], False, (4,)),
        ({"shape": [4]}, np.ones((4, 4)), True, (4, 4)),
        ({"shape": [2]}, np.ones((4, 2)), True, (4, 2)),
        ({"shape": [2]}, [1, 2], False, (2,)),
        ({"shape": [2, 3]}, np.ones((4, 2, 3)), True, (4, 2, 3)),
        ({}, 2, False, ()),
        ({}, [1, 2, 3, 4], True, (4,)),
        ({}, np.ones((4, 3)), True, (4, 3)),
    ],
)
def test_what_is_over_time(stated, value, over_time, shape):
    """Check that an array with more axes than its port has a row per step; the default port is scalar."""
    bound = bind(open_document(port(**stated)), {"x": value}, Options(), 4)
    assert bound.varying_names == (frozenset({"x"}) if over_time else frozenset())
    assert bound.arrays["x"].shape == shape
    if stated.get("shape") and over_time:
        return  # a single value of this shape is refused
    once = bind(open_document(port(**stated)), {"x": value}, Options())
    assert once.varying_names == frozenset()
    assert once.arrays["x"].shape == np.shape(value)


@pytest.mark.parametrize(
    ("stated", "rows"),
    [
        ({"default_value": 1.0}, np.array([0.5, -1.0, 2.0, 0.0])),
        ({"default_value": 1}, np.array([3, 1, 4, 1])),
        ({"default_value": [1.0]}, np.array([0.5, -1.0, 2.0, 0.0])),
        ({"shape": [2]}, np.arange(8.0).reshape(4, 2) - 3),
        ({"shape": [2, 2]}, np.arange(16.0).reshape(4, 2, 2) / 4),
        ({}, np.array([True, False, True, True])),
    ],
)
def test_rows_reach_their_steps(stated, rows):
    results = mdf_loop.compile(port(**stated), device="cpu").run({"x": rows}, steps=4)
    np.testing.assert_array_equal(results["x"].reshape(rows.shape), rows)
    np.testing.assert_array_equal(results["s"].reshape(rows.shape), np.cumsum(rows, axis=0))
    for k in (2, 3):
        thinned = mdf_loop.compile(port(**stated), device="cpu").run({"x": rows}, steps=4, every=k)
        np.testing.assert_array_equal(thinned["s"], results["s"][::k])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "name", "shape", "steps"),
    [
        (NEURON, "I", (), 1),
        (NEURON, "I", (), 30),
        (PAIR, "drive", (), 30),
        (ARRAYS, "I", (3,), 30),
    ],
)
def test_equal_to_the_engine_given_row_by_row(model, name, shape, steps):
    rows = np.random.default_rng(steps).normal(size=(steps, *shape))
    compiled = mdf_loop.compile(model, device="cpu")
    ours = compiled.run({name: rows}, steps=steps, dt=0.25)
    theirs = compiled.run({name: rows}, steps=steps, dt=0.25, engine="modeci")
    for output in ours:
        np.testing.assert_allclose(ours[output], theirs[output], rtol=1e-12, atol=1e-14)
    assert mdf_loop.verify(model, {name: rows}, steps=steps, dt=0.25).equal


@pytest.mark.parametrize("steps", [None, 2, 3])
def test_one_number_stands_for_all_elements_of_a_stated_shape(steps):
    """Check a constant current for all cells, compared with the engine."""
    stated_port = port(shape=[2])
    x = mdf_loop.compile(stated_port, device="cpu").run({"x": 800.0}, steps=steps)["x"]
    assert x.shape == ((2,) if steps is None else (steps, 2))
    assert (x == 800.0).all()
    assert mdf_loop.verify(stated_port, {"x": 800.0}, steps=steps).equal


def test_one_number_in_place_of_a_list_is_one_number():
    """Check that a scalar input stays scalar, since a default_value states no shape."""
    stated_port = port(default_value=[0.0, 0.0])
    assert mdf_loop.compile(stated_port, device="cpu").run({"x": 800.0})["x"].shape == ()
    assert mdf_loop.verify(stated_port, {"x": 800.0}).equal


@pytest.mark.parametrize("array", [[1.0, 2.0, 3.0], [[1.0, 2.0]], [1.0]])
def test_arrays_may_differ_from_the_shape_of_the_default(array):
    x = mdf_loop.compile(port(default_value=[0.0, 0.0]), device="cpu").run({"x": array})["x"]
    assert x.tolist() == array


@pytest.mark.parametrize(
    ("stated", "rows"),
    [
        ({}, [1, 2, 3]),
        ({}, np.ones((3, 4))),
        ({"shape": [2]}, np.ones((5, 2))),
        ({"shape": [2]}, np.ones((2, 4, 1))),
        ({"default_value": [1.0]}, np.ones((3, 1))),
    ],
)
def test_rows_of_other_ports_that_do_not_match(stated, rows):
    with pytest.raises(InputError, match=rf"has {len(rows)} rows over time, but the run has 4"):
        mdf_loop.compile(port(**stated), device="cpu").run({"x": rows}, steps=4)


def test_a_constant_input_equals_equal_rows():
    compiled = mdf_loop.compile(NEURON, device="cpu")
    rows = np.full(9, 0.25)
    same(compiled.run({"I": rows}, steps=9, dt=0.5), compiled.run({"I": 0.25}, steps=9, dt=0.5))


@pytest.mark.parametrize(("rows", "steps"), [([1.0, 2.0, 3.0], 4), ([1.0], 2), (np.ones(5), 4)])
def test_rows_that_do_not_match_the_steps(rows, steps):
    sentence = rf"the input 'I' has {len(rows)} rows over time, but the run has {steps} steps"
    with pytest.raises(InputError, match=sentence):
        mdf_loop.compile(NEURON, device="cpu").run({"I": rows}, steps=steps)


@pytest.mark.parametrize(
    ("inputs", "sentence"),
    [
        ({"z": 1}, "the model has no input 'z'"),
        ({"cell.x": 1}, "'cell.x' is fed by the edge 'e'"),
        ({"drive": [[1], [2, 3]]}, "the input 'drive' is ragged"),
        ({"drive": None}, "the input 'drive' must be a number"),
    ],
)
@pytest.mark.parametrize("how", [{}, {"steps": 3}, {"steps": 3, "engine": "modeci"}])
def test_invalid_inputs_are_refused(inputs, sentence, how):
    with pytest.raises(InputError) as caught:
        mdf_loop.compile(PAIR, device="cpu").run(inputs, **how)
    assert sentence in str(caught.value)


def test_an_id_that_several_nodes_have():
    node = {"input_ports": {"x": {"default_value": 0}}, "output_ports": {"y": {"value": "x"}}}
    both = mdf_loop.compile(graph(A=node, B=node), device="cpu")
    results = both.run({"x": [1, 2, 3], "B.x": 7}, steps=3)
    assert results["A.y"].tolist() == [1, 2, 3]
    assert results["B.y"].tolist() == [7, 7, 7]


def test_edges_beside_inputs():
    sender = {"parameters": {"n": {"value": "n + 1"}}, "output_ports": {"y": {"value": "n"}}}
    receiver = {"input_ports": {"x": {}, "z": {}}, "output_ports": {"y": {"value": "x * z"}}}
    model = graph({"e": edge("A", "y", "B", "x")}, A=sender, B=receiver)
    results = mdf_loop.compile(model, device="cpu").run({"z": [5, 6, 7]}, steps=3)
    assert results["y"].tolist() == [5, 12, 21]


# --- shapes ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("stated", "array", "shape"),
    [
        ([10], np.arange(10.0), (10,)),
        ([10], 0.5, (10,)),
        ([2, 3], 0.5, (2, 3)),
        ([2, 3], np.ones((2, 3)), (2, 3)),
        ([1], 0.5, ()),
        ([1, 1], [[0.5]], (1, 1)),
        ([0], 0.5, (0,)),
        ([-1, 2], np.ones((4, 2)), (4, 2)),
    ],
)
def test_one_number_stands_for_all_elements(stated, array, shape):
    compiled = mdf_loop.compile(port(shape=stated), device="cpu")
    expected = np.broadcast_to(array, shape)
    np.testing.assert_array_equal(compiled.run({"x": array})["x"], expected, strict=True)
    np.testing.assert_array_equal(
        compiled.run({"x": array}, steps=3)["x"], np.stack([expected] * 3)
    )
    if -1 not in stated:
        np.testing.assert_array_equal(compiled.run({"x": array}, engine="modeci")["x"], expected)


@pytest.mark.parametrize("how", [{}, {"steps": 7}, {"engine": "modeci"}])
@pytest.mark.parametrize(
    ("stated", "array"),
    [
        ([10], [0.5]),
        ([10], [1, 2, 3]),
        ([1, 1], [0.5]),
        ([2, 3], np.ones((3, 2))),
        ([2, 3], np.ones(3)),
        ([-1, 2], 0.5),
        ([-1, 2], np.ones((4, 3))),
    ],
)
def test_another_shape_is_refused_at_the_input(stated, array, how):
    with pytest.raises(InputError) as caught:
        mdf_loop.compile(port(shape=stated), device="cpu").run({"x": array}, **how)
    message = f"the input 'x' has the shape {stated}, but what is given has {list(np.shape(array))}"
    assert message in str(caught.value)
    assert "nodes['n'].input_ports['x']" in str(caught.value)


@pytest.mark.parametrize(("stated", "array"), [([10], np.ones((3, 1))), ([1], [[0.5]])])
def test_an_array_with_more_axes_is_refused(stated, array):
    with pytest.raises(InputError, match="but what is given has"):
        mdf_loop.compile(port(shape=stated), device="cpu").run({"x": array})


def test_rows_of_another_shape_are_refused():
    with pytest.raises(InputError, match=r"has the shape \[10\], but what is given has \[1\]"):
        mdf_loop.compile(port(shape=[10]), device="cpu").run({"x": np.ones((7, 1))}, steps=7)


@pytest.mark.parametrize("steps", [None, 4])
def test_numbers_are_broadcast_in_each_member_of_a_sweep(steps):
    compiled = mdf_loop.compile(port(shape=[3]), device="cpu")
    x = compiled.run(sweep={"x": [0.5, 1.5]}, steps=steps)["x"]
    assert x.shape == (2, *([steps] if steps else []), 3)
    assert np.unique(x[1]).tolist() == [1.5]
    with pytest.raises(InputError, match=r"has the shape \[3\], but what is given has \[2\]"):
        compiled.run(sweep={"x": np.ones((5, 2))}, steps=steps)


@pytest.mark.parametrize(
    ("written", "ports"), [("", "'x'"), ("type: Tensor", "'x' (type: Tensor)")]
)
def test_omitted_ports_without_a_type_are_integer_zeros(mdf, written: str, ports: str) -> None:
    text = f"""
nodes:
    n:
        input_ports: {{x: {{shape: [2], {written}}}, w: {{type: float32, shape: [2]}}}}
        functions: {{f: {{function: "onnx::Softmax", args: {{input: x}}}}}}
        output_ports: {{y: {{value: f}}, z: {{value: w}}}}
"""
    with pytest.raises(OperandError) as caught:
        mdf_loop.read(mdf(text))
    assert caught.value.findings[0].hint == (
        f"these ports hold whole numbers, since no type says otherwise: {ports}; "
        "write type: float32, or give 1.0, not 1"
    )
    results = mdf_loop.compile(mdf(text)).run({"x": [0.0, 0.0]})
    assert results["y"].tolist() == [0.5, 0.5]
