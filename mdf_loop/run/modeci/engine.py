"""Evaluation of a model by modeci_mdf's engine, with the inputs and outputs of compiled models.

    graph = EvaluableGraph(model)
    for step in range(steps):
        set_ports(inputs[step])                         # before every evaluation
        graph.evaluate(time_increment=dt if step else None)
        record()

A name without a value (its node has not run) is recorded as nan. Arrays that are shorter than in other
steps are padded with nan. Numbers keep the dtype of the engine, but rows over time have one common dtype:
integers among floats, or beside nan, become floats.

Source: modeci_mdf.execution_engine.EvaluableGraph.evaluate (0.4.15).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from msgspec import Struct, field

from mdf_loop.document.document import Document
from mdf_loop.errors import LoopError, RunError
from mdf_loop.ir import Array, StopReason
from mdf_loop.reading.inputs import BoundInputs, open_ports
from mdf_loop.reading.names import Item
from mdf_loop.run.execution_list import ExecutionList
from mdf_loop.run.modeci.engine_graph import EngineGraph
from mdf_loop.run.modeci.evaluations import Evaluations
from mdf_loop.run.outputs import LoopReport
from mdf_loop.run.recording.lengths import insert_axes, row_lengths
from mdf_loop.run.recording.rows import Column

NO_INPUTS = BoundInputs({})


def select_inputs(document: Document, names: Container[str], inputs: BoundInputs) -> BoundInputs:
    """Select the inputs named in `names`, so that other ports keep the engine's defaults."""
    port_names = [port.name for port in open_ports(document) if port.name_among(names) is not None]
    arrays = {name: inputs.arrays[name] for name in port_names}
    return BoundInputs(arrays, inputs.varying_names, inputs.dtypes)


class EngineRun(Struct, frozen=True):
    """Results of a model that modeci_mdf's engine has evaluated.

    Attributes:
        arrays: Numbers by `node.item`. A model over time has a leading axis of time.
        rows: Over time, the unconverted values of the engine in each step, with None for missing values.
        lengths: Lengths of arrays whose length varies between steps (see `Results`).
        execution_list: Nodes that ran, in order.
        loops: Reports of the last run of each loop, by `node.function`.
        failure: Error that stopped the engine before the last evaluation, or None.
        stopped_by: Limit that stopped the engine before the last evaluation, or None.
    """

    arrays: Mapping[str, Array]
    execution_list: ExecutionList
    loops: Mapping[str, LoopReport]
    failure: LoopError | None = None
    stopped_by: StopReason | None = None
    rows: Mapping[str, Sequence[Array | None]] = field(default_factory=dict)
    lengths: Mapping[str, Array] = field(default_factory=dict)


def run_evaluations(
    evaluations: Evaluations,
    inputs: BoundInputs = NO_INPUTS,
    steps: int | None = None,
    reason_to_stop: Callable[[], StopReason | None] = lambda: None,
) -> EngineRun:
    """Evaluate a model with modeci_mdf's engine, once or `steps` times.

    Evaluations before a failure are kept.

    Args:
        evaluations: Loaded model, with the names of the recorded items, or all numeric items.
        inputs: Values of open ports by name, constant or with one row per step, set before every
            evaluation. Other ports have the engine's defaults.
        steps: Number of evaluations, or None for one evaluation without an axis of time.
        reason_to_stop: Function that returns the limit that stops the run before an evaluation, or None.

    Raises:
        RunError: An item that was requested by name is not a number.
    """
    engine = evaluations.engine
    column_by_item: dict[Item, list[Any]] = {item: [] for item in evaluations.recorded_items}
    failure = stopped_by = None
    for step in range(steps or 1):
        if (stopped_by := reason_to_stop()) is not None:
            break
        arrays = {
            name: array[step] if name in inputs.varying_names else array
            for name, array in inputs.arrays.items()
        }
        try:
            item_values = evaluations.run(arrays)
        except LoopError as error:
            failure = error
            break
        for item, column in column_by_item.items():
            column.append(item_values[item.name])
    executed_sets = tuple(evaluations.executed_sets)
    executed_nodes = {node for sets in executed_sets for nodes in sets for node in nodes}
    value_columns = (
        column_by_item.items()
        if evaluations.are_outputs_named
        else _numeric_columns(column_by_item, executed_nodes)
    )
    rows = (
        {
            item.name: _convert_column(item, column, engine.document)
            for item, column in value_columns
        }
        if executed_sets
        else {}
    )
    stacks = {name: _stack_rows(name, column) for name, column in rows.items()}
    arrays = {name: array if steps else array[0, ...] for name, (array, _) in stacks.items()}
    lengths = {
        name: row_lengths for name, (_, row_lengths) in stacks.items() if row_lengths is not None
    }
    return EngineRun(
        arrays, executed_sets, _loop_reports(engine), failure, stopped_by, rows, lengths
    )


