"""Effects of the type, shape and default value of an input port."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import mdf_loop
from mdf_loop.errors import LoopError
from tests.models.timed import edge, graph

WORDS = ("float", "int64", "uint8", "float32", "bool")


def edge_model(value: Any, stated: dict[str, Any], expression: str = "2.0 * x") -> dict[str, Any]:
    """Return a model that sends a parameter over an edge to a port."""
    return graph(
        {"e": edge("A", "out", "B", "x")},
        A={"parameters": {"p": {"value": value}}, "output_ports": {"out": {"value": "p"}}},
        B={"input_ports": {"x": stated}, "output_ports": {"y": {"value": expression}}},
    )


@pytest.mark.parametrize("word", WORDS)
@pytest.mark.parametrize("shape", [None, [1, 1]])
@pytest.mark.parametrize("value", [0.1, 300, [0.1, 2.5]])
@pytest.mark.parametrize("steps", [None, 2])
def test_values_over_an_edge_are_not_cast_or_reshaped(word, shape, value, steps):
    stated = {k: v for k, v in (("type", word), ("shape", shape)) if v is not None}
    compiled = mdf_loop.compile(edge_model(value, stated), device="cpu")
    ours = compiled.run(steps=steps)["y"]
    theirs = compiled.run(steps=steps, engine="modeci")["y"]
    assert ours.shape == theirs.shape
    assert ours.tolist() == theirs.tolist()


def test_the_models_of_psyneulink():
    """Check that input values override the int64 and [1, 1] that PsyNeuLink writes on every port."""
    y = mdf_loop.compile(edge_model(0.5, {"shape": [1, 1], "type": "int64"}), device="cpu").run()[
        "y"
    ]
    assert (y.tolist(), y.shape) == (1.0, ())


def test_states_over_an_edge_are_not_cast():
    model = edge_model(0.5, {"type": "int64"})
    model["g"]["nodes"]["A"]["parameters"]["p"] = {"default_initial_value": 0.25, "value": "p * 3"}
    compiled = mdf_loop.compile(model, device="cpu")
    assert compiled.run(steps=3)["y"].tolist() == [1.5, 4.5, 13.5]
    assert mdf_loop.verify(model, steps=3).bit_for_bit


def body_port(stated: dict[str, Any], initial: Any = 0.5) -> dict[str, Any]:
    """Return a loop whose body ports state a type for carried and captured values."""
    body = {
        "metadata": {"inputs": ["i", "go", "v"], "outputs": ["go_on", "v_next"]},
        "nodes": {
            "n": {
                "input_ports": {"v": stated, "k": stated},
                "output_ports": {"v_next": {"value": "v + k"}, "go_on": {"value": "True"}},
            }
        },
    }
    loop = {"M": 3, "v_initial": "(start,)", "body": {"b": body}}
    return graph(
        m={
            "parameters": {"start": {"value": initial}, "k": {"value": 0.25}},
            "functions": {"loop": {"function": "onnx::Loop", "args": loop}},
            "output_ports": {"y": {"value": "loop"}},
        }
    )


@pytest.mark.parametrize("word", ["int64", "int32", "float", "float64"])
def test_body_ports_do_not_cast(word):
    assert mdf_loop.compile(body_port({"type": word}), device="cpu").run()["y"] == 1.25


def test_a_plain_number_begins_in_the_type_of_the_body():
    """Check that an initial 0 is a float if the port of the body states float."""
    y = mdf_loop.compile(body_port({"type": "float"}, 0), device="cpu").run()["y"]
    assert (y.dtype, y.tolist()) == (np.float64, 0.75)


@pytest.mark.parametrize(
    ("word", "value"),
    [("int8", 300), ("uint8", -1), ("bool", 2), ("int64", 2**70), ("int", "a"), ("int", 2.5)],
)
def test_inputs_outside_the_port_type_are_refused(word, value):
    model = graph(n={"input_ports": {"x": {"type": word}}, "output_ports": {"y": {"value": "x"}}})
    with pytest.raises(LoopError, match=r"the input 'x' (must be|does not fit)"):
        mdf_loop.compile(model, device="cpu").run({"x": value})


def test_a_default_of_a_port_that_is_fed_is_as_written():
    model = edge_model(0.25, {"type": "int64", "default_value": 0.5})
    model["g"]["nodes"] = dict(reversed(model["g"]["nodes"].items()))
    compiled = mdf_loop.compile(model, device="cpu")
    assert compiled.run(steps=3)["y"].tolist() == [1.0, 0.5, 0.5]
    assert mdf_loop.verify(model, steps=3).equal


def test_an_imported_input_of_one_element_has_its_shape():
    port = {"type": "int64", "shape": [1]}
    model = graph(n={"input_ports": {"x": port}, "output_ports": {"y": {"value": "x"}}})
    assert mdf_loop.compile(model, device="cpu").run({"x": 3})["y"].shape == ()
    model["g"]["metadata"] = {"onnx": {"opset": 17}}
    assert mdf_loop.compile(model, device="cpu").run({"x": 3})["y"].shape == (1,)


@pytest.mark.parametrize(
    ("word", "dtype"), [("int32", "int32"), ("float", "int64"), ("int", "int64")]
)
def test_the_iteration_number_has_the_dtype_that_the_body_states(word, dtype):
    """Check the dtype of the iteration number; a plain float is ignored, as importers write it everywhere."""
    model = body_port({})
    body = model["g"]["nodes"]["m"]["functions"]["loop"]["args"]["body"]["b"]
    body["metadata"]["outputs"] = ["go_on", "v_next", "row"]
    ports = {"i": {"type": word}}
    body["nodes"]["count"] = {"input_ports": ports, "output_ports": {"row": {"value": "i"}}}
    model["g"]["nodes"]["m"]["output_ports"]["y"] = {"value": "loop[1]"}
    rows = mdf_loop.compile(model, device="cpu").run()["y"]
    assert (rows.tolist(), str(rows.dtype)) == ([0, 1, 2], dtype)
