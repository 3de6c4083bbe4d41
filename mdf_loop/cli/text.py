"""Results as text for people, or as JSON for programs."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence

import numpy as np

from mdf_loop.ir import Array, Data
from mdf_loop.onnx_types import content_type
from mdf_loop.run.execution_list import ExecutionList, Sets
from mdf_loop.run.labels import coordinates
from mdf_loop.run.results import Results

_LINES = 12
"""How many lines of an array or an order of execution are shown."""


def as_json_text(results: Results, ran: ExecutionList | None = None) -> str:
    """What `--json` prints; `ran` says which nodes ran."""
    content = results.to_dict()
    return json.dumps(content if ran is None else {**content, "execution_list": ran})


def as_text(results: Results, reason: str, ran: ExecutionList | None = None) -> str:
    """What stands along the axes, outputs, loops, the order of execution, the device."""
    front = tuple(axis.name for axis in results.axes)
    lines = []
    for along in coordinates(results):
        lines += _array(along.name, along.array, along.dims, along.unit)
    for name, data in results.items():
        lines += _output(name, data, front, results.units.get(name, ""), results.dtypes.get(name))
    for name, report in results.loops.items():
        times = "1 iteration" if report.iterations == 1 else f"{report.iterations} iterations"
        lines.append(f"loop {name}: {times}; {report.stopped_by.value}")
    lines += [] if ran is None else _order(ran)
    lines.append(f"device: {results.device} ({reason}), precision: {results.precision}")
    return "\n".join(lines)


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


def _array(name: str, array: Array, front: Sequence[str], unit: str) -> list[str]:
    """`FNpop.V: float64[time=2000, 1] mV`, then the first and last of its values."""
    extents = [
        f"{axis}={extent}" if axis else str(extent)
        for axis, extent in itertools.zip_longest(front, array.shape)
    ]
    many_lines = array.ndim > 1 and array.size > _LINES * array.shape[-1]
    shown = np.array2string(
        array,
        separator=", ",
        max_line_width=100,
        threshold=0 if many_lines else 40,
        edgeitems=3 if array.ndim < 3 else 1,
    )
    head = f"{name}: {array.dtype}[{', '.join(extents)}]" + (f" {unit}" if unit else "")
    return [head, *(f"  {line}" for line in shown.splitlines() if line)]


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
