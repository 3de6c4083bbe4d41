"""Runs of a model for many parameter values, in one sweep if possible."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from msgspec.structs import replace

from mdf_loop.api.prepared import PreparedModel
from mdf_loop.api.specified_run import run_specified
from mdf_loop.document.document import Document
from mdf_loop.errors import LoopError, UnsupportedError
from mdf_loop.ir import Array
from mdf_loop.reading.inputs import open_ports
from mdf_loop.results.data import Results
from mdf_loop.signals import stop_exception
from mdf_loop.specification import RunSpecification, Values


def with_member(document: Document, values: Values, member: Mapping[str, Any]) -> Values:
    """Return the inputs and parameters of a run, updated with the values of one sweep member."""
    input_names = {name for port in open_ports(document) for name in port.names}
    member_inputs = {name: value for name, value in member.items() if name in input_names}
    member_settings = {name: value for name, value in member.items() if name not in input_names}
    return replace(
        values, inputs={**values.inputs, **member_inputs}, set={**values.set, **member_settings}
    )


def run_members(
    prepared: PreparedModel, spec: RunSpecification, sweep: Mapping[str, Array]
) -> dict[str, Array]:
    """Run all members of a sweep, and return their outputs stacked along the first axis.

    Raises:
        LoopError: A run failed. The message names the place.
        KeyboardInterrupt: A signal stopped the run.
    """
    fixed_inputs, fixed_settings = (
        {name: value for name, value in values_by_name.items() if name not in sweep}
        for values_by_name in (spec.values.inputs, spec.values.set)
    )
    run_values = replace(spec.values, inputs=fixed_inputs, set=fixed_settings, sweep=sweep)
    try:
        return _read_outputs(run_specified(prepared, replace(spec, values=run_values)))
    except UnsupportedError:
        member_count = len(next(iter(sweep.values())))
        member_outputs = [_run_member(prepared, spec, sweep, k) for k in range(member_count)]
    return {
        name: np.stack([arrays[name] for arrays in member_outputs]) for name in member_outputs[0]
    }


def run_members_with_nan(
    prepared: PreparedModel, spec: RunSpecification, sweep: Mapping[str, Array]
) -> dict[str, Array]:
    """Run all members of a sweep, and return their outputs, with nan where a run fails.

    Raises:
        LoopError: All members failed. The message is that of the failed sweep.
        KeyboardInterrupt: A signal stopped the run.
    """
    try:
        return run_members(prepared, spec, sweep)
    except LoopError as error:
        sweep_error = error
    member_outputs: list[dict[str, Array] | None] = []
    for k in range(len(next(iter(sweep.values())))):
        try:
            member_outputs.append(_run_member(prepared, spec, sweep, k))
        except LoopError:
            member_outputs.append(None)
    sample_outputs = next((arrays for arrays in member_outputs if arrays is not None), None)
    if sample_outputs is None:
        raise sweep_error
    nan_outputs = {name: np.full(array.shape, np.nan) for name, array in sample_outputs.items()}
    complete_outputs = [arrays or nan_outputs for arrays in member_outputs]
    return {
        name: np.stack([arrays[name] for arrays in complete_outputs]) for name in sample_outputs
    }


def _run_member(
    prepared: PreparedModel, spec: RunSpecification, sweep: Mapping[str, Array], k: int
) -> dict[str, Array]:
    """Run the member with index `k` of a sweep, and return its outputs."""
    member_values = {name: rows[k] for name, rows in sweep.items()}
    run_values = with_member(prepared.document, spec.values, member_values)
    return _read_outputs(run_specified(prepared, replace(spec, values=run_values)))


def _read_outputs(results: Results) -> dict[str, Array]:
    """Return the outputs of a run as arrays, or raise an interrupt if a signal stopped the run."""
    if results.stopped_by.is_asked:
        raise stop_exception(results.stopped_by)
    return {name: np.asarray(array) for name, array in results.items()}
