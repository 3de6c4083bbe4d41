"""Measure the overhead of running in chunks, and the latency of the progress bar and of Ctrl-C.

    python benchmarks/chunking.py [--steps 100000] [--iterations 1000000] [--rounds 11]

Two programs are measured: FitzHugh-Nagumo over time (benchmarks/models/FN.yaml, one neuron) and a while
loop whose condition depends on its data. The reference `unbroken` is one call of ONNX Runtime for all
steps, in the same session. The reference reports no progress and cannot be interrupted.

The benchmark first checks that all results are equal bit for bit. Samples of all ways alternate. The first
ratio compares the minima. The second ratio is the median of the ratios of the rounds.

The latency of the progress bar is the time from the call of `run` to the first output on a new
pseudo-terminal, in a new process for each sample. Ctrl-C is sent at random moments. Its latency is the
time from the signal to the return of `run`.

The exit code is 1 if a median misses its threshold. Chunks of default length may cost at most 3 %. The
bar must appear within 0.3 s, and `run` must return within 50 ms of Ctrl-C.

Loops run with `native="off"`, because native loops are so fast that fixed costs would hide the chunks.
"""

from __future__ import annotations

import argparse
import os
import platform
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime

import mdf_loop
from mdf_loop.api.compiled import CompiledModel
from mdf_loop.request.run_options import RunOptions
from mdf_loop.specification import specify

MODEL = Path(__file__).parent / "models" / "FN.yaml"
DT = 5e-5
MAX_RATIO, MAX_BAR_SECONDS, MAX_CTRL_C_SECONDS = 1.03, 0.3, 0.05
"""Thresholds of the chunk overhead, the latency of the progress bar and the latency of Ctrl-C."""

ENDLESS = 10**12
LONG = 10_000_000
"""Number of steps of the runs that Ctrl-C interrupts."""

Rows = dict[str, np.ndarray]

TERMINAL_PROGRAM = """
import sys, time, mdf_loop
compiled = mdf_loop.compile(sys.argv[1], native="off")
print(time.monotonic(), flush=True)
compiled.run(steps=150_000, dt=5e-5)
"""


# --- models -----------------------------------------------------------------------------------


def wide_model(elements: int) -> dict[str, Any]:
    """Return a model that records a row of `elements` numbers in each step."""
    node = {
        "parameters": {
            "x": {"default_initial_value": [1.0] * elements, "value": "x * 0.999 + 0.01"}
        },
        "output_ports": {"x": {"value": "x"}},
    }
    return {"wide": {"format": "ModECI MDF v0.4", "graphs": {"g": {"nodes": {"A": node}}}}}


def loop_model() -> dict[str, Any]:
    """Return a while loop that counts up to `end` and applies the logistic map to `x` in each iteration."""
    step = {
        "input_ports": {"x": {}, "count": {}, "end": {}},
        "output_ports": {
            "x_next": {"value": "2.9 * x * (1.0 - x)"},
            "count_next": {"value": "count + 1.0"},
            "go": {"value": "count + 1.0 < end"},
        },
    }
    body = {
        "metadata": {
            "inputs": ["i", "go_in", "x", "count"],
            "outputs": ["go", "x_next", "count_next"],
        },
        "nodes": {"step": step},
    }
    args = {"cond": True, "v_initial": ["x0", "zero"], "end": "end", "body": {"body": body}}
    default_inputs = {"x0": 0.3, "zero": 0.0, "end": 1.0}
    node = {
        "input_ports": {name: {"default_value": value} for name, value in default_inputs.items()},
        "functions": {"loop": {"function": "onnx::Loop", "args": args}},
        "output_ports": {"x": {"value": "loop[0]"}, "n": {"value": "loop.iterations"}},
    }
    return {"while": {"format": "ModECI MDF v0.4", "graphs": {"g": {"nodes": {"A": node}}}}}


# --- single call ------------------------------------------------------------------------------


