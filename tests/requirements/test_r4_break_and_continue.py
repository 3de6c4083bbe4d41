"""`break` and `continue` in their documented forms (R4.30).

break      the loop's condition is false
continue   carried values are passed on: a conditional expression, or `onnx::If`
"""

from __future__ import annotations

import numpy as np
import pytest

from tests.models.loops import loop_model


def node_of(model):
    return model["model"]["graphs"]["graph"]["nodes"]["A"]


def test_r4_30_continue_as_a_conditional_expression(run_everywhere):
    """Run `for i in range(m): if i % 3 == 0: continue; s += i`."""
    model = loop_model(
        {"M": "m", "v_initial": "(0,)"},
        {"s_next": "s if i % 3 == 0 else s + i"},
        port_values={"m": 10},
        carried="s",
    )
    for m in (0, 1, 10, 17):
        assert run_everywhere(model, {"m": m})["r0"] == sum(i for i in range(m) if i % 3)


@pytest.mark.parametrize("limit", [0, 5, 20, 1000])
def test_r4_30_break_as_the_condition(run_everywhere, limit):
    """Run `for x in xs: s += x; if s > limit: break`."""
    xs = [3.0, 4.0, 5.0, 6.0, 7.0]
    model = loop_model(
        {"cond": True, "v_initial": "(0.0,)", "slices": {"x_i": "xs"}},
        {"s_next": "s + x_i"},
        port_values={"xs": xs, "limit": 0},
        carried="s",
        go="s + x_i <= limit",
    )
    total, count = 0.0, 0
    for x in xs:
        total, count = total + x, count + 1
        if total > limit:
            break
    results = run_everywhere(model, {"limit": limit})
    assert (results["r0"], results["n"]) == (total, count)


def test_r4_30_break_before_anything_changes(run_everywhere):
    """Run `while True: if x < 0.1: break; x = x / 2`, with the exit in the middle of the body."""
    model = loop_model(
        {"exit": "middle", "v_initial": "(x0,)"}, {}, port_values={"x0": 5.0}, carried="x"
    )
    node_of(model)["functions"]["loop"]["args"]["body"] = {
        "b": {
            "metadata": {"inputs": ["i", "go_in", "x"], "outputs": ["go", "x_next"]},
            "nodes": {
                "test": {"input_ports": {"x": {}}, "output_ports": {"go": {"value": "x >= 0.1"}}},
                "half": {"input_ports": {"x": {}}, "output_ports": {"x_next": {"value": "x / 2"}}},
            },
        }
    }
    for x, count in ((5.0, 6), (0.05, 0)):
        results = run_everywhere(model, {"x0": x})
        assert (results["r0"], results["n"]) == (x / 2**count, count)


def test_r4_30_break_and_continue_together(run_everywhere):
    """Run `for i in range(100): if i % 2: continue; if s > 50: break; s += i`."""
    model = loop_model(
        {"M": 100, "cond": True, "v_initial": "(0,)"},
        {"s_next": "s if i % 2 or s > 50 else s + i"},
        carried="s",
        go="i % 2 == 1 or s <= 50",
    )
    total, count = 0, 0
    for i in range(100):
        count += 1
        if i % 2:
            continue
        if total > 50:
            break
        total += i
    results = run_everywhere(model)
    assert (results["r0"], results["n"]) == (total, count)


def test_r4_30_continue_as_a_branch_that_passes_through(run_everywhere):
    """Check that skipped iterations do not compute a branch that would fail."""
    model = loop_model(
        {"M": 5, "v_initial": "(0.0,)"}, {}, port_values={"table": [7.0, 8.0]}, carried="s"
    )
    passed = {"metadata": {"outputs": ["s"]}, "nodes": {}}
    added = {
        "metadata": {"outputs": ["more"]},
        "nodes": {
            "add": {
                "input_ports": {"s": {}, "i": {}, "table": {}},
                "output_ports": {"more": {"value": "s + table[i // 2]"}},
            }
        },
    }
    node_of(model)["functions"]["loop"]["args"]["body"]["b"]["nodes"]["step"] = {
        "input_ports": {"s": {}, "i": {}, "table": {}},
        "functions": {
            "choice": {
                "function": "onnx::If",
                "args": {
                    "cond": "i % 2 == 1",
                    "then_branch": {"added": added},
                    "else_branch": {"passed": passed},
                },
            }
        },
        "output_ports": {"s_next": {"value": "choice"}, "go": {"value": True}},
    }
    assert run_everywhere(model)["r0"] == 15.0


def test_r4_30_break_out_of_only_the_inner_loop(run_everywhere):
    """Run `for i in range(4): for j in range(10): if j > i: break; s += j`."""
    inner = loop_model({"M": 10, "cond": True, "v_initial": "(s,)"}, {}, carried="t")
    node = node_of(inner)
    node["functions"]["loop"]["args"]["body"] = {
        "b": {
            "metadata": {"inputs": ["j", "go_in", "t"], "outputs": ["go", "t_next"]},
            "nodes": {
                "n": {
                    "input_ports": {"t": {}, "i": {}, "j": {}},
                    "output_ports": {
                        "t_next": {"value": "t if j > i else t + j"},
                        "go": {"value": "j <= i"},
                    },
                }
            },
        }
    }
    node["input_ports"] = {"i": {}, "s": {}}
    node["output_ports"] = {
        "s_next": {"value": "loop"},
        "counts": {"value": "loop.iterations"},
        "go": {"value": True},
    }
    outer = loop_model({"M": 4, "v_initial": "(0,)"}, {}, carried="s", recorded="counts")
    node_of(outer)["functions"]["loop"]["args"]["body"]["b"]["nodes"] = {"inner": node}
    results = run_everywhere(outer)
    assert results["r0"] == sum(j for i in range(4) for j in range(i + 1))
    np.testing.assert_array_equal(results["r1"], [2, 3, 4, 5])
