"""Sum i * j over all j < i < n with nested loops, row by row."""

from pathlib import Path

import mdf_loop

MODEL = Path(__file__).parent / "model.yaml"

model = mdf_loop.compile(MODEL)
for n in (0, 1, 5, 8):
    results = model.run({"n": n})
    by_numpy = sum(i * j for i in range(n) for j in range(i))
    print(f"n = {n}: {results['total']} after rows {results['totals'].tolist()}")
    assert results["total"] == by_numpy
