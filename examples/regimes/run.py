"""Map the regimes of a FitzHugh-Nagumo neuron over 100 x 100 parameter values, with two processes."""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import mdf_loop

MODEL = Path(__file__).parent / "model.yaml"
currents, recoveries = np.linspace(0, 2, 100), np.linspace(0.2, 1.4, 100)

neuron = mdf_loop.compile(MODEL)
results = neuron.run(
    sweep=mdf_loop.grid({"fn.b": recoveries, "current": currents}),
    steps=4001,
    dt=0.1,
    reduce={"spikes": "last", "v": "last"},
    cluster=2,
)
spikes, v = results["fn.spikes.last"], results["fn.v.last"]
fires = spikes > 2
print(f"fires again and again: {fires.sum()} of {fires.size} members")
print(f"at rest: {(~fires & (v < 0)).sum()}, blocked: {(~fires & (v >= 0)).sum()}")

alone = neuron.run({"current": currents[40]}, set={"fn.b": recoveries[50]}, steps=4001, dt=0.1)
print("a member is a run of its own:", alone["spikes"][-1] == spikes[50, 40])

figure, axes = plt.subplots(figsize=(6, 4.2), layout="constrained")
image = axes.pcolormesh(currents, recoveries, spikes, rasterized=True)
for place, regime in {(0.1, 1.0): "at rest", (0.8, 0.55): "fires", (1.3, 1.15): "blocked"}.items():
    axes.text(*place, regime, color="white")
axes.set(xlabel="current", ylabel="fn.b", title="Spikes in 400 s")
figure.colorbar(image)
figure.savefig("regimes.png", dpi=110)
