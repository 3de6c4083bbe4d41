"""JSON text of results, whose arrays are converted to lists block by block.

to_json_types({"data": np.array([1.0, nan])})       ->  {"data": [1.0, "nan"]}
"".join(json_chunks(...))                           ->  '{"data": [1.0, "nan"]}'
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from mdf_loop.files import iterate_blocks
from mdf_loop.ir import Array, Data, StopReason
from mdf_loop.ir.types import content_type, dtype_name
from mdf_loop.run.outputs import Outputs
from mdf_loop.run.recording.labels import coordinates
from mdf_loop.run.recording.ticks import Ticks

BLOCK_BYTES = 1 << 18
"""Bytes of an array that are converted to a list at once. The list is about ten times as large."""


def to_json_types(content: Any) -> Any:
    """Convert the arrays in nested dicts to lists, and nan and infinities to strings."""
    if isinstance(content, Mapping):
        return {name: to_json_types(member) for name, member in content.items()}
    if _is_array(content):
        return to_json_types(np.asarray(content).tolist())
    if isinstance(content, list):
        return [to_json_types(member) for member in content]
    if isinstance(content, float) and not math.isfinite(content):
        return str(content)
    return content


def json_chunks(content: Any) -> Iterator[str]:
    """Yield the JSON text of nested dicts with arrays in chunks, which limits memory use."""
    if isinstance(content, Mapping):
        key_value_chunks = (
            (f"{json.dumps(name)}: ", json_chunks(member)) for name, member in content.items()
        )
        yield from _join_entries("{", key_value_chunks, "}")
    elif isinstance(content, list) and any(isinstance(member, Mapping) for member in content):
        yield from _join_entries("[", (("", json_chunks(part)) for part in content), "]")
    elif _is_array(content) and content.shape:
        yield from _join_entries("[", (("", row_text) for row_text in _row_texts(content)), "]")
    else:
        yield json.dumps(to_json_types(content))


def _row_texts(array: Any) -> Iterator[Iterable[str]]:
    """Yield the JSON text of an array's rows in chunks of limited size."""
    for _, row_block in iterate_blocks(array, BLOCK_BYTES):
        if len(row_block) == 1 and row_block.nbytes > BLOCK_BYTES:
            yield json_chunks(row_block[0])
        elif len(row_block):
            yield (json.dumps(to_json_types(row_block))[1:-1],)


def _join_entries(
    opening: str, entries: Iterable[tuple[str, Iterable[str]]], closing: str
) -> Iterator[str]:
    """Yield the JSON text of an object or a list: entries with commas between two brackets."""
    next_separator = opening
    for name, chunks in entries:
        yield next_separator + name
        yield from chunks
        next_separator = ", "
    yield closing if next_separator != opening else opening + closing


def _is_array(content: Any) -> bool:
    """Return True if an object has a dtype and a shape."""
    return hasattr(content, "dtype") and hasattr(content, "shape")


# --- content of results ---------------------------------------------------------------------------


def results_content(results: Outputs) -> dict[str, Any]:
    """Return the content of the JSON of results as a dict, with NumPy arrays in place of lists."""
    content_by_output = {
        name: _output_content(results, name, output) for name, output in results.items()
    }
    content_by_loop = {
        name: {"iterations": report.iterations, "stopped_by": report.words}
        for name, report in results.loops.items()
    }
    run_settings: dict[str, Any] = {"device": results.device, "precision": results.precision}
    if results.seed is not None and results.draws:
        run_settings["seed"] = results.seed
    if results.native:
        run_settings["native"] = results.native
    if results.stopped_by is not StopReason.COMPLETED:
        run_settings |= {"stopped_by": results.stopped_by.word, "reason": results.reason}
    if results.notes:
        run_settings["notes"] = list(results.notes)
    has_stored_outputs = any(
        output_content is not None and "file" in output_content
        for output_content in content_by_output.values()
    )
    coordinate_arrays = {
        coordinate.name: coordinate.array
        for coordinate in coordinates(results)
        # The store contains the times, too.
        if not (has_stored_outputs and isinstance(coordinate.array, Ticks))
    }
    if "time" in results.units:
        run_settings["time_unit"] = results.units["time"]
    return {
        "outputs": content_by_output,
        "loops": content_by_loop,
        **run_settings,
        **({"axes": coordinate_arrays} if coordinate_arrays else {}),
    }


def _output_content(results: Outputs, name: str, data: Data) -> dict[str, Any] | None:
    """Return the JSON content of an output as a dict, or None for an absent output."""
    if data is None:
        return None
    unit_entry = {"units": results.units[name]} if name in results.units else {}
    if isinstance(data, list):
        dtype = content_type(results.dtypes[name], data)
        return {"dtype": dtype, "data": [_array_content(member) for member in data]} | unit_entry
    if not isinstance(data, np.ndarray):
        return _stored_content(data) | unit_entry
    lengths_entry = {"lengths": results.lengths[name]} if name in results.lengths else {}
    return _array_content(data) | lengths_entry | unit_entry


def _array_content(array: Array) -> dict[str, Any]:
    """Return the dtype, shape and data of an array as a dict for JSON."""
    return {
        "dtype": dtype_name(array),
        "shape": list(array.shape),
        "data": array,
    }


def _stored_content(array: Any) -> dict[str, Any]:
    """Return the dtype, shape and file name of an array in a Zarr store as a dict for JSON."""
    return {
        "dtype": dtype_name(array),
        "shape": list(array.shape),
        "file": str(array.store.display_path),
    }
