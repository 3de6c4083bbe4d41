"""Fit a FitzHugh-Nagumo neuron to a noisy trace with known parameters."""

from pathlib import Path

import numpy as np

import mdf_loop

MODEL = Path(__file__).parent / "model.yaml"
TRUTH = {"fn.a": 0.65, "fn.b": 0.9, "fn.tau": 11.0}
BOUNDS = {"fn.a": (0.3, 1.1), "fn.b": (0.4, 1.4), "fn.tau": (5.0, 25.0)}
NOISE, STEPS, DT = 0.1, 400, 0.25

neuron = mdf_loop.compile(MODEL)
trace = neuron.run(set=TRUTH, steps=STEPS, dt=DT)["fn.v"]
noise = np.random.default_rng(1).normal(0, NOISE, STEPS)
data = {"time": DT * np.arange(STEPS), "v": trace + noise}

fit = neuron.fit(data, BOUNDS, against="fn.v", dt=DT)

for name, value in fit.estimates.items():
    error = fit.standard_errors[name]
    print(f"{name:6} {value:7.3f} +- {error:.3f}, truth {TRUTH[name]:6.3f}")
print(f"{fit.agreeing} of {len(fit.starts)} starts agree")
print(f"residual sd {fit.residual_sd:.3f}, noise {noise.std():.3f}")
