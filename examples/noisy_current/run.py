"""Compare a spiking neuron with Ornstein-Uhlenbeck input current with theory."""

from math import erf
from pathlib import Path

import numpy as np

import mdf_loop

MODEL = Path(__file__).parent / "model.yaml"
mean, sd, tau_current, tau, dt = 0.9, 0.4, 0.002, 0.02, 0.0001
second = 10_000  # number of steps in one second

neuron = mdf_loop.compile(MODEL)

traces = neuron.run(steps=second, trials=100, only=["current.I", "cell.fires"])
current, fires = traces["I"], traces["fires"]
print(f"variance of the current {current.var():.4f}; exactly {sd**2:.4f}")
later = round(tau_current / dt)
correlation = np.corrcoef(current[:, :-later].ravel(), current[:, later:].ravel())[0, 1]
print(f"its correlation over 2 ms {correlation:.4f}; exactly {np.exp(-1):.4f}")
intervals = np.concatenate([np.diff(np.flatnonzero(row)) for row in fires])
print(f"without noise no spikes: {neuron.run(steps=second, set={'current.sd': 0.0})['spikes'][-1]}")

statistics = neuron.run(
    steps=2 * second + 1, trials=2000, every=second, over_trials={"spikes": ["mean", "var"]}
)
rate = statistics["spikes.mean"][2] - statistics["spikes.mean"][1]

sigma = sd * np.sqrt(2 * tau_current / tau)
shift = np.sqrt(tau_current / tau) * 1.46035 / np.sqrt(2)  # 1.46035 is -zeta(1/2)
u = np.linspace((0.0 - mean) / sigma + shift, (1.0 - mean) / sigma + shift, 10_001)
area = np.exp(u**2) @ [1 + erf(each) for each in u] * (u[1] - u[0])
print(f"{rate:.2f} spikes a second; theory {1 / (tau * np.sqrt(np.pi) * area):.2f}")

fano = statistics["spikes.var"][2] / statistics["spikes.mean"][2]
print(f"variance of the counts {fano:.2f} of their mean", end=", ")
print(f"that of the intervals {np.var(intervals) / np.mean(intervals) ** 2:.2f} of theirs squared")
