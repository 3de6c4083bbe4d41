"""Texts that describe a recorded run in a picture: loop iterations and port values.

    6 iterations · its condition became false · 0.8 ms · ⚡ native
    = 1.41421 mV  ▁▂▄▇█

Each letter of a trace is the mean of some rows. For booleans, it shows True if any of the rows is True.
"""

from __future__ import annotations

import numpy as np

from mdf_loop.drawing.theme import MARKS
from mdf_loop.ir import Array
from mdf_loop.outline import LoopOutline, Observation, ValueObservation
from mdf_loop.outline.observation import OVER_TIME
from mdf_loop.outline.text import value_text

SPARKLINE_CHARACTERS = "▁▂▃▄▅▆▇█"
MAX_SPARKLINE_LENGTH = 18
"""Maximum number of letters of a trace."""


def describe_loop(observation: Observation | None, loop: LoopOutline) -> str:
    """Describe the iterations, stop reason and duration of a loop in a run.

    The text is empty without a run.
    """
    if observation is None:
        return ""
    is_over_time = loop.kind == "over time"
    loop_observation = observation.loop(OVER_TIME if is_over_time else loop.full_name)
    descriptions = [f"{observation.row_count} recorded steps"] if is_over_time else []
    if loop_observation is not None:
        descriptions += [loop_observation.iterations_text, loop_observation.stopped_by]
        descriptions.append(
            ""
            if loop_observation.seconds is None
            else _format_milliseconds(loop_observation.seconds)
        )
        descriptions.append(
            f"{MARKS['native'].sign}\u00a0native" if loop_observation.is_native else ""
        )
    return " · ".join(filter(None, descriptions))


def describe_run(observation: Observation | None) -> list[str]:
    """Return texts about a whole run: observed batch member, stop reason and duration."""
    if observation is None:
        return []
    evaluation_observation = observation.loop("")
    duration_text = (
        ""
        if evaluation_observation is None or evaluation_observation.seconds is None
        else _format_milliseconds(evaluation_observation.seconds)
    )
    descriptions = ["after a run", observation.member_text, observation.stopped_by, duration_text]
    return [" · ".join(filter(None, descriptions))]


def describe_value(observation: Observation | None, node: str, port: str) -> str:
    """Format the last value of a port in a run, with a sparkline of the recorded values.

    The text is empty without a run.
    """
    value_observation = None if observation is None else _find_value(observation, node, port)
    if value_observation is None:
        return ""
    unit_text = f" {value_observation.unit}" if value_observation.unit else ""
    sparkline = format_sparkline(
        value_observation.last_value if value_observation.rows is None else value_observation.rows
    )
    if value_observation.rows is None and sparkline:
        return sparkline + unit_text  # the trace shows the whole array, and the port shows its type
    return f"= {value_text(value_observation.last_value, 24)}{unit_text}" + (
        f"  {sparkline}" if sparkline else ""
    )


def describe_terminal(observation: Observation | None, loop: LoopOutline, port: str) -> str:
    """Format the last value of a loop's output in a run, with a sparkline of the recorded values."""
    if loop.kind == "over time" and loop.body is not None:
        for output in loop.body.outputs:
            if output.name == f"{port}[t]" and output.node_id is not None:
                return describe_value(observation, output.node_id, output.port_id)
    return describe_value(observation, loop.owner_id, port)


def _find_value(observation: Observation, node: str, port: str) -> ValueObservation | None:
    """Return the recorded values of an output port, or None if the port was not recorded.

    The name of a model result may consist of only the port.
    """
    value_observation = observation.value(node, port) or observation.values.get(port)
    if value_observation is None:
        port_observations = [
            port_observation
            for output_name, port_observation in observation.values.items()
            if output_name.rpartition(".")[2] == port
        ]
        value_observation = (
            port_observations[0]
            if len(port_observations) == 1 and node.endswith(" over time")
            else None
        )
    return value_observation


def _format_milliseconds(seconds: float) -> str:
    """Format a duration in seconds as milliseconds."""
    return f"{value_text(float(f'{1000 * seconds:.3g}'))} ms"


def format_sparkline(rows: Array) -> str:
    """Format the first element of each row as a sparkline of block characters.

    A single row has an empty text.
    """
    if rows.ndim == 0 or len(rows) < 2 or rows.dtype.kind not in "biuf" or rows.size == 0:
        return ""
    first_elements = np.asarray(rows).reshape(len(rows), -1)[:, 0]
    row_groups = np.array_split(first_elements, min(len(first_elements), MAX_SPARKLINE_LENGTH))
    group_means = np.array(
        [
            row_group.max() if row_group.dtype == bool else row_group.mean()
            for row_group in row_groups
        ],
        float,
    )
    finite_means = group_means[np.isfinite(group_means)]
    if not finite_means.size:
        return ""
    lowest_mean, highest_mean = float(finite_means.min()), float(finite_means.max())
    if lowest_mean == highest_mean:
        return SPARKLINE_CHARACTERS[0] * len(group_means)
    bar_heights = (
        (group_means - lowest_mean) / (highest_mean - lowest_mean) * (len(SPARKLINE_CHARACTERS) - 1)
    )
    return "".join(
        SPARKLINE_CHARACTERS[round(float(bar_height))] if np.isfinite(bar_height) else "×"
        for bar_height in bar_heights
    )
