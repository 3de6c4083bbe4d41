"""Run one step function in every way: numpy, JAX, numba and ONNX.

    x = step(m, x, constants); rows[k] = x          # `steps` times, or while condition(m, x, constants)

A step is written once. `m` is numpy, jax.numpy or a builder of ONNX operators. With the builder the same
expressions become the body of an ONNX Loop with one node per operation, as in a hand-written model.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np

Array: TypeAlias = np.ndarray
State: TypeAlias = tuple[Any, ...]
Step: TypeAlias = Callable[[Any, State, State], State]
NamedArrays: TypeAlias = dict[str, Array]
"""Recorded rows by name, or the final values if no rows are recorded."""


@dataclass(frozen=True)
class System:
    """A loop that every way can run.

    Attributes:
        names: Names of the loop-carried values.
        start: Loop-carried values that enter the first iteration.
        constants: Loop-invariant values. Scalars become part of the code; arrays are passed.
        step: Function of one iteration.
        recorded: Indices of the recorded loop-carried values. If empty, the final values are returned.
        condition: Loop condition, or None if the number of steps is fixed.
    """

    names: tuple[str, ...]
    start: State
    constants: State
    step: Step
    recorded: tuple[int, ...] = ()
    condition: Callable[[Any, State, State], Any] | None = None

    def after_one_step(self, constants: State | None = None) -> System:
        """Return the loop after one step, for models that step in their first evaluation.

        `constants` are for the remaining steps.
        """
        next_state = self.step(np, self.start, self.constants)
        return replace(
            self, start=next_state, constants=self.constants if constants is None else constants
        )

    def name_arrays(self, finals: State, rows: State) -> NamedArrays:
        """Return recorded rows or final values by name."""
        if not self.recorded:
            return {name: np.asarray(a) for name, a in zip(self.names, finals, strict=True)}
        places = zip(self.recorded, rows, strict=True)
        return {self.names[place]: np.asarray(array) for place, array in places}

    def empty_rows(self, steps: int) -> tuple[Array, ...]:
        """Return empty arrays for the rows of `steps` steps."""
        shapes = ((steps, *np.shape(self.start[place])) for place in self.recorded)
        return tuple(np.empty(shape) for shape in shapes)


# --- numpy ------------------------------------------------------------------------------------


def by_numpy(system: System, steps: int) -> NamedArrays:
    """Run a Python loop over arrays; scalars become arrays of one element."""
    if not any(np.ndim(value) for value in system.start):
        system = replace(system, start=tuple(map(np.atleast_1d, system.start)))
    state, constants, step = system.start, system.constants, system.step
    if system.condition is not None:
        while system.condition(np, state, constants):
            state = step(np, state, constants)
        return system.name_arrays(state, ())
    rows = system.empty_rows(steps)
    places = tuple(zip(system.recorded, rows, strict=True))
    for k in range(steps):
        state = step(np, state, constants)
        for place, row_array in places:
            row_array[k] = state[place]
    return system.name_arrays(state, rows)


# --- JAX --------------------------------------------------------------------------------------


def by_jax(system: System, steps: int) -> Callable[[], NamedArrays]:
    """Return a function that runs a jitted `lax.scan` or `lax.while_loop`, with scalars as literals."""
    import jax
    import jax.numpy as jnp

    is_array = [isinstance(value, np.ndarray) for value in system.constants]
    arrays = tuple(jnp.asarray(a) for a, yes in zip(system.constants, is_array, strict=True) if yes)

    def insert_scalars(arrays: tuple[Any, ...]) -> State:
        remaining = iter(arrays)
        pairs = zip(system.constants, is_array, strict=True)
        return tuple(next(remaining) if yes else value for value, yes in pairs)

    def computation(start: State, arrays: tuple[Any, ...]) -> tuple[State, State]:
        constants = insert_scalars(arrays)

        def iteration(state: State, _: object) -> tuple[State, State]:
            next_state = system.step(jnp, state, constants)
            return next_state, tuple(next_state[place] for place in system.recorded)

        condition = system.condition
        if condition is None:
            finals_and_rows: tuple[State, State] = jax.lax.scan(
                iteration, start, None, length=steps
            )
            return finals_and_rows
        last = jax.lax.while_loop(
            lambda state: condition(jnp, state, constants),
            lambda state: iteration(state, None)[0],
            start,
        )
        return last, ()

    compiled = jax.jit(computation)
    start = tuple(jnp.asarray(value, "float64") for value in system.start)

    def run() -> NamedArrays:
        return system.name_arrays(*jax.block_until_ready(compiled(start, arrays)))

    return run


# --- numba ------------------------------------------------------------------------------------


def by_numba(
    system: System, steps: int, loop: Any, *, fresh: bool = False
) -> Callable[[], NamedArrays]:
    """Return a function that runs a loop of `numba_loops` with reused rows, or with new rows if `fresh`."""
    reused_rows = system.empty_rows(steps)
    for rows in reused_rows:
        rows.fill(0.0)

    def run() -> NamedArrays:
        rows = system.empty_rows(steps) if fresh else reused_rows
        finals = loop(steps, system.start, system.constants, rows)
        return system.name_arrays(finals, rows)

    return run
