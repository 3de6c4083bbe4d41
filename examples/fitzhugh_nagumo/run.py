"""Simulate a FitzHugh-Nagumo neuron in one loop, bit for bit as in plain NumPy."""

from pathlib import Path

import numpy as np

import mdf_loop

MODEL = Path(__file__).parent / "model.yaml"
a, b, tau, dt, current, steps = 0.7, 0.8, 12.5, 0.1, 0.5, 2000

results = mdf_loop.compile(MODEL).run({"current": current})

v, w = np.float64(-1.0), np.float64(0.0)
v_trace, w_trace = np.empty(steps), np.empty(steps)
for step in range(steps):
    v_trace[step], w_trace[step] = v, w
    dv = v - v * v * v / 3 - w + current
    dw = (v + a - b * w) / tau
    v, w = v + dt * dv, w + dt * dw

peaks = np.flatnonzero((v_trace[1:-1] > v_trace[:-2]) & (v_trace[1:-1] >= v_trace[2:]))
print(f"{len(peaks)} spikes at t =", np.round(dt * (peaks + 1), 1))
print("v bit-equal to numpy:", np.array_equal(results["v"], v_trace))
print("w bit-equal to numpy:", np.array_equal(results["w"], w_trace))
