"""Differences between modeci_mdf's engine and this package: `check` reports them, and they are real."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import mdf_loop
from mdf_loop.cli import cli
from mdf_loop.importing.opening import open_document
from mdf_loop.reading import read_annotated
from mdf_loop.verification.differences import differences
from tests.models.timed import ALL, edge, graph

Model = dict[str, Any]


def notes_of(model: Any) -> str:
    """Return all notes about a model, as `check` prints them."""
    document = open_document(model)
    reading = read_annotated(document)
    notes = (*reading.notes, *differences(document, reading.terms_by_path))
    return "\n".join(f"{note.what} at {note.where}" for note in notes)


def one(expression: str, port: Any = None, **parameters: Any) -> Model:
    """Return a node with a port x and an output y."""
    parts = {name: {"value": value} for name, value in parameters.items()}
    node = {"output_ports": {"y": {"value": expression}}}
    if port is not None:
        node["input_ports"] = {"x": port}
    return graph(n={**node, "parameters": parts} if parts else node)


def joined(reduce: str, *senders: Any, weights: Any = 1) -> Model:
    """Return parameters of several nodes that lead into one port."""
    nodes: Model = {
        f"S{k}": {"parameters": {"p": {"value": v}}, "output_ports": {"o": {"value": "p"}}}
        for k, v in enumerate(senders)
    }
    nodes["R"] = {
        "input_ports": {"x": {"reduce": reduce}},
        "output_ports": {"y": {"value": "x"}},
    }
    edges = {f"e{k}": edge(f"S{k}", "o", "R", "x") for k in range(len(senders))}
    for content in edges.values():
        content["parameters"] = {"weight": weights}
    return graph(edges, **nodes)


def itself() -> Model:
    """Return an edge of a node to itself, after another edge into the same port."""
    model = joined("overwrite", 5)
    model["g"]["nodes"]["R"]["input_ports"]["x"]["default_value"] = 7
    model["g"]["edges"]["back"] = edge("R", "y", "R", "x")
    return model


def several() -> Model:
    """Return a node with an input that runs twice in an evaluation."""
    parameters = {"s": {"default_initial_value": 0.0, "value": "s + x"}}
    model = graph(
        {"e": edge("A", "out", "B", "i")},
        A={
            "input_ports": {"x": {}},
            "parameters": parameters,
            "output_ports": {"out": {"value": "s"}},
        },
        B={"input_ports": {"i": {}}, "output_ports": {"y": {"value": "i"}}},
    )
    twice = {"type": "EveryNCalls", "kwargs": {"dependency": "A", "n": 2}}
    model["g"]["conditions"] = {"node_specific": {"B": twice}}
    return model


WHOLE_STATE = {"p": {"default_initial_value": 3, "value": "p * p"}}

ROWS: dict[str, tuple[Model, str, dict[str, Any]]] = {
    "a list repeated": (
        one("x * 2", {"default_value": [1, 2]}),
        "the default of 'x' is an array here; in modeci_mdf's engine it is a list",
        {},
    ),
    "a list joined": (
        one("x + x", {"default_value": [1, 2]}),
        "the default of 'x' is an array here",
        {},
    ),
    "a list that a state starts from": (
        graph(
            n={
                "input_ports": {"x": {"default_value": [1, 2]}},
                "parameters": {"s": {"default_initial_value": "x * 2", "value": "s"}},
                "output_ports": {"y": {"value": "s"}},
            }
        ),
        "the default of 'x' is an array here",
        {},
    ),
    "added in place": (
        joined("add", [1.5, 2.5], [10.5, 20.5]),
        "combines what arrives at 'x' in the array of the first sender, 'S0'",
        {"record": ["S0.o"]},
    ),
    "a weight that is a list": (
        joined("overwrite", 3, weights=[1, 2]),
        "a whole number times a weight that is a list is the list so many times",
        {},
    ),
    "an edge to itself": (
        itself(),
        "this edge empties the port 'x' before 'R' has run",
        {"record": ["R.y"]},
    ),
    "float32 of a port": (
        one("x * 3", {"type": "float32", "default_value": 0.1}),
        "what 'x' is given, and its default, becomes float32",
        {},
    ),
    "float32 of a function": (
        graph(
            n={
                "parameters": {"p": {"value": [0.1]}},
                "functions": {"f": {"function": "onnx::Add", "args": {"A": "p", "B": "p"}}},
                "output_ports": {"y": {"value": "f"}},
            }
        ),
        "computes onnx:: functions in float32",
        {},
    ),
    "beyond 64 bits": (
        graph(n={"parameters": WHOLE_STATE, "output_ports": {"y": {"value": "p * 1.0"}}}),
        "'p' is a whole number that may grow beyond 64 bits",
        {"steps": 6},
    ),
    "a state behind an index": (
        one("s", {"default_value": [1.0, 2.0]}, s="x[0] + s"),
        "does not see 's' behind the last [...] of its value",
        {},
    ),
    "an input emptied": (
        several(),
        "what 'x' is given from outside it keeps while 'A' runs several times",
        {"inputs": {"x": 1.5}},
    ),
    "float16": (
        one("numpy.exp(x > 0)", {"default_value": 1}),
        "numpy.exp of a truth value is computed in float64",
        {},
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", ROWS)
def test_reported_differences_exist(name):
    model, sentence, run = ROWS[name]
    assert sentence in notes_of(model)
    compiled = mdf_loop.compile(model, device="cpu")
    ours, theirs = compiled.run(**run), compiled.run(**run, engine="modeci")
    assert any(
        np.shape(ours[key]) != np.shape(theirs[key]) or np.any(ours[key] != theirs[key])
        for key in ours
    )


def test_truth_values_of_states():
    """Check that True + True is True in the engine, which has numpy's bools from the second evaluation on."""
    state = {"v": {"default_initial_value": 0.0, "time_derivative": "1.0"}}
    model = graph(
        n={"parameters": state, "output_ports": {"y": {"value": "1 * ((v > 0) + (v > 0.5))"}}}
    )
    assert "truth values are added as numbers" in notes_of(model)
    compiled = mdf_loop.compile(model, device="cpu")
    assert compiled.run(steps=3, dt=1.0)["y"].tolist() == [0, 2, 2]
    assert compiled.run(steps=3, dt=1.0, engine="modeci")["y"].tolist() == [0, 1, 1]


