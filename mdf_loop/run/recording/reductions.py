"""All reductions over time that a run requests, by output."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from mdf_loop.errors import Finding, InputError, raise_findings
from mdf_loop.ir import Array
from mdf_loop.ir.types import dtype_name, kind_of
from mdf_loop.run.control.snapshot import Snapshot
from mdf_loop.run.recording.reduction import Reduction
from mdf_loop.run.recording.statistics import reductions_over_time


class Reductions:
    """Accumulators of all reductions over time that a run requests.

    `statistics` has the names of the reductions of each output.

    Raises:
        InputError: A reduction is unknown.
    """

    def __init__(self, statistics: Mapping[str, Sequence[str]]) -> None:
        raise_findings(_find_unknown(statistics))
        known_reductions = reductions_over_time()
        self._axis = 0
        self._accumulators = {
            name: {statistic: known_reductions[statistic]() for statistic in statistic_names}
            for name, statistic_names in statistics.items()
        }

    def add(self, rows: Mapping[str, Array], axis: int) -> None:
        """Add rows of all outputs to their reductions.

        The axis of time is 0, or 1 in a sweep.

        Raises:
            InputError: The rows are texts or vary in shape, and the reduction is not `last`.
        """
        raise_findings(self._find_unsupported_dtypes(rows))
        self._axis = axis
        rows_by_name = {
            name: _move_members_last(rows[name]) if axis else rows[name]
            for name in self._accumulators
        }
        raise_findings(self._find_varying_shapes(rows_by_name))
        for name, accumulators in self._accumulators.items():
            for reduction in accumulators.values():
                reduction.add(rows_by_name[name])

    def arrays(self) -> dict[str, Array]:
        """Return the reduced arrays by name, such as `node.port.mean`.

        In a sweep, the arrays have a leading axis of members.
        """
        reduced_arrays = {
            name: accumulator.value()
            for name, accumulator in self._accumulators_by_name().items()
            if accumulator.has_value
        }
        return (
            {name: np.moveaxis(array, -1, 0) for name, array in reduced_arrays.items()}
            if self._axis
            else reduced_arrays
        )

    def snapshot(self) -> dict[str, Array]:
        """Return the arrays that a checkpoint needs to resume the run."""
        arrays = {
            f"{name}/{key}": array
            for name, accumulator in self._accumulators_by_name().items()
            for key, array in accumulator.snapshot().items()
        }
        return {"axis": np.array(self._axis), **arrays}

    def restore(self, snapshot: Snapshot) -> None:
        """Restore all reductions from a checkpoint.

        Raises:
            InputError: The snapshot is of other reductions.
        """
        for name, accumulator in self._accumulators_by_name().items():
            accumulator_snapshot = snapshot.with_prefix(f"{name}/")
            if not accumulator_snapshot:
                raise InputError(
                    f"the run that is to be resumed did not have '{name}'",
                    hint="give the same reduce as for that run",
                )
            accumulator.restore(accumulator_snapshot)
        self._axis = snapshot.number("axis", 1) if self._accumulators else 0

    def _accumulators_by_name(self) -> dict[str, Reduction]:
        return {
            f"{name}.{statistic}": reduction
            for name, accumulators in self._accumulators.items()
            for statistic, reduction in accumulators.items()
        }

    def _find_unsupported_dtypes(self, rows: Mapping[str, Array]) -> Iterable[Finding]:
        for name, accumulators in self._accumulators.items():
            dtype = dtype_name(rows[name])
            for statistic, reduction in accumulators.items():
                if kind_of(dtype) not in reduction.supported_kinds:
                    yield Finding(
                        "InputError",
                        f"reduce: '{name}' is {dtype}, which has no {statistic}",
                        hint=f"reduce it to its last value: {{'{name}': 'last'}}",
                    )

    def _find_varying_shapes(self, rows: Mapping[str, Array]) -> Iterable[Finding]:
        for name, accumulators in self._accumulators.items():
            for statistic, reduction in accumulators.items():
                if not reduction.can_add(rows[name]):
                    yield Finding(
                        "InputError",
                        f"reduce: '{name}' has not the same length in all steps, so its rows have "
                        f"no {statistic}",
                        hint=f"reduce it to its last row ({{'{name}': 'last'}}), or add an output "
                        "that makes one number of a row, such as numpy.mean(...)",
                    )


def _find_unknown(words: Mapping[str, Sequence[str]]) -> Iterable[Finding]:
    known_reductions = reductions_over_time()
    for name, statistic_names in words.items():
        for statistic in statistic_names:
            if statistic not in known_reductions:
                yield Finding(
                    "InputError",
                    f"reduce: '{name}' cannot be reduced to {statistic!r}",
                    hint=f"the words are {', '.join(known_reductions)}",
                )


def _move_members_last(rows: Array) -> Array:
    """Move the axis of members from the front to the end of an array of rows."""
    return np.moveaxis(rows, 0, -1)
