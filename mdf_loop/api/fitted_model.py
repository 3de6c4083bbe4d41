"""Interface of fits to a compiled model: its outputs for many parameter values, and their derivatives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from msgspec.structs import replace

from mdf_loop.api.differentiation import DifferentiatedNames
from mdf_loop.api.jacobian import Jacobian, cached_jacobian
from mdf_loop.api.members import run_members_with_nan, with_member
from mdf_loop.api.prepared import Prepared
from mdf_loop.api.suited_method import read_program, refuse_draws, warn_of_steps
from mdf_loop.cached_property import cached_property
from mdf_loop.cluster.clients import Connection
from mdf_loop.cluster.environment import check_environment, environment_versions
from mdf_loop.cluster.tasks import Tasks
from mdf_loop.errors import LoopError, UnsupportedError
from mdf_loop.ir import Array, StopReason
from mdf_loop.sharing import DEFAULT_RETRIES
from mdf_loop.specification import RunSpecification, Selection

MAX_SWEEP_BYTES = 1 << 26
"""Largest total size of the outputs of one sweep, in bytes."""

ASSUMED_RUNS = 100
"""Approximate number of runs of a fit, from which the runs decide whether machine code pays off."""

CLUSTER_PARTS = 16
"""Number of parts into which members are divided for the workers of a cluster."""

RELATIVE_STEP = 1e-6
"""Relative step of central differences, for models without exact derivatives."""


_Part = tuple[int, dict[str, Array]]
"""Number of the first of several consecutive members, and the parameter values of these members."""


def _run_part_on_worker(
    shared: tuple[Prepared, RunSpecification, dict[str, str]], part: _Part
) -> Any:
    """Return the outputs of a part of the members on a worker of a cluster."""
    prepared, spec, output_names = shared
    check_environment(output_names, "of this fit")
    return run_members_with_nan(prepared, spec, part[1])


class FittedModel:
    """Model with selected outputs as functions of its free parameters.

    Attributes:
        prepared: The compiled model.
        names: Names of the selected outputs.
        spec: Specification of a run with the selected outputs.
        free: Names of the free parameters.
        without: Reason why exact derivatives are unavailable, or an empty text.
    """

    def __init__(
        self,
        prepared: Prepared,
        spec: RunSpecification,
        outputs: Sequence[str],
        free: Sequence[str],
        connection: Connection | None = None,
    ) -> None:
        self.prepared = prepared
        self.names = tuple(outputs)
        self.spec = replace(spec, selection=Selection(only=self.names), runs=ASSUMED_RUNS)
        self.free = tuple(free)
        self._member: int | None = None
        self._connection = connection
        self._tasks: Tasks[_Part, dict[str, Array]] | None = None
        if connection is not None:
            self._tasks = Tasks(
                connection,
                _run_part_on_worker,
                (prepared, self.spec, environment_versions()),
                DEFAULT_RETRIES,
            )
        self.without: str = ""

    def outputs(self, members: Mapping[str, Array]) -> dict[str, Array]:
        """Return the outputs of all members along the first axis, computed in batches of bounded size."""
        count = len(next(iter(members.values())))
        if self._tasks is not None and count > 1:
            return self._shared_out(self._tasks, members, count)
        batches: list[dict[str, Array]] = []
        done = 0
        while done < count:
            size = 1 if self._member is None else max(1, MAX_SWEEP_BYTES // max(self._member, 1))
            sweep = {name: rows[done : done + size] for name, rows in members.items()}
            batches.append(run_members_with_nan(self.prepared, self.spec, sweep))
            done += len(next(iter(sweep.values())))
            if self._member is None:
                self._member = sum(array.nbytes for array in batches[0].values())
        return {name: np.concatenate([part[name] for part in batches]) for name in self.names}

    def _shared_out(
        self, tasks: Tasks[_Part, dict[str, Array]], members: Mapping[str, Array], count: int
    ) -> dict[str, Array]:
        """Return the outputs of all members, which the workers of a cluster compute in several parts."""
        size = -(-count // CLUSTER_PARTS)
        parts = [
            (place, {name: rows[place : place + size] for name, rows in members.items()})
            for place in range(0, count, size)
        ]
        outputs_by_part: dict[int, Any] = {}
        for outcome in tasks.outcomes(parts, self._reason_to_end):
            if outcome.error is not None and not isinstance(outcome.error, LoopError):
                raise outcome.error
            outputs_by_part[outcome.item[0]] = outcome.error or outcome.result
        for place, rows in parts:
            # The deadline has passed: perhaps the cluster has no worker.
            if place not in outputs_by_part:
                outputs_by_part[place] = run_members_with_nan(self.prepared, self.spec, rows)
        there = [arrays for arrays in outputs_by_part.values() if not isinstance(arrays, LoopError)]
        if not there:
            raise outputs_by_part[0]
        none = {name: np.full_like(rows[:1], np.nan, float) for name, rows in there[0].items()}
        for place, rows in parts:
            if isinstance(outputs_by_part[place], LoopError):  # all members of this part failed
                length = len(next(iter(rows.values())))
                outputs_by_part[place] = {
                    name: np.repeat(row, length, axis=0) for name, row in none.items()
                }
        return {
            name: np.concatenate([outputs_by_part[place][name] for place, _ in parts])
            for name in self.names
        }

    def _reason_to_end(self) -> StopReason | None:
        """Return the reason why the cluster must stop, or None before the deadline."""
        assert self._connection is not None
        return StopReason.TIME_LIMIT if self._connection.is_overdue else None

    def jacobian(self, values: Mapping[str, Array]) -> Mapping[tuple[str, str], Array]:
        """Return the derivatives of the outputs by the free parameters.

        Without exact derivatives, return central differences and set `without` to the reason.
        """
        if not self.without:
            try:
                values_of_member = with_member(self.prepared.document, self.spec.values, values)
                return self._jacobian.run(
                    self._named.specification(values_of_member.set, values_of_member.inputs)
                )
            except UnsupportedError as error:
                self.without = error.findings[0].what
        return self._differences(values)

    def check_method(self, values: Mapping[str, Array], method: str | None) -> None:
        """Refuse least squares for random outputs, and warn of outputs that change only in steps.

        Args:
            values: Values of the free parameters.
            method: Method that the user requests, or None for the default.

        Raises:
            InputError: An output depends on random numbers, and the user does not request least squares.
        """
        if method == "least_squares":
            return
        try:
            program = read_program(self._named, self.spec.values, values)
        except UnsupportedError:  # the run or its derivatives raise the error
            return
        refuse_draws(program)
        if method is None:
            warn_of_steps(self._named, program)

    @cached_property
    def _named(self) -> DifferentiatedNames:
        """Selected outputs, differentiated with respect to the free parameters."""
        return DifferentiatedNames(self.prepared, self.names, self.free, self.spec)

    @cached_property
    def _jacobian(self) -> Jacobian:
        """Prepared Jacobian of the selected outputs by the free parameters."""
        return cached_jacobian(self._named)

    def _differences(self, values: Mapping[str, Array]) -> dict[tuple[str, str], Array]:
        """Return central differences by all elements of the free parameters, one sweep per parameter."""
        differences = {}
        for name, value in values.items():
            value = np.asarray(value)
            steps = RELATIVE_STEP * np.maximum(np.abs(value).ravel(), 1.0)
            moves = (np.eye(value.size) * steps).reshape(value.size, *value.shape)
            rows = {name: np.concatenate([value + moves, value - moves])}
            others = {n: np.stack([v] * 2 * value.size) for n, v in values.items() if n != name}
            for output, array in self.outputs({**rows, **others}).items():
                above, below = array[: value.size], array[value.size :]
                slopes = (above - below) / (2 * steps.reshape(-1, *(1,) * (array.ndim - 1)))
                slopes = np.moveaxis(slopes, 0, -1)
                differences[output, name] = slopes.reshape(*array.shape[1:], *value.shape)
        return differences
