"""Data of a recorded run for a page: loop descriptions, values by port, and time series.

A tape has the values that were recorded along one axis: time steps, or iterations of a loop. Each row has
numbers for some ports. The page also shows these values at other ports along the wires. `places` are the
positions of the rows among all rows. If rows are omitted, the values of the previous row are unknown.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from msgspec import Struct, field

from mdf_loop.drawing.page.scene import safe_text
from mdf_loop.drawing.scene.elements import Box, Scene
from mdf_loop.ir import Array
from mdf_loop.outline import LoopObservation, Observation
from mdf_loop.outline.observation import OVER_TIME
from mdf_loop.outline.text import value_text

MAX_SHOWN_ELEMENTS = 4
"""Maximum number of elements of a row that a page shows."""
MAX_REPLAYED_ROWS = 400
"""Maximum number of rows of a tape, evenly spaced from the first to the last."""


class Recording(Struct, frozen=True):
    """Output port of a loop that shows a recorded value, with the names of loop and output."""

    port_number: int
    frame_number: int
    loop_name: str
    output_name: str


class ObservedEnds(Struct):
    """Ports and loops of the graph whose values a run observes.

    Attributes:
        port_number_by_output: Ports and boxes, by `node.port`.
        frame_number_by_loop: Boxes of loops, by `node.function`.
        recordings: Recorded values of the loops.
    """

    port_number_by_output: dict[str, int] = field(default_factory=dict)
    frame_number_by_loop: dict[str, int] = field(default_factory=dict)
    recordings: list[Recording] = field(default_factory=list)


def find_observed_ends(scene: Scene, chain_box_by_operator: dict[int, int]) -> ObservedEnds:
    """Return the ports and loops that a run observes: of the model, or of its body for a run over time.

    The box of a chain replaces the boxes of its operators, by `chain_box_by_operator`.
    """
    observed_ports = ObservedEnds()
    for box in _loop_boxes(scene):
        if box.outline.kind == "over time" and box.scene is not None:
            observed_ports.frame_number_by_loop[OVER_TIME] = box.id
            scene = box.scene
    for name, wire_ends in scene.ends_by_node.items():
        for port, port_number in wire_ends.outputs.items():
            box_or_port = chain_box_by_operator.get(port_number, port_number)
            observed_ports.port_number_by_output[f"{name}.{port}"] = box_or_port
    for box in _loop_boxes(scene):
        observed_ports.frame_number_by_loop[box.outline.full_name] = box.id
        observed_ports.recordings += _recordings(box)
    return observed_ports


def _loop_boxes(scene: Scene) -> Iterator[Box]:
    """Yield the boxes of the loops in the nodes of a graph."""
    for box in scene.boxes:
        if box.kind == "loop":
            yield box
        elif box.kind == "owner" and box.scene is not None:
            yield from _loop_boxes(box.scene)


def _recordings(box: Box) -> Iterator[Recording]:
    """Yield the output ports of a loop that show values in the order of the iterations."""
    loop = box.outline
    recorded_ports = (
        port
        for port in box.right_ports
        if port is not None and port.terminal is not None and port.terminal.mark_kind == "recorded"
    )
    for port, recorded_value in zip(recorded_ports, loop.recorded_values, strict=True):
        if recorded_value.ports and not recorded_value.remark:
            output_name = f"{loop.owner_id}.{recorded_value.ports[0]}"
            yield Recording(port.id, box.id, loop.full_name, output_name)


def pack_run(observation: Observation, observed_ports: ObservedEnds) -> dict[str, Any]:
    """Convert a recorded run to plain data for JSON."""
    loop_observations = {
        name: loop_observation
        for name, loop_observation in observation.loops.items()
        if name in observed_ports.frame_number_by_loop
    }
    observed_values = {
        name: value
        for name, value in observation.values.items()
        if name in observed_ports.port_number_by_output
    }
    replay_tapes = [
        *_time_tapes(observation, observed_ports),
        *_iteration_tapes(observation, observed_ports),
    ]
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
                observed_ports.frame_number_by_loop[name],
                safe_text(describe_loop(loop_observations[name])),
            ]
            for name in loop_observations
        ],
        "values": [
            [
                observed_ports.port_number_by_output[name],
                safe_text(_append_unit(value_text(value.last_value, 120), value.unit)),
            ]
            for name, value in observed_values.items()
        ],
        "tapes": replay_tapes,
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


def _time_tapes(observation: Observation, observed_ports: ObservedEnds) -> Iterator[dict[str, Any]]:
    """Yield the time series of a run over time, for replay on the page."""
    recorded_values = {
        name: value_observation
        for name, value_observation in observation.values.items()
        if value_observation.rows is not None and name in observed_ports.port_number_by_output
    }
    if recorded_values:
        yield {
            "label": observation.axis_name,
            "frame": observed_ports.frame_number_by_loop.get(OVER_TIME, 0),
            "unit": f" {safe_text(observation.unit)}" if observation.unit else "",
            "at": _json_numbers(observation.coordinates),
            "places": observation.row_numbers.tolist(),
            "series": [
                _tape_series(
                    observed_ports.port_number_by_output[name],
                    name,
                    value_observation.rows,
                    value_observation.unit,
                )
                for name, value_observation in recorded_values.items()
                if value_observation.rows is not None
            ],
        }


def _iteration_tapes(
    observation: Observation, observed_ports: ObservedEnds
) -> Iterator[dict[str, Any]]:
    """Yield the recorded values over the iterations of each loop, for replay on the page."""
    recordings_by_frame: dict[int, list[tuple[Recording, Array, str]]] = {}
    for recording in observed_ports.recordings:
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
