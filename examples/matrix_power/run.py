"""Compute powers of an integer matrix, whose upper right elements are the Fibonacci numbers."""

from pathlib import Path

import numpy as np

import mdf_loop

MODEL = Path(__file__).parent / "model.yaml"

model = mdf_loop.compile(MODEL)
results = model.run({"n": 10})
print("a^10 =", results["power"].tolist())
print("Fibonacci:", results["corners"].tolist())

far = model.run({"n": 90})["power"]
assert far.dtype == np.int64
assert far[0, 1] == 2880067194370816120
print("the 90th Fibonacci number:", far[0, 1])
