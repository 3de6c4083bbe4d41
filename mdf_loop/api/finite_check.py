"""Check of the outputs and states of completed runs for nan and infinite values."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from mdf_loop.api.prepared import PreparedModel
from mdf_loop.errors import LoopError
from mdf_loop.ir import Array, Data
from mdf_loop.reading.settings import written_value
from mdf_loop.results.data import Results
from mdf_loop.run.recording.not_finite import (
    NotFinite,
    find_in_outputs,
    find_in_states,
    is_finite,
)
from mdf_loop.run.time_run import CompletedRun
from mdf_loop.specification import Values

_Flags = Mapping[str, Data]

_NONFINITE_PATTERN = re.compile(r"(?<![a-z_])(nan|inf|infinity)(?![a-z_])", re.IGNORECASE)
"""Pattern of the words for numbers that are not finite (`nan`, `inf`, `infinity`) in an expression."""


def in_evaluation(
    outputs: Mapping[str, Data], lengths: Mapping[str, Data], results: Results, has_run: _Flags
) -> NotFinite | None:
    """Return the first nan or infinite value in the outputs of one evaluation, or None.

    Args:
        outputs: Outputs with one axis for all members.
        lengths: Numbers of rows of each member, for outputs whose members have different numbers of rows.
        results: The same outputs in the form that users receive.
        has_run: Flags of members whose node has run, by output. Outputs without flags have run.
    """
    for name, output in outputs.items():
        if not (_ends_finite(output, lengths[name]) if name in lengths else is_finite(output)):
            break
    else:
        return None
    missing_rows = {name: np.array(1) for name, flags in has_run.items() if not np.all(flags)}
    return find_in_outputs(results, missing_rows)


def _ends_finite(rows: Any, lengths: Any) -> bool:
    """Return True if the last row of each member, before padding, is finite."""
    last_row_indices = (lengths if lengths.ndim == 1 else lengths[:, 0]) - 1
    nonempty_members = np.flatnonzero(last_row_indices >= 0)
    return is_finite(rows[nonempty_members, last_row_indices[nonempty_members]])


def over_time(
    prepared: PreparedModel, values: Values, results: Results, completed_run: CompletedRun
) -> NotFinite | None:
    """Return the first nan or infinity of a run over time, or None if all values end finite.

    A state that is nan or infinite initially, such as the time of a spike that never came, is reported
    only if an output shows the state.
    """
    has_finite_end = completed_run.row_monitor.are_finite
    if has_finite_end is None:
        has_finite_end = all(is_finite(row) for row in _last_rows(results))
    nonfinite_states = {
        name: array
        for name, array in completed_run.state.items()
        if array.dtype.kind == "f" and not is_finite(array)
    }
    if (
        has_finite_end
        and not nonfinite_states
        and all(map(is_finite, completed_run.reductions.values()))
    ):
        return None
    unrun_row_counts = completed_run.row_monitor.unrun_counts
    unrun_reductions = {
        name: np.array(1)
        for name in completed_run.reductions
        if name.rpartition(".")[0] in unrun_row_counts
    }
    nonfinite_value = find_in_outputs(results, {**unrun_row_counts, **unrun_reductions})
    if nonfinite_value is not None:
        return nonfinite_value
    reported_states = (
        name for name in nonfinite_states if not _starts_nonfinite(prepared, values, name)
    )
    return find_in_states({name: nonfinite_states[name] for name in reported_states})


def in_engine(results: Results, unrun: Mapping[str, Array]) -> NotFinite | None:
    """Return the first nan or infinity of a modeci_mdf run, or None if all values end finite.

    Only a run that ends with such a value is reported.

    Args:
        results: The outputs of the run.
        unrun: Number of rows before the first run of the output's node, by output.
    """
    if all(is_finite(row) for row in _last_rows(results)):
        return None
    return find_in_outputs(results, unrun)


def _last_rows(results: Results) -> Iterable[Array]:
    """Yield the last row over time of each output, or the whole output without a time axis."""
    for name, output in results.items():
        axis_names = [axis.name for axis in results.axes_of(name)]
        if "time" not in axis_names:
            yield np.asarray(output)
        else:
            output_rows: Any = output
            yield np.asarray(
                output_rows[(*(slice(None),) * axis_names.index("time"), slice(-1, None))]
            )


def _starts_nonfinite(prepared: PreparedModel, values: Values, label: str) -> bool:
    """Return True if the initial value of a state is nan or infinite."""
    if values.state is not None:
        return not is_finite(np.asarray(values.state.get(label, 0.0)))
    parameter_name = label.rpartition(" ")[2]
    initial_value: Any = values.set.get(parameter_name)
    if initial_value is None:
        try:
            initial_value = written_value(prepared.document, parameter_name)
        except LoopError:
            # The state belongs to an output or a function, whose first value is computed.
            return False
    if isinstance(initial_value, str):
        return _NONFINITE_PATTERN.search(initial_value) is not None
    array = np.asarray(initial_value)
    return array.dtype.kind == "f" and not is_finite(array)


def notes(results: Results) -> tuple[str, ...]:
    """Return a sentence about the first nan or infinite value in the results of a run, if any."""
    return () if results.not_finite is None else (results.not_finite.sentence,)
