"""Compare the cost of derivatives with the cost of the run, and with JAX.

    python benchmarks/gradients.py [--rounds 15] [--memory]

The benchmark computes the mean of an output over time and its derivatives with respect to parameters.
`differentiate` compiles them once, and the compiled gradient runs repeatedly:

    FN        FitzHugh-Nagumo, 2000 steps, 5 parameters
    HH        Hodgkin-Huxley, 2000 steps, 5 parameters
    RNN       100 units, 500 steps, all weights and a gain
    cells     10 000 cells of FitzHugh-Nagumo, 1000 steps, 4 parameters
    long      FitzHugh-Nagumo, 200 000 steps, 4 parameters

The ways are:

- standard: `native="off"`, relative to the run of the same model;
- plain: as standard, but with all derivatives in one backward loop;
- native: relative to a jitted value and gradient of JAX.

All ways use one thread. Figures are minima of CPU time. The benchmark checks that the derivatives agree with
JAX. `--memory` also prints the memory of the derivatives above that of the run, as medians of five
processes. The exit code is 1 if a threshold is missed. Without JAX its lines are omitted.
"""

from __future__ import annotations

import os

if __name__ == "__main__":  # before anything is imported that has threads
    os.environ.update(
        {
            **dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1"),
            "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
            "JAX_ENABLE_X64": "1",
            "JAX_PLATFORMS": "cpu",
        }
    )

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from native_peers.systems import hh_with

import mdf_loop
import mdf_loop.run.onnxruntime.session as onnxruntime_session
from mdf_loop.api.differentiated import Differentiated
from mdf_loop.passes.gradient.loop_backward import loop_backward

onnxruntime_session.MAX_THREADS = 1

HERE = Path(__file__).parent
FN = {"cell.a": 0.7, "cell.b": 0.8, "cell.tau": 12.5, "cell.k": 3.0, "cell.v0": -1.0}
HH = {
    "pop0.g_leak": [0.01],
    "pop0.gbar_K": [6.0],
    "pop0.gbar_Na": [20.0],
    "pop0.e_rev_Na": [50.0],
    "pop0.i_offset": [0.05],
}


@dataclass(frozen=True)
class Case:
    """A model over time with the output and the parameters of its derivatives."""

    model: Any
    output: str
    wrt: Mapping[str, Any]
    steps: int
    dt: float
    set: Mapping[str, Any] = field(default_factory=dict)

    def compiled(self, native: str) -> mdf_loop.CompiledModel:
        """Compile the model."""
        return mdf_loop.compile(self.model, device="cpu", native=native)

    def run(self, native: str) -> Callable[[], object]:
        """Return a function that runs the model without derivatives."""
        model = self.compiled(native)
        options = {"steps": self.steps, "dt": self.dt, "only": [self.output], "progress": False}
        return lambda: model.run(set={**self.set, **self.wrt}, **options)

    def run_for_mean(self, native: str) -> Callable[[], object]:
        """Return a function that runs the model and records no rows."""
        model = self.compiled(native)
        options = {"only": [], "reduce": {self.output: "mean"}, "progress": False}
        values = {**self.set, **self.wrt}
        return lambda: model.run(set=values, steps=self.steps, dt=self.dt, **options)

    def gradient(self, native: str) -> Callable[[], mdf_loop.Gradient]:
        """Return a function that computes the mean of the output and its derivatives."""
        derivatives = self.compiled(native).differentiate(
            {self.output: "mean"}, list(self.wrt), steps=self.steps, dt=self.dt
        )
        return lambda: derivatives.run(set={**self.set, **self.wrt})


def cases() -> dict[str, Case]:
    """Return the models of the benchmark by name."""
    rng = np.random.default_rng(0)
    start = {"cell.v0": np.linspace(-1, 1, 10_000)}
    four = {name: value for name, value in FN.items() if name != "cell.v0"}
    fn = HERE / "one_cell.yaml"
    weights = {"cell.M": rng.standard_normal((100, 100)) / 10, "cell.g": 1.5}
    return {
        "FN": Case(fn, "cell.V", FN, 2000, 0.1),
        "HH": Case(HERE / "models" / "HH.yaml", "pop0.v", HH, 2000, 2.5e-5),
        "RNN": Case(_rnn(rng), "cell.r", weights, 500, 0.1),
        "cells": Case(fn, "cell.V", four, 1000, 0.1, start),
        "long": Case(fn, "cell.V", four, 200_000, 0.1),
    }


