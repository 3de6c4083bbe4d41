"""Conversion of OpenVINO's StridedSlice, whose masks modify the slice of each axis.

    x[1:, None, 0, ..., ::-1]   begin_mask: from the first element, end_mask: to the last element,
                                new_axis_mask: None, shrink_axis_mask: one element without the axis,
                                ellipsis_mask: ...

Source: OpenVINO, StridedSlice-1.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from msgspec import Struct, field

from mdf_loop.errors import ModelError
from mdf_loop.importing.openvino.call import LayerCall, Result, int64_array, layer
from mdf_loop.importing.openvino.place import Term, op
from mdf_loop.importing.openvino.shapes import concatenate_lists, element_at

_INT64_MAX = np.iinfo(np.int64).max


class _SliceParts(Struct):
    """ONNX equivalent of a StridedSlice: slices of axes, axes to remove, and axes to insert.

    The slices are computed first. Then axes are removed, and finally axes are inserted.
    """

    axes: list[int] = field(default_factory=list)
    starts: list[Term] = field(default_factory=list)
    ends: list[Term] = field(default_factory=list)
    steps: list[int] = field(default_factory=list)
    removed_axes: list[int] = field(default_factory=list)
    new_axes: list[int] = field(default_factory=list)

    def add_slice(self, axis: int, start: Term, end: Term, step: int) -> None:
        self.axes.append(axis)
        self.starts.append(start)
        self.ends.append(end)
        self.steps.append(step)


@layer("StridedSlice")
def _strided_slice(call: LayerCall) -> Result:
    slices = _slice_parts(call)
    x: Term = call.input(0)
    if slices.axes:
        x = op(
            "Slice",
            x,
            concatenate_lists(*slices.starts),
            concatenate_lists(*slices.ends),
            int64_array(*slices.axes),
            int64_array(*slices.steps),
        )
    if slices.removed_axes:
        x = op("Squeeze", x, int64_array(*slices.removed_axes))
    if slices.new_axes:
        x = op("Unsqueeze", x, int64_array(*slices.new_axes))
    return x


def _read_mask(call: LayerCall, key: str, count: int) -> list[bool]:
    mask_bits = call.read_integers(key, "")
    return [bool(mask_bits[k]) if k < len(mask_bits) else False for k in range(count)]


def _slice_parts(call: LayerCall) -> _SliceParts:
    entry_count = call.length(1, "entries in begin")
    begin, end = call.int64(1), call.int64(2)
    steps = (
        call.require_constant(3, "strides").reshape(-1)
        if call.count > 3
        else np.ones(entry_count, np.int64)
    )
    if len(steps) != entry_count or not np.all(steps):
        raise ModelError(
            f"a StridedSlice needs {entry_count} strides that are not 0", call.layer.where
        )
    from_first_mask, to_last_mask = (
        _read_mask(call, mask_key, entry_count) for mask_key in ("begin_mask", "end_mask")
    )
    slices = _SliceParts()
    for entry_index, axis, removes_axis in _slicing_entries(call, entry_count, slices):
        step = int(steps[entry_index])
        first_index = int64_array(_INT64_MAX if step < 0 else 0)
        end_index = int64_array(-_INT64_MAX - 1 if step < 0 else _INT64_MAX)
        if removes_axis:
            slices.add_slice(
                axis, element_at(begin, entry_index), _next_index(element_at(begin, entry_index)), 1
            )
            slices.removed_axes.append(axis)
            continue
        start = first_index if from_first_mask[entry_index] else element_at(begin, entry_index)
        slices.add_slice(
            axis,
            start,
            end_index if to_last_mask[entry_index] else element_at(end, entry_index),
            step,
        )
    return slices


def _next_index(start: Term) -> Term:
    """Return `start + 1`, or the largest integer if `start` is -1 (the last index)."""
    if isinstance(start, np.ndarray):
        return int64_array(_INT64_MAX) if start[0] == -1 else start + 1
    is_last = op("Equal", start, int64_array(-1))
    return op("Where", is_last, int64_array(_INT64_MAX), op("Add", start, int64_array(1)))


def _slicing_entries(
    call: LayerCall, entry_count: int, slices: _SliceParts
) -> Iterator[tuple[int, int, bool]]:
    """Yield the slices of axes as tuples (position in the masks, axis, True if the axis is removed)."""
    mask_keys = ("new_axis_mask", "shrink_axis_mask", "ellipsis_mask")
    new_axis_mask, shrink_axis_mask, ellipsis_mask = (
        _read_mask(call, mask_key, entry_count) for mask_key in mask_keys
    )
    if sum(ellipsis_mask) > 1:
        raise ModelError("a StridedSlice has one ellipsis at most", call.layer.where)
    axis = output_axis = 0
    for entry_index in range(entry_count):
        if ellipsis_mask[entry_index]:
            later_entry_count = sum(
                1
                for later_index in range(entry_index + 1, entry_count)
                if not new_axis_mask[later_index]
            )
            skipped_axis_count = call.rank(0) - axis - later_entry_count
            axis, output_axis = axis + skipped_axis_count, output_axis + skipped_axis_count
        elif new_axis_mask[entry_index]:
            slices.new_axes.append(output_axis)
            output_axis += 1
        else:
            yield entry_index, axis, shrink_axis_mask[entry_index]
            axis += 1
            output_axis += 0 if shrink_axis_mask[entry_index] else 1
