"""A model over time: the first evaluation, then all others in one loop of ONNX Runtime."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from mdf_loop.build import Options
from mdf_loop.emit.legalise import runnable
from mdf_loop.errors import InputError
from mdf_loop.ir import Array
from mdf_loop.reading.over_time import OverTime, after, before
from mdf_loop.run.session import Session


class TimedSession:
    """The two programs of a model over time, ready to run for any number of steps."""

    def __init__(self, programs: OverTime, options: Options, device: str) -> None:
        self.programs = programs
        self.precision = options.precision
        self._first = Session(runnable(programs.first, options), device)
        self._later = Session(runnable(programs.later, options), device)
        self.device = self._later.device

    def run(self, arrays: Mapping[str, Array], steps: int, dt: float | None) -> dict[str, Array]:
        """What is recorded, with an axis of time in front: one row for each evaluation."""
        first = self._first.run(arrays)
        if steps == 1:
            return {name: first[name][np.newaxis] for name in self.programs.recorded}
        later = self._later.run(self._feeds(arrays, first, steps - 1, dt))
        return {name: _joined(first[name], later[name]) for name in self.programs.recorded}

    def _feeds(
        self, arrays: Mapping[str, Array], first: Mapping[str, Array], steps: int, dt: float | None
    ) -> dict[str, Array]:
        given = {**arrays, "steps": np.array(steps, np.int64)}
        if dt is not None:
            given["dt"] = np.array(dt, self.precision)
        given |= {before(state): first[after(state)] for state in self.programs.states}
        return {
            entry.value.name: _widened(
                given[entry.value.name], entry.value.dtype, entry.value.shape
            )
            for entry in self.programs.later.inputs
        }


def _widened(array: Array, dtype: str, shape: Any) -> Array:
    """The array in the type that holds for all steps; nothing is lost by it."""
    wide = array.astype(dtype) if array.dtype != dtype and dtype != "string" else array
    fixed = shape is not None and all(isinstance(extent, int) for extent in shape)
    return np.broadcast_to(wide, shape) if fixed else wide


def _joined(first: Array, later: Array) -> Array:
    """The first row before all others."""
    dtype = np.result_type(first, later) if first.dtype != object else first.dtype
    rows = np.empty((len(later) + 1, *later.shape[1:]), dtype)
    rows[0] = first
    rows[1:] = later
    return rows


def checked_steps(steps: Any, dt: Any) -> tuple[int, float | None]:
    """The number of evaluations and the time between them, refusing what is neither.

    Raises:
        InputError: `steps` is no whole number above 0, or `dt` is no finite number.
    """
    whole = isinstance(steps, int | np.integer) and not isinstance(steps, bool)
    if not whole or steps < 1:
        raise InputError(f"steps must be a whole number above 0, not {steps!r}")
    if dt is None:
        return int(steps), None
    number = isinstance(dt, int | float | np.number) and not isinstance(dt, bool)
    if not number or not np.isfinite(dt):
        raise InputError(f"dt must be a number of seconds, not {dt!r}", hint="e.g. dt=5e-5")
    return int(steps), float(dt)
