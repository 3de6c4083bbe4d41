"""What a run says, in the words of a picture: beside loops, in ports, at the results.

    6 iterations · its condition became false · 0.8 ms · ⚡ native
    = 1.41421 mV  ▁▂▄▇█

A trace has one letter for some rows each, for their mean; of truth values whether one is true.
"""

from __future__ import annotations

import numpy as np

from mdf_loop.drawing.theme import MARKS
from mdf_loop.ir import Array
from mdf_loop.outline import LoopOutline, Observation, ValueObservation
from mdf_loop.outline.observation import OVER_TIME
from mdf_loop.outline.text import value_text

TRACE = "▁▂▃▄▅▆▇█"
LONGEST_TRACE = 18
"""Letters of a trace."""


def loop_words(observation: Observation | None, loop: LoopOutline) -> str:
    """How a loop went; empty where the run says nothing of it."""
    if observation is None:
        return ""
    timed = loop.kind == "over time"
    found = observation.loop(OVER_TIME if timed else loop.full_name)
    said = [f"{observation.count} recorded steps"] if timed else []
    if found is not None:
        said += [found.iterations, found.stopped_by]
        said.append("" if found.seconds is None else _took(found.seconds))
        said.append(f"{MARKS['native'].sign}\u00a0native" if found.is_native else "")
    return " · ".join(filter(None, said))


def run_words(observation: Observation | None) -> list[str]:
    """What is said of the run as a whole."""
    if observation is None:
        return []
    whole = observation.loop("")
    took = "" if whole is None or whole.seconds is None else _took(whole.seconds)
    said = ["after a run", observation.member_text, observation.stopped_by, took]
    return [" · ".join(filter(None, said))]


def value_words(observation: Observation | None, node: str, port: str) -> str:
    """The last value of a port and its trace; empty where the run says nothing of it."""
    found = None if observation is None else _find(observation, node, port)
    if found is None:
        return ""
    unit = f" {found.unit}" if found.unit else ""
    trace = trace_of(found.last if found.rows is None else found.rows)
    if found.rows is None and trace:
        return trace + unit  # all of the array; its type stands beside it
    return f"= {value_text(found.last, 24)}{unit}" + (f"  {trace}" if trace else "")


def terminal_words(observation: Observation | None, loop: LoopOutline, port: str) -> str:
    """The same of a port that takes a result of a loop."""
    if loop.kind == "over time" and loop.body is not None:
        for output in loop.body.outputs:
            if output.name == f"{port}[t]" and output.node is not None:
                return value_words(observation, output.node, output.port)
    return value_words(observation, loop.owner, port)


def _find(observation: Observation, node: str, port: str) -> ValueObservation | None:
    """The value of a port; of a result of the whole model also by its name alone."""
    found = observation.value(node, port) or observation.values.get(port)
    if found is None:
        named = [v for key, v in observation.values.items() if key.rpartition(".")[2] == port]
        found = named[0] if len(named) == 1 and node.endswith(" over time") else None
    return found


def _took(seconds: float) -> str:
    return f"{value_text(float(f'{1000 * seconds:.3g}'))} ms"


def trace_of(rows: Array) -> str:
    """The first element of each row as letters of different heights; of one row nothing."""
    if rows.ndim == 0 or len(rows) < 2 or rows.dtype.kind not in "biuf" or rows.size == 0:
        return ""
    first = np.asarray(rows).reshape(len(rows), -1)[:, 0]
    parts = np.array_split(first, min(len(first), LONGEST_TRACE))
    chosen = np.array([part.max() if part.dtype == bool else part.mean() for part in parts], float)
    finite = chosen[np.isfinite(chosen)]
    if not finite.size:
        return ""
    low, high = float(finite.min()), float(finite.max())
    if low == high:
        return TRACE[0] * len(chosen)
    heights = (chosen - low) / (high - low) * (len(TRACE) - 1)
    return "".join(TRACE[round(float(h))] if np.isfinite(h) else "×" for h in heights)
