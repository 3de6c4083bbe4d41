"""The loops that `native.py` times: each as a model of MDF and as one writes it by hand."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from native_peers import models, systems
from native_peers.system import Made, System


@dataclass(frozen=True)
class Case:
    """A model, its loop written by hand, and how long it is run.

    Attributes:
        model: the model; made when it is needed.
        system: the loop that others compute, for so many steps.
        steps: how many steps a run has.
        dt: seconds a step; None where the model is evaluated once, and `end` ends its loop.
        outputs: which output of the model, or what of its state, is what is called so by hand.
        numba: the name in `numba_loops`.
        python: the loop of Python's floats, if it is one of plain numbers.
        run_options: what a run is asked for besides.
    """

    name: str
    model: Callable[[], Any]
    system: Callable[[int], System]
    steps: int
    dt: float | None
    outputs: Mapping[str, str]
    numba: str
    python: Callable[[System, int], Made] | None = None
    run_options: Mapping[str, Any] = field(default_factory=dict)

    def run_of(self, steps: int) -> dict[str, Any]:
        """What `CompiledModel.run` is given."""
        if self.dt is None:
            return {"inputs": {"end": systems.newton_end(steps)}, "progress": False}
        return {"steps": steps, "dt": self.dt, "progress": False, **self.run_options}

    def iterations(self, steps: int) -> int:
        """Of the loop: the first evaluation of a model over time is none."""
        return steps if self.dt is None else steps - 1

    @cached_property
    def has_rows(self) -> bool:
        """Whether rows are compared, and not what is left at the end."""
        return bool(self.system(1).recorded)

    def by_step(self, rows: Any) -> Any:
        """Rows of a sweep as those of as many cells: steps in front, then members."""
        return np.moveaxis(rows[..., 0], 0, 1) if "sweep" in self.run_options else rows

    def taken(self, results: Any) -> Made:
        """What others compute, out of the results of a run."""
        if self.dt is None:
            return {name: results[output] for name, output in self.outputs.items()}
        if not self.has_rows:
            return {name: results.state[of] for name, of in self.outputs.items()}
        return {name: self.by_step(results[of])[1:] for name, of in self.outputs.items()}


FN_STATE = {"v": "parameter FNpop.V", "w": "parameter FNpop.W"}
NO_ROWS = {"only": ["FNpop.spike"]}
"""A row of one whole number that never changes."""

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


# So many steps that a native run takes some 5 ms: 0.6 ms of it are around the loop, however long it is. One
# cell of FitzHugh-Nagumo has fewer, to show that.
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