# --- values in the engine -----------------------------------------------------------------------


def _numeric_columns(
    columns: Mapping[Item, list[Any]], executed_nodes: Collection[str]
) -> Iterable[tuple[Item, list[Any]]]:
    """Yield the recorded items (ports, parameters) that have numbers as values.

    An item of a node that ran must have a value.
    """
    for model_part, column in columns.items():
        present_values = [value for value in column if value is not None]
        if all(_as_array(value) is not None for value in present_values) and (
            present_values or model_part.node not in executed_nodes
        ):
            yield model_part, column


def _as_array(value: Any) -> Array | None:
    """Convert a number, text or rectangular list to an array, or return None for other values."""
    if isinstance(value, tuple | dict):
        return None
    try:
        array = np.asarray(value)
    except ValueError:
        return None
    if array.dtype == object:
        return _wide_integers_to_float(array)
    return array if array.dtype.kind in "biufUS" else None


def _wide_integers_to_float(array: Array) -> Array | None:
    """Convert integers wider than 64 bits to float64, or return None if this is inexact.

    An array of texts is returned unchanged.

    None means that the conversion is not exact, or that the array has other objects.
    """
    elements = list(array.flat)
    if all(isinstance(element, str) for element in elements):
        return array
    try:
        float_array = array.astype(np.float64)
    except (TypeError, ValueError, OverflowError):
        return None
    is_cast_exact = all(
        int(number) == element
        for number, element in zip(float_array.flat, elements, strict=True)
        if np.isfinite(number)
    )
    return float_array if is_cast_exact and np.isfinite(float_array).all() else None


def _convert_column(item: Item, column: list[Any], document: Document) -> list[Array | None]:
    """Convert the values of a port or parameter in all steps to arrays.

    Absent values are None.
    """
    rows = [None if value is None else _as_array(value) for value in column]
    if any(row is None and value is not None for row, value in zip(rows, column, strict=True)):
        raise RunError(
            f"'{item.name}' is not a number in modeci_mdf's engine",
            f"{document.where}.nodes['{item.node}'].{item.node_field}['{item.id}']",
            "record an output port that gives one number or one array",
        )
    return rows


def _stack_rows(name: str, rows: Sequence[Array | None]) -> tuple[Array, Array | None]:
    """Stack arrays of consecutive steps along a new first axis, with nan for absent arrays.

    Return the lengths of the rows, too, if the lengths vary.

    Among arrays of one shape, a scalar row fills all elements of its array.
    """
    present_rows = [row for row in rows if row is not None]
    dtype = _common_dtype(present_rows, missing=len(present_rows) < len(rows))
    shapes = {row.shape for row in present_rows if row.shape} or {()}
    if len(shapes) == 1:
        stacked_rows = np.empty((len(rows), *shapes.pop()), dtype)
        for position, row in enumerate(rows):
            stacked_rows[position] = np.nan if row is None else row
        return stacked_rows, None
    max_rank = max(map(len, shapes))
    empty_row = np.empty((0,) * max_rank, dtype)
    expanded_rows = [empty_row if row is None else insert_axes(row, max_rank, 0) for row in rows]
    column = Column(name, len(rows))
    for row in expanded_rows:
        column.add(row[None])
    return column.rows, np.concatenate([row_lengths(row[None], None, 1) for row in expanded_rows])


def _common_dtype(rows: Sequence[Array], *, missing: bool) -> Any:
    """Return the common dtype of arrays, promoted to float if missing arrays become nan."""
    dtypes = {row.dtype for row in rows}
    if any(common_dtype.kind in "OUS" for common_dtype in dtypes):
        return object
    dtype = np.result_type(*dtypes) if dtypes else np.dtype(np.float64)
    return np.result_type(dtype, np.float64) if missing and dtype.kind != "f" else dtype


def _loop_reports(engine: EngineGraph) -> dict[str, LoopReport]:
    """Return reports of the loops that this library computes within modeci_mdf's engine."""
    return {
        name: LoopReport(
            int(call.loop_reports["iterations"]),
            list(StopReason)[int(call.loop_reports["stopped_by"])],
        )
        for name, call in engine.loop_calls()
        if call.loop_reports
    }
