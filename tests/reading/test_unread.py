"""Unused parts of a model may have errors, and used parts may not."""

from __future__ import annotations

from typing import Any

import pytest

import mdf_loop
from mdf_loop.errors import LoopError, UnknownNameError
from mdf_loop.reading import read_annotated

WHERE = "$.graphs[0].nodes['n']"


def graph(node: dict[str, Any], **more: Any) -> dict[str, Any]:
    ports = {"output_ports": {"y": {"value": "a + 1"}}}
    parameters = {"a": {"value": 1}, **node.pop("parameters", {})}
    return {"g": {"nodes": {"n": {"parameters": parameters, **ports, **node}}, **more}}


def notes(source: Any) -> list[str]:
    return [f"{note.what} at {note.where}" for note in read_annotated(source).notes]


UNREAD: dict[str, Any] = {
    "text": {"value": "constant"},
    "words": {"value": "a text of words"},
    "a list of texts": {"value": ["a", "b"]},
    "an unknown name": {"value": "a + typo"},
    "an unknown function": {"function": "typo", "args": {"variable0": "a"}},
    "a condition": {"value": 1, "conditions": {"c": {"test": "typo > 1", "value": 2}}},
    "nothing at all": {},
}


@pytest.mark.parametrize("parameter", UNREAD.values(), ids=UNREAD)
def test_an_unread_parameter(parameter: dict[str, Any]) -> None:
    source = graph({"parameters": {"p": parameter}})
    (note,) = notes(source)
    assert note.startswith("nothing reads the parameter 'p', which has no value: ")
    assert note.endswith(f" at {WHERE}.parameters['p']")
    compiled = mdf_loop.compile(source)
    assert compiled.run()["y"] == 2
    assert compiled.run(steps=3)["y"].tolist() == [2, 2, 2]


def test_an_unread_state() -> None:
    source = graph({"parameters": {"p": {"default_initial_value": 0, "time_derivative": "typo"}}})
    assert mdf_loop.compile(source).run(steps=3, dt=0.1)["y"].tolist() == [2, 2, 2]
    read = graph({**source["g"]["nodes"]["n"], "output_ports": {"y": {"value": "p"}}})
    with pytest.raises(UnknownNameError, match="unknown name 'typo'"):
        mdf_loop.compile(read).run(steps=3, dt=0.1)


def test_an_unread_parameter_that_an_unread_one_reads() -> None:
    source = graph({"parameters": {"p": {"value": "typo"}, "q": {"value": "p * 2"}}})
    assert [note.split(",")[0] for note in notes(source)] == [
        "nothing reads the parameter 'p'",
        "nothing reads the parameter 'q'",
    ]


READ: dict[str, dict[str, Any]] = {
    "an output port": {"output_ports": {"y": {"value": "p"}}},
    "a function": {"functions": {"f": {"value": "2 * p"}}},
    "a parameter of one that is read": {
        "parameters": {"q": {"value": "p + 1"}},
        "output_ports": {"y": {"value": "q"}},
    },
    "a condition of one that is read": {
        "parameters": {
            "q": {"value": 1, "conditions": {"c": {"test": "p > 1", "value": 2}}},
        },
        "output_ports": {"y": {"value": "q"}},
    },
    "an argument of MDF's function": {
        "functions": {"f": {"function": "linear", "args": {"variable0": "a", "slope": "p"}}}
    },
    "an operator that takes what is called as its input": {
        "parameters": {"p": {"value": 1}, "X": {"value": "typo"}},
        "functions": {"f": {"function": "onnx::Abs"}},
    },
    "no output port at all": {"output_ports": {}},
}


@pytest.mark.parametrize("node", READ.values(), ids=READ)
def test_a_parameter_that_is_read(node: dict[str, Any]) -> None:
    parameters = {"p": {"value": "typo"}, **node.get("parameters", {})}
    with pytest.raises(UnknownNameError, match="unknown name 'typo'") as caught:
        mdf_loop.read(graph({**node, "parameters": parameters}))
    assert f"{WHERE}.parameters['" in str(caught.value)
    assert len(caught.value.findings) == 1


def test_a_state_of_which_only_the_first_value_is_read() -> None:
    """Check that the unused update expression of a state must be valid in a single evaluation."""
    state = {"default_initial_value": 1, "value": "a + typo"}
    with pytest.raises(UnknownNameError, match="unknown name 'typo'"):
        mdf_loop.read(graph({"parameters": {"p": state}, "functions": {"f": {"value": "p * 2"}}}))


def test_recorded_items_are_checked() -> None:
    source = graph({"parameters": {"p": {"value": "typo"}}})
    with pytest.raises(UnknownNameError, match="unknown name 'typo'"):
        mdf_loop.compile(source).run(record=["n.p"])
    with pytest.raises(UnknownNameError, match="unknown name 'typo'"):
        mdf_loop.compile(source).run(steps=2, record=["n.p"])


def test_parameters_of_scheduler_conditions_are_checked() -> None:
    threshold = {"dependency": "n", "parameter": "p", "threshold": 1, "comparator": ">"}
    ends = {"environment_state_update": {"type": "Threshold", "kwargs": threshold}}
    source = graph(
        {"parameters": {"p": {"value": "typo"}}},
        conditions={"node_specific": {}, "termination": ends},
    )
    with pytest.raises(UnknownNameError, match="unknown name 'typo'"):
        mdf_loop.read(source)


@pytest.mark.parametrize(
    "function",
    [
        {
            "function": "linear",
            "args": {"variable0": "a", "slope": 2, "intercept": 0, "seed": "x"},
            "metadata": {"type": "Linear"},
        },
        {"value": "2 * v", "args": {"v": "a", "seed": "x"}},
        {"value": "2 * v", "args": {"seed": "x", "v": "a"}},
    ],
)
def test_an_unread_argument(function: dict[str, Any]) -> None:
    source = graph({"functions": {"f": function}, "output_ports": {"y": {"value": "f"}}})
    assert mdf_loop.compile(source).run()["y"] == 2
    assert notes(source)[-1:] == [
        "nothing reads the argument 'seed', which has no value: unknown name 'x' (in 'x') "
        f"at {WHERE}.functions['f']"
    ]


@pytest.mark.parametrize(
    "function",
    [
        {"function": "linear", "args": {"variable0": "a", "slope": "x", "intercept": 0}},
        {"value": "2 * v", "args": {"v": "x"}},
        {"value": "2 * v", "args": {"w": "x", "v": "w"}},
    ],
)
def test_an_argument_that_is_read(function: dict[str, Any]) -> None:
    source = graph({"functions": {"f": function}, "output_ports": {"y": {"value": "f"}}})
    with pytest.raises(LoopError, match=r"unknown name 'x' \(in 'x'\)\n  at .*functions\['f'\]"):
        mdf_loop.read(source)