@pytest.mark.parametrize(
    "model",
    [
        *ALL.values(),
        joined("add", 1, 2),
        joined("overwrite", [3, 4], weights=[1, 2]),
        one("x / 2", {"default_value": [1.0, 2.0]}),
        one("y * 2.0", y=3),
        one("s", {"shape": [2]}, s="s + x[0]"),
        graph(
            n={
                "parameters": {
                    "count": {"value": "count + 1"},
                    "total": {"default_initial_value": 0, "value": "total + 2 * count"},
                    "random": {"default_initial_value": 1, "value": "(5 * random + 3) % 16"},
                    "grows": {"default_initial_value": 1.0, "value": "grows * 2"},
                },
                "output_ports": {"y": {"value": "total"}},
            }
        ),
    ],
)
def test_equal_models_have_no_notes(model):
    assert notes_of(model) == ""


def test_two_states_that_feed_each_other_grow():
    fibonacci = {
        "a": {"default_initial_value": 1, "value": "b"},
        "b": {"default_initial_value": 1, "value": "a + b"},
    }
    model = graph(n={"parameters": fibonacci, "output_ports": {"y": {"value": "b"}}})
    assert "'b' is a whole number that may grow" in notes_of(model)


def test_random_order():
    assert "the order of modeci_mdf's engine is random at R.x (2 edges)" in notes_of(
        joined("overwrite", 1, 2)
    )


def test_imported_files_have_no_notes():
    model, _, _ = ROWS["float32 of a function"]
    model["g"]["metadata"] = {"onnx": {"opset": 17}}
    assert notes_of(model) == ""


def test_check_prints_them(tmp_path):
    path = tmp_path / "model.json"
    path.write_text(json.dumps({"M": {"graphs": one("x * 2", {"default_value": [1, 2]})}}))
    outcome = CliRunner().invoke(cli, ["check", str(path)])
    assert outcome.exit_code == 0
    assert outcome.output.splitlines()[1:] == [
        "note: the default of 'x' is an array here; in modeci_mdf's engine it is a list of Python, "
        "which * repeats, + joins and == compares as a whole",
        "  at $.graphs[0].nodes['n'].output_ports['y']",
    ]


@pytest.mark.parametrize(
    "state",
    [
        {"default_initial_value": 1.0, "value": "v + 1"},
        {"default_initial_value": 1.0, "time_derivative": "-v"},
        {"value": "v + 1"},
    ],
)
def test_a_parameter_above_the_state_that_it_reads(state: Model, tmp_path: Path) -> None:
    for parameters, is_noted in (
        ({"a": {"value": "2 * v"}, "v": state}, True),
        ({"v": state, "a": {"value": "2 * v"}}, False),
        ({"a": {"default_initial_value": 0.0, "value": "a + v"}, "v": state}, False),
    ):
        node = {"parameters": parameters, "output_ports": {"y": {"value": "a"}}}
        path = tmp_path / "model.json"
        path.write_text(json.dumps({"m": {"graphs": graph(n=node)}}))
        outcome = CliRunner().invoke(cli, ["check", str(path)])
        assert outcome.exit_code == 0
        assert ("the parameter 'a' stands above the state 'v'" in outcome.output) is is_noted
        if is_noted:
            with pytest.raises(mdf_loop.LoopError):
                mdf_loop.compile(path).run(engine="modeci", steps=2, dt=0.1)
