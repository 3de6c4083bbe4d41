"""What a step of a native loop costs, beside what people write by hand for speed.

    python benchmarks/native.py [--only CASE] [--steps N] [--rounds 15] [--native auto|require]
                                [--figure docs/images/native.svg]

Each case of `native_peers` is a model of MDF and the same loop by hand. Ways:

- ours: compiled by mdf_loop, `native="auto"`; the whole `run`, and the loop alone: one call of the
  session for all steps, without what `run` does around it;
- standard: the same with `native="off"`: ONNX Runtime's Loop or Scan;
- ONNX Loop: written by hand, in ONNX Runtime;
- numba: loops over cells, into rows that are there and were touched; `fresh`, into new ones;
- JAX: `jit` of `lax.scan`, float64; numpy; and Python's floats, where a cell is alone.

numba and JAX are no dependencies of mdf_loop: where they are not installed, their columns are empty.
All compute on one thread. The numbers of all ways are compared first. Samples are taken in turn,
short ones of the second of two calls; figures are minima in microseconds a step. Making code is apart: the first call less the best one.

The exit code is 1 if a threshold is missed; without numba or JAX theirs are not looked at.
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
from native_peers.system import Made, by_jax, by_numba, by_numpy

import mdf_loop
from mdf_loop.api.compiled import CompiledModel
from mdf_loop.errors import UnsupportedError
from mdf_loop.run.control.stopping import Stopping
from mdf_loop.run.onnxruntime import session as onnxruntime_session
from mdf_loop.specification import specify

Way = Callable[[], Made]

LONG = 0.3
"""Seconds after which a way has enough samples, if it has the fewest."""

FEWEST = 3

WARM = 0.02
"""Seconds: what takes less is called once before it is timed, since others have filled the caches."""

ENDLESS = 10**12

WAYS = (
    *("ours", "ours, loop", "standard", "standard, loop", "ONNX Loop"),
    *("numba", "numba, fresh", "JAX", "numpy", "Python"),
)

PEERS = {"numba": "numba", "JAX": "jax"}
"""Ways that need what may not be there."""


@dataclass(frozen=True)
class Limits:
    """What ratios may be: ours to numba and to JAX at most, the standard way to ours at least."""

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
"""By case, and by what of ours is looked at: the whole run, or the loop alone."""


# --- our ways ---------------------------------------------------------------------------------


def compiled(case: Case, native: str) -> CompiledModel:
    """The model, ready to run."""
    model = case.model()
    return mdf_loop.compile(model, device="cpu", native=native, max_iterations=ENDLESS)


def whole(case: Case, model: CompiledModel, steps: int) -> Way:
    """`run`, and of its results what others compute."""
    return lambda: case.taken(model.run(**case.run_of(steps)))


def alone(case: Case, model: CompiledModel, steps: int) -> Way:
    """One call of the session, for all iterations of the loop."""
    arguments = case.run_of(steps)
    if case.dt is None:
        arrays, _, evaluation = model.prepare(arguments["inputs"])
        return lambda: case.taken(evaluation.run(arrays))
    specification = specify(**arguments)
    bound = model.prepared.bound(specification)
    session = model.prepared.over_time(specification, bound)
    initial_state = session.held(session.first.run(session.given(bound, 0)))
    brief = session.begin_run(steps, session.members(bound))
    later = session.later(initial_state, brief=brief, thinned=False)
    inputs = session.given(bound, 1, steps)
    feeds = session.going_on(later, inputs, initial_state, steps - 1, steps - 1, case.dt)
    never = Stopping()  # a run has one for all of its calls

    def run() -> Made:
        arrays = later.run(feeds, never)
        if not case.has_rows:
            state = session.held(arrays)
            return {name: state[of] for name, of in case.outputs.items()}
        return {name: case.by_step(arrays[output]) for name, output in case.outputs.items()}

    return run


# --- all ways ---------------------------------------------------------------------------------


@dataclass
class Measured:
    """What a case has taken: seconds a step, seconds to make code, what was native."""

    steps: int
    best: dict[str, float]
    making: dict[str, float]
    native: dict[str, str]

    def ratio(self, one: str, other: str) -> float | None:
        """How many times one way takes what another does; None if one was not measured."""
        if one in self.best and other in self.best:
            return self.best[one] / self.best[other]
        return None


def ways_of(case: Case, steps: int, native: str = "auto") -> dict[str, Callable[[], Way]]:
    """What makes each way that can be had here ready."""
    system, n = case.system(steps), case.iterations(steps)
    models: dict[str, CompiledModel] = {}

    def model(word: str) -> CompiledModel:
        if word not in models:
            models[word] = compiled(case, word)
        return models[word]

    ways: dict[str, Callable[[], Way]] = {
        "ours": lambda: whole(case, model(native), steps),
        "ours, loop": lambda: alone(case, model(native), steps),
        "standard": lambda: whole(case, model("off"), steps),
        "standard, loop": lambda: alone(case, model("off"), steps),
        "ONNX Loop": lambda: by_onnx(system, n),
        "numpy": lambda: lambda: by_numpy(system, n),
    }
    if has("numba"):
        from native_peers import numba_loops

        loop = getattr(numba_loops, case.numba)
        ways["numba"] = lambda: by_numba(system, n, loop)
        ways["numba, fresh"] = lambda: by_numba(system, n, loop, fresh=True)
    if has("JAX"):
        ways["JAX"] = lambda: by_jax(system, n)
    if case.python is not None:
        by_python = case.python
        ways["Python"] = lambda: lambda: by_python(system, n)
    return {way: ways[way] for way in WAYS if way in ways}


def has(peer: str) -> bool:
    """Whether what a way needs is installed."""
    return find_spec(PEERS[peer]) is not None


def check(case: Case, way: str, arrays: Made, expected: Made) -> None:
    """Refuse to compare the times of different numbers."""
    for name, array in expected.items():
        least = 1e-9 * float(np.max(np.abs(array)))
        actual = np.reshape(arrays[name], np.shape(array))
        message = f"{case.name}, {way}: {name}"
        np.testing.assert_allclose(actual, array, rtol=1e-9, atol=least, err_msg=message)


def measure(case: Case, steps: int, rounds: int, native: str = "auto") -> Measured:
    """Make all ways ready, compare their numbers, and take samples in turn."""
    if native == "require" and not can_be_native(case, steps):
        native = "auto"
    expected = by_numpy(case.system(steps), case.iterations(steps))
    ready: dict[str, Way] = {}
    making: dict[str, float] = {}
    for way, make in ways_of(case, steps, native).items():
        start = time.perf_counter()
        ready[way] = make()
        arrays = ready[way]()
        making[way] = time.perf_counter() - start
        check(case, way, arrays, expected)
    samples: dict[str, list[float]] = {way: [] for way in ready}
    for _ in range(rounds):
        for way, run in ready.items():
            if sum(samples[way]) < LONG or len(samples[way]) < FEWEST:
                if min(samples[way], default=0.0) < WARM:
                    run()
                samples[way].append(seconds(run))
    best = {way: min(elapsed) for way, elapsed in samples.items()}
    return Measured(
        steps,
        {way: least / steps for way, least in best.items()},
        {way: max(elapsed - best[way], 0.0) for way, elapsed in making.items()},
        compiled(case, native).run(**case.run_of(steps)).native,
    )


def can_be_native(case: Case, steps: int) -> bool:
    """Whether the model may be asked to be native."""
    try:
        compiled(case, "require").run(**case.run_of(steps))
    except UnsupportedError:
        return False
    return True


def seconds(run: Callable[[], object]) -> float:
    """How long one call takes."""
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


# --- tables -----------------------------------------------------------------------------------


def table(heads: tuple[str, ...], rows: list[list[str]]) -> str:
    """A table of Markdown."""
    lines = [f"| {' | '.join(heads)} |", f"|{'---|' * len(heads)}"]
    return "\n".join((*lines, *(f"| {' | '.join(row)} |" for row in rows)))


def shown(number: float | None) -> str:
    """Three digits, or nothing."""
    if number is None:
        return ""
    return f"{number:.0f}" if abs(number) >= 100 else f"{number:.3g}"


def times(measured: Mapping[str, Measured]) -> str:
    """Microseconds a step."""
    rows = []
    for name, m in measured.items():
        notes = "; ".join(dict.fromkeys(m.native.values()))
        cells = [shown(m.best[way] * 1e6) if way in m.best else "" for way in WAYS]
        rows.append([name, str(m.steps), *cells, notes])
    return table(("us a step", "steps", *WAYS, "ours is"), rows)


def compile_times(measured: Mapping[str, Measured]) -> str:
    """Milliseconds to make code; of ours and standard also to read the model."""
    ways = ("ours", "standard", "numba", "JAX")
    rows = [
        [name, *(shown(m.making[way] * 1e3) if way in m.making else "" for way in ways)]
        for name, m in measured.items()
    ]
    return table(("ms before the first step", *ways), rows)


def ratios(measured: Mapping[str, Measured]) -> tuple[str, list[str]]:
    """Ratios with their thresholds, and sentences about those that are missed."""
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
            for what, ratio, limit in comparisons:
                at_most = what != "standard / ours"
                row.append(shown(ratio) + _limit(limit, at_most))
                if ratio is None or limit is None:
                    continue
                if ratio > limit if at_most else ratio < limit:
                    least = "at most" if at_most else "at least"
                    missed.append(f"{name}, {part}: {what} is {ratio:.3g}, not {least} {limit:g}")
            rows.append(row)
    heads = ("case", "of", "ours / numba", "ours / JAX", "standard / ours")
    return table(heads, rows), missed


def _limit(limit: float | None, at_most: bool) -> str:
    return "" if limit is None else f" ({'≤' if at_most else '≥'} {limit:g})"


def versions() -> str:
    """What computes."""
    names = ("onnxruntime", "numpy", "llvmlite", *PEERS.values())
    installed = [f"{name} {version(name)}" for name in names if find_spec(name) is not None]
    return f"Python {platform.python_version()}, {', '.join(installed)}, {platform.machine()}"


def main() -> int:
    """Print the tables; 1 if a threshold is missed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", help="cases whose name begins so")
    parser.add_argument("--steps", type=int, help="of each case, instead of its own number")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--native", choices=("auto", "require"), default="auto")
    parser.add_argument("--threads", type=int, default=1, help="of ours and standard")
    parser.add_argument("--figure", type=Path, help="where to draw the first case")
    options = parser.parse_args()
    onnxruntime_session.THREADS = options.threads
    print(f"{versions()}, one thread, float64\n")
    for peer in PEERS:
        if not has(peer):
            print(f"{peer} is not installed: left out\n")
    measured: dict[str, Measured] = {}
    for case in CASES:
        if options.only is None or case.name.startswith(options.only):
            steps = options.steps or case.steps
            measured[case.name] = measure(case, steps, options.rounds, options.native)
            print(case.name, file=sys.stderr, flush=True)
    of_ratios, missed = ratios(measured)
    print("", times(measured), of_ratios, compile_times(measured), "", sep="\n\n")
    if options.figure is not None:
        from native_peers.figure import draw

        draw(measured["FN 1, recorded"].best, options.figure)
    print("\n".join(missed) or "all thresholds hold")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
