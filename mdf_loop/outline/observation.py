"""What a run says of a model: how each loop went, what each output port gave, with its rows.

    observation = observe(results)
    observation.loop("newton.improve").iterations     # "6 iterations"
    observation.value("newton", "guesses").last       # the array of the last evaluation

A picture writes it beside the loops and ports of an outline; both have the same names. Of a sweep,
or of trials, the first member is told.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
from msgspec import Struct, field

from mdf_loop.ir import Array
from mdf_loop.run.outputs import LoopReport, Outputs

OVER_TIME = "time"
"""What the loop over time steps is called among the loops of a run."""
MOST_ROWS = 400
"""Of more rows so many are kept, evenly chosen, the first and the last among them."""
MOST_NUMBERS = 100_000
"""Of rows with more numbers than this together fewer rows are kept."""


class LoopObservation(Struct, frozen=True):
    """How a loop went, in words: `6 iterations`, `its condition became false`.

    `native` is `native`, or `standard: ` and why, or empty; `seconds` is None where nobody has
    measured the loop by itself.
    """

    iterations: str
    stopped_by: str
    native: str = ""
    seconds: float | None = None

    @property
    def is_native(self) -> bool:
        """Whether it ran as machine code."""
        return self.native.startswith("native")


class ValueObservation(Struct, frozen=True, eq=False):
    """What an output gave: its last value, and of a run over time `rows[row, ...]`.

    `rows` are those of `Observation.numbers`; None where the output has no axis of time.
    """

    last: Array
    rows: Array | None = None
    unit: str = ""


class Observation(Struct, frozen=True, eq=False):
    """What a run says; loops are by `node.function`, values by `node.port`.

    `time` is the loop over time, the empty name a whole evaluation.

    `along` is the name of what `coordinates` count: `time`, which has the `unit` of the model, or
    `step`; empty for one evaluation. `numbers` are the places of the kept rows among all `count`
    of them. `members` says which member of a sweep is told, where there are several.
    """

    loops: Mapping[str, LoopObservation] = field(default_factory=dict)
    values: Mapping[str, ValueObservation] = field(default_factory=dict)
    along: str = ""
    unit: str = ""
    coordinates: Array = field(default_factory=lambda: np.zeros(0))
    numbers: Array = field(default_factory=lambda: np.zeros(0, np.int64))
    count: int = 0
    members: str = ""
    stopped_by: str = ""

    def loop(self, name: str) -> LoopObservation | None:
        """How a loop went, by `node.function`."""
        return self.loops.get(name)

    def value(self, node: str, port: str) -> ValueObservation | None:
        """What an output port gave."""
        return self.values.get(f"{node}.{port}")


def observe(results: Outputs) -> Observation:
    """What results say of the model that gave them."""
    time = next((axis for axis in results.axes if axis.name == OVER_TIME), None)
    others = [axis for axis in results.axes if axis.name != OVER_TIME]
    count = 0 if time is None else time.length
    numbers = _chosen(results, count)
    along, coordinates = "", np.zeros(0)
    if time is not None:
        along, ticks = next(iter(time.coordinates.items()))
        coordinates = np.asarray(ticks)[numbers]
    members = "".join(f", {axis.name} 1 of {axis.length}" for axis in others)
    return Observation(
        loops=dict(_loops(results)),
        values=dict(_values(results, numbers)),
        along=along,
        unit=results.units.get(along, ""),
        coordinates=coordinates,
        numbers=numbers,
        count=count,
        members=members.removeprefix(", "),
        stopped_by=results.reason,
    )


def _loops(results: Outputs) -> Iterator[tuple[str, LoopObservation]]:
    names = dict.fromkeys((*results.native, *results.seconds))
    reports: dict[str, LoopReport | None] = {**names, **results.loops}
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


def _values(results: Outputs, numbers: Array) -> Iterator[tuple[str, ValueObservation]]:
    for name in results:
        data = results[name]
        if not hasattr(data, "dtype"):
            continue  # a sequence, or absent: there is no array to show
        unit = results.units.get(name, "")
        front = results.axes_of(name)
        names = [axis.name for axis in front]
        first = tuple(slice(None) if name == OVER_TIME else 0 for name in names)
        array = data[first] if first else data
        if OVER_TIME not in names:
            yield name, ValueObservation(np.asarray(array), unit=unit)
        elif len(array):
            rows = np.asarray(array[numbers])
            yield name, ValueObservation(rows[-1], rows, unit)


def _chosen(results: Outputs, count: int) -> Array:
    """The places of the rows that are kept."""
    sizes = [
        int(np.prod(data.shape[len(results.axes_of(name)) :]))
        for name, data in results.items()
        if hasattr(data, "shape")
    ]
    most = max(2, min(MOST_ROWS, MOST_NUMBERS // max([1, *sizes])))
    if count <= most:
        return np.arange(count)
    return np.unique(np.linspace(0, count - 1, most).round().astype(np.int64))
