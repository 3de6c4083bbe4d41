"""What the type, shape and default of an input port do, and what they leave alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import mdf_loop
from mdf_loop.errors import LoopError
from tests.timed_models import edge, graph

WORDS = (None, "float", "int", "int64", "int32", "uint8", "float32", "float16", "bool")


def sent(value: Any, stated: dict[str, Any], expression: str = "2.0 * x") -> dict[str, Any]:
    """A parameter that goes over an edge into a port."""
    return graph(
        {"e": edge("A", "out", "B", "x")},
        A={"parameters": {"p": {"value": value}}, "output_ports": {"out": {"value": "p"}}},
        B={"input_ports": {"x": stated}, "output_ports": {"y": {"value": expression}}},
    )


@pytest.mark.parametrize("word", WORDS)
@pytest.mark.parametrize("shape", [None, [], [1, 1], [3]])
@pytest.mark.parametrize("value", [0.5, 0.1, 300, -7, [0.1, 2.5]])
@pytest.mark.parametrize("steps", [None, 2])
def test_nothing_that_comes_over_an_edge_is_cast_or_reshaped(word, shape, value, steps):
    stated = {k: v for k, v in (("type", word), ("shape", shape)) if v is not None}
    compiled = mdf_loop.compile(sent(value, stated), device="cpu")
    ours = compiled.run(steps=steps)["y"]
    theirs = compiled.run(steps=steps, engine="modeci")["y"]
    assert ours.shape == theirs.shape
    assert ours.tolist() == theirs.tolist()


def test_the_models_of_psyneulink():
    """It writes int64 and [1, 1] on every port; the numbers are those that were sent."""
    y = mdf_loop.compile(sent(0.5, {"shape": [1, 1], "type": "int64"}), device="cpu").run()["y"]
    assert (y.tolist(), y.shape) == (1.0, ())


def test_states_that_arrive_are_not_cast_either():
    model = sent(0.5, {"type": "int64"})
    model["g"]["nodes"]["A"]["parameters"]["p"] = {"default_initial_value": 0.25, "value": "p * 3"}
    compiled = mdf_loop.compile(model, device="cpu")
    assert compiled.run(steps=3)["y"].tolist() == [1.5, 4.5, 13.5]
    assert mdf_loop.verify(model, steps=3).bit_for_bit


def body_port(stated: dict[str, Any], initial: Any = 0.5) -> dict[str, Any]:
    """A loop whose body's ports state a type: what is carried, what is captured."""
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
def test_bodies_do_not_cast_either(word):
    assert mdf_loop.compile(body_port({"type": word}), device="cpu").run()["y"] == 1.25


def test_a_plain_number_begins_in_the_type_of_the_body():
    """What is carried has one type: the document's 0 is a float where the body says so."""
    y = mdf_loop.compile(body_port({"type": "float"}, 0), device="cpu").run()["y"]
    assert (y.dtype, y.tolist()) == (np.float64, 0.75)


@pytest.mark.parametrize("word", ["int", "int64", "int32", "uint16"])
@pytest.mark.parametrize("value", [0.5, [1.0, 2.5], 1e30, float("nan")])
def test_a_port_of_whole_numbers_takes_others_as_they_are(word, value):
    """As modeci_mdf does, which looks at no type: 0.5 is no mistake for a port of PsyNeuLink's."""
    model = graph(
        n={"input_ports": {"x": {"type": word}}, "output_ports": {"y": {"value": "2.0 * x"}}}
    )
    compiled = mdf_loop.compile(model, device="cpu")
    expected = np.asarray(value) * 2.0
    np.testing.assert_array_equal(compiled.run({"x": value})["y"], expected, strict=True)
    np.testing.assert_array_equal(compiled.run({"x": value}, engine="modeci")["y"], expected)
    halves = compiled.run(sweep={"x": [0.0, 0.5, 1.5]})["y"]
    assert halves.tolist() == [0.0, 1.0, 3.0]


@pytest.mark.parametrize("word", ["int", "int64", "int32"])
def test_so_does_its_default(word):
    stated = {"type": word, "default_value": 0.5}
    model = graph(n={"input_ports": {"x": stated}, "output_ports": {"y": {"value": "2.0 * x"}}})
    compiled = mdf_loop.compile(model, device="cpu")
    assert compiled.run()["y"] == compiled.run(engine="modeci")["y"] == 1.0


@pytest.mark.parametrize(
    ("word", "value"), [("int8", 300), ("uint8", -1), ("bool", 2), ("int64", 2**70), ("int", "a")]
)
def test_what_no_number_of_the_type_is_near_is_refused(word, value):
    model = graph(n={"input_ports": {"x": {"type": word}}, "output_ports": {"y": {"value": "x"}}})
    with pytest.raises(LoopError, match=r"the input 'x' (must be|does not fit)"):
        mdf_loop.compile(model, device="cpu").run({"x": value})


def test_an_imported_input_takes_nothing_but_its_type():
    port = {"type": "int64", "shape": [2]}
    model = graph(n={"input_ports": {"x": port}, "output_ports": {"y": {"value": "x"}}})
    model["g"]["metadata"] = {"onnx": {"opset": 17}}
    compiled = mdf_loop.compile(model, device="cpu")
    assert compiled.run({"x": [1.0, 2.0]})["y"].dtype == np.int64
    assert compiled.run({"x": 3})["y"].tolist() == [3, 3]
    with pytest.raises(LoopError, match=r"the input 'x' must be int64, but \[1.0, 2.5\] is not"):
        compiled.run({"x": [1.0, 2.5]})
