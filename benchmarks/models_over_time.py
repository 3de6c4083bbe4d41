"""Compare models over time in mdf_loop, modeci_mdf's engine and hand-written numpy loops.

    python benchmarks/models_over_time.py [--models FOLDER] [--steps 2000] [--rounds 15]

For each model the same steps are run by

- ours: compiled by mdf_loop, one run of all steps;
- engine: the unmodified engine of modeci_mdf, one `evaluate(time_increment=dt)` per step;
- stubbed: the same engine without its debug texts. `_params_info` and `_val_info` return "" in
  modelspec.utils, which evaluates expressions, and in modeci_mdf.execution_engine. These texts are not
  shown, but they take most of the engine's time;
- numpy: the loop of `benchmarks/numpy_loops`, after a check that it computes the same numbers.

Samples of all ways alternate, so that all see the same state of the machine. A figure is a minimum, and a
ratio is a ratio of minima. The totals of 100 steps include reading, compiling, sessions and steps. They are
measured in a process with all imports done, and as whole processes.

The exit code is 1 if a model misses a threshold. A step must be 200 times faster than a step of the engine
and 20 times faster than a step of the stubbed engine, and the total must be faster.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import modelspec.utils
import numpy as np
import onnxruntime
import yaml
from modeci_mdf import __version__ as modeci_version
from modeci_mdf import execution_engine
from modeci_mdf.utils import load_mdf
from numpy_loops import LOOPS, parameters

import mdf_loop

MODELS = Path(__file__).parent / "models"
DT = {"FN": 5e-5, "HH": 2.5e-5}
"""Seconds per step by model; the default is 0.1."""

THRESHOLDS = {"engine": 200.0, "stubbed": 20.0, "total": 1.0}
"""Smallest ratio of each way to ours."""

SHORT = 100
"""Number of steps of the totals."""

OURS = """
import sys, mdf_loop
mdf_loop.compile(sys.argv[1], device="cpu").run(steps=int(sys.argv[3]), dt=float(sys.argv[2]))
"""
ENGINE = """
import sys
from modeci_mdf.execution_engine import EvaluableGraph
from modeci_mdf.utils import load_mdf
engine = EvaluableGraph(load_mdf(sys.argv[1]).graphs[0])
engine.evaluate()
for _ in range(int(sys.argv[3]) - 1):
    engine.evaluate(time_increment=float(sys.argv[2]))
