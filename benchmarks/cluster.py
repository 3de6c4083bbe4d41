"""Measure the speedup of a sweep on two cluster processes over one process.

    python benchmarks/cluster.py [--members 40000] [--seconds 150]

The sweep runs FitzHugh-Nagumo neurons over their input current and records the last values:

    one       the benchmark process alone, one thread
    two       `cluster=2`: two processes with one thread each, started and stopped within the measurement

The benchmark first checks that 10 000 members over 2000 steps are equal bit for bit in both ways. Both ways
are then measured in wall time. The number of steps is such that one process takes `--seconds`. The machine
must have two idle cores.

The time of the first result is the time from the call of `run` to the first progress report with completed
members. Memory is the peak of a process that sweeps over the members with `cluster=2` into a store. The
exit code is 1 if a threshold is missed.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import mdf_loop
from mdf_loop.run.onnxruntime.session import set_max_threads

MODEL = Path(__file__).parents[1] / "examples" / "parameter_sweep" / "model.yaml"

MIN_SPEEDUP, MAX_FIRST_SECONDS, MAX_GROWTH_MB = 1.6, 3.0, 25.0
"""Thresholds of the speedup, the time of the first result and the memory growth to a million members."""

RUN_OPTIONS: dict[str, Any] = {"dt": 0.01, "reduce": {"v": "last"}, "progress": False}


def neuron() -> Any:
    """Compile the model for one thread."""
    set_max_threads(1)
    return mdf_loop.compile(MODEL, device="cpu", native="require")


def currents(members: int) -> dict[str, np.ndarray]:
    """Return the values of the sweep."""
    return {"current": np.linspace(0, 2, members)}


def check_members(members: int, steps: int) -> None:
    """Check that two processes return the results of one process, bit for bit."""
    model, arguments = (
        neuron(),
        {"sweep": currents(members), "steps": steps, "dt": 0.01, "every": 100},
    )
    np.testing.assert_array_equal(
        model.run(**arguments, cluster=2)["v"], model.run(**arguments)["v"]
    )


def count_steps(seconds: float, members: int) -> int:
    """Return the number of steps that one process computes for all members in `seconds`."""
    model, steps = neuron(), 20_000
    arguments = {"sweep": currents(members), **RUN_OPTIONS}
    model.run(**arguments, steps=1000)
    start = time.perf_counter()
    model.run(**arguments, steps=steps)
    return int(steps * seconds / (time.perf_counter() - start))


def measure(members: int, steps: int) -> tuple[float, float, float]:
    """Return the seconds of one process, of two processes, and until the first result of two processes."""
    model, arguments = neuron(), {"sweep": currents(members), "steps": steps, **RUN_OPTIONS}
    model.run(**{**arguments, "steps": 1000})
    start = time.perf_counter()
    single_run = model.run(**arguments)
    one = time.perf_counter() - start
    first = float("inf")

    def note_first_result(progress: mdf_loop.Progress) -> None:
        nonlocal first
        if progress.done:
            first = min(first, time.perf_counter() - start)

    start = time.perf_counter()
    shared = model.run(**{**arguments, "progress": note_first_result}, cluster=2)
    two = time.perf_counter() - start
    for name in single_run:
        np.testing.assert_array_equal(shared[name], single_run[name])
    return one, two, first


def peak_memory(members: int) -> float:
    """Return the peak memory in MB of a process that sweeps over `members` members into a store."""
    with tempfile.TemporaryDirectory() as folder:
        code = (
            "import resource, mdf_loop\n"
            f"m = mdf_loop.compile({str(MODEL)!r}, device='cpu')\n"
            f"m.run(sweep=mdf_loop.sobol({{'current': (0, 2)}}, {members}), steps=200, dt=0.1,\n"
            f"      reduce={{'v': 'last'}}, cluster=2, output={folder + '/s.zarr'!r})\n"
            "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)"
        )
        process = subprocess.run(
            [sys.executable, "-c", code], check=True, capture_output=True, text=True
        )
    return float(process.stdout)


def missed_thresholds(speedup: float, first: float, growth: float) -> list[str]:
    """Return a message for each missed threshold."""
    problems = []
    if speedup < MIN_SPEEDUP:
        problems.append(f"speedup of two processes: {speedup:.2f} is below {MIN_SPEEDUP}")
    if first > MAX_FIRST_SECONDS:
        problems.append(f"first result: {first:.1f} s exceeds {MAX_FIRST_SECONDS:.0f} s")
    if growth > MAX_GROWTH_MB:
        problems.append(
            f"memory growth to a million members: {growth:.0f} MB exceeds {MAX_GROWTH_MB:.0f} MB"
        )
    return problems


def main() -> int:
    """Print the table; return exit code 1 if a threshold is missed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--members", type=int, default=40_000)
    parser.add_argument("--seconds", type=float, default=150.0)
    options = parser.parse_args()
    check_members(10_000, 2000)
    steps = count_steps(options.seconds, options.members)
    one, two, first = measure(options.members, steps)
    small_peak, large_peak = peak_memory(10_000), peak_memory(1_000_000)
    print(f"| {options.members:,} members, {steps:,} steps | |\n|---|---|")
    print(f"| one process, s | {one:.1f} |\n| two processes, s | {two:.1f} |")
    print(f"| as fast as one | {one / two:.2f} |\n| first result, s | {first:.2f} |")
    print(
        f"| memory, 10,000 members, MB | {small_peak:.0f} |\n| 1,000,000 members, MB | {large_peak:.0f} |"
    )
    problems = missed_thresholds(one / two, first, large_peak - small_peak)
    print("\n".join(f"missed: {line}" for line in problems))
    return int(bool(problems))


if __name__ == "__main__":
    sys.exit(main())
