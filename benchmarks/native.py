"""Compare native loops with hand-written loops in ONNX, numba, JAX, numpy and Python.

    python benchmarks/native.py [--only CASE] [--steps N] [--rounds 15] [--native auto|require]
                                [--figure docs/images/native.svg]

Each case of `native_peers` is an MDF model and the same loop written by hand. The ways are:

- ours: compiled by mdf_loop with `native="auto"`. `ours` is the whole `run`. `ours, loop` is one call of the
  session for all steps, without the fixed costs of `run`;
- standard: the same with `native="off"`, as Loop or Scan of ONNX Runtime;
- ONNX Loop: a hand-written ONNX model in ONNX Runtime;
- numba: loops over cells that write into preallocated rows; `fresh` allocates new rows in each call;
- JAX: `jit` of `lax.scan`, float64;
- numpy: a loop over arrays;
- Python: a loop over floats, for cases with a single cell.

numba and JAX are not dependencies of mdf_loop. Their columns are empty if they are not installed. All ways
compute on one thread. The benchmark first compares the numbers of all ways. Samples alternate. If a call is
short, the second of two calls is measured. Figures are minima in microseconds per step. Compile times are
listed separately: the time of the first call minus the least time.

The exit code is 1 if a threshold is missed. Thresholds of numba and JAX are ignored if they are not
installed.
"""

from __future__ import annotations

import os

if __name__ == "__main__":  # before anything is imported that has threads
    os.environ.update(
        {
            **dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"), "1"),
            "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
            "JAX_ENABLE_X64": "1",
            "JAX_PLATFORMS": "cpu",
        }
    )

import argparse
import platform
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from native_peers import CASES, Case
from native_peers.onnx_loop import by_onnx
from native_peers.system import NamedArrays, by_jax, by_numba, by_numpy

import mdf_loop
from mdf_loop.api.compiled import CompiledModel
from mdf_loop.errors import UnsupportedError
from mdf_loop.request.run_options import RunOptions
from mdf_loop.run.control.stopping import Stopping
from mdf_loop.run.onnxruntime import session as onnxruntime_session
from mdf_loop.specification import specify

Way = Callable[[], NamedArrays]

ENOUGH_SECONDS = 0.3
"""Seconds of samples after which a way with at least `MIN_SAMPLES` is not sampled again."""

MIN_SAMPLES = 3

WARM_UP_SECONDS = 0.02
"""Seconds below which a call is preceded by a warm-up call, because other ways evict its caches."""

ENDLESS = 10**12

WAYS = (
    *("ours", "ours, loop", "standard", "standard, loop", "ONNX Loop"),
    *("numba", "numba, fresh", "JAX", "numpy", "Python"),
)

PEERS = {"numba": "numba", "JAX": "jax"}
"""Optional packages by way."""


@dataclass(frozen=True)
class Limits:
    """Largest ratios of ours to numba and to JAX, and the smallest ratio of standard to ours."""

    numba: float | None
    jax: float | None
    standard: float


THRESHOLDS: Mapping[tuple[str, str], Limits] = {
    ("FN 1, recorded", "run"): Limits(None, None, 80),
    ("FN 1, recorded", "loop"): Limits(1.2, 1.3, 300),
    ("FN 1e3, recorded", "run"): Limits(1.3, 0.5, 8),
    ("FN 1e3", "run"): Limits(1.3, 1.3, 8),
    ("FN 1e5, recorded", "run"): Limits(1.3, 0.3, 8),
    ("FN 1e5", "run"): Limits(1.2, 0.9, 8),
    ("HH", "run"): Limits(1.5, 0.4, 150),
    ("drift diffusion 1e4", "run"): Limits(1.3, 0.6, 4),
    ("IAF 1e3, pointwise", "run"): Limits(1.3, 0.6, 15),
    ("RNN 500", "run"): Limits(1.2, 1.3, 4),
    ("sweep of 1e3, FN", "run"): Limits(None, 1.5, 8),
}
"""Limits by case and by part: the whole run, or the loop alone."""


# --- ways of mdf_loop -------------------------------------------------------------------------


def compiled(case: Case, native: str) -> CompiledModel:
    """Compile the model of a case."""
    model = case.model()
    return mdf_loop.compile(model, device="cpu", native=native, max_iterations=ENDLESS)


def build_run(case: Case, model: CompiledModel, steps: int) -> Way:
    """Return a function that calls `run` and selects the outputs of the comparison."""
    return lambda: case.select_outputs(model.run(**case.run_arguments(steps)))


