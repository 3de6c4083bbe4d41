"""Compare the cost of a step on a GPU with the CPU.

    python benchmarks/devices.py [--only CASE] [--rounds 5]

Each case runs on the CPU with native loops (on all cores where threads pay), on the CPU with
`native="off"`, and on CUDA. On CUDA each operation of a step is a kernel. The benchmark first compares the
numbers of all ways. Samples alternate. Figures are minima in microseconds per step, of whole runs that
record the first and the last row.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnxruntime
from native_peers import models

import mdf_loop
from mdf_loop.run.onnxruntime.device import cuda_problem

WAYS: Mapping[str, Mapping[str, Any]] = {
    "CPU": {"device": "cpu"},
    "CPU, standard": {"device": "cpu", "native": "off"},
    "CUDA": {"device": "cuda"},
}


@dataclass(frozen=True)
class Case:
    """A model with its number of steps, the seconds of a step, and the output that is compared."""

    model: Callable[[], Any]
    steps: int
    dt: float
    value: str


CASES: Mapping[str, Case] = {
    "FN 1": Case(lambda: models.from_file("FN"), 2000, models.FN_DT, "FNpop.V"),
    **{
        f"FN 1e{power}": Case(lambda n=10**power: models.fn(n), steps, models.FN_DT, "FNpop.V")
        for power, steps in ((3, 2000), (5, 500), (6, 100))
    },
    "HH": Case(lambda: models.from_file("HH"), 1000, models.HH_DT, "pop0.v"),
    **{
        f"RNN {units}": Case(lambda n=units: models.rnn(n), steps, 0.1, "net.r")
        for units, steps in ((100, 1000), (500, 500), (2000, 200))
    },
    **{
        f"drift diffusion 1e{power}": Case(
            lambda n=10**power: models.drift(n), steps, models.DRIFT_DT, "trial.x"
        )
        for power, steps in ((4, 500), (6, 100))
    },
}


def runs_of(case: Case) -> dict[str, Callable[[], Any]]:
    """Return a run of the case for each available device, after a check that all return the same numbers."""
    runs: dict[str, Callable[[], Any]] = {}
    expected: Any = None
    for way, options in WAYS.items():
        if way == "CUDA" and cuda_problem():
            continue
        compiled = mdf_loop.compile(case.model(), **options)
        arguments = {
            "steps": case.steps,
            "every": case.steps - 1,
            "dt": case.dt,
            "only": [case.value],
        }

        def run(compiled: Any = compiled, arguments: Any = arguments) -> Any:
            return compiled.run(**arguments, progress=False)[case.value]

        rows = run()
        expected = rows if expected is None else expected
        np.testing.assert_allclose(rows, expected, rtol=1e-9, atol=1e-12)
        runs[way] = run
    return runs


def minimum_times(runs: Mapping[str, Callable[[], Any]], rounds: int) -> dict[str, float]:
    """Return the minimum wall time of each run in seconds; samples of all runs alternate."""
    samples: dict[str, list[float]] = {way: [] for way in runs}
    for _ in range(rounds):
        for way, run in runs.items():
            start = time.perf_counter()
            run()
            samples[way].append(time.perf_counter() - start)
    return {way: min(times) for way, times in samples.items()}


def gpu_name() -> str:
    """Return the name and the driver version of the GPU."""
    command = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "no GPU"


def main() -> None:
    """Print a table of microseconds per step on each device, row by row."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="prefix of the names of cases to run")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    print(f"{gpu_name()}; {os.cpu_count()} cores; onnxruntime {onnxruntime.__version__}\n")
    print(f"| us a step | {' | '.join(WAYS)} | CPU / CUDA |\n|{'---|' * (len(WAYS) + 2)}")
    for name, case in CASES.items():
        if not name.startswith(options.only):
            continue
        times = minimum_times(runs_of(case), options.rounds)
        cells = [f"{times[way] / case.steps * 1e6:.3g}" if way in times else "" for way in WAYS]
        ratio = f"{times['CPU'] / times['CUDA']:.2g}" if "CUDA" in times else ""
        print(f"| {name} | {' | '.join(cells)} | {ratio} |", flush=True)


if __name__ == "__main__":
    main()
