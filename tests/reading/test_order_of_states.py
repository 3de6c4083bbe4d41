"""Notes for pairs of states where one reads the new value of the other and this changes the numbers."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import numpy as np
import pytest

import mdf_loop
from mdf_loop.importing.opening import open_document
from mdf_loop.reading.order_of_states import find_new_value_reads
from tests.models.timed import PAIR, edge, graph

Node = dict[str, Any]

V = {"default_initial_value": -1.0, "time_derivative": "v - v**3 / 3 - w + 0.5"}
W = {"default_initial_value": 0.25, "time_derivative": "0.08 * (v + 0.7 - 0.8 * w)"}


def pairs(model: Any) -> list[str]:
    """Return the beginnings of the notes about a model."""
    return [note.what.partition(":")[0] for note in find_new_value_reads(open_document(model))]


def node(parameters: Node, functions: Node | None = None) -> Node:
    """Return a node that outputs each of its parameters."""
    ports = {name: {"value": name} for name in parameters}
    ports_in = {"I": {"default_value": 2.0}}
    return {
        "input_ports": ports_in,
        "functions": functions or {},
        "parameters": parameters,
        "output_ports": ports,
    }


def simultaneous(content: Node) -> Node:
    """Return the node with its stateless parameters and all derivatives as functions."""
    content = deepcopy(content)
    functions, states = content["functions"], {}
    for name, parameter in content["parameters"].items():
        if "default_initial_value" not in parameter and name not in str(parameter.get("value")):
            functions[name] = parameter
            for condition in parameter.pop("conditions", {}).values():
                written = (
                    f"numpy.where({condition['test']}, {condition['value']}, {parameter['value']})"
                )
                parameter["value"] = written
            continue
        if "time_derivative" in parameter and "value" not in parameter:
            functions[f"d_{name}"] = {"value": str(parameter["time_derivative"])}
            parameter["time_derivative"] = f"d_{name}"
        states[name] = parameter
    content["parameters"] = states
    return content


def by_hand(steps: int, simultaneously: bool) -> list[tuple[float, float]]:
    """Return the rows of v and w; w reads the old v if states are updated simultaneously, else the new v."""
    v, w, rows = -1.0, 0.25, []
    for _ in range(steps):
        rows.append((v, w))
        next_v = v + 0.1 * (v - v**3 / 3 - w + 0.5)
        read = v if simultaneously else next_v
        v, w = next_v, w + 0.1 * (0.08 * (read + 0.7 - 0.8 * w))
    return rows


CASES: dict[str, tuple[Node, list[str]]] = {
    "v above w": (node({"v": V, "w": W}), ["in node 'n', w reads the new v"]),
    "w above v": (node({"w": W, "v": V}), ["in node 'n', v reads the new w"]),
    "one alone": (node({"v": {**V, "time_derivative": "1 - v"}}), []),
    "two that do not read each other": (
        node({"v": {**V, "time_derivative": "1 - v"}, "w": {**W, "time_derivative": "-w"}}),
        [],
    ),
    "the reader above": (node({"w": W, "v": {**V, "time_derivative": "1 - v"}}), []),
    "derivatives in functions": (
        node(
            {"v": {**V, "time_derivative": "dv"}, "w": {**W, "time_derivative": "dw"}},
            {"dv": {"value": V["time_derivative"]}, "dw": {"value": W["time_derivative"]}},
        ),
        [],
    ),
    "through a function, which reads old values": (
        node({"v": V, "w": {**W, "time_derivative": "f - w"}}, {"f": {"value": "2 * v"}}),
        [],
    ),
    "through a parameter": (
        node({"v": V, "p": {"value": "2 * v"}, "w": {**W, "time_derivative": "p - w"}}),
        ["in node 'n', w reads the new v through 'p'"],
    ),
    "through two parameters": (
        node(
            {
                "v": V,
                "p": {"value": "2 * v"},
                "q": {"value": "p + I"},
                "w": {**W, "time_derivative": "q - w"},
            }
        ),
        ["in node 'n', w reads the new v through 'q'"],
    ),
    "through a parameter with a function": (
        node(
            {
                "v": V,
                "p": {
                    "function": "linear",
                    "args": {"variable0": "v", "slope": 2.0, "intercept": 0.5},
                },
                "w": {**W, "time_derivative": "p - w"},
            }
        ),
        ["in node 'n', w reads the new v through 'p'"],
    ),
    "through a condition of a parameter": (
        node(
            {
                "v": V,
                "p": {"value": 0.0, "conditions": {"high": {"test": "v < -1.01", "value": "v"}}},
                "w": {**W, "time_derivative": "p - w"},
            }
        ),
        ["in node 'n', w reads the new v through 'p'"],
    ),
    "directly and through a parameter": (
        node({"v": V, "p": {"value": "2 * v"}, "w": {**W, "time_derivative": "p * v - w"}}),
        ["in node 'n', w reads the new v"],
    ),
    "three": (
        node(
            {
                "v": V,
                "w": W,
                "u": {"default_initial_value": 0.5, "time_derivative": "v - w - u"},
            }
        ),
        [
            "in node 'n', w reads the new v",
            "in node 'n', u reads the new v",
            "in node 'n', u reads the new w",
        ],
    ),
    "a clock": (
        node(
            {
                "time": {"default_initial_value": 0.0, "time_derivative": 1.0},
                "w": {**W, "time_derivative": "math.sin(time) - w"},
            }
        ),
        ["in node 'n', w reads the new time"],
    ),
    "a counter": (
        node({"count": {"value": "count + 1"}, "w": {**W, "time_derivative": "count"}}),
        ["in node 'n', w reads the new count"],
    ),
    "a constant that is written as a state": (
        node(
            {
                "tau": {"default_initial_value": 5.0, "time_derivative": 0},
                "rest": {"default_initial_value": 1.0, "value": "rest"},
                "w": {**W, "time_derivative": "(rest - w) / tau"},
            }
        ),
        [],
    ),
    "a list of zeros as a derivative": (
        node(
            {
                "rest": {"default_initial_value": [1.0, 2.0], "time_derivative": [0, 0.0]},
                "w": {"default_initial_value": [0.5, 0.5], "time_derivative": "rest - w"},
            }
        ),
        [],
    ),
    "a derivative of 0 with a condition": (
        node(
            {
                "level": {
                    "default_initial_value": 0.0,
                    "time_derivative": "0.0",
                    "conditions": {"up": {"test": "level < 3", "value": "level + 1"}},
                },
                "w": {**W, "time_derivative": "level - w"},
            }
        ),
        ["in node 'n', w reads the new level"],
    ),
    "fixed parameters": (
        node(
            {
                "tau": {"value": 5.0},
                "rate": {"value": "1 / tau"},
                "w": {**W, "time_derivative": "rate * I - w"},
            }
        ),
        [],
    ),
    "a value, which goes before the derivative": (
        node({"v": V, "w": {**W, "value": "0.5 * w"}}),
        [],
    ),
    "arrays": (
        node(
            {
                "v": {"default_initial_value": [1.0, 2.0], "time_derivative": "[-0.5, 0.25]"},
                "w": {"default_initial_value": [1.0, 2.0], "time_derivative": "v[::-1] - w"},
            }
        ),
        ["in node 'n', w reads the new v"],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_the_note_is_there_where_simultaneous_steps_have_other_numbers(name: str) -> None:
    content, notes = CASES[name]
    assert pairs(graph(n=content)) == notes
    written, other = (
        mdf_loop.compile(graph(n=model), device="cpu").run(steps=40, dt=0.125)
        for model in (content, simultaneous(content))
    )
    states = [
        name for name in other if name.partition(".")[2] in simultaneous(content)["parameters"]
    ]
    differs = any(np.any(written[state] != other[state]) for state in states)
    assert differs is bool(notes)


def test_the_sentence_says_what_to_do_and_where() -> None:
    (note,) = find_new_value_reads(open_document(graph(cell=node({"v": V, "w": W}))))
    assert note.what == (
        "in node 'cell', w reads the new v: 'v' is written above 'w', so it has taken its step of dt already. "
        "Simultaneous Euler steps (Brian2's method='euler') read the old v: for these compute the derivative "
        "of 'w' in a function, which reads old values, and name that function in time_derivative"
    )
    assert note.where == "$.graphs[0].nodes['cell'].parameters['w']"
    content, _ = CASES["through a parameter"]
    (note,) = find_new_value_reads(open_document(graph(cell=content)))
    assert "for these compute 'p' and the derivative of 'w' in a function" in note.what


@pytest.mark.parametrize("simultaneously", [False, True])
def test_derivatives_in_functions_are_simultaneous_euler_bit_for_bit(simultaneously: bool) -> None:
    content = node({"v": V, "w": W})
    model = graph(n=simultaneous(content) if simultaneously else content)
    results = mdf_loop.compile(model, device="cpu").run(steps=1001, dt=0.1)
    np.testing.assert_array_equal(
        np.stack([results["v"], results["w"]], axis=1), by_hand(1001, simultaneously)
    )


def test_states_of_other_nodes_have_no_note() -> None:
    assert pairs(PAIR) == []
    chain = graph(
        {"e": edge("a", "v", "b", "I")},
        a=node({"v": {**V, "time_derivative": "1 - v"}}),
        b=node({"w": {**W, "time_derivative": "I - w"}}),
    )
    assert pairs(chain) == []


def test_a_graph_that_is_missing_is_left_to_the_compiler() -> None:
    loop = {"function": "onnx::Loop", "args": {"M": 3, "v_initial": "v", "body": "nowhere"}}
    assert pairs(graph(n=node({"v": V, "p": loop, "w": {**W, "time_derivative": "p - w"}}))) == []


def across(sent: str, *order: str) -> Any:
    """Return two nodes that feed each other; the second node reads the port `sent` of the first node."""
    nodes = {
        "a": {
            "input_ports": {"w": {"default_value": 0.25}},
            "functions": {"v_before": {"value": "v"}},
            "parameters": {"v": V},
            "output_ports": {"v": {"value": "v"}, "v_before": {"value": "v_before"}},
        },
        "b": {
            "input_ports": {"v": {}},
            "parameters": {"w": W},
            "output_ports": {"w": {"value": "w"}},
        },
    }
    edges = {"forth": edge("a", sent, "b", "v"), "back": edge("b", "w", "a", "w")}
    return graph(edges, **{name: nodes[name] for name in order})


@pytest.mark.parametrize("order", ["ab", "ba"])
@pytest.mark.parametrize("sent", ["v", "v_before"])
def test_an_edge_brings_the_new_value_unless_the_sender_sends_the_old_one(
    sent: str, order: str
) -> None:
    compiled = mdf_loop.compile(across(sent, *order), device="cpu")
    for engine in ("onnxruntime", "modeci"):
        results = compiled.run(steps=100, dt=0.1, record=["a.v", "b.w"], engine=engine)
        rows = np.stack([results["a.v"], results["b.w"]], axis=1)
        np.testing.assert_array_equal(rows, by_hand(100, simultaneously=sent == "v_before"))
