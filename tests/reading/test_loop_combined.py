"""Slices, delays, recordings and exits combined, nested, and outside of functions."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import mdf_loop
from mdf_loop.errors import EndlessLoopError, LoopError, OperandError
from tests.models.loops import loop_model


def node_of(model):
    return model["model"]["graphs"]["graph"]["nodes"]["A"]


def body_of(model):
    return node_of(model)["functions"]["loop"]["args"]["body"]["b"]


def everything():
    return loop_model(
        {
            "cond": True,
            "v_initial": "(0.0,)",
            "slices": {"x_t": {"of": "x", "stride": -1}},
            "delays": {
                "x_2": {"of": "x_t", "back": 2, "initial": 0.0},
                "s_1": {"of": "s_next", "initial": 1.0},
            },
            "recordings": {"s_next": {"reverse": True, "length": 8}, "y": {"keep": "last"}},
        },
        {"s_next": "0.5 * s + x_t + x_2 * s_1", "y": "s - x_2"},
        port_values={"x": [1.0, 2.0, 3.0, 4.0, 5.0], "limit": 100.0},
        carried="s",
        recorded="s_next y",
        go="s < limit",
    )


@pytest.mark.parametrize("limit", [100.0, 9.0, -1.0])
def test_all_forms_in_one_loop(run_everywhere, limit):
    s, rows, before, y = 0.0, [], [0.0, 0.0], None
    for x in (5.0, 4.0, 3.0, 2.0, 1.0):
        y, go = s - before[-2], s < limit
        s = 0.5 * s + x + before[-2] * (rows[-1] if rows else 1.0)
        rows.append(s)
        before.append(x)
        if not go:
            break
    results = run_everywhere(everything(), {"limit": limit})
    np.testing.assert_allclose(results["r0"], s)
    np.testing.assert_allclose(results["r1"], rows[::-1] + [0.0] * (8 - len(rows)))
    np.testing.assert_allclose(results["r2"], y)


def test_the_export_is_standard_onnx(tmp_path):
    path = tmp_path / "all.onnx"
    mdf_loop.compile(everything()).save(path)
    onnx.checker.check_model(onnx.load(path), full_check=True)


def test_a_parameter_may_be_the_loop(run_everywhere):
    model = everything()
    node = node_of(model)
    node["parameters"] = node.pop("functions")
    assert run_everywhere(model)["n"] == 5


def test_a_delay_of_an_output_named_with_its_node(run_everywhere):
    model = loop_model(
        {"M": 3, "delays": {"a": {"of": "step.x", "initial": 1}}}, {"x": "2 * a"}, recorded="x"
    )
    assert run_everywhere(model)["r0"].tolist() == [2, 4, 8]


MIDDLE = {
    "metadata": {"inputs": ["i", "go_in", "s"], "outputs": ["go", "s_next"]},
    "nodes": {
        "test": {
            "input_ports": {"s": {}, "limit": {}},
            "output_ports": {"go": {"value": "numpy.sum(s) < limit"}},
        },
        "after": {"input_ports": {"s": {}}, "output_ports": {"s_next": {"value": "s + s"}}},
    },
}


def test_a_loop_after_the_test(run_everywhere):
    """Check the loop: while sum(s) < limit: s = s + sum of the inner loop."""
    model = loop_model(
        {"exit": "middle", "v_initial": "(1.0,)"},
        {},
        port_values={"limit": 50.0, "x": [1.0, 2.0]},
        carried="s",
    )
    inner = loop_model(
        {"v_initial": "(s,)", "slices": {"x_t": "x"}}, {"t_next": "t + x_t"}, carried="t"
    )
    node = node_of(inner)
    node["input_ports"] = {"s": {}, "x": {}}
    node["output_ports"] = {"s_next": {"value": "loop"}}
    nodes = {"test": MIDDLE["nodes"]["test"], "after": node}
    node_of(model)["functions"]["loop"]["args"]["body"] = {"b": {**MIDDLE, "nodes": nodes}}
    results = run_everywhere(model)
    assert (results["r0"], results["n"]) == (52.0, 17)


def test_a_carried_value_that_grows_and_an_exit_in_the_middle(run_everywhere):
    growing_body = {**MIDDLE, "metadata": {**MIDDLE["metadata"], "shapes": "dynamic"}}
    growing_body["nodes"] = {
        **MIDDLE["nodes"],
        "after": {
            "input_ports": {"s": {}},
            "output_ports": {"s_next": {"value": "numpy.concatenate((s, s))"}},
        },
    }
    model = loop_model(
        {"exit": "middle", "v_initial": "(s0,)"},
        {},
        port_values={"limit": 5.0, "s0": [1.0]},
        carried="s",
    )
    node_of(model)["functions"]["loop"]["args"]["body"] = {"b": growing_body}
    results = run_everywhere(model)
    assert (results["r0"].tolist(), results["n"]) == ([1.0] * 8, 3)


def test_an_exit_in_the_middle_that_is_never_taken():
    endless = {
        "metadata": {"inputs": ["i", "go_in", "s"], "outputs": ["go_in", "s_next"]},
        "nodes": {"after": MIDDLE["nodes"]["after"]},
    }
    model = loop_model({"exit": "middle", "v_initial": "(1.0,)"}, {}, carried="s")
    node_of(model)["functions"]["loop"]["args"]["body"] = {"b": endless}
    with pytest.raises(EndlessLoopError):
        mdf_loop.compile(model).run()
    assert mdf_loop.compile(model, max_iterations=3).run()["r0"] == 8.0


def test_max_iterations_does_not_bound_sliced_loops(run_everywhere):
    model = loop_model(
        {"slices": {"x_t": "x"}}, {"y": "1 * x_t"}, port_values={"x": [1.0, 2.0]}, recorded="y"
    )
    assert run_everywhere(model, engine=False, max_iterations=1)["n"] == 2


def test_a_sequence_is_not_sliced():
    model = loop_model(
        {"slices": {"x_t": "seq"}}, {"y": "1 * x_t"}, port_values={"x": [1.0, 2.0]}, recorded="y"
    )
    node_of(model)["functions"] = {
        "seq": {"function": "onnx::SplitToSequence", "args": {"input": "x", "axis": 0}},
        **node_of(model)["functions"],
    }
    with pytest.raises(OperandError):
        mdf_loop.compile(model).run()


def test_all_errors_are_reported_together():
    model = loop_model(
        {
            "M": 2.5,
            "slices": {"x_t": {"of": "xx"}, "y_t": {"of": "x", "axis": 4}},
        },
        {"y": "x_t + y_t"},
        port_values={"x": [1.0, 2.0]},
        recorded="y",
    )
    with pytest.raises(LoopError) as caught:
        mdf_loop.compile(model).run()
    message = str(caught.value)
    assert "unknown name 'xx'" in message
    assert "axis 4 does not exist" in message


def test_over_time():
    """Check that a node with slices and delays runs once per time step."""
    model = loop_model(
        {"slices": {"x_t": "x"}, "delays": {"a": {"of": "y", "initial": "k"}}},
        {"y": "a + x_t"},
        port_values={"x": [1.0, 2.0], "k": 0.0},
        recorded="y",
    )
    node_of(model)["parameters"] = {
        "total": {"value": "total + numpy.sum(loop)", "default_initial_value": 0.0}
    }
    node_of(model)["output_ports"]["total"] = {"value": "total"}
    results = mdf_loop.compile(model).run(steps=3, dt=1.0)
    assert np.asarray(results["total"]).tolist() == [4.0, 8.0, 12.0]
