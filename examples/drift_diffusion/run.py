"""Drift diffusion: evidence builds up until it reaches a bound, on a thousand noise traces."""

from pathlib import Path

import numpy as np

import mdf_loop

MODEL = Path(__file__).parent / "model.yaml"
dt = 0.001

model = mdf_loop.compile(MODEL)
random = np.random.default_rng(seed=1)

first = model.run({"noise": random.standard_normal(2000)})
print(f"first trial: {first['decision']:+.3f} after {first['steps'] * dt:.3f} s")
print(f"evidence recorded: {first['evidence'].shape[0]} steps")

trials = [model.run({"noise": random.standard_normal(2000)}) for _ in range(1000)]
decided = [trial for trial in trials if not trial["undecided"]]
upper = np.mean([trial["decision"] > 0 for trial in decided])
seconds = np.mean([trial["steps"] * dt for trial in decided])
print(f"{len(decided)} of 1000 trials decided within 2 s, {upper:.0%} of them upwards")
print(f"mean decision time {seconds:.2f} s")
print(f"theory without time limit: {1 / (1 + np.exp(-2 * 0.8 * 0.75)):.0%} upwards")
