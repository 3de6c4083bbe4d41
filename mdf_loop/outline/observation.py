"""Observation of a run for pictures: iterations of each loop, and values of each output port.

    observation = observe(results)
    observation.loop("newton.improve").iterations_text      # "6 iterations"
    observation.value("newton", "guesses").last_value       # the array of the last evaluation

Loops and ports have the same names as in an outline. For a sweep or for trials, the observation is that of
the first member.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
from msgspec import Struct, field

from mdf_loop.ir import Array
from mdf_loop.run.outputs import LoopReport, Outputs

OVER_TIME = "time"
"""Name of the loop over time steps among the loops of a run."""
MAX_OBSERVED_ROWS = 400
"""Maximum number of observed rows. A longer run is observed at evenly spaced rows from the first to the last."""
MAX_OBSERVED_NUMBERS = 100_000
"""Maximum number of elements in all observed rows together. Larger outputs are observed at fewer rows."""


class LoopObservation(Struct, frozen=True):
    """Iteration count, stop reason and duration of a loop in a run.

    `native_text` is `native`, `standard: ` with the reason, or empty. `seconds` is None for a loop that was not
    measured separately.
    """

    iterations_text: str
    stopped_by: str
    native_text: str = ""
    seconds: float | None = None

    @property
    def is_native(self) -> bool:
        """True if the loop ran as machine code."""
        return self.native_text.startswith("native")


class ValueObservation(Struct, frozen=True, eq=False):
    """Last value of an output in a run, and its values at several time steps (`rows`).

    `rows` has the steps in `Observation.row_numbers`. None for an output without a time axis.
    """

    last_value: Array
    rows: Array | None = None
    unit: str = ""


class Observation(Struct, frozen=True, eq=False):
    """Iterations of loops and values of outputs in a run, for pictures of the model.

    Attributes:
        loops: Observed loops by `node.function`. `time` is the loop over time, the empty name one evaluation.
        values: Observed values by `node.port`.
        axis_name: `time` if `coordinates` are times, `step` if they are steps, empty for one evaluation.
        unit: Unit of the time.
        coordinates: Time or step of each observed row.
        row_numbers: Positions of the observed rows among all `row_count` rows of the run.
        row_count: Number of rows of the run.
        member_text: Observed member of a sweep, if there are several.
        stopped_by: Sentence with the reason that ended the run.
    """

    loops: Mapping[str, LoopObservation] = field(default_factory=dict)
    values: Mapping[str, ValueObservation] = field(default_factory=dict)
    axis_name: str = ""
    unit: str = ""
    coordinates: Array = field(default_factory=lambda: np.zeros(0))
    row_numbers: Array = field(default_factory=lambda: np.zeros(0, np.int64))
    row_count: int = 0
    member_text: str = ""
    stopped_by: str = ""

    def loop(self, name: str) -> LoopObservation | None:
        """Return the observation of the loop `node.function`, or None if it was not observed."""
        return self.loops.get(name)

    def value(self, node: str, port: str) -> ValueObservation | None:
        """Return the observed values of an output port, or None if the port was not observed."""
        return self.values.get(f"{node}.{port}")


def observe(results: Outputs) -> Observation:
    """Collect the iterations and values of a run that pictures of the model show."""
    time_axis = next((axis for axis in results.axes if axis.name == OVER_TIME), None)
    other_axes = [axis for axis in results.axes if axis.name != OVER_TIME]
    row_count = 0 if time_axis is None else time_axis.length
    row_numbers = _row_numbers(results, row_count)
    axis_name, coordinates = "", np.zeros(0)
    if time_axis is not None:
        axis_name, axis_values = next(iter(time_axis.coordinates.items()))
        coordinates = np.asarray(axis_values)[row_numbers]
    member_text = "".join(f", {axis.name} 1 of {axis.length}" for axis in other_axes)
    return Observation(
        loops=dict(_observe_loops(results)),
        values=dict(_observe_values(results, row_numbers)),
        axis_name=axis_name,
        unit=results.units.get(axis_name, ""),
        coordinates=coordinates,
        row_numbers=row_numbers,
        row_count=row_count,
        member_text=member_text.removeprefix(", "),
        stopped_by=results.reason,
    )


def _observe_loops(results: Outputs) -> Iterator[tuple[str, LoopObservation]]:
    """Yield the name and the observation of each loop, such as its iteration count and duration.

    Loops without a report, a choice of native code and a duration are omitted.
    """
    empty_reports = dict.fromkeys((*results.native, *results.seconds))
    reports: dict[str, LoopReport | None] = {**empty_reports, **results.loops}
    for name, report in reports.items():
        yield (
            name,
            LoopObservation(
                "" if report is None else report.how_often,
                "" if report is None else report.why,
                results.native.get(name, ""),
                results.seconds.get(name),
            ),
        )


def _observe_values(results: Outputs, row_numbers: Array) -> Iterator[tuple[str, ValueObservation]]:
    """Yield the name of each array output, and the values that a picture shows."""
    for name in results:
        output_values = results[name]
        if not hasattr(output_values, "dtype"):
            continue  # a sequence, or absent: there is no array to show
        unit = results.units.get(name, "")
        output_axes = results.axes_of(name)
        axis_names = [axis.name for axis in output_axes]
        first_member_index = tuple(slice(None) if name == OVER_TIME else 0 for name in axis_names)
        member_array = output_values[first_member_index] if first_member_index else output_values
        if OVER_TIME not in axis_names:
            yield name, ValueObservation(np.asarray(member_array), unit=unit)
        elif len(member_array):
            observed_rows = np.asarray(member_array[row_numbers])
            yield name, ValueObservation(observed_rows[-1], observed_rows, unit)


def _row_numbers(results: Outputs, count: int) -> Array:
    """Return evenly spaced positions of at most `MAX_OBSERVED_ROWS` of `count` rows.

    With large rows, the limit is lower, so that at most about `MAX_OBSERVED_NUMBERS` numbers are kept.
    """
    row_sizes = [
        int(np.prod(array.shape[len(results.axes_of(name)) :]))
        for name, array in results.items()
        if hasattr(array, "shape")
    ]
    row_limit = max(2, min(MAX_OBSERVED_ROWS, MAX_OBSERVED_NUMBERS // max([1, *row_sizes])))
    if count <= row_limit:
        return np.arange(count)
    return np.unique(np.linspace(0, count - 1, row_limit).round().astype(np.int64))
