"""Gradients of loops and branches (R3.20 to R3.29): NNC's numbers, and JAX's in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import mdf_loop
from mdf_loop.run.gradient import in_chunks
from tests.models.control import body, case, give, model, repeat
from tests.models.derivatives import derivatives
from tests.models.loops import loop_model
from tests.models.timed import NEURON


def test_r3_20_gradient_by_the_initial_value_and_an_outer_value() -> None:
    """Differentiate z = x0 y^5 by x0 and by y."""
    step = body("i go z", {"more": "i < 4", "next": "y * z"})
    gradient = derivatives(
        model({"z": "loop"}, loop=repeat(step, ["x0"], cond=True)), {"x0": 0.34, "y": 1.11}
    )
    assert gradient["x0"] == pytest.approx(1.68505816, rel=1e-8)
    assert gradient["y"] == pytest.approx(5 * 0.34 * 1.11**4, rel=1e-12)


def test_r3_21_gradient_through_a_nonlinear_body_and_a_later_product() -> None:
    """Differentiate five iterations of z = log(z y), then u = v z."""
    step = body("i go z", {"more": "i < 4", "next": "numpy.log(z * y)"})
    m = model({"z": "v * loop"}, loop=repeat(step, ["x"], cond=True))
    gradient = derivatives(m, {"x": 1.0, "y": 3.2, "v": 0.22})
    assert gradient["y"] == pytest.approx(0.189600602, rel=1e-8)
    assert 0.22 * gradient["v"] == pytest.approx(0.348778129, rel=1e-6)


WHICH = "(x >= 0) * 1 + (x >= 1) * 1 + (x >= 2) * 1"
PIECES = [give(r="0 * x"), give("x"), give(r="0.5 * x + 0.5"), give(r="0 * x + 1.5")]


@pytest.mark.parametrize(("x", "slope"), [(-1.0, 0.0), (0.76, 1.0), (1.226, 0.5), (2.1, 0.0)])
def test_r3_22_gradient_of_the_selected_branch(x: float, slope: float) -> None:
    m = model({"z": "pick"}, which=WHICH, pick=case("which", PIECES))
    assert derivatives(m, {"x": x}) == {"x": slope}


@pytest.mark.parametrize(("x", "by_x", "by_a"), [(1.226, 0.01875, 1.014125), (0.8, 0.3, 0.8)])
def test_r3_22_gradient_of_branches_in_a_loop(x: float, by_x: float, by_a: float) -> None:
    """Differentiate four iterations of x = piecewise(x), then z = a x."""
    step = body("count go x", {"go": "go", "y": "pick"}, which=WHICH, pick=case("which", PIECES))
    m = model({"z": "a * loop"}, loop=repeat(step, ["x"], M=4))
    gradient = derivatives(m, {"x": x, "a": 0.3})
    assert gradient == {"x": pytest.approx(by_x, rel=1e-12), "a": pytest.approx(by_a, rel=1e-12)}


def test_r3_23_gradient_through_the_recordings_of_two_loops() -> None:
    """Differentiate sum(S2^2 + S1) of two tanh layers, the second with the input 0.5 S1 + 1."""
    rng = np.random.default_rng(5)
    rows = rng.normal(size=(5, 3))
    sizes = {"W": (3, 4), "U": (4, 4), "W2": (4, 4), "U2": (4, 4)}
    weights = {name: rng.normal(size=size) * 0.5 for name, size in sizes.items()}

    def layer(w: str, u: str, rows: str) -> Any:
        step = body(
            "t go h",
            {"go": "go", "n": "new", "row": "new"},
            new=f"numpy.tanh({rows}[t] @ {w} + h @ {u})",
        )
        return repeat(step, ["h0"], M=5)

    m = model(
        {"z": "second[1] * second[1] + first[1]"},
        first=layer("W", "U", "x"),
        between="0.5 * first[1] + 1",
        second=layer("W2", "U2", "between"),
    )
    gradient = derivatives(m, {"x": rows, "h0": np.zeros(4), **weights})
    expected = _two_layers_backward(rows, *weights.values())
    for name, array in expected.items():
        np.testing.assert_allclose(gradient[name], array, rtol=1e-11, atol=1e-13, err_msg=name)


def _two_layers_backward(x: Any, w1: Any, u1: Any, w2: Any, u2: Any) -> dict[str, Any]:
    """Compute the gradient of two recurrent layers by backpropagation in NumPy."""

    def forward(rows: Any, w: Any, u: Any) -> Any:
        h = [np.zeros(4)]
        for row in rows:
            h.append(np.tanh(row @ w + h[-1] @ u))
        return np.array(h)

    def backward(rows: Any, w: Any, u: Any, h: Any, changes: Any) -> Any:
        by_w, by_u, by_rows, g = np.zeros_like(w), np.zeros_like(u), np.zeros_like(rows), 0.0
        for t in reversed(range(len(rows))):
            g = (changes[t] + g) * (1 - h[t + 1] ** 2)
            by_w += np.outer(rows[t], g)
            by_u += np.outer(h[t], g)
            by_rows[t], g = w @ g, u @ g
        return by_w, by_u, by_rows

    h1 = forward(x, w1, u1)
    between = 0.5 * h1[1:] + 1
    h2 = forward(between, w2, u2)
    by_w2, by_u2, by_between = backward(between, w2, u2, h2, 2 * h2[1:])
    by_w1, by_u1, by_x = backward(x, w1, u1, h1, 1 + 0.5 * by_between)
    return {"W": by_w1, "U": by_u1, "W2": by_w2, "U2": by_u2, "x": by_x}


def test_r3_24_gradient_of_nested_loops() -> None:
    """Differentiate `for i in range(n): for j in range(i): s = sin(k s)`."""
    inner = body("j go_in s", {"go": "go_in", "n": "numpy.sin(k * s)"})
    outer = body("i go s", {"go": "go", "n": "again"}, again=repeat(inner, ["s"], M="i"))
    gradient = derivatives(
        model({"z": "loop"}, loop=repeat(outer, ["s0"], M=5)), {"s0": 0.6, "k": 1.5}
    )
    s, by_s, by_k = 0.6, 1.0, 0.0
    for _ in range(10):
        slope = np.cos(1.5 * s)
        by_s, by_k, s = slope * 1.5 * by_s, slope * (s + 1.5 * by_k), np.sin(1.5 * s)
    assert gradient == {"s0": pytest.approx(by_s, rel=1e-12), "k": pytest.approx(by_k, rel=1e-12)}


def test_r3_25_gradient_of_a_while_loop_with_a_fixed_count() -> None:
    """Differentiate four Newton iterations for the root of 7: about 1 / (2 sqrt(7)) = 0.188982."""
    step = body(
        "i go x", {"more": "abs(new * new - a) >= 0.0001", "n": "new"}, new="(x + a / x) / 2"
    )
    m = model({"z": "loop"}, loop=repeat(step, ["1.0"], cond="abs(1.0 - a) >= 0.0001"))
    assert derivatives(m, {"a": 7.0})["a"] == pytest.approx(0.18899921784662496, rel=1e-12)


FN = {"v0": -1.0, "w0": 0.0, "k3": -1 / 3, "c7": 0.7, "c8": -0.8}
FN_GRADIENT = {
    "v0": 78.77570559264234,
    "w0": -332.53637919367253,
    "k3": 1122.0520002764986,
    "c7": -99.46255182979559,
    "c8": -25.700886820440388,
}
"""Gradient by JAX of the sum of V^2 over 200 steps of 0.05 ms plus the final V."""

STEP = {
    "dv": "(v * v * v * k3 + v + 1 - w) / 0.001",
    "dw": "(w * c8 + v + c7) / 0.0125",
    "v2": "v + dv * 0.00005",
    "w2": "w + dw * 0.00005",
}


def _fn_step(steps: Any) -> Any:
    outputs = {"go": "go", "vn": "v2", "wn": "w2", "sn": "s + v2 * v2"}
    return repeat(body("i go v w s", outputs, **STEP), ["v0", "w0", "s0"], M=steps)


def test_r3_26_gradient_by_the_parameters_of_a_neuron() -> None:
    m = model({"z": "loop[0] + loop[2]"}, s0="0 * v0", loop=_fn_step(200))
    gradient = derivatives(m, FN)
    assert gradient == {name: pytest.approx(g, rel=1e-9) for name, g in FN_GRADIENT.items()}


def test_r3_27_blocks_of_steps_have_the_same_gradient_and_use_less_memory() -> None:
    """Differentiate 20 blocks of 10 steps, where the backward pass recomputes one block at a time."""
    inner = body(
        "i go_in v w s", {"go": "go_in", "vn": "v2", "wn": "w2", "sn": "s + v2 * v2"}, **STEP
    )
    block = body(
        "k go v w s",
        {"go": "go", "vn": "steps[0]", "wn": "steps[1]", "sn": "steps[2]"},
        steps=repeat(inner, ["v", "w", "s"], M=10),
    )
    m = model({"z": "loop[0] + loop[2]"}, s0="0 * v0", loop=repeat(block, ["v0", "w0", "s0"], M=20))
    gradient = derivatives(m, FN)
    assert gradient == {name: pytest.approx(g, rel=1e-9) for name, g in FN_GRADIENT.items()}


@pytest.mark.parametrize("native", ["auto", "off"])
def test_r3_27_blocks_of_a_run_over_time_have_the_same_gradient(native: str, monkeypatch) -> None:
    names = ["fn.a", "fn.b", "fn.start"]
    neuron = mdf_loop.compile({"m": {"graphs": NEURON}}, native=native, device="cpu")
    whole = neuron.gradient({"fn.v": "mean"}, names, steps=200, dt=0.1)
    monkeypatch.setattr(in_chunks, "CHUNK_STATE_BYTES", 1)
    monkeypatch.setattr(in_chunks, "MIN_CHUNK_STEPS", 10)
    blocks = neuron.gradient({"fn.v": "mean"}, names, steps=200, dt=0.1)
    for name in names:
        assert blocks[name] == pytest.approx(whole[name], rel=1e-11)


def test_r3_28_without_iterations_the_gradient_passes_through() -> None:
    step = body("i go z", {"go": "go", "n": "z * y", "row": "z * y"})
    m = model({"z": "loop[0] + numpy.sum(loop[1])"}, loop=repeat(step, ["z0"], M="m"))
    gradient = derivatives(m, {"z0": [2.0, 3.0], "y": 1.3, "m": 0})
    assert gradient == {"z0": [1.0, 1.0], "y": 0.0}


def test_r3_29_the_gradient_has_the_random_numbers_of_the_run() -> None:
    """Check the derivative of x = x a + z_t by a, which depends on the random numbers z_t."""
    m = loop_model(
        {"M": 6, "v_initial": "x"},
        {"x_next": "x * a + z", "drawn": "x_next - x * a", "z": "numpy.random.normal()"},
        port_values={"x": 0.5, "a": 0.8},
        carried="x",
        recorded="drawn",
    )
    node = m["model"]["graphs"]["graph"]["nodes"]["A"]
    step = node["functions"]["loop"]["args"]["body"]["b"]["nodes"]["step"]
    step["parameters"] = {"z": {"value": step["output_ports"].pop("z")["value"]}}
    step["output_ports"]["drawn"]["value"] = "z"
    for seed in (0, 1):
        compiled = mdf_loop.compile(m, device="cpu")
        drawn = compiled.run(seed=seed)["r1"]
        x, by_a = 0.5, 0.0
        for z in drawn:
            x, by_a = x * 0.8 + z, x + 0.8 * by_a
        gradient = compiled.gradient({"A.r0": "sum"}, ["a", "x"], seed=seed)
        assert gradient.value == pytest.approx(x, rel=1e-12)
        assert gradient["a"] == pytest.approx(by_a, rel=1e-12)
        assert gradient["x"] == pytest.approx(0.8**6, rel=1e-12)
