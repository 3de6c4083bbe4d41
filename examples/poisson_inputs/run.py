"""Simulate ten neurons with 100 Poisson inputs, and compare their currents with theory."""

from pathlib import Path

import numpy as np

import mdf_loop

MODEL = Path(__file__).parent / "model.yaml"
rate, dt, tau_s, weight, inputs, share, second = 20.0, 0.0005, 0.005, 0.4, 100, 0.2, 2000

model = mdf_loop.compile(MODEL)
statistics = model.run(steps=second, trials=500, over_trials={"count": ["mean", "var"]})
mean, variance = statistics["count.mean"][-1], statistics["count.var"][-1]
print(f"spikes that arrive in a second: mean {mean:.0f}, variance {variance:.0f}", end="; ")
print(f"exactly {inputs * rate:.0f}, {inputs * rate * (1 - rate * dt):.0f}")

results = model.run(steps=second + 1, trials=500, every=100, only=["current", "spikes"])
current = results["current"][:, 1:]  # axes: trial, time, neuron
p, decay = rate * dt, 1 - dt / tau_s
spikes, wires = p * (1 - p) / (1 - decay**2), share * (1 - share) * (p / (1 - decay)) ** 2
expected = weight**2 * inputs * (share * spikes + wires)
print(
    f"current: {current.mean():.3f}; Campbell's theorem: {weight * inputs * share * rate * tau_s}"
)
print(f"its variance: {current.var():.4f}; exactly {expected:.4f}")

rows = current.reshape(-1, current.shape[-1])
pairs = np.corrcoef(rows, rowvar=False)[np.triu_indices(current.shape[-1], k=1)]
common = weight**2 * inputs * share**2 * spikes / expected
print(f"correlation of two neurons' currents: {pairs.mean():.3f}; exactly {common:.3f}")
print(f"a neuron fires {results['spikes'][:, -1].mean():.2f} times a second")
