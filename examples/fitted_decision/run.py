"""Estimate drift, threshold and late (non-decision) time from choices and reaction times."""

from pathlib import Path

import mdf_loop

MODEL = Path(__file__).parent / "model.yaml"
TRUTH = {"ddm.drift": 1.3, "ddm.threshold": 0.9, "ddm.late": 0.25}
BOUNDS = {"ddm.drift": (0.0, 3.0), "ddm.threshold": (0.4, 2.0), "ddm.late": (0.05, 0.5)}
OUTPUTS = {"rt": "ddm.rt", "choice": "ddm.choice"}

ddm = mdf_loop.compile(MODEL)
trials = ddm.run(set=TRUTH, trials=1000, seed=7)
observations = {column: trials[output] for column, output in OUTPUTS.items()}

fit = ddm.fit(observations, BOUNDS, likelihood=OUTPUTS, trials=1000, points=128, seed=1)

for name, value in fit.estimates.items():
    error = fit.standard_errors[name]
    off = abs(value - TRUTH[name]) / error
    print(f"{name:13} {value:.2f} +- {error:.2f}, truth {TRUTH[name]:.2f}: {off:.0f} errors away")
