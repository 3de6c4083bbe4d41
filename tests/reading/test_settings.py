"""Set parameters equal a model document with the values written into it."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest

import mdf_loop
from mdf_loop.errors import InputError
from mdf_loop.run.onnxruntime.session import Session
from tests.models.timed import ARRAYS, NEURON, PAIR, graph, same


def with_values(model: dict[str, Any], values: dict[str, Any]) -> dict[str, Any]:
    """Return a copy of the model document with the values written into it."""
    model = copy.deepcopy(model)
    (inside,) = model.values()
    for name, value in values.items():
        node, parameter = name.split(".")
        content = inside["nodes"][node]["parameters"][parameter]
        keeps = {"default_initial_value", "time_derivative"} & set(content)
        counts = parameter in str(content.get("value", ""))
        content["default_initial_value" if keeps or counts else "value"] = value
    return model


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "values"),
    [
        (NEURON, {"fn.a": 0.25}),
        (NEURON, {"fn.start": 1.5}),
        (NEURON, {"fn.v": 0.5, "fn.w": -1.0}),
        (NEURON, {"fn.v": [0.5, 1.5]}),
        (NEURON, {"fn.a": [0.5, 1.5], "fn.start": [0.0, 1.0]}),
        (PAIR, {"source.gain": 1.5, "cell.tau": 0.5}),
        (PAIR, {"source.n": 10}),
        (PAIR, {"cell.v": -2.5, "source.n": 2.5}),
        (ARRAYS, {"net.W": [[0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]}),
        (ARRAYS, {"net.r": [0.0, 0.0, 0.5], "net.leak": 1.0}),
        (ARRAYS, {"net.leak": [0.5, 0.25, 1.0]}),
    ],
)
def test_set_equals_a_written_value(model, values):
    compiled = mdf_loop.compile(model, device="cpu")
    by_hand = mdf_loop.compile(with_values(model, values), device="cpu")
    same(compiled.run(set=values), by_hand.run())
    same(compiled.run(set=values, steps=12, dt=0.5), by_hand.run(steps=12, dt=0.5))
    same(compiled.run(set=values, steps=12), by_hand.run(steps=12))
    engine = {"steps": 5, "dt": 0.5, "engine": "modeci"}
    same(compiled.run(set=values, **engine), by_hand.run(**engine))


def test_settings_apply_to_one_run():
    compiled = mdf_loop.compile(NEURON, device="cpu")
    before = compiled.run(steps=5, dt=0.5)
    changed = compiled.run(set={"fn.a": 2.0}, steps=5, dt=0.5)
    assert not np.array_equal(before["v"], changed["v"])
    same(compiled.run(steps=5, dt=0.5), before)


def test_the_document_is_not_changed():
    compiled = mdf_loop.compile(NEURON, device="cpu")
    node = compiled.document.graph.nodes[0]
    parameters = [(p.id, p.value, p.default_initial_value) for p in node.parameters]
    compiled.run(set={"fn.a": 2.0, "fn.v": 1.0}, steps=2, dt=0.5)
    assert [(p.id, p.value, p.default_initial_value) for p in node.parameters] == parameters


def test_new_values_need_no_new_session(monkeypatch):
    session_arguments = []
    start = Session.__init__

    def counted(self, *arguments):
        session_arguments.append(arguments)
        start(self, *arguments)

    monkeypatch.setattr(Session, "__init__", counted)
    compiled = mdf_loop.compile(NEURON, device="cpu")
    compiled.run(set={"fn.a": 0.5, "fn.v": 0.0}, steps=5, dt=0.5)
    first = len(session_arguments)
    for k in range(5):
        compiled.run(set={"fn.a": k / 4, "fn.v": float(k)}, steps=5 + k, dt=0.1 * (k + 1))
    assert len(session_arguments) == first
    compiled.run(set={"fn.a": [0.5, 0.25], "fn.v": 0.0}, steps=5, dt=0.5)
    assert len(session_arguments) > first


@pytest.mark.parametrize(
    ("expression", "there", "value", "x", "dtype"),
    [
        ("x + a", 2, 3, 1, "int64"),
        ("x + a", 2, 2.5, 1, "float64"),
        ("x + a", 2.5, 3, 1, "float64"),
        ("x + a", 2, True, 1, "int64"),
        ("x // a", 2, 3, 7, "int64"),
        ("x + a", 2, 3, np.float32(0.5), "float32"),
        ("x + a", 2, 2.5, np.float32(0.5), "float32"),
        ("x + a", 2, [2.5], np.float32(0.5), "float64"),
        ("x + a", [2.0], [3], 1, "float64"),
        ("x + a", "2.5", 3, 1, "float64"),
        ("x + a", "x * 2", 3, 1, "int64"),
    ],
)
def test_numbers_are_those_of_the_document(expression, there, value, x, dtype):
    """Check that an integer becomes a float where the document has a float."""
    node = {
        "input_ports": {"x": {}},
        "parameters": {"a": {"value": there}},
        "output_ports": {"y": {"value": expression}},
    }
    y = mdf_loop.compile(graph(n=node)).run({"x": x}, set={"n.a": value})["y"]
    point = np.asarray(there).dtype.kind == "f" or there == "2.5"
    node["parameters"]["a"]["value"] = np.array(value, float).tolist() if point else value
    by_hand = mdf_loop.compile(graph(n=node)).run({"x": x})["y"]
    assert y.dtype == dtype
    assert y.dtype == by_hand.dtype
    np.testing.assert_array_equal(y, by_hand)


def test_ids_that_look_alike():
    """Check parameter ids that equal the id of the node or contain blanks."""
    node = {
        "parameters": {"A": {"value": 2}, "set A": {"value": 3}, "b": {"value": "A * 2"}},
        "output_ports": {"y": {"value": "b"}},
    }
    compiled = mdf_loop.compile(graph(A=node))
    assert compiled.run(set={"A.A": 5})["y"] == 10
    assert compiled.run(set={"A.set A": 5})["y"] == 4
    assert compiled.run(set={"A.b": 5})["y"] == 5


def test_precision_float32():
    compiled = mdf_loop.compile(NEURON, device="cpu", precision="float32")
    results = compiled.run(set={"fn.a": 0.1, "fn.v": 1.0}, steps=5, dt=0.5)
    by_hand = with_values(NEURON, {"fn.a": 0.1, "fn.v": 1.0})
    same(results, mdf_loop.compile(by_hand, device="cpu", precision="float32").run(steps=5, dt=0.5))
    assert results["v"].dtype == "float32"


def test_verify_accepts_settings():
    values = {"cell.tau": 0.5, "source.n": 3}
    over_time = mdf_loop.verify(PAIR, set=values, steps=20, dt=0.5)
    assert over_time.bit_for_bit, str(over_time)
    once = mdf_loop.verify(PAIR, set=values)
    assert once.bit_for_bit, str(once)
    assert {comparison.engine for comparison in once.comparisons} == {"interpreter", "modeci_mdf"}


COMPUTED = graph(
    n={
        "input_ports": {"x": {"default_value": 1.0}},
        "parameters": {
            "f": {"function": "linear", "args": {"variable0": "x", "slope": 2, "intercept": 0}},
            "c": {"conditions": {"big": {"test": "x > 2", "value": 5}}},
            "a": {"value": 1.0},
        },
        "output_ports": {"y": {"value": "f + a"}},
    }
)


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"n.f": 1}, "'n.f' has no value of its own that could be set"),
        ({"n.c": 1}, "'n.c' has no value of its own that could be set"),
        ({"n.x": 1}, "'n.x' is an input: give it as inputs={'x': ...} (--input x=...)"),
        ({"x": 1}, "'x' is an input: give it as inputs={'x': ...} (--input x=...)"),
        ({"n.b": 1}, "the model has no parameter 'n.b'"),
        ({"a": 1}, "did you mean 'n.a'?"),
        ({"q": 1}, "known here: 'n.f', 'n.c', 'n.a'"),
        ({"n.y": 1}, "the model has no parameter 'n.y'"),
        ({"n.a": "x"}, "'n.a' must be set to a number or a list of numbers, not 'x'"),
        ({"n.a": None}, "'n.a' must be set to a number"),
        ({"n.a": [[1], [2, 3]]}, "'n.a' must be set to a number"),
        ({"n.a": 1j}, "'n.a' must be set to a number"),
    ],
)
@pytest.mark.parametrize("how", [{}, {"steps": 2}, {"engine": "modeci"}])
def test_invalid_settings_are_refused(values, sentence, how):
    with pytest.raises(InputError) as caught:
        mdf_loop.compile(COMPUTED, device="cpu").run(set=values, **how)
    assert sentence in str(caught.value)


@pytest.mark.parametrize("value", [2.5, 3, [2.5, 0.1], [3, 4], np.array([2.5, 0.1])])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_settings_have_the_stated_dtype(value, dtype):
    parameter = {"value": [1.0, 2.0], "metadata": {"dtype": dtype}}
    model = graph(n={"parameters": {"W": parameter}, "output_ports": {"y": {"value": "W * 2"}}})
    compiled = mdf_loop.compile(model, device="cpu")
    y = compiled.run(set={"n.W": value})["y"]
    assert y.dtype == dtype
    assert y.tolist() == (np.asarray(value, dtype) * np.asarray(2, dtype)).tolist()
    sweep_run = compiled.run(sweep={"n.W": [value, value]})["y"]
    assert sweep_run.dtype == dtype
    assert sweep_run[1].tolist() == y.tolist()


def test_settings_beyond_the_stated_dtype_are_refused():
    parameter = {"value": [1.0], "metadata": {"dtype": "float32"}}
    model = graph(n={"parameters": {"W": parameter}, "output_ports": {"y": {"value": "W * 2"}}})
    with pytest.raises(InputError, match=r"the value of 'n\.W' is too large for float32"):
        mdf_loop.compile(model, device="cpu").run(set={"n.W": [1e300]})
