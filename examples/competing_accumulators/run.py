"""Measure speed and accuracy of leaky competing accumulators for four thresholds."""

from pathlib import Path

import numpy as np

import mdf_loop

MODEL = Path(__file__).parent / "model.yaml"
model = mdf_loop.compile(MODEL)
trials = 2000
statistics = {"rt": ["mean", "count"]}

alike = model.run({"evidence": [3.0, 3.0, 3.0]}, trials=trials, over_trials=statistics, by="choice")
shares, error = alike["rt.count"] / trials, np.sqrt(2 / 9 / trials)
print(f"the same evidence for all: {shares.round(3)}, each 1/3 give or take {error:.3f}")

thresholds = {"choice.threshold": [0.4, 0.6, 0.8, 1.0]}
swept = model.run(trials=trials, sweep=thresholds, over_trials=statistics, by="choice")
for threshold, counts, times in zip(
    thresholds["choice.threshold"], swept["rt.count"], swept["rt.mean"], strict=True
):
    print(f"threshold {threshold}: {counts[0] / trials:.0%} right", end=", ")
    print(f"{counts @ times / trials:.2f} s on average")