def build_loop_call(case: Case, model: CompiledModel, steps: int) -> Way:
    """Return a function that calls the session once for all iterations of the loop."""
    arguments = case.run_arguments(steps)
    if case.dt is None:
        arrays, _, evaluation = model.prepare(arguments["inputs"])
        return lambda: case.select_outputs(evaluation.run(arrays))
    specification = specify(RunOptions(**arguments))
    bound = model.prepared.bind(specification)
    session = model.prepared.over_time(specification, bound)
    initial_state = session.state_of(
        session.first_loaded_program.run(session.step_inputs(bound, 0))
    )
    is_brief = session.register_run(steps, session.members(bound))
    later = session.get_later_loop(initial_state, is_brief=is_brief, thinned=False)
    inputs = session.step_inputs(bound, 1, steps)
    feeds = session.loop_feeds(later, inputs, initial_state, steps - 1, steps - 1, case.dt)
    never = Stopping()  # a run shares one object among its calls

    def run() -> NamedArrays:
        arrays = later.run(feeds, never)
        if not case.has_recorded_rows:
            state = session.state_of(arrays)
            return {name: state[of] for name, of in case.outputs.items()}
        return {name: case.step_axis_first(arrays[output]) for name, output in case.outputs.items()}

    return run


# --- all ways ---------------------------------------------------------------------------------


@dataclass
class Measurement:
    """Times of a case: seconds per step, seconds to compile, and notes on native loops by way."""

    steps: int
    best: dict[str, float]
    making: dict[str, float]
    native: dict[str, str]

    def ratio(self, one: str, other: str) -> float | None:
        """Return the ratio of the times of two implementations, or None if one was not measured."""
        if one in self.best and other in self.best:
            return self.best[one] / self.best[other]
        return None


def list_ways(case: Case, steps: int, native: str = "auto") -> dict[str, Callable[[], Way]]:
    """Return a preparing function for each available implementation of the loop."""
    system, n = case.system(steps), case.iterations(steps)
    models: dict[str, CompiledModel] = {}

    def model(word: str) -> CompiledModel:
        if word not in models:
            models[word] = compiled(case, word)
        return models[word]

    ways: dict[str, Callable[[], Way]] = {
        "ours": lambda: build_run(case, model(native), steps),
        "ours, loop": lambda: build_loop_call(case, model(native), steps),
        "standard": lambda: build_run(case, model("off"), steps),
        "standard, loop": lambda: build_loop_call(case, model("off"), steps),
        "ONNX Loop": lambda: by_onnx(system, n),
        "numpy": lambda: lambda: by_numpy(system, n),
    }
    if is_installed("numba"):
        from native_peers import numba_loops

        loop = getattr(numba_loops, case.numba)
        ways["numba"] = lambda: by_numba(system, n, loop)
        ways["numba, fresh"] = lambda: by_numba(system, n, loop, fresh=True)
    if is_installed("JAX"):
        ways["JAX"] = lambda: by_jax(system, n)
    if case.python is not None:
        by_python = case.python
        ways["Python"] = lambda: lambda: by_python(system, n)
    return {way: ways[way] for way in WAYS if way in ways}


def is_installed(peer: str) -> bool:
    """Return True if the package of an implementation is installed."""
    return find_spec(PEERS[peer]) is not None


def check_numbers(case: Case, way: str, arrays: NamedArrays, expected: NamedArrays) -> None:
    """Raise an error if an implementation returns different numbers."""
    for name, array in expected.items():
        least = 1e-9 * float(np.max(np.abs(array)))
        actual = np.reshape(arrays[name], np.shape(array))
        message = f"{case.name}, {way}: {name}"
        np.testing.assert_allclose(actual, array, rtol=1e-9, atol=least, err_msg=message)


def measure(case: Case, steps: int, rounds: int, native: str = "auto") -> Measurement:
    """Prepare all implementations, compare their numbers, and measure alternating samples."""
    if native == "require" and not can_be_native(case, steps):
        native = "auto"
    expected = by_numpy(case.system(steps), case.iterations(steps))
    prepared_ways: dict[str, Way] = {}
    making: dict[str, float] = {}
    for way, make in list_ways(case, steps, native).items():
        start = time.perf_counter()
        prepared_ways[way] = make()
        arrays = prepared_ways[way]()
        making[way] = time.perf_counter() - start
        check_numbers(case, way, arrays, expected)
    samples: dict[str, list[float]] = {way: [] for way in prepared_ways}
    for _ in range(rounds):
        for way, run in prepared_ways.items():
            if sum(samples[way]) < ENOUGH_SECONDS or len(samples[way]) < MIN_SAMPLES:
                if min(samples[way], default=0.0) < WARM_UP_SECONDS:
                    run()
                samples[way].append(time_call(run))
    best = {way: min(elapsed) for way, elapsed in samples.items()}
    return Measurement(
        steps,
        {way: least / steps for way, least in best.items()},
        {way: max(elapsed - best[way], 0.0) for way, elapsed in making.items()},
        compiled(case, native).run(**case.run_arguments(steps)).native,
    )


