"""Compare a sweep over 1000 values of a parameter with one run and with 1000 separate runs.

    python benchmarks/parameter_sweep.py [--members 1000] [--steps 2000] [--rounds 11]

The sweep runs FitzHugh-Nagumo (benchmarks/models/FN.yaml) over the stimulus `FNpop.Iext`. Samples alternate.
Figures are minima. The exit code is 1 if the sweep is less than 20 times as fast as the separate runs.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

import mdf_loop

MODEL = Path(__file__).parent / "models" / "FN.yaml"
DT = 5e-5
MIN_SPEEDUP = 20.0
SEPARATE_RUNS = 20
"""Number of separate runs that are measured and extrapolated to all members."""


def time_call(run: Callable[[], object]) -> float:
    """Return the wall time of one call in seconds."""
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def main() -> int:
    """Print the table; return exit code 1 if the threshold is missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--members", type=int, default=1000)
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=11)
    options = parser.parse_args()
    compiled = mdf_loop.compile(MODEL, device="cpu")
    values = np.linspace(0.0, 1.0, options.members)

    def sweep() -> mdf_loop.Results:
        return compiled.run(steps=options.steps, dt=DT, sweep={"FNpop.Iext": values})

    def single(value: float) -> mdf_loop.Results:
        return compiled.run(steps=options.steps, dt=DT, set={"FNpop.Iext": value})

    rows = sweep()["FNpop.V"]
    for member in (0, options.members // 2, options.members - 1):
        np.testing.assert_array_equal(rows[member], single(values[member])["FNpop.V"])
    sweep_times, run_times, separate_times = [], [], []
    for _ in range(options.rounds):
        run_times.append(time_call(lambda: compiled.run(steps=options.steps, dt=DT)))
        sweep_times.append(time_call(sweep))
        separate_times.append(
            time_call(lambda: [single(value) for value in values[:SEPARATE_RUNS]])
        )
    all_members = min(separate_times) / min(SEPARATE_RUNS, options.members) * options.members
    print("| sweep / one run | one by one / sweep | one run ms | sweep ms | one by one ms |")
    print("|---|---|---|---|---|")
    print(
        f"| {min(sweep_times) / min(run_times):.1f} | {all_members / min(sweep_times):.0f} | {min(run_times) * 1e3:.1f} "
        f"| {min(sweep_times) * 1e3:.1f} | {all_members * 1e3:.0f} |"
    )
    return int(all_members < MIN_SPEEDUP * min(sweep_times))


if __name__ == "__main__":
    sys.exit(main())
