"""StridedSlice: a cut along each axis, with masks.

    x[1:, None, 0, ..., ::-1]   begin_mask: take from the first, end_mask: to the last,
                                new_axis_mask: None, shrink_axis_mask: one element, the axis goes,
                                ellipsis_mask: ...

Source: OpenVINO, StridedSlice-1.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from msgspec import Struct, field

from mdf_loop.errors import ModelError
from mdf_loop.importing.openvino.call import Call, Result, layer, whole_list
from mdf_loop.importing.openvino.place import Term, op
from mdf_loop.importing.openvino.shapes import joined, one

_FAR = np.iinfo(np.int64).max


class _Cuts(Struct):
    """Slices of the value's axes, then which of them go, then where new ones come."""

    axes: list[int] = field(default_factory=list)
    starts: list[Term] = field(default_factory=list)
    ends: list[Term] = field(default_factory=list)
    steps: list[int] = field(default_factory=list)
    dropped: list[int] = field(default_factory=list)
    new: list[int] = field(default_factory=list)

    def add(self, axis: int, start: Term, end: Term, step: int) -> None:
        self.axes.append(axis)
        self.starts.append(start)
        self.ends.append(end)
        self.steps.append(step)


@layer("StridedSlice")
def _strided_slice(call: Call) -> Result:
    cuts = _cuts(call)
    value: Term = call.input(0)
    if cuts.axes:
        value = op(
            "Slice",
            value,
            joined(*cuts.starts),
            joined(*cuts.ends),
            whole_list(*cuts.axes),
            whole_list(*cuts.steps),
        )
    if cuts.dropped:
        value = op("Squeeze", value, whole_list(*cuts.dropped))
    if cuts.new:
        value = op("Unsqueeze", value, whole_list(*cuts.new))
    return value


def _mask(call: Call, key: str, count: int) -> list[bool]:
    bits = call.wholes(key, "")
    return [bool(bits[k]) if k < len(bits) else False for k in range(count)]


def _cuts(call: Call) -> _Cuts:
    count = call.length(1, "entries in begin")
    begin, end = call.int64(1), call.int64(2)
    steps = call.fixed(3, "strides").reshape(-1) if call.count > 3 else np.ones(count, np.int64)
    if len(steps) != count or not np.all(steps):
        raise ModelError(f"a StridedSlice needs {count} strides that are not 0", call.layer.where)
    from_first, to_last = (_mask(call, key, count) for key in ("begin_mask", "end_mask"))
    cuts = _Cuts()
    for k, axis, shrinks in _entries(call, count, cuts):
        step = int(steps[k])
        first = whole_list(_FAR if step < 0 else 0)
        last = whole_list(-_FAR - 1 if step < 0 else _FAR)
        if shrinks:
            cuts.add(axis, one(begin, k), _after(one(begin, k)), 1)
            cuts.dropped.append(axis)
            continue
        start = first if from_first[k] else one(begin, k)
        cuts.add(axis, start, last if to_last[k] else one(end, k), step)
    return cuts


def _after(start: Term) -> Term:
    """The place behind an element; behind the last (-1) that is far away."""
    if isinstance(start, np.ndarray):
        return whole_list(_FAR) if start[0] == -1 else start + 1
    is_last = op("Equal", start, whole_list(-1))
    return op("Where", is_last, whole_list(_FAR), op("Add", start, whole_list(1)))


def _entries(call: Call, count: int, cuts: _Cuts) -> Iterator[tuple[int, int, bool]]:
    """Entries that cut an axis: (entry, axis of the value, whether the axis goes)."""
    keys = ("new_axis_mask", "shrink_axis_mask", "ellipsis_mask")
    new, shrink, ellipsis = (_mask(call, key, count) for key in keys)
    if sum(ellipsis) > 1:
        raise ModelError("a StridedSlice has one ellipsis at most", call.layer.where)
    axis = place = 0
    for k in range(count):
        if ellipsis[k]:
            behind = sum(1 for j in range(k + 1, count) if not new[j])
            skipped = call.rank(0) - axis - behind
            axis, place = axis + skipped, place + skipped
        elif new[k]:
            cuts.new.append(place)
            place += 1
        else:
            yield k, axis, shrink[k]
            axis += 1
            place += 0 if shrink[k] else 1
