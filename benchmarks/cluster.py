"""What two processes gain over one, and what they cost.

    python benchmarks/cluster.py [--members 40000] [--seconds 150]

A sweep of FitzHugh-Nagumo neurons over their current, of which the last values are kept:

    one       this process alone, one thread
    two       `cluster=2`: two processes of one thread each, which are started and ended in it

First 10 000 members over 2000 steps are held against each other, bit for bit. Then both are timed, by the
clock, over as many steps as take one process the seconds: the machine must have two cores that nothing
else uses. The first result is when the first members are told as
done, from the call on. The memory is the most that a process has which sweeps over
so many members with `cluster=2` and a store. The exit code is 1 if a threshold is missed.
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
from mdf_loop.run.onnxruntime.session import use_threads

MODEL = Path(__file__).parents[1] / "examples" / "parameter_sweep" / "model.yaml"

GAIN, FIRST, GROWTH = 1.6, 3.0, 25.0
"""At least so many times as fast; the first result after seconds; MB more for a million members."""

RUN_OPTIONS: dict[str, Any] = {"dt": 0.01, "reduce": {"v": "last"}, "progress": False}


def neuron() -> Any:
    """The model, in one thread."""
    use_threads(1)
    return mdf_loop.compile(MODEL, device="cpu", native="require")


def currents(members: int) -> dict[str, np.ndarray]:
    """What is swept."""
    return {"current": np.linspace(0, 2, members)}


def check(members: int, steps: int) -> None:
    """Two processes give what one gives."""
    model, arguments = (
        neuron(),
        {"sweep": currents(members), "steps": steps, "dt": 0.01, "every": 100},
    )
    np.testing.assert_array_equal(
        model.run(**arguments, cluster=2)["v"], model.run(**arguments)["v"]
    )


def steps_in(seconds: float, members: int) -> int:
    """How many steps one process makes of all members in a time."""
    model, steps = neuron(), 20_000
    arguments = {"sweep": currents(members), **RUN_OPTIONS}
    model.run(**arguments, steps=1000)
    began = time.perf_counter()
    model.run(**arguments, steps=steps)
    return int(steps * seconds / (time.perf_counter() - began))


def timed(members: int, steps: int) -> tuple[float, float, float]:
    """Seconds of one, of two, and until the first result of two."""
    model, arguments = neuron(), {"sweep": currents(members), "steps": steps, **RUN_OPTIONS}
    model.run(**{**arguments, "steps": 1000})
    began = time.perf_counter()
    alone = model.run(**arguments)
    one = time.perf_counter() - began
    first = float("inf")

    def told(progress: mdf_loop.Progress) -> None:
        nonlocal first
        if progress.done:
            first = min(first, time.perf_counter() - began)

    began = time.perf_counter()
    shared = model.run(**{**arguments, "progress": told}, cluster=2)
    two = time.perf_counter() - began
    for name in alone:
        np.testing.assert_array_equal(shared[name], alone[name])
    return one, two, first


def peak(members: int) -> float:
    """The most memory in MB of a process that sweeps over so many members, into a store."""
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


def missed(gain: float, first: float, growth: float) -> list[str]:
    """Sentences about thresholds that are missed."""
    problems = []
    if gain < GAIN:
        problems.append(f"two processes are {gain:.2f} times as fast as one, not {GAIN}")
    if first > FIRST:
        problems.append(f"the first result is there after {first:.1f} s, not {FIRST:.0f}")
    if growth > GROWTH:
        problems.append(f"a million members take {growth:.0f} MB more, not {GROWTH:.0f}")
    return problems


def main() -> int:
    """Print the table; 1 if a threshold is missed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--members", type=int, default=40_000)
    parser.add_argument("--seconds", type=float, default=150.0)
    options = parser.parse_args()
    check(10_000, 2000)
    steps = steps_in(options.seconds, options.members)
    one, two, first = timed(options.members, steps)
    few, many = peak(10_000), peak(1_000_000)
    print(f"| {options.members:,} members, {steps:,} steps | |\n|---|---|")
    print(f"| one process, s | {one:.1f} |\n| two processes, s | {two:.1f} |")
    print(f"| as fast as one | {one / two:.2f} |\n| first result, s | {first:.2f} |")
    print(f"| memory, 10,000 members, MB | {few:.0f} |\n| 1,000,000 members, MB | {many:.0f} |")
    problems = missed(one / two, first, many - few)
    print("\n".join(f"missed: {line}" for line in problems))
    return int(bool(problems))


if __name__ == "__main__":
    sys.exit(main())
