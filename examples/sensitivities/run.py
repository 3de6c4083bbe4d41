"""Compute the derivatives of the mean voltage of a FitzHugh-Nagumo neuron, and check them."""

from pathlib import Path

import mdf_loop

MODEL = Path(__file__).parent / "model.yaml"
NAMES = ["fn.a", "fn.b", "fn.tau", "fn.v_start", "current"]

neuron = mdf_loop.compile(MODEL)
derivative = neuron.differentiate({"fn.v": "mean"}, NAMES, steps=2000, dt=0.1)
gradient = derivative.run(check=True)

print(f"mean voltage {gradient.value:.6f}")
for name, slope in gradient.items():
    print(f"  by {name:10} {slope:+.6f}")
assert gradient.check is not None
print(f"central differences agree in all {gradient.check.elements}")

moved = derivative.run({"fn.a": 0.7007}).value - gradient.value
print(f"a one part in a thousand up: {moved:+.7f}, predicted {0.0007 * gradient['fn.a']:+.7f}")
