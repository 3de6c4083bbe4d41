"""Simulate 100,000 drift diffusion decisions, compare them with theory, and stop and resume runs."""

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

import mdf_loop

MODEL = Path(__file__).parent / "model.yaml"
model = mdf_loop.compile(MODEL)
trials = 100_000


def theory(drift: np.ndarray, start: np.ndarray) -> tuple[float, float]:
    """Return the probability of the upper bound and the mean time. The step dt widens the bounds."""
    bound = 1.0 + 0.5826 * np.sqrt(0.001)
    up = (1 - np.exp(-2 * drift * (bound + start))) / (1 - np.exp(-4 * drift * bound))
    return up.mean(), 0.3 + ((bound * (2 * up - 1) - start) / drift).mean()


def compare(what: str, results: mdf_loop.Results, expected: tuple[float, float]) -> None:
    print(
        f"{what}: {results['choice.mean']:.1%} upwards after {results['rt.mean']:.3f} s", end="; "
    )
    print(f"theory {expected[0]:.1%}, {expected[1]:.3f} s")


statistics = {"choice": "mean", "rt": "mean"}
plain = {"trial.drift_sd": 0.0, "trial.start_range": 0.0, "trial.late_range": 0.0}
still = model.run(trials=trials, set=plain, over_trials=statistics)
compare("all trials alike", still, theory(np.array(1.0), np.array(0.0)))

random = np.random.default_rng(1)
drifts, starts = random.normal(1.0, 0.5, 10**6), random.uniform(-0.2, 0.2, 10**6)
compare(
    "with variability", model.run(trials=trials, over_trials=statistics), theory(drifts, starts)
)

for what, only in (("drifts", {}), ("starts", {"trial.drift_sd": 0.0, "trial.start_range": 1.5})):
    by = model.run(trials=trials, set=only, over_trials={"rt": "mean"}, by="choice")
    lower, upper = by["rt.mean"]
    print(
        f"errors are {'slow' if lower > upper else 'fast'} if {what} vary: {lower:.3f}, {upper:.3f} s"
    )

quantiles = {"quantiles": [0.1, 0.3, 0.5, 0.7, 0.9]}
edges = {"histogram": np.linspace(0.2, 3.2, 61)}
drawn = model.run(trials=trials, over_trials={"rt": ["count", quantiles, edges]}, by="choice")
with TemporaryDirectory() as folder:
    drawn.plot(Path(folder) / "drift_diffusion.png")

far = {"accumulator.threshold": 1e6}
bounded = mdf_loop.compile(MODEL, max_iterations=10_000).run(set=far)
print(f"a threshold too far: {bounded['evidence']:+.2f} reached")
print(f"  {bounded.reason}")
limited = model.run(set=far, time_limit=0.2)
print(f"  {limited.reason}")

hard = {"accumulator.threshold": 200.0, "accumulator.sigma": 10.0, "trial.drift_mean": 0.0}
with TemporaryDirectory() as folder:
    file = Path(folder) / "trial.ckpt"
    model.run(set=hard, checkpoint=file, progress=lambda progress: progress.done == 0)
    resumed = model.run(set=hard, resume=file)
unbroken = model.run(set=hard)
print(f"stopped and resumed: {resumed['evidence']} after {resumed['rt']:.3f} s")
print(f"unbroken:            {unbroken['evidence']} after {unbroken['rt']:.3f} s")
