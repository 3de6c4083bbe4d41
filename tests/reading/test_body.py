"""Loop bodies: allowed state, and branches that are not computed."""

from __future__ import annotations

import pytest

import mdf_loop
from mdf_loop.errors import UnsupportedError


def counting(node: dict[str, object], outputs: str = "n_next") -> dict[str, object]:
    """Return a model that sets n to n_next 4 times, with `node` as the body's node."""
    body = {
        "metadata": {"inputs": ["i", "c", "n"], "outputs": ["c", outputs, outputs]},
        "nodes": {"s": node},
    }
    args = {"M": 4, "v_initial": "(n0,)", "body": {"b": body}}
    owner = {
        "functions": {"f": {"function": "onnx::Loop", "args": args}},
        "parameters": {"n0": {"value": 0}},
        "output_ports": {"trace": {"value": "f[1]"}},
    }
    return {"g": {"nodes": {"A": owner}, "edges": {}}}


@pytest.mark.parametrize(
    "parameter",
    [
        {"value": "p + 1"},
        {"default_initial_value": 1, "value": "n + 1"},
        {"default_initial_value": 1.0, "time_derivative": "2"},
    ],
)
def test_a_state_in_a_body_is_refused(parameter: dict[str, object]) -> None:
    node = {
        "input_ports": {"n": {}},
        "parameters": {"p": parameter},
        "output_ports": {"n_next": {"value": "n + 1"}},
    }
    with pytest.raises(UnsupportedError, match="keeps a state") as caught:
        mdf_loop.read(counting(node))
    (finding,) = caught.value.findings
    assert finding.where.endswith(".args.body.nodes['s'].parameters['p']")
    assert "v_initial" in finding.hint


@pytest.mark.parametrize(
    ("expression", "trace"),
    [
        ("12 // i if i > 0 else 5", [5, 12, 6, 4]),
        ("5 if i == 0 else 12 % i", [5, 0, 0, 0]),
        ("(7 % i if i > 1 else -1) if i > 0 else 12 // (i - 1)", [-12, -1, 1, 1]),
        ("i > 0 and 6 // i > 2", [False, True, True, False]),
        ("i == 0 or 6 // i > 2", [True, True, True, False]),
        ("table[i - 1] if i < 3 else table[3 - i]", [20, 10, 20, 10]),
        ("table[i] if i < 2 else 0", [10, 20, 0, 0]),
        ("2 ** (i - 1) if i > 0 else 0", [0, 1, 2, 4]),
    ],
)
def test_an_unselected_branch_cannot_fail(expression: str, trace: list[int]) -> None:
    node = {
        "input_ports": {"n": {}, "i": {}},
        "parameters": {"table": {"value": [10, 20]}},
        "output_ports": {"n_next": {"value": f"1 * ({expression})"}},
    }
    rows = mdf_loop.compile(counting(node), device="cpu").run()["trace"]
    assert rows.tolist() == [int(x) for x in trace]


def test_a_misspelt_argument_of_the_loop_is_noticed() -> None:
    node = {"input_ports": {"n": {}}, "output_ports": {"n_next": {"value": "n + 1"}}}
    graph = counting(node)
    arguments = graph["g"]["nodes"]["A"]["functions"]["f"]["args"]
    arguments["v_inital"] = arguments.pop("v_initial")
    with pytest.raises(mdf_loop.LoopError, match="did you mean 'v_initial'") as caught:
        mdf_loop.read(graph)
    assert caught.value.findings[0].where.endswith(".functions['f'].args.v_inital")


def test_an_output_port_without_a_value_is_refused() -> None:
    graph = counting({"input_ports": {"n": {}}, "output_ports": {"n_next": {"value": "n + 1"}}})
    graph["g"]["nodes"]["A"]["output_ports"]["n0"] = {}
    with pytest.raises(mdf_loop.LoopError, match="the output port 'n0' has no value"):
        mdf_loop.read(graph)
