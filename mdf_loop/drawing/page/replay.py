"""What a run says, as a page knows it: how loops went, values by the number of their port, and tapes.

A tape is what was recorded along one axis: time steps, or the iterations of a loop. Row by row it has
numbers for some ports; the page finds by its wires where else those values are. `places` are those of its
rows among all: where rows are left out, what an iteration took from the one before is not known.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from mdf_loop.drawing.page.ends import Numbers, Recording
from mdf_loop.drawing.page.scene import plain
from mdf_loop.ir import Array
from mdf_loop.outline import LoopObservation, Observation
from mdf_loop.outline.observation import OVER_TIME
from mdf_loop.outline.text import value_text

FEW = 4
"""Numbers of a row that a page shows; of the others it says that there are more."""
ROWS = 400
"""Rows of a tape, evenly chosen, the first and the last among them."""


def run_data(observation: Observation, numbers: Numbers) -> dict[str, Any]:
    """The run as plain data."""
    loops = {name: said for name, said in observation.loops.items() if name in numbers.loops}
    values = {name: value for name, value in observation.values.items() if name in numbers.values}
    tapes = [*_over_time(observation, numbers), *_iterations(observation, numbers)]
    whole = observation.loop("")
    took = "" if whole is None or whole.seconds is None else _took(whole.seconds)
    said = (observation.stopped_by, observation.member_text, took)
    return {
        "said": plain(" · ".join(part for part in said if part)),
        "loops": [[numbers.loops[name], plain(loop_text(loops[name]))] for name in loops],
        "values": [
            [numbers.end(name), plain(_with_unit(value_text(value.last, 120), value.unit))]
            for name, value in values.items()
        ],
        "tapes": tapes,
    }


def loop_text(loop: LoopObservation) -> str:
    """`6 iterations · its condition became false · native · 3.1 ms`."""
    took = "" if loop.seconds is None else _took(loop.seconds)
    said = (loop.iterations, loop.stopped_by, loop.native, took)
    return " · ".join(part for part in said if part)


def _took(seconds: float) -> str:
    return f"{1000 * seconds:.3g} ms"


def _with_unit(text: str, unit: str) -> str:
    return f"{text} {unit}" if unit else text


# --- tapes ----------------------------------------------------------------------------------------


def _over_time(observation: Observation, numbers: Numbers) -> Iterator[dict[str, Any]]:
    recorded = {
        name: value
        for name, value in observation.values.items()
        if value.rows is not None and name in numbers.values
    }
    if recorded:
        yield {
            "label": observation.axis_name,
            "frame": numbers.loops.get(OVER_TIME, 0),
            "unit": f" {plain(observation.unit)}" if observation.unit else "",
            "at": _floats(observation.coordinates),
            "places": observation.row_numbers.tolist(),
            "series": [
                _series(numbers.end(name), name, value.rows, value.unit)
                for name, value in recorded.items()
                if value.rows is not None
            ],
        }


def _iterations(observation: Observation, numbers: Numbers) -> Iterator[dict[str, Any]]:
    """A tape for each loop that has recorded rows in one evaluation."""
    frames: dict[int, list[tuple[Recording, Array, str]]] = {}
    for recording in numbers.recordings:
        value = observation.values.get(recording.name)
        if value is not None and value.rows is None and np.ndim(value.last) > 0:
            row = (recording, np.asarray(value.last), value.unit)
            frames.setdefault(recording.frame, []).append(row)
    for frame, found in frames.items():
        count = min(len(array) for _, array, _ in found)
        if count == 0:
            continue
        chosen = np.unique(np.linspace(0, count - 1, min(count, ROWS)).round().astype(np.int64))
        yield {
            "label": f"{found[0][0].loop}, iteration",
            "frame": frame,
            "unit": "",
            "at": chosen.tolist(),
            "places": chosen.tolist(),
            "series": [
                _series(recording.end, recording.name, array[chosen], unit)
                for recording, array, unit in found
            ],
        }


def _series(end: int, name: str, rows: Array, unit: str) -> list[Any]:
    """`[end, name, unit, numbers of a row, [[...], ...]]`."""
    flat = np.asarray(rows).reshape(len(rows), -1)
    return [end, plain(name), plain(unit), flat.shape[1], [_floats(row) for row in flat[:, :FEW]]]


def _floats(array: Array) -> list[float | None]:
    """Numbers of six digits; what JSON has no number for is none."""
    if array.dtype.kind not in "biuf":
        return [None] * len(array)
    return [float(f"{x:.6g}") if np.isfinite(x) else None for x in array.astype(np.float64)]
