"""Estimate the weights of a small recurrent network from the activity of its units."""

from pathlib import Path

import numpy as np

import mdf_loop

MODEL = Path(__file__).parent / "model.yaml"
NOISE, STEPS = 0.05, 300

network = mdf_loop.compile(MODEL)
rng = np.random.default_rng(3)
inputs = {"x": rng.normal(0, 1, STEPS)}
recording = network.run(inputs, steps=STEPS, record=["net.y", "net.W"])
y, W = recording["net.y"] + rng.normal(0, NOISE, (STEPS, 3)), recording["net.W"][0]
step = np.arange(STEPS)
free = {"net.W": (-2.0, 2.0)}


def tell(what: str, fit: mdf_loop.Fit) -> None:
    """Print the number of agreeing starts, and the errors of the estimated weights."""
    off = np.abs(fit.estimates["net.W"] - W)
    errors = fit.standard_errors["net.W"]
    print(f"{what}: {fit.agreeing} of {len(fit.starts)} starts agree")
    print(f"  residual sd {fit.residual_sd:.3f}")
    print(f"  standard errors of weights {errors.min():.3f} to {errors.max():.3f}")
    print(
        f"  {(off < 2 * errors).sum()} of 9 lie within two of them, the worst off by {off.max():.3f}"
    )
    print(f"  largest correlation {np.abs(fit.correlations - np.eye(9)).max():.2f}")


tell("all units seen", network.fit({"step": step, "net.y": y}, free, inputs=inputs))

only_first = np.where([True, False, False], y, np.nan)
tell(
    "one unit seen", network.fit({"step": step, "net.y": only_first}, free, inputs=inputs, polish=8)
)

scaled = network.fit(
    {"step": step, "net.y": y}, {"net.gain": (0.2, 5.0), "net.U": (-2.0, 2.0)}, inputs=inputs
)
print("cannot be told apart:", *scaled.unidentifiable)
print(f"standard error of the gain: {scaled.standard_errors['net.gain']}")