def _rnn(rng: np.random.Generator) -> dict[str, Any]:
    cell = {
        "parameters": {
            "M": {"value": np.zeros((100, 100)).tolist()},
            "g": {"value": 1.0},
            "x": {
                "default_initial_value": (0.5 * rng.standard_normal(100)).tolist(),
                "time_derivative": "-x + g*fed_back",
            },
            "rate": {"function": "tanh", "args": {"variable0": "x", "scale": 1}},
            "fed_back": {"function": "MatMul", "args": {"A": "M", "B": "rate"}},
        },
        "output_ports": {"r": {"value": "rate"}},
    }
    return {"network": {"nodes": {"cell": cell}}}


# --- JAX ------------------------------------------------------------------------------------------


def fn_step(m: Any, state: Any, p: Any, dt: float) -> Any:
    """Return the next state of FitzHugh-Nagumo; w is updated with the new v."""
    v, w = state
    v = v + (v - v * v * v / p["cell.k"] - w + 0.5) * dt
    return v, w + (v + p["cell.a"] - p["cell.b"] * w) / p["cell.tau"] * dt


def hh_step(m: Any, state: Any, p: Any, dt: float) -> Any:
    """Return the next state of the Hodgkin-Huxley neuron of PyNN."""
    return hh_with(
        m,
        state,
        dt,
        leak=p["pop0.g_leak"],
        sodium=p["pop0.gbar_Na"],
        potassium=p["pop0.gbar_K"],
        reversal=p["pop0.e_rev_Na"],
        current=p["pop0.i_offset"],
    )


def by_jax(name: str, case: Case) -> Callable[[], Any]:
    """Return a function that computes value and gradient of a jitted JAX scan."""
    import jax
    from jax import numpy as jnp

    step = {"FN": fn_step, "HH": hh_step}[name]

    def number(p: Any) -> Any:
        start = (p["cell.v0"], 0.0) if name == "FN" else (-0.065, 0.0, 0.0, 0.0)
        start = tuple(jnp.asarray(x, "float64") for x in start)

        def iteration(state: Any, _: object) -> Any:
            next_state = step(jnp, state, p, case.dt)
            return next_state, next_state[0]

        _, rows = jax.lax.scan(iteration, start, None, length=case.steps - 1)
        return (jnp.sum(rows) + start[0]) / case.steps

    both = jax.jit(jax.value_and_grad(number))
    at = {key: jnp.asarray(np.reshape(value, ()), "float64") for key, value in case.wrt.items()}
    return lambda: jax.block_until_ready(both(at))


# --- measurement ----------------------------------------------------------------------------------


@contextmanager
def single_backward_loop() -> Any:
    """Build each backward pass as one loop, without the split into kernels, inside this context."""
    read: Any = Differentiated._prepare_gradient
    patched: Any = lambda self, spec, bound, _: read(self, spec, bound, loop_backward)  # noqa: E731
    Differentiated._prepare_gradient = patched  # type: ignore[method-assign]
    try:
        yield
    finally:
        Differentiated._prepare_gradient = read  # type: ignore[method-assign]


