"""What every way computes: a step, again and again, and the rows of some of what it carries.

    x = step(m, x, given); rows[k] = x          # steps times, or as long as goes(m, x, given)

A step is written once. `m` is numpy, jax.numpy, or what writes ONNX operators: then the same
expressions are the body of an ONNX Loop, one node for each operation, as one writes it by hand.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np

Array: TypeAlias = np.ndarray
State: TypeAlias = tuple[Any, ...]
Step: TypeAlias = Callable[[Any, State, State], State]
Made: TypeAlias = dict[str, Array]
"""Rows by name of what is recorded, else the last values."""


@dataclass(frozen=True)
class System:
    """A loop.

    Attributes:
        names: of what is carried.
        start: what enters the first iteration.
        constants: what does not change: numbers, which are part of the code, and arrays.
        recorded: the places of what rows are kept of; where there are none, all last values are
            given.
        condition: whether the loop goes on, if its data say so.
    """

    names: tuple[str, ...]
    start: State
    constants: State
    step: Step
    recorded: tuple[int, ...] = ()
    condition: Callable[[Any, State, State], Any] | None = None

    def begun(self, constants: State | None = None) -> System:
        """After one step, as a model has it that steps at once; `constants` is for the others."""
        after = self.step(np, self.start, self.constants)
        return replace(
            self, start=after, constants=self.constants if constants is None else constants
        )

    def made(self, finals: State, rows: State) -> Made:
        """What a way has computed, by name."""
        if not self.recorded:
            return {name: np.asarray(a) for name, a in zip(self.names, finals, strict=True)}
        places = zip(self.recorded, rows, strict=True)
        return {self.names[place]: np.asarray(array) for place, array in places}

    def empty_rows(self, steps: int) -> tuple[Array, ...]:
        """Arrays for the rows of so many steps."""
        shapes = ((steps, *np.shape(self.start[place])) for place in self.recorded)
        return tuple(np.empty(shape) for shape in shapes)


# --- numpy ------------------------------------------------------------------------------------


def by_numpy(system: System, steps: int) -> Made:
    """A plain loop over arrays; what are numbers alone are arrays of one."""
    if not any(np.ndim(value) for value in system.start):
        system = replace(system, start=tuple(map(np.atleast_1d, system.start)))
    state, constants, step = system.start, system.constants, system.step
    if system.condition is not None:
        while system.condition(np, state, constants):
            state = step(np, state, constants)
        return system.made(state, ())
    rows = system.empty_rows(steps)
    places = tuple(zip(system.recorded, rows, strict=True))
    for k in range(steps):
        state = step(np, state, constants)
        for place, row_array in places:
            row_array[k] = state[place]
    return system.made(state, rows)


# --- JAX --------------------------------------------------------------------------------------


def by_jax(system: System, steps: int) -> Callable[[], Made]:
    """`lax.scan` or `lax.while_loop`, jitted; numbers that are given are constants of its code."""
    import jax
    import jax.numpy as jnp

    is_array = [isinstance(value, np.ndarray) for value in system.constants]
    arrays = tuple(jnp.asarray(a) for a, yes in zip(system.constants, is_array, strict=True) if yes)

    def all_given(arrays: tuple[Any, ...]) -> State:
        remaining = iter(arrays)
        pairs = zip(system.constants, is_array, strict=True)
        return tuple(next(remaining) if yes else value for value, yes in pairs)

    def computed(start: State, arrays: tuple[Any, ...]) -> tuple[State, State]:
        constants = all_given(arrays)

        def iteration(state: State, _: object) -> tuple[State, State]:
            after = system.step(jnp, state, constants)
            return after, tuple(after[place] for place in system.recorded)

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

    compiled = jax.jit(computed)
    start = tuple(jnp.asarray(value, "float64") for value in system.start)

    def run() -> Made:
        return system.made(*jax.block_until_ready(compiled(start, arrays)))

    return run


# --- numba ------------------------------------------------------------------------------------


def by_numba(system: System, steps: int, loop: Any, *, fresh: bool = False) -> Callable[[], Made]:
    """A loop of `numba_loops`; its rows are written to the same arrays each time, or to new ones."""
    reused_rows = system.empty_rows(steps)
    for rows in reused_rows:
        rows.fill(0.0)

    def run() -> Made:
        rows = system.empty_rows(steps) if fresh else reused_rows
        finals = loop(steps, system.start, system.constants, rows)
        return system.made(finals, rows)

    return run
