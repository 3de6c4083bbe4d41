"""Gradient of a program that is computed in one call: one evaluation, or a run over time."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from mdf_loop.errors import UnsupportedError
from mdf_loop.ir import Array, Program
from mdf_loop.passes.gradient.differentiate import cotangent_name
from mdf_loop.passes.gradient.objective import OBJECTIVE_OUTPUT
from mdf_loop.reading.binding import BoundValues
from mdf_loop.run.backend import Runnable
from mdf_loop.run.gradient.loaded import Differentiation
from mdf_loop.run.gradient.terms import ObjectiveData


class GradientInOne:
    """Differentiated program that computes all steps of a run in one call.

    The inputs `controls` determine the number of steps.

    Members whose loops end at different times cannot be computed at once. These members run one after the
    other.
    """

    def __init__(
        self,
        program: Program,
        differentiation: Differentiation,
        data: ObjectiveData,
        swept: Collection[str] = (),
        controls: Mapping[str, Array] | None = None,
    ) -> None:
        self._program = program
        self._wrt = differentiation.wrt
        self._data_feeds = {**data.feeds_of_all_steps(), **(controls or {})}
        self._swept = frozenset(swept)
        self._runs_all_members = True
        try:
            self._runnable = differentiation.load(program, self._swept)
        except UnsupportedError:
            if not swept:
                raise
            self._runs_all_members = False
            self._runnable = differentiation.load(program)

    @property
    def native(self) -> Mapping[str, str]:
        """Execution mode of each loop by name: `native` (machine code) or `standard: <reason>`."""
        return self._runnable.native

    def run(self, bound: BoundValues) -> tuple[Array, dict[str, Array]]:
        """Compute the objective and its derivative with respect to each requested input."""
        feeds = {**bound.with_random_keys(self._program).arrays, **self._data_feeds}
        if not self._swept or self._runs_all_members:
            return self._run_program(self._runnable, feeds)
        member_count = len(feeds[min(self._swept)])
        member_gradients = [
            self._run_program(self._runnable, self._select_member(feeds, member))
            for member in range(member_count)
        ]
        stacked_derivatives = {
            name: np.stack([derivatives[name] for _, derivatives in member_gradients])
            for name in self._wrt
        }
        return np.stack([value for value, _ in member_gradients]), stacked_derivatives

    def _select_member(self, feeds: Mapping[str, Any], member: int) -> dict[str, Any]:
        return {name: data[member] if name in self._swept else data for name, data in feeds.items()}

    def _run_program(
        self, runnable: Runnable, feeds: Mapping[str, Any]
    ) -> tuple[Array, dict[str, Array]]:
        input_names = [program_input.value.name for program_input in runnable.program.inputs]
        outputs = runnable.run({name: feeds[name] for name in input_names})
        return outputs[OBJECTIVE_OUTPUT], {
            name: outputs[cotangent_name(name)] for name in self._wrt
        }
