"""NNC's loops, in MDF's canonical form (R3.01 to R3.08, R3.11, R3.12).

Numbers are those that NNC's own tests give (convolutions: stored with the cases), or plain numpy.
"""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

import mdf_loop
from tests.models.loops import loop_model


@pytest.fixture
def stored(shared):
    """Return a function of a case name that yields inputs and expected outputs of runs in NNC."""

    def runs(case):
        path = shared / "cases" / "nnc" / f"{case}.json"
        if not path.exists():
            return []
        return [
            ({k: _array(v) for k, v in run["inputs"].items()}, [_array(v) for v in run["expected"]])
            for run in json.loads(path.read_text())["runs"]
        ]

    return runs


def _array(tensor):
    return np.array(tensor["data"], tensor["dtype"]).reshape(tensor["shape"])


def node_of(model):
    return model["model"]["graphs"]["graph"]["nodes"]["A"]


def five_times(update, result, **initial_values):
    """Return a loop of five iterations `z = update`, with the output `out` computed as `result`."""
    model = loop_model(
        {"cond": "0 < 5", "v_initial": "(z0,)"},
        {"z_next": update},
        port_values=initial_values,
        carried="z",
        go="i + 1 < 5",
    )
    node_of(model)["output_ports"]["out"] = {"value": result}
    return model


def test_r3_01_a_parameter_map_and_a_count(run_everywhere):
    model = five_times("z * y", "x * loop", x=0.34, y=1.11, z0=1.0)
    results = run_everywhere(model)
    assert math.isclose(results["out"], 0.34 * 1.11**5)
    assert math.isclose(results["out"], 0.572919773, rel_tol=1e-8)
    assert results["n"] == 5


@pytest.mark.parametrize(("x", "y", "out"), [(0.32, 2.8, 55.0731776), (0.47, 5.5, 2365.43656)])
def test_r3_02_the_output_of_an_iteration_is_the_next_input(run_everywhere, stored, x, y, out):
    model = five_times("z * y", "loop", z0=x, y=y)
    assert math.isclose(run_everywhere(model)["out"], out, rel_tol=1e-8)
    for inputs, (expected,) in stored("while_pow_reuse"):
        results = run_everywhere(model, {"z0": inputs["x"], "y": inputs["y"]})
        np.testing.assert_allclose(results["out"], expected, rtol=1e-6)


def test_r3_02_two_carried_values_with_initial_values_of_their_own(run_everywhere):
    model = loop_model(
        {"M": 5, "v_initial": "(0.5, 3.0)"}, {"z_next": "z * w", "w_next": "w + z"}, carried="z w"
    )
    z, w = 0.5, 3.0
    for _ in range(5):
        z, w = z * w, w + z
    results = run_everywhere(model)
    np.testing.assert_allclose([results["r0"], results["r1"]], [z, w], rtol=1e-12)


def test_r3_03_nodes_after_the_loop_read_its_outputs(run_everywhere, stored):
    model = five_times("z * x", "loop * y", x=0.92, y=3.2, z0=1.0)
    assert math.isclose(run_everywhere(model)["out"], 2.10906087, rel_tol=1e-8)
    for inputs, (expected,) in stored("while_pow_then_mul"):
        np.testing.assert_allclose(run_everywhere(model, inputs)["out"], expected, rtol=1e-6)


def test_r3_04_the_initial_value_can_be_read_after_the_loop(run_everywhere):
    model = five_times("z * x", "loop * y + z0", x=0.92, y=3.2, z0=1.2)
    expected = 1.2 * 0.92**5 * 3.2 + 1.2
    assert math.isclose(run_everywhere(model)["out"], expected)
    assert math.isclose(expected, 3.73087305, rel_tol=1e-8)


# --- convolutions ---------------------------------------------------------------------------------

RNG = np.random.default_rng(3)
IMAGE = RNG.random((1, 4, 5, 5)).astype(np.float32)
KERNEL = (RNG.random((4, 4, 3, 3)) / 36).astype(np.float32)
BIAS = np.full(4, 0.1, np.float32)
CONV = {"function": "onnx::Conv", "args": {"X": "x", "W": "w", "B": "b", "pads": [1, 1, 1, 1]}}


