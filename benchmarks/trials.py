"""Compare the cost of a trial of drift diffusion with other simulators.

    python benchmarks/trials.py [--trials 10000] [--rounds 3] [--memory]

The model is drift diffusion with drift, threshold and noise 1, and steps of 1 ms. A trial takes about 760
steps until the threshold. The ways are:

- ours: `run(trials=...)` with native loops; standard: the same with `native="off"`;
- numpy: all trials in one array, from which finished trials are removed;
- numpy, our numbers: the same with the random numbers of mdf_loop, whose decisions ours must equal;
- numba: one trial after the other, with numba's normal numbers;
- ssm-simulators (Cython);
- JAX: `vmap` of `lax.while_loop`, a tenth of the trials;
- modeci_mdf: its `drift_diffusion_integrator`, a quarter of the trials.

All ways use one thread. Figures are minima of CPU time per trial. The benchmark checks the means and error
rates of all ways against the closed form. `--memory` also prints the memory of a million trials with
`over_trials` above that of ten thousand. The exit code is 1 if a threshold is missed. Ways whose packages
are not installed are omitted.
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
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

import mdf_loop
from mdf_loop import streams

MODEL = Path(__file__).parent / "decision.yaml"
SITE = "decision.ddm.decide.body.walk.x_next#0"
DT, THRESHOLD = 1e-3, 1.0
SPREAD = np.sqrt(DT)

Decisions = tuple[np.ndarray, np.ndarray]
"""Response times, and flags that are true at the upper threshold."""

Way = Callable[[int], Decisions]

LIMITS: Mapping[tuple[str, str], float] = {
    ("ours", "ssm-simulators"): 1.5,
    ("ours", "numpy"): 1.3,
    ("standard", "numpy"): 2.6,
    ("ours", "modeci_mdf"): 1 / 25,
    ("standard", "modeci_mdf"): 1 / 25,
    ("ours", "JAX"): 1 / 8,
    ("standard", "JAX"): 1 / 8,
}
"""Largest ratio of the times of two ways."""

PARTS = {"JAX": 10, "modeci_mdf": 4}
"""Slow ways with the divisor of their number of trials."""


# --- ways -----------------------------------------------------------------------------------------


def ours(native: str) -> Way:
    """Return a way that runs the compiled model."""
    model = mdf_loop.compile(MODEL, device="cpu", native=native)

    def run(trials: int) -> Decisions:
        results = model.run(trials=trials)
        return results["rt"], results["choice"]

    return run


def by_numpy(trials: int, draw: Callable[[int, np.ndarray], np.ndarray]) -> Decisions:
    """Simulate all trials in one array; `draw` returns random numbers for the trials that still run."""
    x, steps, upper = np.zeros(trials), np.zeros(trials, int), np.zeros(trials, bool)
    running, step = np.arange(trials), 0
    while len(running):
        x = x + (DT + SPREAD * draw(step, running))
        step += 1
        is_finished = np.abs(x) >= THRESHOLD
        if is_finished.any():
            steps[running[is_finished]], upper[running[is_finished]] = step, x[is_finished] > 0
            x, running = x[~is_finished], running[~is_finished]
    return steps * DT, upper


def numpy_way(trials: int) -> Decisions:
    """Simulate all trials with numpy's random numbers."""
    rng = np.random.default_rng(1)
    return by_numpy(trials, lambda step, running: rng.standard_normal(len(running)))


def with_our_numbers(trials: int) -> Decisions:
    """Simulate all trials in numpy with the random numbers of mdf_loop."""
    keys = streams.keys(0, streams.site(SITE), np.arange(trials))
    return by_numpy(
        trials,
        lambda step, running: streams.normal(streams.uniform(streams.squares(step, keys[running]))),
    )


def numba_way() -> Way:
    """Return a way that simulates one trial after the other in numba."""
    import numba

    @numba.njit
    def decide(trials: int, seed: int) -> Any:
        np.random.seed(seed)
        times, upper = np.empty(trials), np.empty(trials, np.bool_)
        for k in range(trials):
            x, steps = 0.0, 0
            while abs(x) < THRESHOLD:
                x += DT + SPREAD * np.random.normal()
                steps += 1
            times[k], upper[k] = steps * DT, x > 0
        return times, upper

    return lambda trials: decide(trials, 1)


def jax_way() -> Way:
    """Return a way that simulates a batch of trials in JAX until the last trial ends."""
    import jax
    from jax import numpy as jnp

    def one(key: Any) -> Any:
        def step(state: Any) -> Any:
            x, steps = state
            z = jax.random.normal(jax.random.fold_in(key, steps), dtype=jnp.float64)
            return x + (DT + SPREAD * z), steps + 1

        return jax.lax.while_loop(lambda state: jnp.abs(state[0]) < THRESHOLD, step, (0.0, 0))

    run = jax.jit(jax.vmap(one))

    def trials_of(trials: int) -> Decisions:
        x, steps = jax.block_until_ready(run(jax.random.split(jax.random.key(1), trials)))
        return np.asarray(steps) * DT, np.asarray(x) > 0

    return trials_of