def build_unbroken_run(compiled: CompiledModel, steps: int, every: int = 1) -> Callable[[], Rows]:
    """Return a function that runs all steps after the first in one call, without chunks.

    The function returns only the rows of this call.
    """
    rows = (steps - 1) // every
    spec = specify(RunOptions(steps=steps, dt=DT, every=every))
    bound = compiled.prepared.bind(spec)
    session = compiled.prepared.over_time(spec, bound)
    is_brief = session.register_run(steps, session.members(bound))

    def run() -> Rows:
        state = session.state_of(session.first_loaded_program.run(session.step_inputs(bound, 0)))
        later = session.get_later_loop(state, is_brief=is_brief, thinned=every > 1)
        inputs = session.step_inputs(bound, 1, steps)
        arrays = later.run(session.loop_feeds(later, inputs, state, rows * every, rows, DT))
        return {name: arrays[name] for name in session.programs.recorded_names}

    return run


def check_rows(compiled: CompiledModel, whole: Rows, steps: int) -> None:
    """Raise an error if the run in chunks does not return exactly the rows of the unbroken run."""
    ours = compiled.run(steps=steps, dt=DT, progress=False)
    for name, array in ours.items():
        np.testing.assert_array_equal(array[1:], whole[name], err_msg=name, strict=True)


# --- measurement ------------------------------------------------------------------------------