def minimum_times(ways: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """Return the least CPU time of each way in seconds; the samples alternate."""
    best = dict.fromkeys(ways, float("inf"))
    for run in ways.values():
        run()
    for _ in range(rounds):
        for way, run in ways.items():
            start = time.process_time()
            run()
            best[way] = min(best[way], time.process_time() - start)
    return best


LIMITS = {
    ("FN", "standard"): 2.0,
    ("HH", "standard"): 2.0,
    ("RNN", "standard"): 3.0,
    ("cells", "standard"): 6.5,
    ("long", "standard"): 3.0,
    ("FN", "plain"): 4.5,
    ("HH", "plain"): 4.5,
    ("RNN", "plain"): 4.5,
    ("FN", "native"): 3.0,
    ("HH", "native"): 1.0,
}
"""Largest ratio of each way to the run, and of native derivatives to JAX."""

MAX_EXTRA_MB = {"cells": 40.0, "long": 20.0}
"""Largest memory in MB above a run without rows: for `cells`, half a trace of 10 000 cells."""


def ratio_rows(name: str, case: Case, rounds: int) -> list[tuple[str, float, float, float]]:
    """Return rows of way, milliseconds, milliseconds of its reference, and their ratio."""
    ways: dict[str, Callable[[], Any]] = {
        "run": case.run("off"),
        "standard": case.gradient("off"),
    }
    if (name, "plain") in LIMITS:
        with single_backward_loop():
            ways["plain"] = case.gradient("off")
            ways["plain"]()
    has_jax = (name, "native") in LIMITS and find_spec("jax") is not None
    if has_jax:
        ways |= {"native": case.gradient("auto"), "JAX": by_jax(name, case)}
        check_derivatives(name, ways["native"](), ways["JAX"]())
    best = minimum_times(ways, rounds)
    pairs = [(way, "run") for way in ("standard", "plain") if way in best]
    pairs += [("native", "JAX")] if has_jax else []
    return [(way, best[way] * 1e3, best[to] * 1e3, best[way] / best[to]) for way, to in pairs]


def check_derivatives(name: str, ours: Any, theirs: Any) -> None:
    """Raise an error if the derivatives differ from those of JAX."""
    value, changes = theirs
    assert np.allclose(ours.value, value, rtol=1e-9), name
    for key, change in changes.items():
        derivative = float(np.reshape(ours[key], ()))
        assert np.isclose(derivative, float(change), rtol=1e-6), (
            name,
            key,
            derivative,
            float(change),
        )


def peak_memory(name: str, task: str) -> float:
    """Return the peak memory of a run or gradient in a new process, in MB."""
    command = [sys.executable, __file__, "--alone", name, task]
    process = subprocess.run(command, check=True, capture_output=True, text=True)
    return float(json.loads(process.stdout))


def print_peak_memory(name: str, task: str) -> None:
    """Compute one run or gradient and print the peak memory of this process in MB."""
    case = cases()[name]
    (case.run_for_mean("off") if task == "run" else case.gradient("off"))()
    status = Path("/proc/self/status").read_text()  # getrusage includes the peak of the parent
    (peak_kb,) = [line.split()[1] for line in status.splitlines() if line.startswith("VmHWM")]
    print(int(peak_kb) / 1024)


def main() -> int:
    """Print the table; return exit code 1 if a threshold is missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--memory", action="store_true")
    parser.add_argument("--alone", nargs=2)
    options = parser.parse_args()
    if options.alone:
        print_peak_memory(*options.alone)
        return 0
    missed = []
    print("| value and gradient | way | ms | compared with, ms | times | at most |")
    print("|---|---|---|---|---|---|")
    for name, case in cases().items():
        rounds = options.rounds if name not in MAX_EXTRA_MB else max(options.rounds // 5, 2)
        for way, ours, other, ratio in ratio_rows(name, case, rounds):
            limit = LIMITS[name, way]
            print(f"| {name} | {way} | {ours:.3g} | {other:.3g} | {ratio:.2f} | {limit} |")
            missed += [f"{name}, {way}: {ratio:.2f} exceeds {limit}"] if ratio > limit else []
    if options.memory:
        for name, limit in MAX_EXTRA_MB.items():
            extra_mb = statistics.median(
                peak_memory(name, "gradient") - peak_memory(name, "run") for _ in range(5)
            )
            print(f"{name}: {extra_mb:.1f} MB above the run, at most {limit}")
            missed += [f"{name}: {extra_mb:.1f} MB exceeds {limit} MB"] if extra_mb > limit else []
    for sentence in missed:
        print(sentence, file=sys.stderr)
    return int(bool(missed))


if __name__ == "__main__":
    sys.exit(main())
