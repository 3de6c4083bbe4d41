"""Run a recurrent network of two layers, and compare its states with those of plain NumPy."""

from pathlib import Path

import numpy as np

import mdf_loop

MODEL = Path(__file__).parent / "model.yaml"
x = np.sin(np.arange(18.0)).reshape(6, 3)

results = mdf_loop.compile(MODEL).run({"x": x}, record=["layer_1.h_trace"])


def layer(x, w_in, w_rec):
    """Return all states of one layer, computed in plain NumPy."""
    h, states = np.zeros(2), []
    for row in x:
        h = np.tanh(row @ np.array(w_in) + h @ np.array(w_rec))
        states.append(h)
    return np.array(states)


below = layer(x, [[0.5, -0.25], [0.125, 0.75], [-0.5, 0.25]], [[0.5, 0.25], [-0.25, 0.5]])
above = layer(below, [[1.0, -1.0], [0.5, 0.5]], [[0.25, 0.0], [0.0, 0.25]])

print(np.round(results["layer_2.h_trace"], 4))
for name, expected in (("layer_1.h_trace", below), ("layer_2.h_trace", above)):
    assert np.allclose(results[name], expected, rtol=1e-12, atol=1e-15), name
print("both layers as in numpy")
