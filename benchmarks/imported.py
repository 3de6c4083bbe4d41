"""Compare imported networks with plain ONNX Runtime on the original file.

    python benchmarks/imported.py [--rounds 5] [--threads 1 2] [--only NAME]

Each of 12 networks runs in three ways:

- plain: the original file in plain ONNX Runtime;
- run: the compiled file in `CompiledModel.run`;
- file: the file written by `CompiledModel.save`, in plain ONNX Runtime.

Each way runs in a process of its own, and the processes alternate. A figure is the minimum over all rounds,
of wall time and of the CPU time of all cores. `run` and `file` may take at most 1.15 times `plain`, with one
and with two threads.

Four loops run with `native="off"`, `"require"` and `"auto"`. `auto` may take at most 1.1 times the faster of
the other two. The benchmark first compares the outputs of all ways.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
import onnxruntime
from imported_graphs import GRAPHS, LOOPS, Graph

import mdf_loop

WAYS, FORMS = ("plain", "run", "file"), ("off", "require", "auto")
ALLOWED, ALLOWED_AUTO = 1.15, 1.1
BATCHES, BATCH_SECONDS = 8, 0.06
"""Number of batches of runs in a process, and the duration of a batch."""


@dataclass(frozen=True)
class Timing:
    """Wall time and CPU time of a run in milliseconds."""

    wall: float
    cpu: float


# --- one process ----------------------------------------------------------------------------------


def runtime(model: onnx.ModelProto, threads: int) -> Any:
    """Return a session of plain ONNX Runtime."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )


def build_way(graph: Graph, name: str, threads: int) -> Callable[[], list[np.ndarray]]:
    """Return a function that runs a graph as `plain`, `run` or `file`, or with an option of native loops."""
    if name == "plain":
        session = runtime(graph.model, threads)
        return lambda: session.run(None, graph.feeds)
    native = name if name in FORMS else "auto"
    source = mdf_loop.from_onnx(graph.model)
    compiled = mdf_loop.compile(source, device="cpu", native=native, threads=threads)
    if name == "file":
        session = runtime(compiled.to_onnx(graph.feeds, origin=False), threads)
        return lambda: session.run(None, graph.feeds)
    return lambda: list(compiled.run(graph.feeds).values())


def measure_in_batches(run: Callable[[], object]) -> Timing:
    """Return the least wall time and the least CPU time of a run over batches of runs."""
    start = time.perf_counter()
    while time.perf_counter() - start < 2 * BATCH_SECONDS:
        run()
    start_time = time.perf_counter()
    run()
    count = max(1, int(BATCH_SECONDS / (time.perf_counter() - start_time)))
    batches = []
    for _ in range(BATCHES):
        wall, cpu = time.perf_counter(), time.process_time()
        for _ in range(count):
            run()
        batches.append((time.perf_counter() - wall, time.process_time() - cpu))
    return Timing(*(min(column) * 1e3 / count for column in zip(*batches, strict=True)))


def measure_in_new_process(kind: str, name: str, way_name: str, threads: int) -> Timing:
    """Measure one way to run a graph in a new process."""
    command = [sys.executable, __file__, "--measure", kind, name, way_name, str(threads)]
    process = subprocess.run(command, capture_output=True, text=True, check=True)
    return Timing(**json.loads(process.stdout.splitlines()[-1]))


# --- comparing ------------------------------------------------------------------------------------


def check_outputs(graph: Graph, names: Iterable[str]) -> None:
    """Raise an error if a way to run the graph returns other numbers than plain ONNX Runtime."""
    expected = build_way(graph, "plain", 1)()
    for name in names:
        for ours, plain in zip(build_way(graph, name, 1)(), expected, strict=True):
            np.testing.assert_allclose(ours, plain, rtol=1e-3, atol=1e-4, err_msg=name)


def minimum_times(
    kind: str, name: str, ways: tuple[str, ...], threads: int, rounds: int
) -> dict[str, Timing]:
    """Return the least times of all ways to run a graph; processes of the ways alternate."""
    samples: dict[str, list[Timing]] = {way_name: [] for way_name in ways}
    for _ in range(rounds):
        for way_name in ways:
            samples[way_name].append(measure_in_new_process(kind, name, way_name, threads))
    return {
        way_name: Timing(min(each.wall for each in timings), min(each.cpu for each in timings))
        for way_name, timings in samples.items()
    }


def missed_thresholds(name: str, timings: dict[str, Timing]) -> list[str]:
    """Return a message for each time that exceeds its threshold."""
    if "plain" in timings:
        pairs = [(way_name, timings["plain"], ALLOWED) for way_name in ("run", "file")]
    else:
        forms = [timings[form] for form in FORMS if form != "auto"]
        faster = Timing(min(f.wall for f in forms), min(f.cpu for f in forms))
        pairs = [("auto", faster, ALLOWED_AUTO)]
    return [
        f"{name}, {way_name}: {word} {getattr(timings[way_name], word) / getattr(other, word):.2f}"
        for way_name, other, allowed in pairs
        for word in ("wall", "cpu")
        if getattr(timings[way_name], word) > allowed * getattr(other, word)
    ]


def print_table(kind: str, names: Iterable[str], threads: int, rounds: int) -> list[str]:
    """Print the times of all ways and return a message for each missed threshold."""
    ways = WAYS if kind == "graphs" else FORMS
    print(f"\n| {kind}, threads: {threads} | " + " | ".join(f"{w} wall | cpu" for w in ways) + " |")
    print("|---" * (1 + 2 * len(ways)) + "|")
    problems = []
    for name in names:
        timings = minimum_times(kind, name, ways, threads, rounds)
        cells = (f"{timings[way_name].wall:.2f} | {timings[way_name].cpu:.2f}" for way_name in ways)
        print(f"| {name} | " + " | ".join(cells) + " |", flush=True)
        problems += missed_thresholds(f"{name}, threads: {threads}", timings)
    return problems


def main() -> None:
    """Print the tables and exit with code 1 if a time exceeds its threshold."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--only", choices=sorted({*GRAPHS, *LOOPS}))
    parser.add_argument("--measure", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    kinds = {"graphs": GRAPHS, "loops": LOOPS}
    if options.measure:
        kind, name, way_name, threads = options.measure
        print(
            json.dumps(
                vars(measure_in_batches(build_way(kinds[kind][name](), way_name, int(threads))))
            )
        )
        return
    print(f"onnxruntime {onnxruntime.__version__}, milliseconds a run")
    problems = []
    for kind, graphs in kinds.items():
        names = [name for name in graphs if options.only in (None, name)]
        for name in names:
            check_outputs(graphs[name](), WAYS[1:] if kind == "graphs" else FORMS)
        for threads in options.threads if names else ():
            problems += print_table(kind, names, threads, options.rounds)
    if problems:
        sys.exit("thresholds exceeded: " + "; ".join(problems))


if __name__ == "__main__":
    main()
