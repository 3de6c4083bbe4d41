"""Cases of `native.py`: loops as MDF models and as hand-written code."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from native_peers import models, systems
from native_peers.system import NamedArrays, System


@dataclass(frozen=True)
class Case:
    """A model, its hand-written loop, and the length of its runs.

    Attributes:
        model: Function that returns the model.
        system: Function that returns the hand-written loop for a number of steps.
        steps: Number of steps of a run.
        dt: Seconds per step, or None if the model is evaluated once and its input `end` ends the loop.
        outputs: Outputs or state values of the model by the names of the hand-written loop.
        numba: Name of the loop in `numba_loops`.
        python: The loop over Python floats, if all values are scalars.
        run_options: Additional arguments of `CompiledModel.run`.
    """

    name: str
    model: Callable[[], Any]
    system: Callable[[int], System]
    steps: int
    dt: float | None
    outputs: Mapping[str, str]
    numba: str
    python: Callable[[System, int], NamedArrays] | None = None
    run_options: Mapping[str, Any] = field(default_factory=dict)

    def run_arguments(self, steps: int) -> dict[str, Any]:
        """Return the arguments of `CompiledModel.run`."""
        if self.dt is None:
            return {"inputs": {"end": systems.newton_end(steps)}, "progress": False}
        return {"steps": steps, "dt": self.dt, "progress": False, **self.run_options}

    def iterations(self, steps: int) -> int:
        """Return the number of loop iterations; the first evaluation of a model over time is no iteration."""
        return steps if self.dt is None else steps - 1

    @cached_property
    def has_recorded_rows(self) -> bool:
        """True if recorded rows are compared, not final values."""
        return bool(self.system(1).recorded)

    def step_axis_first(self, rows: Any) -> Any:
        """Move the step axis of a sweep to the front, as in a loop over as many cells."""
        return np.moveaxis(rows[..., 0], 0, 1) if "sweep" in self.run_options else rows

    def select_outputs(self, results: Any) -> NamedArrays:
        """Select from the results the arrays that the hand-written loops compute."""
        if self.dt is None:
            return {name: results[output] for name, output in self.outputs.items()}
        if not self.has_recorded_rows:
            return {name: results.state[of] for name, of in self.outputs.items()}
        return {name: self.step_axis_first(results[of])[1:] for name, of in self.outputs.items()}


FN_STATE = {"v": "parameter FNpop.V", "w": "parameter FNpop.W"}
NO_ROWS = {"only": ["FNpop.spike"]}
"""Arguments of a run that records one integer per step, which is the least possible recording."""

IAF_ROWS = {"pre": "pre.v_output", "post": "post.v_output", "spiking_post": "post.spiking_output"}


def _fn(cells: int, label: str, steps: int, *, recorded: bool) -> Case:
    one = cells == 1
    outputs = {"v": "FNpop.V", "w": "FNpop.W"} if one else {"v": "FNpop.V"}
    return Case(
        f"FN {label}, recorded" if recorded else f"FN {label}",
        (lambda: models.from_file("FN")) if one else (lambda: models.fn(cells)),
        lambda steps: systems.fn(cells, recorded=recorded),
        steps,
        models.FN_DT,
        outputs if recorded else FN_STATE,
        ("fn_one" if one else "fn") + ("_recorded" if recorded else ""),
        systems.fn_by_python if one else None,
        NO_ROWS if not recorded else {} if one else {"only": ["FNpop.V"]},
    )


def _rnn(units: int, steps: int) -> Case:
    return Case(
        f"RNN {units}",
        lambda: models.rnn(units),
        lambda steps: systems.rnn(units),
        steps,
        0.1,
        {"r": "net.r"},
        "rnn" if units < 50 else "rnn_wide",
    )


# The number of steps is such that a native run takes about 5 ms, of which 0.6 ms are fixed costs. The single
# cell of FitzHugh-Nagumo has fewer steps, which shows the fixed costs.
CASES: tuple[Case, ...] = (
    _fn(1, "1", 20_000, recorded=True),
    _fn(1, "1", 20_000, recorded=False),
    _fn(1000, "1e3", 10_000, recorded=True),
    _fn(1000, "1e3", 10_000, recorded=False),
    _fn(100_000, "1e5", 100, recorded=True),
    _fn(100_000, "1e5", 500, recorded=False),
    Case(
        "HH",
        lambda: models.from_file("HH"),
        lambda steps: systems.hh(),
        100_000,
        models.HH_DT,
        {name: f"pop0.{name}" for name in "vmhn"},
        "hh",
        systems.by_python,
    ),
    _rnn(8, 50_000),
    _rnn(100, 5000),
    _rnn(500, 500),
    Case(
        "IAF net 8",
        lambda: models.from_file("IAF_net"),
        lambda steps: systems.iaf(8, pointwise=False),
        20_000,
        models.IAF_DT,
        IAF_ROWS,
        "iaf_net",
    ),
    Case(
        "IAF 1e3, pointwise",
        lambda: models.iaf(1000),
        lambda steps: systems.iaf(1000, pointwise=True),
        4000,
        models.IAF_DT,
        IAF_ROWS,
        "iaf",
    ),
    Case(
        "drift diffusion 1e4",
        lambda: models.drift(10_000),
        lambda steps: systems.drift(10_000),
        500,
        models.DRIFT_DT,
        {"x": "trial.x"},
        "drift",
    ),
    Case(
        "Newton",
        models.newton,
        systems.newton,
        20_000,
        None,
        {"x": "root.x", "a": "root.a"},
        "newton",
        systems.by_python,
    ),
    Case(
        "LSTM, 2 x 16",
        models.lstm,
        lambda steps: systems.lstm(),
        2000,
        models.LSTM_DT,
        {"h1": "layer1.out"},
        "lstm",
    ),
    Case(
        "sweep of 1e3, FN",
        lambda: models.from_file("FN"),
        lambda steps: systems.fn_swept(1000),
        5000,
        models.FN_DT,
        {"v": "FNpop.V"},
        "fn_recorded",
        None,
        {"sweep": {"FNpop.Iext": models.currents(1000)}, "only": ["FNpop.V"]},
    ),
)
