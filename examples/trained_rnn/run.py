"""Train a small recurrent network to output the running mean of its inputs, by gradient descent."""

from pathlib import Path

import numpy as np

import mdf_loop

MODEL = Path(__file__).parent / "model.yaml"
WEIGHTS = ["net.W", "net.U", "net.readout"]
STEPS, SEQUENCES, RATE, ROUNDS = 12, 32, 0.5, 800


def task(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return random numbers from -1 to 1, and their running mean."""
    x = np.random.default_rng(seed).uniform(-1, 1, (STEPS, SEQUENCES))
    counts = np.arange(1, STEPS + 1)[:, None]
    return x, np.cumsum(x, axis=0) / counts


x, target = task(seed=0)
network = mdf_loop.compile(MODEL)
start = {"net.h_start": np.zeros((SEQUENCES, 8))}
loss = network.differentiate({"net.y": {"sse": target[..., None]}}, WEIGHTS)

first = network.run({"x": x}, set=start, record=WEIGHTS)
weights = {name: np.array(first[name]) for name in WEIGHTS}
for number in range(ROUNDS + 1):
    gradient = loss.run({**start, **weights}, {"x": x})
    if number % 200 == 0:
        print(f"round {number:3}: mean squared error {gradient.value / target.size:.4f}")
    for name in WEIGHTS:
        weights[name] -= RATE / target.size * gradient[name]

x, target = task(seed=1)
y = network.run({"x": x}, set={**start, **weights})["net.y"]
print(f"sequences it has never seen: {np.mean((y[..., 0] - target) ** 2):.4f}")
print(f"always 0 would give: {np.mean(target**2):.4f}")
