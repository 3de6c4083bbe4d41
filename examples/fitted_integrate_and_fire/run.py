"""Fit an integrate-and-fire neuron to a voltage trace without the rows near its spikes."""

from pathlib import Path

import numpy as np

import mdf_loop

MODEL = Path(__file__).parent / "model.yaml"
TRUTH = {"cell.rest": -65.0, "cell.resistance": 40.0, "cell.tau": 15.0}
BOUNDS = {"cell.rest": (-75.0, -55.0), "cell.resistance": (10.0, 80.0), "cell.tau": (5.0, 40.0)}
NOISE, STEPS, DT = 0.5, 2000, 0.2
BEFORE, AFTER = 10.0, 30.0

time = DT * np.arange(STEPS)
rng = np.random.default_rng(4)
current = np.repeat(rng.uniform(-0.4, 0.3, STEPS // 100), 100)
for onset in (100.0, 200.0, 300.0):
    current[(time >= onset) & (time < onset + 6)] = 1.6


def fires(trace: np.ndarray) -> np.ndarray:
    """Return the times at which the voltage is reset."""
    return time[1:][np.diff(trace) < -10]


neuron = mdf_loop.compile(MODEL)
voltage = neuron.run({"current": current}, set=TRUTH, steps=STEPS)["cell.V"]
data = voltage + rng.normal(0, NOISE, STEPS)
for spike in fires(voltage):
    data[(time >= spike) & (time < spike + 0.9)] = 20.0

peaks = time[data > 0]
near = np.any([(time > peak - BEFORE) & (time < peak + AFTER) for peak in peaks], axis=0)
for what, trace in (("all rows", data), ("away from spikes", np.where(near, np.nan, data))):
    fit = neuron.fit({"time": time, "V": trace}, BOUNDS, inputs={"current": current}, dt=DT)
    print(f"{what}: {fit.count}, {fit.agreeing} of {len(fit.starts)} starts agree")
    for name, value in fit.estimates.items():
        error = fit.standard_errors[name]
        print(f"  {name:15} {value:6.2f} +- {error:.2f}, truth {TRUTH[name]:5.1f}")
    print(f"  residual sd {fit.residual_sd:.2f}, noise {NOISE:.2f}")

fitted = fit.model.run({"current": current}, steps=STEPS)["cell.V"]
print("spikes, ms:", *fires(voltage).round(1))
print("of the fitted model:", *fires(fitted).round(1))