def conv(x, w=KERNEL, b=BIAS):
    padded = np.pad(x[0].astype(np.float64), ((0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(1, 2))
    return (np.einsum("cyxij,ocij->oyx", windows, w) + b[:, None, None])[None]


def conv_loop(outputs, carried="x", initial="(x0,)", functions=None, count=5, body="conv"):
    """Return a loop whose body convolves `x`; `outputs` are the carried outputs."""
    model = loop_model(
        {"M": count, "v_initial": initial},
        outputs,
        port_values={"x0": IMAGE, "w": KERNEL, "b": BIAS},
        carried=carried,
    )
    step = node_of(model)["functions"]["loop"]["args"]["body"]["b"]["nodes"]["step"]
    step["input_ports"] |= {"x": {}, "w": {}, "b": {}}
    step["functions"] = {"conv": CONV, **(functions or {})}
    return model


def assert_close(actual, expected):
    np.testing.assert_allclose(actual, expected, rtol=1e-4)


def test_r3_05_convolutions_in_the_body(run_everywhere, stored):
    model = conv_loop({"x_next": "conv"})
    expected = IMAGE
    for _ in range(5):
        expected = conv(expected)
    assert_close(run_everywhere(model)["r0"], expected)
    for inputs, (final,) in stored("while_conv5"):
        arguments = {
            "x0": inputs["x"].transpose(0, 3, 1, 2),
            "w": inputs["w"].transpose(0, 3, 1, 2),
            "b": inputs["b"],
        }
        assert_close(run_everywhere(model, arguments)["r0"].transpose(0, 2, 3, 1), final)


def test_r3_05_convolution_and_pooling(run_everywhere):
    pool = {
        "function": "onnx::AveragePool",
        "args": {"X": "conv", "kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "count_include_pad": 1},
    }
    model = conv_loop({"x_next": "pool"}, functions={"pool": pool})
    expected, ninth = IMAGE, np.eye(4)[:, :, None, None] * np.full((3, 3), 1 / 9)
    for _ in range(5):
        expected = conv(conv(expected), ninth, np.zeros(4))
    assert_close(run_everywhere(model)["r0"], expected)


def test_r3_06_a_residual_connection_around_the_loop(run_everywhere):
    model = conv_loop({"x_next": "conv"})
    node_of(model)["output_ports"]["out"] = {"value": "loop + x0"}
    expected = IMAGE
    for _ in range(5):
        expected = conv(expected)
    assert_close(run_everywhere(model)["out"], expected + IMAGE)


def test_r3_07_nested_loops_with_convolutions(run_everywhere):
    inner = node_of(conv_loop({"x_next": "conv"}, count=2))
    inner["input_ports"] = {"x0": {}, "w": {}, "b": {}}
    inner["output_ports"] = {"y_next": {"value": "loop"}, "go": {"value": True}}
    model = loop_model(
        {"M": 3, "v_initial": "(start,)"},
        {},
        port_values={"start": IMAGE, "w": KERNEL, "b": BIAS},
        carried="x0",
    )
    body = node_of(model)["functions"]["loop"]["args"]["body"]["b"]
    body["metadata"]["outputs"] = ["go", "y_next"]
    body["nodes"] = {"inner": inner}
    expected = IMAGE
    for _ in range(6):
        expected = conv(expected)
    assert_close(run_everywhere(model)["r0"], expected)


def test_r3_08_maps_that_chain_over_two_steps(run_everywhere, stored):
    outputs = {"a_next": "1 * x", "x_next": "a + conv"}
    model = conv_loop(outputs, carried="a x", initial="(0 * x0, x0)")
    a, x = 0 * IMAGE, IMAGE
    for _ in range(5):
        a, x = x, a + conv(x)
    results = run_everywhere(model)
    assert_close(results["r0"], a)
    assert_close(results["r1"], x)
    for inputs, (final,) in stored("while_two_step_recurrence"):
        arguments = {
            "x0": inputs["x"].transpose(0, 3, 1, 2),
            "w": inputs["w"].transpose(0, 3, 1, 2),
            "b": inputs["b"],
        }
        assert_close(run_everywhere(model, arguments)["r1"].transpose(0, 2, 3, 1), final)


def test_r3_08_maps_that_chain_over_three_steps(run_everywhere):
    """Check x3 -> x2 -> x1 -> x0, with explicit carried values and with delays."""
    by_hand = loop_model(
        {"M": 6, "v_initial": "(1.0, 2.0, 3.0)"},
        {"x0_next": "1 * x1", "x1_next": "1 * x2", "x2_next": "x0 + 0.5 * x2"},
        carried="x0 x1 x2",
    )
    delayed = loop_model(
        {
            "M": 6,
            "delays": {
                "x0": {"of": "x3", "back": 3, "initial": [1.0, 2.0, 3.0]},
                "x2": {"of": "x3", "back": 1},
            },
        },
        {"x3": "x0 + 0.5 * x2"},
        recorded="x3",
    )
    finals = run_everywhere(by_hand)
    rows = run_everywhere(delayed)["r0"]
    assert [finals["r0"], finals["r1"], finals["r2"]] == rows[-3:].tolist()


# --- the exit in the middle, histories ------------------------------------------------------------

MIDDLE = {
    "metadata": {"inputs": ["i", "go_in", "s"], "outputs": ["go", "s_next", "p"]},
    "nodes": {
        "before": {"input_ports": {"s": {}, "x": {}}, "output_ports": {"p": {"value": "s + x"}}},
        "test": {
            "input_ports": {"p": {}, "limit": {}},
            "output_ports": {"go": {"value": "p < limit"}},
        },
        "after": {"input_ports": {"p": {}}, "output_ports": {"s_next": {"value": "2 * p"}}},
    },
    "edges": {
        "to_test": {
            "sender": "before",
            "sender_port": "p",
            "receiver": "test",
            "receiver_port": "p",
        },
        "to_after": {
            "sender": "before",
            "sender_port": "p",
            "receiver": "after",
            "receiver_port": "p",
        },
    },
}


@pytest.mark.parametrize(
    ("x", "limit", "p", "s", "n"),
    [(1.0, 20.0, 31.0, 30.0, 4), (3.0, 2.0, 3.0, 0.0, 0), (0.5, 100.0, 127.5, 127.0, 7)],
)
def test_r3_11_operations_before_the_exit_run_once_more(run_everywhere, x, limit, p, s, n):
    args = {"exit": "middle", "v_initial": "(0.0,)", "recordings": {"p": {"keep": "last"}}}
    model = loop_model(args, {}, port_values={"x": x, "limit": limit}, carried="s", recorded="p")
    node_of(model)["functions"]["loop"]["args"]["body"] = {"b": MIDDLE}
    results = run_everywhere(model)
    assert (results["r1"], results["r0"], results["n"]) == (p, s, n)


def test_r3_11_counters_of_enclosing_loops(run_everywhere):
    """Read the outer iteration number in the condition of the inner loop."""
    inner = loop_model({"exit": "middle", "v_initial": "(0,)"}, {}, carried="k")
    node = node_of(inner)
    node["functions"]["loop"]["args"]["body"] = {
        "b": {
            "metadata": {"inputs": ["j", "go_in", "k"], "outputs": ["go", "k_next"]},
            "nodes": {
                "test": {
                    "input_ports": {"j": {}, "i": {}},
                    "output_ports": {"go": {"value": "j < i"}},
                },
                "after": {
                    "input_ports": {"k": {}, "j": {}},
                    "output_ports": {"k_next": {"value": "k + j"}},
                },
            },
        }
    }
    node["input_ports"] = {"i": {}}
    node["output_ports"] = {"sums": {"value": "loop"}, "go": {"value": True}}
    outer = loop_model({"M": 5}, {}, recorded="sums")
    node_of(outer)["functions"]["loop"]["args"]["body"]["b"]["nodes"] = {"inner": node}
    assert run_everywhere(outer)["r0"].tolist() == [0, 0, 1, 3, 6]


def test_r3_12_recordings_are_indexed_by_outer_and_inner_iteration(run_everywhere):
    """Check the recordings of a nested loop; rows are padded to one length, and `n` counts the real ones."""
    inner = loop_model({"M": "i + 1", "recordings": {"value": {"length": 4}}}, {}, recorded="value")
    node = node_of(inner)
    node["functions"]["loop"]["args"]["body"] = {
        "b": {
            "metadata": {"inputs": ["j", "go_in"], "outputs": ["go", "value"]},
            "nodes": {
                "n": {
                    "input_ports": {"i": {}, "j": {}},
                    "output_ports": {"value": {"value": "10.0 * i + j"}, "go": {"value": True}},
                }
            },
        }
    }
    node["input_ports"] = {"i": {}}
    node["output_ports"] = {
        "values": {"value": "loop"},
        "counts": {"value": "loop.iterations"},
        "go": {"value": True},
    }
    outer = loop_model({"M": 3}, {}, recorded="values counts", port_values={"a": 1, "b": 0})
    node_of(outer)["functions"]["loop"]["args"]["body"]["b"]["nodes"] = {"inner": node}
    node_of(outer)["output_ports"]["chosen"] = {"value": "loop[0][a][b]"}
    results = run_everywhere(outer)
    assert results["r0"].tolist() == [[0, 0, 0, 0], [10, 11, 0, 0], [20, 21, 22, 0]]
    assert results["r1"].tolist() == [1, 2, 3]
    keys = [(0, 0), (1, 1), (2, 2), (2, 0), (1, 0), (2, 1)]
    compiled = mdf_loop.compile(outer)
    chosen = [compiled.run({"a": a, "b": b})["chosen"] for a, b in keys]
    assert chosen == [10 * a + b for a, b in keys]
