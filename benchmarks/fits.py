"""Compare the cost of `fit` with scipy's least squares on a model in JAX and in plain Python.

    python benchmarks/fits.py [--rounds 7]

All ways fit three parameters of FitzHugh-Nagumo to 400 noisy rows of V:

    near      from a start close to the solution
    bounds    from bounds alone: 256 points of a Sobol sequence, of which the best 4 are refined

`ours` is `fit` with its complete report. The other ways call scipy's `least_squares` with the same
tolerances. `Python` computes the residuals in a loop over floats, with finite differences of scipy. `JAX`
computes them in a jitted scan, with `vmap` over all points and `jacfwd`.

All ways use one thread. Figures are minima of CPU time in ms. The first fit is not measured, so no figure
includes compilation. The benchmark checks that the estimates agree. Without JAX its lines are omitted.
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
import time
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import least_squares

import mdf_loop
import mdf_loop.run.onnxruntime.session as onnxruntime_session

onnxruntime_session.MAX_THREADS = 1

MODEL = Path(__file__).parent / "one_cell.yaml"
FREE = {"cell.a": (0.2, 1.2), "cell.b": (0.3, 1.3), "cell.tau": (5.0, 30.0)}
TRUE = {"cell.a": 0.7, "cell.b": 0.8, "cell.tau": 12.5}
START = {"cell.a": 0.65, "cell.b": 0.75, "cell.tau": 11.8}
FIXED = {"cell.k": 3.0, "cell.v0": -1.0}
STEPS, DT, NOISE = 400, 0.25, 0.05
POINTS, REFINED, TOLERANCE = 256, 4, 1e-13
LOW, HIGH = np.array(list(FREE.values())).T


def starting_points(near: bool, costs: Callable[[Any], Any]) -> list[Any]:
    """Return the starts of least squares: the close start, or the best points of a Sobol sequence."""
    if near:
        return [np.array(list(START.values()))]
    points = np.stack(list(mdf_loop.sobol(FREE, POINTS).values()), axis=1)
    return list(points[np.argsort(costs(points))[:REFINED]])


def best_solution(starts: list[Any], residuals: Callable[[Any], Any], jacobian: Any) -> Any:
    """Return the best solution of `least_squares` over all starts."""
    solutions = [
        least_squares(
            residuals,
            start,
            jacobian,
            bounds=(LOW, HIGH),
            x_scale=HIGH - LOW,
            xtol=TOLERANCE,
            ftol=TOLERANCE,
            gtol=TOLERANCE,
            max_nfev=200,
        )
        for start in starts
    ]
    return min(solutions, key=lambda each: each.cost).x


# --- ways -----------------------------------------------------------------------------------------


def ours(data: Any) -> Callable[[bool], Any]:
    """Return a function that calls `fit`."""
    model = mdf_loop.compile(MODEL, device="cpu")

    def fit(near: bool) -> Any:
        report = model.fit(
            {"time": np.arange(STEPS) * DT, "cell.V": data},
            FREE,
            "cell.V",
            dt=DT,
            set=FIXED,
            start=START if near else None,
            progress=False,
        )
        return np.array(list(report.estimates.values()))

    return fit


def by_python(data: Any) -> Callable[[bool], Any]:
    """Return a fit of a loop over Python floats with finite differences of scipy."""

    def residuals(point: Any) -> Any:
        a, b, tau = map(float, point)
        v, w = FIXED["cell.v0"], 0.0
        rows = [v]
        for _ in range(STEPS - 1):
            v = v + (v - v * v * v / FIXED["cell.k"] - w + 0.5) * DT
            w = w + (v + a - b * w) / tau * DT
            rows.append(v)
        return np.array(rows) - data

    def fit(near: bool) -> Any:
        starts = starting_points(near, lambda points: [np.sum(residuals(p) ** 2) for p in points])
        return best_solution(starts, residuals, "2-point")

    return fit


def by_jax(data: Any) -> Callable[[bool], Any]:
    """Return a fit of a jitted JAX scan with its exact Jacobian."""
    import jax
    from jax import numpy as jnp

    def residuals(point: Any) -> Any:
        a, b, tau = point

        def step(state: Any, _: object) -> Any:
            v, w = state
            v = v + (v - v * v * v / FIXED["cell.k"] - w + 0.5) * DT
            w = w + (v + a - b * w) / tau * DT
            return (v, w), v

        first = jnp.asarray(FIXED["cell.v0"], "float64")
        _, rows = jax.lax.scan(step, (first, jnp.zeros(())), None, length=STEPS - 1)
        return jnp.concatenate([first[None], rows]) - data

    one, jacobian = jax.jit(residuals), jax.jit(jax.jacfwd(residuals))
    costs = jax.jit(jax.vmap(lambda point: jnp.sum(residuals(point) ** 2)))

    def fit(near: bool) -> Any:
        starts = starting_points(near, lambda points: np.asarray(costs(points)))
        return best_solution(
            starts, lambda x: np.asarray(one(x)), lambda x: np.asarray(jacobian(x))
        )

    return fit


# --- measurement ----------------------------------------------------------------------------------


def minimum_times(
    ways: Mapping[str, Callable[[bool], Any]], near: bool, rounds: int
) -> dict[str, float]:
    """Return the least CPU time of each way in ms; the samples alternate."""
    best_times = dict.fromkeys(ways, np.inf)
    for _ in range(rounds):
        for name, way in ways.items():
            start_time = time.process_time()
            way(near)
            best_times[name] = min(best_times[name], 1e3 * (time.process_time() - start_time))
    return best_times


def main() -> None:
    """Measure all ways and print their times."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7)
    rounds = parser.parse_args().rounds
    model = mdf_loop.compile(MODEL, device="cpu")
    true = np.asarray(model.run(set={**FIXED, **TRUE}, steps=STEPS, dt=DT)["cell.V"])
    data = true + NOISE * np.random.default_rng(0).standard_normal(STEPS)
    ways = {"ours": ours(data), "Python": by_python(data)}
    if find_spec("jax"):
        ways["JAX"] = by_jax(data)
    for near in (True, False):
        estimates = {name: way(near) for name, way in ways.items()}  # compiled here
        for name, estimate in estimates.items():
            np.testing.assert_allclose(estimate, estimates["ours"], rtol=1e-5, err_msg=name)
        for name, milliseconds in (times := minimum_times(ways, near, rounds)).items():
            word = "near" if near else "bounds"
            print(
                f"{word:8}{name:8}{milliseconds:9.3g} ms {milliseconds / times['ours']:8.3g} times ours"
            )


if __name__ == "__main__":
    main()
