"""Times of recorded rows, which are computed on access to save memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from msgspec import Struct

from mdf_loop.ir import Array
from mdf_loop.run.control.stepper import StepNumbers


class Clock(Struct, frozen=True):
    """Time of each step of a run: `number * dt` if dt has been constant since step 0.

    `known_time` is the time of the step `known_step`. `dt` is None for a model without time.
    """

    known_step: int
    known_time: float
    dt: float | None

    def at(self, numbers: Any) -> Any:
        """Return the times of steps from their numbers, in the unit of `dt`."""
        if self.dt is None:
            return self.known_time + 0.0 * numbers
        if self.known_time == self.known_step * self.dt:
            return numbers * self.dt
        return self.known_time + (numbers - self.known_step) * self.dt

    def snapshot(self) -> dict[str, Array]:
        """Return the parameters of the clock as arrays of a checkpoint."""
        return {"step": np.array(self.known_step), "time": np.array(self.known_time)}

    def restored(self, parts: Mapping[str, Array]) -> Clock:
        """Return the clock of a resumed run, from the arrays of a checkpoint."""
        return Clock(int(parts["step"]), float(parts["time"]), self.dt)


class Ticks:
    """Array-like of the times of recorded steps (or step numbers), computed on access."""

    ndim = 1

    def __init__(self, numbers: StepNumbers, clock: Clock) -> None:
        self._numbers = numbers
        self._clock = clock
        self.dtype = np.dtype(np.int64 if clock.dt is None else np.float64)
        self.shape = (len(numbers),)
        self.size = len(numbers)

    def __repr__(self) -> str:
        if self.size <= 6:
            return f"Ticks({np.asarray(self).tolist()})"
        end_tick_texts = (
            ", ".join(map(str, self[end_slice].tolist()))
            for end_slice in (slice(3), slice(-3, None))
        )
        return f"Ticks([{', ..., '.join(end_tick_texts)}], {self.size} of them)"

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, tuple) and len(index) == 1:
            (index,) = index
        if isinstance(index, slice):
            return np.asarray(Ticks(self._numbers[index], self._clock))
        return np.asarray(self)[index]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        step_numbers = self._numbers
        ticks = (
            step_numbers
            if isinstance(step_numbers, np.ndarray)
            else np.arange(step_numbers.start, step_numbers.stop, step_numbers.step)
        )
        coordinates: Array = ticks if self._clock.dt is None else self._clock.at(ticks)
        return np.asarray(coordinates, dtype)