def time_call(run: Callable[[], object]) -> float:
    """Return the wall time of one call in seconds."""
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def print_table(title: str, ways: dict[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """Print a table of the times of all ways and return the ratios of their minima to the first way."""
    samples: dict[str, list[float]] = {way: [] for way in ways}
    for _ in range(rounds):
        for way, run in ways.items():
            samples[way].append(time_call(run))
    first = next(iter(samples.values()))
    print(f"| {title} | minima | median of turns | ms |\n|---|---|---|---|")
    ratios = {}
    for way, times in samples.items():
        ratios[way] = min(times) / min(first)
        turns = statistics.median(t / f for t, f in zip(times, first, strict=True))
        print(f"| {way} | {ratios[way]:.3f} | {turns:.3f} | {min(times) * 1e3:.1f} |", flush=True)
    print()
    return ratios


def measure_over_time(steps: int, rounds: int) -> float:
    """Measure the overhead of chunks in a model over time and return the ratio of the minima."""
    compiled = mdf_loop.compile(MODEL, native="off")
    unbroken_run = build_unbroken_run(compiled, steps)
    check_rows(compiled, unbroken_run(), steps)

    def run(**options: Any) -> Callable[[], object]:
        return lambda: compiled.run(steps=steps, dt=DT, **{"progress": False, **options})

    with tempfile.TemporaryDirectory() as folder:
        saved = {"checkpoint": f"{folder}/run.checkpoint", "checkpoint_every": 0.5}
        reduced = {"only": [], "reduce": {"FNpop.V": ["mean", "min", "max"]}}
        ways = {
            "unbroken": unbroken_run,
            "in chunks": run(),
            "and progress to a function": run(progress=lambda progress: None),
            "and a checkpoint every 0.5 s": run(**saved),
            "and streamed to .zarr": run(output=f"{folder}/run.zarr", overwrite=True),
            'and nan="stop"': run(nan="stop"),
            "mean, min, max of V, no rows": run(**reduced),
            "unbroken, every=10": build_unbroken_run(compiled, steps, 10),
            "in chunks, every=10": run(every=10),
        }
        for way in ways.values():
            way()
        return print_table(f"{steps} steps", ways, rounds)["in chunks"]


def measure_loop(iterations: int, rounds: int) -> None:
    """Print the overhead of chunks in a while loop whose condition depends on its data."""
    compiled = mdf_loop.compile(loop_model(), native="off", max_iterations=ENDLESS)
    inputs = {"end": float(iterations)}
    arrays, _, session = compiled.prepare(inputs)

    def run(**options: Any) -> Callable[[], object]:
        return lambda: compiled.run(inputs, **{"progress": False, **options})

    ways = {
        "unbroken": lambda: session.run(arrays),
        "tried for 0.1 s, then in chunks": run(),
        "in chunks, progress to a function": run(progress=lambda progress: None),
    }
    unbroken_outputs = session.run(arrays)
    for way in list(ways)[1:]:
        results: Any = ways[way]()
        assert all(np.array_equal(results[name], unbroken_outputs[name]) for name in results), way
    print_table(f"{iterations} iterations", ways, rounds)


# --- progress bar and Ctrl-C ------------------------------------------------------------------


def seconds_until_progress_bar() -> float:
    """Return the seconds from the call of `run` to the progress bar, in a new process on a terminal."""
    terminal, end = os.openpty()
    program = subprocess.Popen(
        [sys.executable, "-c", TERMINAL_PROGRAM, str(MODEL)], stdout=subprocess.PIPE, stderr=end
    )
    os.close(end)
    assert program.stdout is not None
    started_at = float(program.stdout.readline())
    os.read(terminal, 1)
    shown_at = time.monotonic()
    drain = threading.Thread(target=_read_all, args=(terminal,), daemon=True)
    drain.start()
    program.wait()
    drain.join(1.0)
    os.close(terminal)
    return shown_at - started_at


def _read_all(terminal: int) -> None:
    try:
        while os.read(terminal, 4096):
            pass
    except OSError:
        return  # the other end of the pseudo-terminal is closed


def seconds_until_interrupted(run: Callable[[], object], rng: random.Random) -> float:
    """Interrupt a run at a random moment and return the seconds from the signal to the return of `run`."""
    send_times: list[float] = []

    def send() -> None:
        send_times.append(time.perf_counter())
        os.kill(os.getpid(), signal.SIGINT)

    timer = threading.Timer(rng.uniform(0.02, 0.5), send)
    timer.start()
    try:
        results: Any = run()
    except KeyboardInterrupt:  # no step is complete yet
        results = None
    return_time = time.perf_counter()
    timer.join()
    assert results is None or results.stopped_by is mdf_loop.StopReason.INTERRUPTED, results.reason
    return return_time - send_times[0]


def measure_latencies(samples: int) -> list[str]:
    """Print the latencies of the progress bar and of Ctrl-C; return a message for each missed threshold."""
    neuron = mdf_loop.compile(MODEL, native="off")
    wide_compiled = mdf_loop.compile(wide_model(100_000), native="off")
    endless = mdf_loop.compile(loop_model(), native="off", max_iterations=ENDLESS)
    runs: dict[str, Callable[[], object]] = {
        "Ctrl-C, FN": lambda: neuron.run(steps=LONG, dt=DT, progress=False),
        "Ctrl-C, rows of 100 000 elements": lambda: wide_compiled.run(steps=5000, progress=False),
        "Ctrl-C, while-loop": lambda: endless.run({"end": 1e300}, progress=False),
    }
    neuron.run(steps=10, dt=DT)
    wide_compiled.run(steps=3)
    endless.run({"end": 3.0})
    rng = random.Random(5)
    latencies = {"bar": [seconds_until_progress_bar() for _ in range(max(samples // 4, 1))]}
    for name, run in runs.items():
        latencies[name] = [seconds_until_interrupted(run, rng) for _ in range(samples)]
    print("| ms | least | median | most |\n|---|---|---|---|")
    for name, times in latencies.items():
        three = (min(times), statistics.median(times), max(times))
        print(f"| {name} | {' | '.join(f'{t * 1e3:.1f}' for t in three)} |")
    print()
    limits = {name: MAX_BAR_SECONDS if name == "bar" else MAX_CTRL_C_SECONDS for name in latencies}
    return [
        f"{name}: {statistics.median(times):.3g} s exceeds the threshold of {limits[name]:g} s"
        for name, times in latencies.items()
        if statistics.median(times) > limits[name]
    ]


def main() -> int:
    """Print the tables; return exit code 1 if a threshold is missed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--steps", type=int, default=100_000)
    parser.add_argument("--iterations", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--samples", type=int, default=20, help="how often Ctrl-C is sent")
    options = parser.parse_args()
    versions = f"onnxruntime {onnxruntime.__version__}, numpy {np.__version__}"
    print(f"Python {platform.python_version()}, {versions}, {platform.machine()}, float64\n")
    ratio = measure_over_time(options.steps, options.rounds)
    measure_loop(options.iterations, max(options.rounds // 2, 1))
    problems = measure_latencies(options.samples)
    if ratio > MAX_RATIO:
        problems.append(
            f"chunks: {ratio:.3f} times the unbroken run exceeds the threshold of {MAX_RATIO:g}"
        )
    print("\n".join(problems) or "all thresholds hold")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
