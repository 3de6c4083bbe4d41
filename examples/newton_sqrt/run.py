"""Compute the square root of 2 by Newton's method, and record the guess of each iteration."""

from pathlib import Path

import mdf_loop

MODEL = Path(__file__).parent / "model.yaml"

results = mdf_loop.compile(MODEL).run({"a": 2.0, "first_guess": 1.0})

for step, guess in enumerate(results["guesses"], start=1):
    print(f"guess {step}: {guess:.15f}")
report = results.loops["newton.improve"]
print(f"{report.iterations} iterations; {report.stopped_by.value}")