"""
"""Programs that run a model; their arguments are path, dt and steps."""


# --- the engine -------------------------------------------------------------------------------


@contextlib.contextmanager
def stub_debug_texts() -> Iterator[None]:
    """Replace the debug texts of the engine by empty texts inside this context."""
    names = ("_params_info", "_val_info")
    places = [(m, n) for m in (modelspec.utils, execution_engine) for n in names]
    originals = [getattr(module, name) for module, name in places]
    for module, name in places:
        setattr(module, name, lambda *_, **__: "")
    yield
    for (module, name), function in zip(places, originals, strict=True):
        setattr(module, name, function)


def start_engine(path: Path) -> Any:
    """Return the engine after its first evaluation at time 0."""
    with contextlib.redirect_stdout(io.StringIO()):
        engine = execution_engine.EvaluableGraph(load_mdf(str(path)).graphs[0])
        engine.evaluate()
    return engine


def advance(engine: Any, steps: int, dt: float) -> None:
    """Evaluate the engine `steps` times."""
    with contextlib.redirect_stdout(io.StringIO()):
        for _ in range(steps):
            engine.evaluate(time_increment=dt)


# --- measurement ------------------------------------------------------------------------------


def time_call(run: Callable[[], object]) -> float:
    """Return the wall time of one call in seconds."""
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def check_rows(name: str, ours: Any, by_hand: dict[str, np.ndarray]) -> None:
    """Raise an error if mdf_loop and the numpy loop return different rows."""
    assert set(ours) == set(by_hand), f"{name}: other outputs"
    for output, array in ours.items():
        expected = by_hand[output]
        assert (array.dtype, array.shape) == (expected.dtype, expected.shape), f"{name}: {output}"
        np.testing.assert_allclose(array, expected, rtol=1e-9, atol=1e-12, err_msg=output)


def minimum_step_times(name: str, path: Path, steps: int, rounds: int) -> dict[str, float]:
    """Return the least seconds per step of every implementation."""
    dt, constants = DT.get(name, 0.1), parameters(yaml.safe_load(path.read_text()))
    compiled = mdf_loop.compile(path, device="cpu")
    check_rows(name, compiled.run(steps=steps, dt=dt), LOOPS[name](constants, steps, dt))
    engine = start_engine(path)
    few = max(int(0.05 / time_call(lambda: advance(engine, 1, dt))), 2)
    best: dict[str, float] = {}

    def sample(way: str, n: int, run: Callable[[], object]) -> None:
        best[way] = min(best.get(way, np.inf), time_call(run) / n)

    for _ in range(rounds):
        sample("ours", steps, lambda: compiled.run(steps=steps, dt=dt))
        sample("numpy", steps // 4, lambda: LOOPS[name](constants, steps // 4, dt))
        sample("engine", few, lambda: advance(engine, few, dt))
        with stub_debug_texts():
            sample("stubbed", 20, lambda: advance(engine, 20, dt))
    return best


def total_times(name: str, path: Path, rounds: int) -> dict[str, float]:
    """Return the least seconds from the file to the results of a short run, for every way."""
    dt = DT.get(name, 0.1)
    programs = {"process": OURS, "engine process": ENGINE}
    ways: dict[str, Callable[[], object]] = {
        "total": lambda: mdf_loop.compile(path, device="cpu").run(steps=SHORT, dt=dt),
        "engine total": lambda: advance(start_engine(path), SHORT - 1, dt),
    }
    with tempfile.TemporaryDirectory() as cache:
        for way, program in programs.items():
            ways[way] = partial(run_program, program, [str(path), str(dt), str(SHORT)], cache)
            ways[way]()
        samples = [{way: time_call(run) for way, run in ways.items()} for _ in range(rounds)]
    return {way: min(sample[way] for sample in samples) for way in ways}


def run_program(program: str, arguments: list[str], cache: str) -> None:
    """Run a program in a new Python process that reuses compiled bytecode from `cache`."""
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    subprocess.run(
        [sys.executable, "-c", program, *arguments],
        check=True,
        stdout=subprocess.DEVNULL,
        env={**environment, "PYTHONPYCACHEPREFIX": cache},
    )


# --- the table --------------------------------------------------------------------------------

HEADINGS = (
    *("model", "engine / ours", "stubbed / ours", "numpy / ours"),
    *("ours", "engine", "stubbed", "numpy"),
    *("engine / ours, 100 steps", "ours", "engine"),
    *("as processes", "ours", "engine"),
)


def format_row(name: str, best: dict[str, float]) -> str:
    """Format one line of the table, ratios before times."""
    ours = best["ours"]
    ratios = [
        f"{best[way] / ours:.{1 if way == 'numpy' else 0}f}"
        for way in ("engine", "stubbed", "numpy")
    ]
    times = [f"{best[way] * 1e6:.3g}" for way in ("ours", "engine", "stubbed", "numpy")]
    cells = [name, *ratios, *times]
    for way in ("total", "process"):
        pair = (best[way], best[f"engine {way}"])
        cells += [f"{pair[1] / pair[0]:.2g}", *(f"{part * 1e3:.0f}" for part in pair)]
    return f"| {' | '.join(cells)} |"


def missed_thresholds(name: str, best: dict[str, float]) -> list[str]:
    """Return a message for each threshold that the model misses."""
    ratios = {way: best[way] / best["ours"] for way in ("engine", "stubbed")}
    ratios["total"] = best["engine total"] / best["total"]
    return [
        f"{name}: {way} / ours: {ratio:.3g} is below {THRESHOLDS[way]:g}"
        for way, ratio in ratios.items()
        if ratio < THRESHOLDS[way]
    ]


def main() -> int:
    """Print the table; return exit code 1 if a threshold is missed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--models", type=Path, default=MODELS, help="folder of FN.yaml, ...")
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    versions = f"onnxruntime {onnxruntime.__version__}, numpy {np.__version__}"
    print(f"Python {platform.python_version()}, {versions}, modeci-mdf {modeci_version}", end=", ")
    print(f"{platform.machine()}, one thread; {options.steps} steps a run, float64\n")
    print(f"| {' | '.join(HEADINGS)} |\n|{'---|' * len(HEADINGS)}")
    problems: list[str] = []
    for name in LOOPS:
        path = options.models / f"{name}.yaml"
        best = minimum_step_times(name, path, options.steps, options.rounds)
        best |= total_times(name, path, max(options.rounds // 5, 1))
        print(format_row(name, best), flush=True)
        problems += missed_thresholds(name, best)
    print("\nsteps in us, totals and processes in ms; minima")
    print("\n".join(problems) or "all thresholds hold")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
