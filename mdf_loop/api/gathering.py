"""Assembly of the results of a run, with leading axes for sweep members and trials."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mdf_loop.api.prepared import PreparedModel
from mdf_loop.reading.binding import BoundValues
from mdf_loop.results.data import Results
from mdf_loop.run.device import Device
from mdf_loop.run.outputs import Axis, LoopReport, split_first_axis
from mdf_loop.sweeps import Grid


def build_results(
    prepared: PreparedModel,
    bound_values: BoundValues,
    outputs: Mapping[str, Any],
    device: Device,
    *,
    loops: Mapping[str, LoopReport] | None = None,
    axes: tuple[Axis, ...] = (),
    units: Mapping[str, str] | None = None,
    **more: Any,
) -> Results:
    """Return the results of a run from outputs whose first axis merges sweep members and trials.

    Args:
        prepared: The compiled model.
        bound_values: The bound values of the run.
        outputs: The outputs by name.
        device: The device of the run.
        loops: Reports of the loops by name.
        axes: Axes that follow the axes of members and trials.
        units: Units of results besides the units of the model.
        **more: Further arguments of `Results`.
    """
    leading_axes = member_axes(bound_values)
    row_counts = more.pop("lengths", None)
    return Results(
        split_first_axis(outputs, leading_axes),
        {name: report.unflatten(leading_axes) for name, report in (loops or {}).items()},
        device.name,
        prepared.options.precision,
        axes=(*leading_axes, *axes),
        lengths=None if row_counts is None else split_first_axis(row_counts, leading_axes),
        units=prepared.units if units is None else {**prepared.units, **units},
        seed=seed_of(bound_values),
        draws=bool(bound_values.keys_by_input),
        dims=prepared.dims,
        **more,
    )


def seed_of(bound_values: BoundValues) -> int | None:
    """Return the seed of a run's random numbers, or None if seeds are swept."""
    return bound_values.streams.seed if isinstance(bound_values.streams.seed, int) else None


def member_axes(bound_values: BoundValues) -> tuple[Axis, ...]:
    """Return the leading axes of the results, which are the sweep members and the trials."""
    swept_axes = (
        (Axis("batch", bound_values.member_values, is_swept=True),)
        if bound_values.member_values
        else ()
    )
    trial_numbers = bound_values.streams.trial_numbers
    return (
        swept_axes
        if trial_numbers is None
        else (*swept_axes, Axis("trial", {"trial": trial_numbers}))
    )


def split_grid_axis(results: Results, sweep: Mapping[str, Any]) -> Results:
    """Split the axis of the members of a grid into one axis for each swept name."""
    if not isinstance(sweep, Grid):
        return results
    taken_names = {*results, *(axis.name for axis in results.axes), "step"}
    grid_axes = tuple(
        Axis(f"{name} (swept)" if name in taken_names else name, {name: values}, is_swept=True)
        for name, values in sweep.along.items()
    )
    return results.divide_first_axis(grid_axes)
