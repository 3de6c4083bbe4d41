"""A run in modeci_mdf's engine, with results as of a compiled model."""

from __future__ import annotations

import numpy as np

from mdf_loop.document.dims import dims_of
from mdf_loop.document.document import Document
from mdf_loop.document.units import units_of
from mdf_loop.errors import InputError
from mdf_loop.reading.inputs import Given
from mdf_loop.reading.names import named_items
from mdf_loop.results.data import Results
from mdf_loop.run.backend import DocumentBackend
from mdf_loop.run.modeci import seeds
from mdf_loop.run.modeci.engine import drive
from mdf_loop.run.outputs import Axis
from mdf_loop.specification import RunSpecification


def engine_results(
    backend: DocumentBackend,
    document: Document,
    given: Given,
    asked: RunSpecification,
    *,
    device: str = "auto",
    precision: str = "float64",
) -> Results:
    """What a compiled model's `run` gives, from modeci_mdf's engine: what was chosen.

    Raises:
        InputError: the engine cannot compute on that device, or in that precision.
        LoopError: the engine cannot run the model, or what is asked for is not a number.
    """
    if device == "cuda" or precision != "float64":
        raise InputError(
            "modeci_mdf's engine computes on the CPU, in float64",
            hint="leave device and precision out, or run the model compiled",
        )
    steps, dt, every = asked.steps, asked.dt, asked.selection.every
    shown = named_items(document, asked.selection)
    names = [item.name for item in shown.values()]
    seed = asked.values.draws.seed or seeds.current
    made = drive(backend.load(document, names, dt, seed), given, steps)
    if made.failure is not None:
        raise made.failure
    units, dims = units_of(document), dims_of(document)
    arrays = {name: made.arrays[item.name] for name, item in shown.items()}
    if steps is None:
        return Results(arrays, made.loops, "cpu", precision, units=units, dims=dims, seed=seed)
    numbers = np.arange(0, steps, every)
    along = {"step": numbers} if dt is None else {"time": numbers * dt}
    return Results(
        {name: rows[::every] for name, rows in arrays.items()},
        {},
        "cpu",
        precision,
        axes=(Axis("time", along),),
        lengths={
            n: made.lengths[i.name][::every] for n, i in shown.items() if i.name in made.lengths
        },
        units=units,
        dims=dims,
        execution_list=made.execution_list,
        seed=seed,
    )
