"""Results of a run, with the axes of members and trials in front."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mdf_loop.api.prepared import Prepared
from mdf_loop.reading.binding import Bound
from mdf_loop.results.data import Results
from mdf_loop.run.device import Device
from mdf_loop.run.outputs import Axis, LoopReport, with_each_axis
from mdf_loop.sweeps import Grid


def results_of(
    prepared: Prepared,
    bound: Bound,
    outputs: Mapping[str, Any],
    device: Device,
    *,
    loops: Mapping[str, LoopReport] | None = None,
    axes: tuple[Axis, ...] = (),
    units: Mapping[str, str] | None = None,
    **more: Any,
) -> Results:
    """Return the results of a run. `more` are further arguments of `Results`."""
    members = member_axes(bound)
    lengths = more.pop("lengths", None)
    return Results(
        with_each_axis(outputs, members),
        {name: report.apart(members) for name, report in (loops or {}).items()},
        device.name,
        prepared.options.precision,
        axes=(*members, *axes),
        lengths=None if lengths is None else with_each_axis(lengths, members),
        units=prepared.units if units is None else {**prepared.units, **units},
        seed=seed_of(bound),
        draws=bool(bound.keys),
        dims=prepared.dims,
        **more,
    )


def seed_of(bound: Bound) -> int | None:
    """Return the seed of a run, or None if seeds are swept."""
    return bound.streams.seed if isinstance(bound.streams.seed, int) else None


def member_axes(bound: Bound) -> tuple[Axis, ...]:
    """Return the axes of simultaneous runs: members of a sweep, then trials."""
    swept = (Axis("batch", bound.members, is_swept=True),) if bound.members else ()
    trials = bound.streams.numbers
    return swept if trials is None else (*swept, Axis("trial", {"trial": trials}))


def laid_out(results: Results, sweep: Mapping[str, Any]) -> Results:
    """Return the results of a grid with one axis for each name. Results of other sweeps stay as they are."""
    if not isinstance(sweep, Grid):
        return results
    taken_names = {*results, *(axis.name for axis in results.axes), "step"}
    along = tuple(
        Axis(f"{name} (swept)" if name in taken_names else name, {name: values}, is_swept=True)
        for name, values in sweep.along.items()
    )
    return results.with_first_as(along)
