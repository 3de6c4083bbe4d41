"""Formatting of results and derivatives as readable text and as JSON."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from mdf_loop.ir import Array, Data, StopReason
from mdf_loop.ir.types import content_type
from mdf_loop.results.data import Results
from mdf_loop.results.gradient import Gradient
from mdf_loop.results.json_text import json_chunks
from mdf_loop.run.execution_list import ExecutionList, NodeSets
from mdf_loop.run.recording.labels import coordinates, lengths
from mdf_loop.text_escaping import escape_to_one_line

_MAX_SHOWN_LINES = 12
"""Maximum number of lines of an array or an execution order."""

_MAX_SHOWN_ELEMENTS = 40
"""Maximum number of elements of an array that is shown completely. A longer array shows both ends."""


def results_as_json(results: Results, execution_list: ExecutionList | None = None) -> Iterator[str]:
    """Yield the JSON text that `run --json` prints, in chunks."""
    results_content = results.content()
    return json_chunks(
        results_content
        if execution_list is None
        else {**results_content, "execution_list": list(execution_list)}
    )


def results_as_text(
    results: Results, reason: str, execution_list: ExecutionList | None = None
) -> str:
    """Return the results of a run as text: outputs, loops, execution order and device."""
    text_lines = []
    for coordinate in coordinates(results):
        text_lines += _array_lines(
            coordinate.name, coordinate.array, coordinate.dims[:1], coordinate.unit
        )
    row_lengths = lengths(results)
    for name, values in results.items():
        axis_names = tuple(axis.name for axis in results.axes_of(name))
        text_lines += _output_lines(
            name,
            values,
            axis_names,
            results.units.get(name, ""),
            results.dtypes.get(name),
        )
        if name in row_lengths and np.any(
            row_lengths[name].array != np.shape(values)[len(axis_names) :]
        ):
            text_lines += _array_lines(
                row_lengths[name].name, row_lengths[name].array, axis_names, ""
            )
    for name, report in results.loops.items():
        text_lines.append(f"loop {name}: {report.how_often}; {report.why}")
    text_lines += [] if execution_list is None else _execution_order_lines(execution_list)
    seed_text = f", seed: {results.seed}" if results.draws and results.seed is not None else ""
    text_lines.append(
        f"device: {results.device} ({reason}), precision: {results.precision}{seed_text}"
    )
    if results.stopped_by is not StopReason.COMPLETED:
        text_lines.append(f"stopped: {results.reason}")
    return "\n".join(map(escape_to_one_line, text_lines))


def gradient_as_json(gradient: Gradient) -> str:
    """Return the JSON text that `gradient --json` prints."""
    run_settings = {"seed": gradient.seed, "native": dict(gradient.native)}
    return json.dumps({**gradient.to_dict(), **run_settings})


def gradient_as_text(gradient: Gradient) -> str:
    """Return a scalar objective, its derivatives and the result of a check as text."""
    name_width = max(map(len, ("value", *gradient)))
    arrays = {"value": np.asarray(gradient.value), **gradient}
    text_lines = [f"{name:{name_width}}  {_range_text(array)}" for name, array in arrays.items()]
    text_lines += [
        f"loop {loop}: {native_choice}" for loop, native_choice in gradient.native.items()
    ]
    text_lines += [f"seed: {gradient.seed}"] if gradient.seed else []
    if (check := gradient.check) is not None:
        location = f", at {check.where}" if check.where else ""
        text_lines.append(
            f"central differences agree in {check.elements} elements, "
            f"to {check.largest:.2g} of the largest derivative{location}"
        )
    return "\n".join(map(escape_to_one_line, text_lines))


def _range_text(array: Array) -> str:
    """Return an array as text: dtype, shape and range, as in `float64[3, 3]: -0.5 to 2.25`.

    A single number is shown itself.
    """
    if array.ndim == 0:
        return f"{float(array):.12g}"
    dtype_and_shape = f"{array.dtype}[{', '.join(map(str, array.shape))}]"
    return (
        f"{dtype_and_shape}: {array.min():.6g} to {array.max():.6g}"
        if array.size
        else dtype_and_shape
    )


def _output_lines(
    name: str, values: Data, axis_names: Sequence[str], unit: str, dtype: str | None
) -> list[str]:
    """Return lines of text about an output, which is an array, a sequence of arrays, or None."""
    if values is None:
        return [f"{name}: {dtype}, absent"]
    if not isinstance(values, list):
        return _array_lines(name, values, axis_names, unit)
    member_count_text = f"{len(values)} member" + ("" if len(values) == 1 else "s")
    text_lines = [f"{name}: {content_type(dtype or '', values)} of {member_count_text}"]
    for k, sequence_member in enumerate(values):
        text_lines += (
            f"  {line}" for line in _array_lines(f"{name}[{k}]", sequence_member, axis_names, unit)
        )
    if len(text_lines) > 2 * _MAX_SHOWN_LINES:
        text_lines[_MAX_SHOWN_LINES:-_MAX_SHOWN_LINES] = ["  ..."]
    return text_lines


def _array_lines(name: str, array: Any, axis_names: Sequence[str], unit: str) -> list[str]:
    """Return lines of text about an array, with name, dtype, unit and first and last elements."""
    extents = [
        f"{axis}={extent}" if axis else str(extent)
        for axis, extent in itertools.zip_longest(axis_names, array.shape)
    ]
    has_many_rows = array.ndim > 1 and array.size > _MAX_SHOWN_LINES * array.shape[-1]
    is_long = has_many_rows or array.size > _MAX_SHOWN_ELEMENTS
    edge_items = 3 if array.ndim < 3 else 1
    array_text = np.array2string(
        _end_elements(array, edge_items) if is_long else np.asarray(array),
        separator=", ",
        max_line_width=100,
        threshold=0 if is_long else _MAX_SHOWN_ELEMENTS,
        edgeitems=edge_items,
    )
    header = f"{name}: {array.dtype}[{', '.join(extents)}]" + (f" {unit}" if unit else "")
    return [header, *(f"  {line}" for line in array_text.splitlines() if line)]


def _end_elements(array: Any, edge_items: int, index: tuple[slice, ...] = ()) -> Array:
    """Return the first and last elements of a long array, without the elements between them.

    Only these elements are read if the array is on disk.
    """
    axis = len(index)
    if axis == array.ndim:
        return np.asarray(array[index])
    extent = array.shape[axis]
    is_long = extent > 2 * edge_items + 1
    index_parts = (
        (slice(edge_items + 1), slice(extent - edge_items, extent)) if is_long else (slice(extent),)
    )
    return np.concatenate(
        [_end_elements(array, edge_items, (*index, index_part)) for index_part in index_parts], axis
    )


def _execution_order_lines(execution_list: ExecutionList) -> list[str]:
    """Return lines of text about the nodes that ran in each evaluation.

    An example is `1 to 9: A, B | C`, for equal evaluations 1 to 9.
    """
    text_lines, first_evaluation = [], 0
    for execution_sets, equal_evaluations in itertools.groupby(execution_list):
        last_evaluation = first_evaluation + len(list(equal_evaluations)) - 1
        label = (
            f"{first_evaluation}"
            if first_evaluation == last_evaluation
            else f"{first_evaluation} to {last_evaluation}"
        )
        text_lines.append(f"  {label}: {_execution_sets_text(execution_sets)}")
        first_evaluation = last_evaluation + 1
    if len(text_lines) > _MAX_SHOWN_LINES:
        text_lines[_MAX_SHOWN_LINES // 2 : -_MAX_SHOWN_LINES // 2] = ["  ..."]
    return ["order of execution:", *text_lines]


def _execution_sets_text(sets: NodeSets) -> str:
    """Return the sets of nodes that ran in one evaluation as text, such as `A, B | C`."""
    return " | ".join(", ".join(nodes) or "-" for nodes in sets) or "nothing"
