"""Results and derivatives as text for people, or as JSON for programs."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from mdf_loop.ir import Array, Data, StoppedBy
from mdf_loop.ir.types import content_type
from mdf_loop.results.data import Results
from mdf_loop.results.gradient import Gradient
from mdf_loop.results.json_text import json_chunks
from mdf_loop.run.execution_list import ExecutionList, Sets
from mdf_loop.run.recording.labels import coordinates, lengths
from mdf_loop.visible import on_one_line

_LINES = 12
"""How many lines of an array or an order of execution are shown."""

_VALUES = 40
"""How many values of an array are shown; of one that has more, those at its ends."""


def as_json(results: Results, ran: ExecutionList | None = None) -> Iterator[str]:
    """What `--json` prints, part by part; `ran` says which nodes ran."""
    content = results.content()
    return json_chunks(content if ran is None else {**content, "execution_list": list(ran)})


def as_text(results: Results, reason: str, ran: ExecutionList | None = None) -> str:
    """What stands along the axes, outputs, loops, the order of execution, the device."""
    lines = []
    for along in coordinates(results):
        lines += _array(along.name, along.array, along.dims[:1], along.unit)
    beside = lengths(results)
    for name, data in results.items():
        front = tuple(axis.name for axis in results.axes_of(name))
        lines += _output(name, data, front, results.units.get(name, ""), results.dtypes.get(name))
        if name in beside and np.any(beside[name].array != np.shape(data)[len(front) :]):
            lines += _array(beside[name].name, beside[name].array, front, "")
    for name, report in results.loops.items():
        lines.append(f"loop {name}: {report.how_often}; {report.why}")
    lines += [] if ran is None else _order(ran)
    seed = f", seed: {results.seed}" if results.draws and results.seed is not None else ""
    lines.append(f"device: {results.device} ({reason}), precision: {results.precision}{seed}")
    if results.stopped_by is not StoppedBy.COMPLETED:
        lines.append(f"stopped: {results.reason}")
    return "\n".join(map(on_one_line, lines))


def gradient_as_json(gradient: Gradient) -> str:
    """What `gradient --json` prints: the number and its derivatives, the seed, which loops are native."""
    more = {"seed": gradient.seed, "native": dict(gradient.native)}
    return json.dumps({**gradient.to_dict(), **more})


def gradient_as_text(gradient: Gradient) -> str:
    """The number, how it changes with each name, and what a check has found."""
    width = max(map(len, ("value", *gradient)))
    numbers = {"value": np.asarray(gradient.value), **gradient}
    lines = [f"{name:{width}}  {_where_it_lies(array)}" for name, array in numbers.items()]
    lines += [f"loop {loop}: {how}" for loop, how in gradient.native.items()]
    lines += [f"seed: {gradient.seed}"] if gradient.seed else []
    if (found := gradient.check) is not None:
        at = f", at {found.where}" if found.where else ""
        lines.append(
            f"central differences agree in {found.elements} elements, "
            f"to {found.largest:.2g} of the largest derivative{at}"
        )
    return "\n".join(map(on_one_line, lines))


def _where_it_lies(array: Array) -> str:
    """A number; or `float64[3, 3]: -0.5 to 2.25`, between which the numbers of an array lie."""
    if array.ndim == 0:
        return f"{float(array):.12g}"
    kind = f"{array.dtype}[{', '.join(map(str, array.shape))}]"
    return f"{kind}: {array.min():.6g} to {array.max():.6g}" if array.size else kind


def _output(name: str, data: Data, front: Sequence[str], unit: str, dtype: str | None) -> list[str]:
    """An array; a sequence with its members, `history[0]: float64[2]`; or that nothing is there."""
    if data is None:
        return [f"{name}: {dtype}, absent"]
    if not isinstance(data, list):
        return _array(name, data, front, unit)
    members = f"{len(data)} member" + ("" if len(data) == 1 else "s")
    lines = [f"{name}: {content_type(dtype or '', data)} of {members}"]
    for k, member in enumerate(data):
        lines += (f"  {line}" for line in _array(f"{name}[{k}]", member, front, unit))
    if len(lines) > 2 * _LINES:
        lines[_LINES:-_LINES] = ["  ..."]
    return lines


def _array(name: str, array: Any, front: Sequence[str], unit: str) -> list[str]:
    """`FNpop.V: float64[time=2000, 1] mV`, then the first and last of its values."""
    extents = [
        f"{axis}={extent}" if axis else str(extent)
        for axis, extent in itertools.zip_longest(front, array.shape)
    ]
    many_lines = array.ndim > 1 and array.size > _LINES * array.shape[-1]
    is_long = many_lines or array.size > _VALUES
    edge = 3 if array.ndim < 3 else 1
    shown = np.array2string(
        _ends(array, edge) if is_long else np.asarray(array),
        separator=", ",
        max_line_width=100,
        threshold=0 if is_long else _VALUES,
        edgeitems=edge,
    )
    head = f"{name}: {array.dtype}[{', '.join(extents)}]" + (f" {unit}" if unit else "")
    return [head, *(f"  {line}" for line in shown.splitlines() if line)]


def _ends(array: Any, edge: int, place: tuple[slice, ...] = ()) -> Array:
    """What numpy shows of a long array: `edge` parts at the ends of each axis, one for all between.

    Only that is read of an array on disk, and made of times.
    """
    axis = len(place)
    if axis == array.ndim:
        return np.asarray(array[place])
    extent = array.shape[axis]
    long = extent > 2 * edge + 1
    parts = (slice(edge + 1), slice(extent - edge, extent)) if long else (slice(extent),)
    return np.concatenate([_ends(array, edge, (*place, part)) for part in parts], axis)


def _order(ran: ExecutionList) -> list[str]:
    """Evaluations by number, those alike in one line: `1 to 9: A, B | C`."""
    lines, number = [], 0
    for sets, alike in itertools.groupby(ran):
        last = number + len(list(alike)) - 1
        numbers = f"{number}" if number == last else f"{number} to {last}"
        lines.append(f"  {numbers}: {_sets(sets)}")
        number = last + 1
    if len(lines) > _LINES:
        lines[_LINES // 2 : -_LINES // 2] = ["  ..."]
    return ["order of execution:", *lines]


def _sets(sets: Sets) -> str:
    return " | ".join(", ".join(nodes) or "-" for nodes in sets) or "nothing"
