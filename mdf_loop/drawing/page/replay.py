"""Data of a recorded run for a page: loop descriptions, values by port, and time series.

A tape has the values that were recorded along one axis: time steps, or iterations of a loop. Each row has
numbers for some ports. The page also shows these values at other ports along the wires. `places` are the
positions of the rows among all rows. If rows are omitted, the values of the previous row are unknown.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from mdf_loop.drawing.page.ends import Numbering, Recording
from mdf_loop.drawing.page.scene import safe_text
from mdf_loop.ir import Array
from mdf_loop.outline import LoopObservation, Observation
from mdf_loop.outline.observation import OVER_TIME
from mdf_loop.outline.text import value_text

MAX_SHOWN_ELEMENTS = 4
"""Maximum number of elements of a row that a page shows."""
MAX_REPLAYED_ROWS = 400
"""Maximum number of rows of a tape, evenly spaced from the first to the last."""


def pack_run(observation: Observation, numbering: Numbering) -> dict[str, Any]:
    """Convert a recorded run to plain data for JSON."""
    loop_observations = {
        name: loop_observation
        for name, loop_observation in observation.loops.items()
        if name in numbering.frame_number_by_loop
    }
    observed_values = {
        name: value
        for name, value in observation.values.items()
        if name in numbering.port_number_by_output
    }
    tapes = [*_time_tapes(observation, numbering), *_iteration_tapes(observation, numbering)]
    evaluation_observation = observation.loop("")
    duration_text = (
        ""
        if evaluation_observation is None or evaluation_observation.seconds is None
        else _format_milliseconds(evaluation_observation.seconds)
    )
    run_descriptions = (observation.stopped_by, observation.member_text, duration_text)
    return {
        "said": safe_text(
            " · ".join(description for description in run_descriptions if description)
        ),
        "loops": [
            [
                numbering.frame_number_by_loop[name],
                safe_text(describe_loop(loop_observations[name])),
            ]
            for name in loop_observations
        ],
        "values": [
            [
                numbering.value_source(name),
                safe_text(_append_unit(value_text(value.last_value, 120), value.unit)),
            ]
            for name, value in observed_values.items()
        ],
        "tapes": tapes,
    }


def describe_loop(loop: LoopObservation) -> str:
    """Describe an observed loop: `6 iterations · its condition became false · native · 3.1 ms`."""
    duration_text = "" if loop.seconds is None else _format_milliseconds(loop.seconds)
    descriptions = (loop.iterations_text, loop.stopped_by, loop.native_text, duration_text)
    return " · ".join(text for text in descriptions if text)


def _format_milliseconds(seconds: float) -> str:
    """Format a duration in seconds as milliseconds."""
    return f"{1000 * seconds:.3g} ms"


def _append_unit(text: str, unit: str) -> str:
    """Append a unit to a text, unless the unit is empty."""
    return f"{text} {unit}" if unit else text


# --- tapes ----------------------------------------------------------------------------------------


def _time_tapes(observation: Observation, numbering: Numbering) -> Iterator[dict[str, Any]]:
    """Yield the time series of a run over time, for replay on the page."""
    recorded_values = {
        name: value_observation
        for name, value_observation in observation.values.items()
        if value_observation.rows is not None and name in numbering.port_number_by_output
    }
    if recorded_values:
        yield {
            "label": observation.axis_name,
            "frame": numbering.frame_number_by_loop.get(OVER_TIME, 0),
            "unit": f" {safe_text(observation.unit)}" if observation.unit else "",
            "at": _json_numbers(observation.coordinates),
            "places": observation.row_numbers.tolist(),
            "series": [
                _tape_series(
                    numbering.value_source(name),
                    name,
                    value_observation.rows,
                    value_observation.unit,
                )
                for name, value_observation in recorded_values.items()
                if value_observation.rows is not None
            ],
        }


def _iteration_tapes(observation: Observation, numbering: Numbering) -> Iterator[dict[str, Any]]:
    """Yield the recorded values over the iterations of each loop, for replay on the page."""
    recordings_by_frame: dict[int, list[tuple[Recording, Array, str]]] = {}
    for recording in numbering.recordings:
        value_observation = observation.values.get(recording.output_name)
        if (
            value_observation is not None
            and value_observation.rows is None
            and np.ndim(value_observation.last_value) > 0
        ):
            loop_recording = (
                recording,
                np.asarray(value_observation.last_value),
                value_observation.unit,
            )
            recordings_by_frame.setdefault(recording.frame_number, []).append(loop_recording)
    for frame, rows in recordings_by_frame.items():
        common_row_count = min(len(recorded_array) for _, recorded_array, _ in rows)
        if common_row_count == 0:
            continue
        row_numbers = np.unique(
            np.linspace(0, common_row_count - 1, min(common_row_count, MAX_REPLAYED_ROWS))
            .round()
            .astype(np.int64)
        )
        yield {
            "label": f"{rows[0][0].loop_name}, iteration",
            "frame": frame,
            "unit": "",
            "at": row_numbers.tolist(),
            "places": row_numbers.tolist(),
            "series": [
                _tape_series(recording.port_number, recording.output_name, array[row_numbers], unit)
                for recording, array, unit in rows
            ],
        }


def _tape_series(end: int, name: str, rows: Array, unit: str) -> list[Any]:
    """Return a time series as a list for JSON: `[port, name, unit, elements per row, rows]`."""
    flat_rows = np.asarray(rows).reshape(len(rows), -1)
    return [
        end,
        safe_text(name),
        safe_text(unit),
        flat_rows.shape[1],
        [_json_numbers(row) for row in flat_rows[:, :MAX_SHOWN_ELEMENTS]],
    ]


def _json_numbers(array: Array) -> list[float | None]:
    """Round numbers to six digits, and replace nan, infinity and texts by None."""
    if array.dtype.kind not in "biuf":
        return [None] * len(array)
    return [float(f"{x:.6g}") if np.isfinite(x) else None for x in array.astype(np.float64)]
