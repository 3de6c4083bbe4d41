"""Find the currents at which a FitzHugh-Nagumo neuron fires, by a sweep of 41 currents."""

from pathlib import Path

import numpy as np

import mdf_loop

MODEL = Path(__file__).parent / "model.yaml"
currents = np.linspace(0, 2, 41)

neuron = mdf_loop.compile(MODEL)
results = neuron.run(sweep={"current": currents}, steps=4001, dt=0.1)
v = results["v"]
spikes = ((v[:, 1:] > 1) & (v[:, :-1] <= 1))[:, 1000:].sum(axis=1)
firing = currents[spikes > 0]
print(f"v: {v.shape[0]} members, {v.shape[1]} steps")
print(f"fires again and again for currents from {firing.min():.2f} to {firing.max():.2f}")

single = neuron.run({"current": currents[10]}, steps=4001, dt=0.1)
print("a member is a run of its own:", np.array_equal(v[10], single["v"]))

few = neuron.run(sweep={"current": [0.2, 0.5, 1.6]}, steps=2001, dt=0.1)
few.plot("parameter_sweep.png", title="FitzHugh-Nagumo neuron, three currents")