def can_be_native(case: Case, steps: int) -> bool:
    """Return True if the model compiles with `native="require"`."""
    try:
        compiled(case, "require").run(**case.run_arguments(steps))
    except UnsupportedError:
        return False
    return True


def time_call(run: Callable[[], object]) -> float:
    """Return the wall time of one call in seconds."""
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


# --- tables -----------------------------------------------------------------------------------


def format_table(heads: tuple[str, ...], rows: list[list[str]]) -> str:
    """Format a Markdown table."""
    lines = [f"| {' | '.join(heads)} |", f"|{'---|' * len(heads)}"]
    return "\n".join((*lines, *(f"| {' | '.join(row)} |" for row in rows)))


def format_number(number: float | None) -> str:
    """Format a number with three digits; None is an empty text."""
    if number is None:
        return ""
    return f"{number:.0f}" if abs(number) >= 100 else f"{number:.3g}"


def format_step_times(measured: Mapping[str, Measurement]) -> str:
    """Format the table of microseconds per step."""
    rows = []
    for name, m in measured.items():
        notes = "; ".join(dict.fromkeys(m.native.values()))
        cells = [format_number(m.best[way] * 1e6) if way in m.best else "" for way in WAYS]
        rows.append([name, str(m.steps), *cells, notes])
    return format_table(("us a step", "steps", *WAYS, "ours is"), rows)


def format_compile_times(measured: Mapping[str, Measurement]) -> str:
    """Format the table of milliseconds to compile; ours and standard include reading the model."""
    ways = ("ours", "standard", "numba", "JAX")
    rows = [
        [name, *(format_number(m.making[way] * 1e3) if way in m.making else "" for way in ways)]
        for name, m in measured.items()
    ]
    return format_table(("ms before the first step", *ways), rows)


def format_ratios(measured: Mapping[str, Measurement]) -> tuple[str, list[str]]:
    """Format the table of ratios with their thresholds, and return a message for each missed threshold."""
    rows, missed = [], []
    for name, m in measured.items():
        for part, suffix in (("run", ""), ("loop", ", loop")):
            limits = THRESHOLDS.get((name, part))
            comparisons = (
                ("ours / numba", m.ratio(f"ours{suffix}", "numba"), limits and limits.numba),
                ("ours / JAX", m.ratio(f"ours{suffix}", "JAX"), limits and limits.jax),
                (
                    "standard / ours",
                    m.ratio(f"standard{suffix}", f"ours{suffix}"),
                    limits and limits.standard,
                ),
            )
            row = [name, part]
            for ratio_name, ratio, limit in comparisons:
                at_most = ratio_name != "standard / ours"
                row.append(format_number(ratio) + _limit(limit, at_most))
                if ratio is None or limit is None:
                    continue
                if ratio > limit if at_most else ratio < limit:
                    least = "at most" if at_most else "at least"
                    missed.append(
                        f"{name}, {part}: {ratio_name} is {ratio:.3g}, limit: {least} {limit:g}"
                    )
            rows.append(row)
    heads = ("case", "of", "ours / numba", "ours / JAX", "standard / ours")
    return format_table(heads, rows), missed


def _limit(limit: float | None, at_most: bool) -> str:
    return "" if limit is None else f" ({'≤' if at_most else '≥'} {limit:g})"


def versions() -> str:
    """Return the versions of Python and of all packages, and the machine."""
    names = ("onnxruntime", "numpy", "llvmlite", *PEERS.values())
    installed = [f"{name} {version(name)}" for name in names if find_spec(name) is not None]
    return f"Python {platform.python_version()}, {', '.join(installed)}, {platform.machine()}"


def main() -> int:
    """Print the tables; return exit code 1 if a threshold is missed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", help="prefix of the names of cases to run")
    parser.add_argument("--steps", type=int, help="number of steps of every case")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--native", choices=("auto", "require"), default="auto")
    parser.add_argument("--threads", type=int, default=1, help="threads of ours and standard")
    parser.add_argument("--figure", type=Path, help="file for a figure of the first case")
    options = parser.parse_args()
    onnxruntime_session.MAX_THREADS = options.threads
    print(f"{versions()}, one thread, float64\n")
    for peer in PEERS:
        if not is_installed(peer):
            print(f"{peer} is not installed: omitted\n")
    measured: dict[str, Measurement] = {}
    for case in CASES:
        if options.only is None or case.name.startswith(options.only):
            steps = options.steps or case.steps
            measured[case.name] = measure(case, steps, options.rounds, options.native)
            print(case.name, file=sys.stderr, flush=True)
    of_ratios, missed = format_ratios(measured)
    print(
        "", format_step_times(measured), of_ratios, format_compile_times(measured), "", sep="\n\n"
    )
    if options.figure is not None:
        from native_peers.figure import draw

        draw(measured["FN 1, recorded"].best, options.figure)
    print("\n".join(missed) or "all thresholds hold")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
