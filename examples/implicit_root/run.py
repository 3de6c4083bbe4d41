"""Differentiate a root of Newton's method through its last step alone."""

from pathlib import Path

import numpy as np

import mdf_loop

MODEL = Path(__file__).parent / "model.yaml"
M, e = 1.0, 0.6

kepler = mdf_loop.compile(MODEL)
E = kepler.run({"M": M, "e": e}, only=["polish.root"])["polish.root"]
print(f"E - {e} sin E = {M} at E = {E:.12f}")

by_hand = {"M": 1 / (1 - e * np.cos(E)), "e": np.sin(E) / (1 - e * np.cos(E))}
whole = kepler.gradient({"polish.root": "sum"}, ["M", "e"])
implicit = kepler.gradient({"polish.root": "sum"}, ["M", "e"], stop=["solve.E"])
for name, slope in by_hand.items():
    print(f"by {name}: {slope:.9f} by hand")
    print(f"      {implicit[name]:.9f} from the last step alone")
    print(f"      {whole[name]:.9f} through all iterations")
print("loops with the last step alone:", *implicit.native)
print("loops through all iterations:", *whole.native)
