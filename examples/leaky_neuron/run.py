"""Compare the spike times of a leaky integrate-and-fire neuron with a formula."""

from pathlib import Path

import numpy as np

import mdf_loop

MODEL = Path(__file__).parent / "model.yaml"
dt, tau, v_threshold = 0.0001, 0.02, 1.0

neuron = mdf_loop.compile(MODEL)
for current in (0.9, 1.2, 1.5, 3.0):
    results = neuron.run({"current": current})
    times = dt * (np.flatnonzero(results["spikes"]) + 1)
    highest = results["v_trace"].max()
    print(f"current {current}: {len(times):2d} spikes in 0.2 s, highest potential {highest:.3f}")
    if len(times) > 1:
        interval = tau * np.log(current / (current - v_threshold))
        print(f"  one every {1e3 * np.diff(times).mean():.2f} ms; formula: {1e3 * interval:.2f} ms")
