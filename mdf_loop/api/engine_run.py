"""Runs in modeci_mdf's own engine, with results like those of a compiled model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from mdf_loop.api import finite_check
from mdf_loop.document.dims import dims_of
from mdf_loop.document.document import Document
from mdf_loop.document.units import units_of
from mdf_loop.errors import InputError
from mdf_loop.ir import Array
from mdf_loop.reading.inputs import BoundInputs
from mdf_loop.reading.names import Item, named_items
from mdf_loop.results.data import Results
from mdf_loop.run.backend import DocumentBackend
from mdf_loop.run.modeci import seeds
from mdf_loop.run.modeci.engine import EngineRun, run_evaluations
from mdf_loop.run.outputs import Axis
from mdf_loop.specification import RunSpecification


def engine_results(
    backend: DocumentBackend,
    document: Document,
    inputs: BoundInputs,
    spec: RunSpecification,
    *,
    device: str = "auto",
    precision: str = "float64",
) -> Results:
    """Run a model in modeci_mdf's engine, and return the results with the selected outputs.

    Raises:
        InputError: The engine cannot compute on that device or in that precision.
        LoopError: The engine cannot run the model, or a selected output is no number.
    """
    if device == "cuda" or precision != "float64":
        raise InputError(
            "modeci_mdf's engine computes on the CPU, in float64",
            hint="leave device and precision out, or run the model compiled",
        )
    steps, dt, step_stride = spec.steps, spec.dt, spec.selection.every
    items_by_name = named_items(document, spec.selection)
    item_names = [model_item.name for model_item in items_by_name.values()]
    seed = spec.values.draws.seed or seeds.current_seed
    engine_run = run_evaluations(backend.load(document, item_names, dt, seed), inputs, steps)
    if engine_run.failure is not None:
        raise engine_run.failure
    units, dims = units_of(document), dims_of(document)
    arrays = {
        name: engine_run.arrays[model_item.name] for name, model_item in items_by_name.items()
    }
    if steps is None:
        results = Results(
            arrays, engine_run.loops, "cpu", precision, units=units, dims=dims, seed=seed
        )
    else:
        results = _build_results_over_time(
            engine_run, items_by_name, arrays, spec, units=units, dims=dims, seed=seed
        )
    if spec.controls.nan is None:
        nonfinite_value = finite_check.in_engine(
            results, _count_unrun_rows(engine_run, items_by_name, step_stride)
        )
        results = results.with_changes(not_finite=nonfinite_value)
    return results


def _build_results_over_time(
    engine_run: EngineRun,
    items: Mapping[str, Item],
    arrays: Mapping[str, Array],
    spec: RunSpecification,
    **more: Any,
) -> Results:
    """Return the results of a run over time in modeci_mdf's engine.

    `more` are further arguments of `Results`.
    """
    steps, dt, step_stride = spec.steps, spec.dt, spec.selection.every
    step_numbers = np.arange(0, steps or 0, step_stride)
    coordinates = {"step": step_numbers} if dt is None else {"time": step_numbers * dt}
    return Results(
        {name: rows[::step_stride] for name, rows in arrays.items()},
        {},
        "cpu",
        "float64",
        axes=(Axis("time", coordinates),),
        lengths={
            name: engine_run.lengths[model_item.name][::step_stride]
            for name, model_item in items.items()
            if model_item.name in engine_run.lengths
        },
        execution_list=engine_run.execution_list,
        **more,
    )


def _count_unrun_rows(
    engine_run: EngineRun, items: Mapping[str, Item], every: int
) -> dict[str, Array]:
    """Return how many rows of each output were recorded before its node first ran."""
    first_run_steps: dict[str, int] = {}
    for step, node_sets in enumerate(engine_run.execution_list):
        for nodes in node_sets:
            for node in nodes:
                first_run_steps.setdefault(node, step)
    step_count = len(engine_run.execution_list)
    unrun_row_counts = {
        name: first_run_steps.get(model_item.node, step_count) for name, model_item in items.items()
    }
    return {
        name: np.array(-(-row_count // every))
        for name, row_count in unrun_row_counts.items()
        if row_count
    }
