"""Models of the benchmark as hand-written numpy loops.

Each function returns the same rows as `run(steps=, dt=)`: a row per step by output port. The first step has
dt = 0. Sizes and parameters equal those of the model files. Expressions of constants alone are computed once
before the loop.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np

Array: TypeAlias = np.ndarray
Rows: TypeAlias = dict[str, Array]
Parameters: TypeAlias = Mapping[str, Mapping[str, Array]]
"""Constant parameters of a model by node and parameter name."""


def parameters(model: Mapping[str, Any]) -> Parameters:
    """Return the parameters of a model file that are plain numbers or lists."""
    (graph,) = next(iter(model.values()))["graphs"].values()
    return {
        name: {
            key: np.asarray(parameter["value"], float)
            for key, parameter in node.get("parameters", {}).items()
            if isinstance(parameter.get("value"), int | float | list)
        }
        for name, node in graph["nodes"].items()
    }


def fitzhugh_nagumo(_: Parameters, steps: int, dt: float) -> Rows:
    """Simulate the FitzHugh-Nagumo neuron; W is updated with the new V."""
    v, w = np.array([-1.0]), np.array([0.0])
    vs, ws = np.empty((steps, 1)), np.empty((steps, 1))
    vs[0], ws[0] = v, w
    for k in range(1, steps):
        v = v + (-1 / 3 * v * v * v + v + 1 - w) / 0.001 * dt
        w = w + (v - 0.8 * w + 0.7) / 0.0125 * dt
        vs[k], ws[k] = v, w
    return {"FNpop.spike": np.zeros((steps, 1), int), "FNpop.V": vs, "FNpop.W": ws}


def recurrent_network(p: Parameters, steps: int, dt: float) -> Rows:
    """Simulate five tanh units with a sine into the first, and the weighted sum of their rates."""
    matrix, readout = p["rnn_node"]["M"], p["readout_node"]["wr"]
    weight = np.array([1.0, 0.0, 0.0, 0.0, 0.0])
    t = 0.0
    x = np.array(
        [
            *(0.3929383711957233, -0.42772133009924107, -0.5462970928715938),
            *(0.10262953816578246, 0.43893793957112615),
        ]
    )
    ts, xs, zs = np.empty(steps), np.empty((steps, 5)), np.empty(steps)
    feedback = np.zeros(5)
    for k in range(steps):
        if k:
            t = t + dt
            drive = weight * np.sin(2 * 3.14159 * t / 10)
            x = x + (-x + 1.5 * feedback + drive) * dt
        r = np.tanh(x)
        feedback = matrix @ r
        ts[k], xs[k], zs[k] = t, x, r @ readout
    return {"input_node.t_out_port": ts, "rnn_node.out_port_x": xs, "readout_node.z": zs}


def integrate_and_fire(p: Parameters, steps: int, dt: float) -> Rows:
    """Simulate neurons with a current step, and neurons driven by their spikes through synapses."""
    source, weights = p["current_input_node"], p["syn_post"]["spike_weights"]
    time, synapse = 0.0, np.zeros_like(p["pre"]["v0"])
    pre, post = p["pre"]["v0"], p["post"]["v0"]
    spiking, spiking_post = np.zeros_like(pre), np.zeros_like(post)
    pres, posts, spikes = (np.empty((steps, pre.size)) for _ in range(3))
    for k in range(steps):
        step = dt if k else 0.0
        time = time + step
        on = time > source["start"] and not time > source["start"] + source["duration"]
        level = source["amplitude"] if on else 0.0
        spiking, pre = _fire(p["pre"], pre, spiking, level, step)
        synapse = np.where(spiking > 0, weights @ spiking, synapse - synapse * step)
        spiking_post, post = _fire(p["post"], post, spiking_post, synapse, step)
        pres[k], posts[k], spikes[k] = pre, post, spiking_post
    return {"pre.v_output": pres, "post.v_output": posts, "post.spiking_output": spikes}


def _fire(
    p: Mapping[str, Array], v: Array, spiking: Array, current: Array | float, dt: float
) -> tuple[Array, Array]:
    """Return the spikes of neurons at the old voltage, and the new voltage."""
    spiking = np.where(v >= p["thresh"], 1.0, spiking)
    spiking = np.where(v < p["thresh"], 0.0, spiking)
    next_v = v + (-(v - p["erev"]) / p["tau"] + current) * dt
    return spiking, np.where(v > p["thresh"], p["erev"], next_v)


def hodgkin_huxley(_: Parameters, steps: int, dt: float) -> Rows:
    """Simulate the Hodgkin-Huxley neuron of PyNN; gates use the rates of the previous step."""
    v, m, h, n = np.array([-0.065]), np.zeros(1), np.zeros(1), np.zeros(1)
    t, stimulus = 0.0, np.zeros(1)
    rates = closing = membrane = synapse = np.zeros(1)
    vs, ms, hs, ns = (np.empty((steps, 1)) for _ in range(4))
    for k in range(steps):
        stimulus = np.where(t < 0.2, 0.0, stimulus)
        stimulus = np.where(t >= 0.2 and t < 0.8, 0.0, stimulus)
        stimulus = np.where(t >= 0.8, 0.0, stimulus)
        if k:
            t = t + dt
            v = v + (0.001 * (membrane / 0.2) / 0.001 + synapse / 2.0000000000000003e-10) * dt
            m = m + (rates[0] * (1 - m) - closing[0] * m) / 0.001 * dt
            h = h + (rates[1] * (1 - h) - closing[1] * h) / 0.001 * dt
            n = n + (rates[2] * (1 - n) - closing[2] * n) / 0.001 * dt
        synapse = stimulus
        mv = v / 0.001
        leak = 0.01 * (-65.0 - mv)
        sodium = 20.0 * (m * m * m) * h * (50.0 - mv)
        potassium = 6.0 * (n * n * n * n) * (-90.0 - mv)
        membrane = leak + sodium + potassium + 0.05
        rates, closing = _rates(mv)
        vs[k], ms[k], hs[k], ns[k] = v, m, h, n
    spike = np.zeros((steps, 1), int)
    return {"pop0.spike": spike, "pop0.v": vs, "pop0.m": ms, "pop0.h": hs, "pop0.n": ns}


def _rates(mv: Array) -> tuple[tuple[Array, ...], tuple[Array, ...]]:
    """Return the opening and closing rates of m, h and n at a voltage in mV."""
    m_up, n_up, shifted = 13 - mv - 63.0, 15 - mv - 63.0, mv + 63.0 - 40
    opening = (
        0.32 * m_up / (np.exp(m_up / 4.0) - 1),
        0.128 * np.exp((17 - mv - 63.0) / 18.0),
        0.032 * n_up / (np.exp(n_up / 5) - 1),
    )
    closing = (
        0.28 * shifted / (np.exp(shifted / 5.0) - 1),
        4.0 / (1 + np.exp((40 - mv - 63.0) / 5)),
        0.5 * np.exp((10 - mv - 63.0) / 40),
    )
    return opening, closing


def four_functions(_: Parameters, steps: int, dt: float) -> Rows:
    """Compute a chain of four functions in every step."""
    outs = np.empty(steps)
    for k in range(steps):
        a = 0.0 * 1.1 + 1.2
        b = 1 / (1 + np.exp(-2.1 * (a + 2.2) + 2.3))
        c = 3.1 * np.exp(3.2 * b + 3.3) + 3.4
        outs[k] = 4.0 * np.sin(c)
    return {"D.out_port": outs}


def four_nodes(_: Parameters, steps: int, dt: float) -> Rows:
    """Simulate four connected nodes; a node spikes if its previous output was negative."""
    names = ("A_input", "A", "B", "C", "D")
    spikes, out = np.zeros((5, 1)), np.zeros((5, 1))
    spike_rows, d_rows = np.empty((steps, 5, 1)), np.empty((steps, 1))
    d = np.zeros(1)
    for k in range(steps):
        source = np.array([2.0])
        a = source * 2.0 + 2.0
        b = 1 / (1 + np.exp(-1.0 * a))
        c = np.exp(a)
        spikes = np.where(spikes > 0, 0.0, np.where(out < 0, 1.0, spikes))
        if k:
            d = d + 0.05 * c / 0.1 * dt
        out = np.stack((source, a, b, c, d))
        spike_rows[k], d_rows[k] = spikes, d
    rows = {f"{name}.spike": spike_rows[:, j] for j, name in enumerate(names)}
    rows |= {f"{name}.V": np.zeros(steps, int) for name in names}
    return {**rows, "D.OUTPUT": d_rows}


LOOPS: dict[str, Callable[[Parameters, int, float], Rows]] = {
    "FN": fitzhugh_nagumo,
    "RNNs": recurrent_network,
    "IAFs": integrate_and_fire,
    "IAF_net": integrate_and_fire,
    "HH": hodgkin_huxley,
    "ABCD": four_functions,
    "ABCD_neuroml": four_nodes,
}
"""Loops by the name of their model in `benchmarks/models`."""
