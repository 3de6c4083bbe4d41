"""Simulate a neuron whose threshold and interspike intervals grow with each spike."""

from pathlib import Path

import numpy as np

import mdf_loop

MODEL = Path(__file__).parent / "model.yaml"
dt = 0.0001

neuron = mdf_loop.compile(MODEL)
for current in (0.8, 2.0, 3.0):
    results = neuron.run({"current": current})
    times = dt * np.flatnonzero(results["spikes"])
    highest = results["theta_trace"].max()
    print(f"current {current}: {len(times):2d} spikes, highest threshold {highest:.2f}")
    if len(times) > 1:
        intervals = 1e3 * np.diff(times)
        print("  intervals in ms:", *(f"{interval:.1f}" for interval in intervals[:8]))

mdf_loop.draw(MODEL, "adaptive_threshold.svg", captures=False)
