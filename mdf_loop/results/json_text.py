"""Results as JSON: arrays become lists where they are written, a block of them after the other.

as_plain({"data": np.array([1.0, nan])})       {"data": [1.0, "nan"]}
"".join(in_parts(...))                         '{"data": [1.0, "nan"]}'
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from mdf_loop.files import in_blocks
from mdf_loop.ir import Array, Data, StoppedBy
from mdf_loop.ir.types import content_type, dtype_name
from mdf_loop.run.outputs import Outputs
from mdf_loop.run.recording.labels import coordinates
from mdf_loop.run.recording.ticks import Ticks

BLOCK = 1 << 18
"""How many bytes of an array become a list at once, which is ten times as large."""


def as_plain(content: Any) -> Any:
    """The content with lists instead of arrays; nan and infinities are texts, as JSON has none."""
    if isinstance(content, Mapping):
        return {name: as_plain(part) for name, part in content.items()}
    if _is_array(content):
        return as_plain(np.asarray(content).tolist())
    if isinstance(content, list):
        return [as_plain(part) for part in content]
    if isinstance(content, float) and not math.isfinite(content):
        return str(content)
    return content


def in_parts(content: Any) -> Iterator[str]:
    """What `json.dumps` writes of the content as plain numbers, texts and lists, part by part."""
    if isinstance(content, Mapping):
        entries = ((f"{json.dumps(name)}: ", in_parts(part)) for name, part in content.items())
        yield from _within("{", entries, "}")
    elif isinstance(content, list) and any(isinstance(part, Mapping) for part in content):
        yield from _within("[", (("", in_parts(part)) for part in content), "]")
    elif _is_array(content) and content.shape:
        yield from _within("[", (("", rows) for rows in _rows(content)), "]")
    else:
        yield json.dumps(as_plain(content))


def _rows(array: Any) -> Iterator[Iterable[str]]:
    """The text of rows of an array: of many at once, or of one in parts if it is long."""
    for _, block in in_blocks(array, BLOCK):
        if len(block) == 1 and block.nbytes > BLOCK:
            yield in_parts(block[0])
        elif len(block):
            yield (json.dumps(as_plain(block))[1:-1],)


def _within(first: str, entries: Iterable[tuple[str, Iterable[str]]], last: str) -> Iterator[str]:
    lead = first
    for name, parts in entries:
        yield lead + name
        yield from parts
        lead = ", "
    yield last if lead != first else first + last


def _is_array(content: Any) -> bool:
    return hasattr(content, "dtype") and hasattr(content, "shape")


# --- what is said of results ----------------------------------------------------------------------


def contents(results: Outputs) -> dict[str, Any]:
    """All of the results, with arrays as they are."""
    outputs = {name: _written(results, name, data) for name, data in results.items()}
    loops = {
        name: {"iterations": report.iterations, "stopped_by": report.words}
        for name, report in results.loops.items()
    }
    about: dict[str, Any] = {"device": results.device, "precision": results.precision}
    if results.seed is not None and results.draws:
        about["seed"] = results.seed
    if results.native:
        about["native"] = results.native
    if results.stopped_by is not StoppedBy.COMPLETED:
        about |= {"stopped_by": results.stopped_by.word, "reason": results.reason}
    if results.notes:
        about["notes"] = list(results.notes)
    stored = any(data is not None and "file" in data for data in outputs.values())
    axes = {
        along.name: along.array
        for along in coordinates(results)
        if not (stored and isinstance(along.array, Ticks))  # it is in the store, too
    }
    if "time" in results.units:
        about["time_unit"] = results.units["time"]
    return {"outputs": outputs, "loops": loops, **about, **({"axes": axes} if axes else {})}


def _written(results: Outputs, name: str, data: Data) -> dict[str, Any] | None:
    if data is None:
        return None
    units = {"units": results.units[name]} if name in results.units else {}
    if isinstance(data, list):
        dtype = content_type(results.dtypes[name], data)
        return {"dtype": dtype, "data": [_tensor(member) for member in data]} | units
    if not isinstance(data, np.ndarray):
        return _streamed(data) | units
    lengths = {"lengths": results.lengths[name]} if name in results.lengths else {}
    return _tensor(data) | lengths | units


def _tensor(array: Array) -> dict[str, Any]:
    return {
        "dtype": dtype_name(array),
        "shape": list(array.shape),
        "data": array,
    }


def _streamed(array: Any) -> dict[str, Any]:
    """An array of a Zarr store, without the data, which may be longer than memory."""
    return {
        "dtype": dtype_name(array),
        "shape": list(array.shape),
        "file": str(array.store.shown),
    }