def ssms_way() -> Way:
    """Return a way that calls the simulator of ssm-simulators."""
    from ssms.basic_simulators.simulator import simulator

    def run(trials: int) -> Decisions:
        simulation = simulator(
            theta=[1.0, 1.0, 0.5, 0.0],
            model="ddm",
            n_samples=trials,
            delta_t=DT,
            max_t=20,
            random_state=1,
        )
        return simulation["rts"].ravel(), simulation["choices"].ravel() > 0

    return run


def modeci_way(trials: int) -> Decisions:
    """Simulate trials with modeci_mdf's function, always from the same seed so that samples do equal work."""
    from modeci_mdf.functions.ddm import drift_diffusion_integrator

    np.random.seed(1)
    signed_times = np.array(
        [drift_diffusion_integrator(0.0, 0.0, 1.0, THRESHOLD, 1.0, DT) for _ in range(trials)]
    )
    return np.abs(signed_times), signed_times > 0


def ways() -> dict[str, Callable[[], Way]]:
    """Return a preparing function for each available simulator."""
    all_ways: dict[str, tuple[str, Callable[[], Way]]] = {
        "ours": ("numpy", lambda: ours("auto")),
        "standard": ("numpy", lambda: ours("off")),
        "numpy": ("numpy", lambda: numpy_way),
        "numpy, our numbers": ("numpy", lambda: with_our_numbers),
        "numba": ("numba", numba_way),
        "ssm-simulators": ("ssms", ssms_way),
        "JAX": ("jax", jax_way),
        "modeci_mdf": ("modeci_mdf", lambda: modeci_way),
    }
    return {way: make for way, (needs, make) in all_ways.items() if find_spec(needs) is not None}


# --- measurement ----------------------------------------------------------------------------------


def check_decisions(way: str, decisions: Decisions) -> None:
    """Compare times and choices with the closed form, with Siegmund's threshold correction for steps."""
    times, upper = decisions
    boundary = THRESHOLD + 0.5826 * SPREAD
    mean, missed = boundary * np.tanh(boundary), 1 / (1 + np.exp(2 * boundary))
    deviation = times.std() / np.sqrt(len(times))
    assert abs(times.mean() - mean) < 6 * deviation + DT, (
        f"{way}: a mean of {times.mean()}, not {mean}"
    )
    difference = abs((~upper).mean() - missed)
    assert difference < 6 * np.sqrt(missed * (1 - missed) / len(times)), (
        f"{way}: {(~upper).mean()} errors"
    )


def measure(trials: int, rounds: int) -> dict[str, float]:
    """Return the least seconds of CPU time per trial by way; the samples alternate."""
    prepared_ways = {way: make() for way, make in ways().items()}
    count = {way: max(1, trials // PARTS.get(way, 1)) for way in prepared_ways}
    decisions = {way: run(count[way]) for way, run in prepared_ways.items()}
    for way, results in decisions.items():
        check_decisions(way, results)
    for way in ("ours", "standard"):
        for array, expected in zip(decisions[way], decisions["numpy, our numbers"], strict=True):
            np.testing.assert_array_equal(array, expected, err_msg=way)
    best = dict.fromkeys(prepared_ways, float("inf"))
    for _ in range(rounds):
        for way, run in prepared_ways.items():
            start = time.process_time()
            run(count[way])
            best[way] = min(best[way], (time.process_time() - start) / count[way])
    return best


def peak_memory(trials: int) -> float:
    """Return the peak memory in MB of a process that computes statistics over `trials` trials."""
    code = (
        "import resource, mdf_loop\n"
        f"m = mdf_loop.compile({str(MODEL)!r}, device='cpu')\n"
        f"m.run(trials={trials}, over_trials={{'rt': ['mean', 'var']}}, by='choice')\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)"
    )
    process = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True
    )
    return float(process.stdout)


def format_table(best: Mapping[str, float]) -> str:
    """Format the table of microseconds per trial and their ratios to ours."""
    lines = ["| us of CPU time a trial | | times ours |", "|---|---|---|"]
    lines += [f"| {way} | {s * 1e6:.3g} | {s / best['ours']:.3g} |" for way, s in best.items()]
    return "\n".join(lines)


def missed(best: Mapping[str, float]) -> list[str]:
    """Return a message for each missed threshold."""
    problems = []
    for (way, other), limit in LIMITS.items():
        if way in best and other in best and best[way] > limit * best[other]:
            problems.append(f"{way} / {other}: {best[way] / best[other]:.3g} exceeds {limit:.3g}")
    return problems


def main() -> int:
    """Print the table; return exit code 1 if a threshold is missed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--trials", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--memory", action="store_true", help="measure the memory of a million trials"
    )
    options = parser.parse_args()
    best = measure(options.trials, options.rounds)
    print(format_table(best))
    problems = missed(best)
    if options.memory:
        extra_mb = peak_memory(1_000_000) - peak_memory(10_000)
        print(f"\na million trials take {extra_mb:.0f} MB more than ten thousand")
        problems += [f"memory of a million trials: {extra_mb:.0f} MB exceeds 100 MB"] * (
            extra_mb > 100
        )
    print("\n".join(f"missed: {line}" for line in problems))
    return int(bool(problems))


if __name__ == "__main__":
    sys.exit(main())
