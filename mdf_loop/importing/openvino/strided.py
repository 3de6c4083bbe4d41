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
from mdf_loop.importing.openvino.call import LayerCall, LayerOutputs, int64_array, layer
from mdf_loop.importing.openvino.network_writer import Term, op
from mdf_loop.importing.openvino.shapes import concatenate_lists, element_at

_INT64_MAX = np.iinfo(np.int64).max


class _SliceParts(Struct):
    """ONNX equivalent of a StridedSlice: slices of axes, axes to remove, and axes to insert.

    The slices are computed first. Then axes are removed, and finally axes are inserted.
    """

    slice_axes: list[int] = field(default_factory=list)
    slice_starts: list[Term] = field(default_factory=list)
    slice_ends: list[Term] = field(default_factory=list)
    slice_steps: list[int] = field(default_factory=list)
    removed_axes: list[int] = field(default_factory=list)
    new_axes: list[int] = field(default_factory=list)

    def add_slice(self, axis: int, start: Term, end: Term, step: int) -> None:
        self.slice_axes.append(axis)
        self.slice_starts.append(start)
        self.slice_ends.append(end)
        self.slice_steps.append(step)


@layer("StridedSlice")
def _strided_slice(layer_call: LayerCall) -> LayerOutputs:
    slice_parts = _slice_parts(layer_call)
    x: Term = layer_call.input(0)
    if slice_parts.slice_axes:
        x = op(
            "Slice",
            x,
            concatenate_lists(*slice_parts.slice_starts),
            concatenate_lists(*slice_parts.slice_ends),
            int64_array(*slice_parts.slice_axes),
            int64_array(*slice_parts.slice_steps),
        )
    if slice_parts.removed_axes:
        x = op("Squeeze", x, int64_array(*slice_parts.removed_axes))
    if slice_parts.new_axes:
        x = op("Unsqueeze", x, int64_array(*slice_parts.new_axes))
    return x


def _read_mask(layer_call: LayerCall, key: str, count: int) -> list[bool]:
    mask_bits = layer_call.read_integers(key, "")
    return [bool(mask_bits[k]) if k < len(mask_bits) else False for k in range(count)]


def _slice_parts(layer_call: LayerCall) -> _SliceParts:
    entry_count = layer_call.list_length(1, "entries in begin")
    begin_indices, end_indices = layer_call.int64_vector(1), layer_call.int64_vector(2)
    step_numbers = (
        layer_call.require_constant(3, "strides").reshape(-1)
        if layer_call.input_count > 3
        else np.ones(entry_count, np.int64)
    )
    if len(step_numbers) != entry_count or not np.all(step_numbers):
        raise ModelError(
            f"a StridedSlice needs {entry_count} strides that are not 0", layer_call.layer.location
        )
    begins_at_first, ends_at_last = (
        _read_mask(layer_call, mask_key, entry_count) for mask_key in ("begin_mask", "end_mask")
    )
    slice_parts = _SliceParts()
    for entry_index, axis, removes_axis in _slicing_entries(layer_call, entry_count, slice_parts):
        slice_step = int(step_numbers[entry_index])
        default_start = int64_array(_INT64_MAX if slice_step < 0 else 0)
        default_end = int64_array(-_INT64_MAX - 1 if slice_step < 0 else _INT64_MAX)
        if removes_axis:
            slice_parts.add_slice(
                axis,
                element_at(begin_indices, entry_index),
                _next_index(element_at(begin_indices, entry_index)),
                1,
            )
            slice_parts.removed_axes.append(axis)
            continue
        slice_start = (
            default_start
            if begins_at_first[entry_index]
            else element_at(begin_indices, entry_index)
        )
        slice_parts.add_slice(
            axis,
            slice_start,
            default_end if ends_at_last[entry_index] else element_at(end_indices, entry_index),
            slice_step,
        )
    return slice_parts


def _next_index(start: Term) -> Term:
    """Return `start + 1`, or the largest integer if `start` is -1 (the last index)."""
    if isinstance(start, np.ndarray):
        return int64_array(_INT64_MAX) if start[0] == -1 else start + 1
    is_last_index = op("Equal", start, int64_array(-1))
    return op("Where", is_last_index, int64_array(_INT64_MAX), op("Add", start, int64_array(1)))


def _slicing_entries(
    layer_call: LayerCall, entry_count: int, slices: _SliceParts
) -> Iterator[tuple[int, int, bool]]:
    """Yield the slices of axes as tuples (position in the masks, axis, True if the axis is removed)."""
    mask_keys = ("new_axis_mask", "shrink_axis_mask", "ellipsis_mask")
    new_axis_mask, shrink_axis_mask, ellipsis_mask = (
        _read_mask(layer_call, mask_key, entry_count) for mask_key in mask_keys
    )
    if sum(ellipsis_mask) > 1:
        raise ModelError("a StridedSlice has one ellipsis at most", layer_call.layer.location)
    input_axis = output_axis = 0
    for entry_index in range(entry_count):
        if ellipsis_mask[entry_index]:
            later_entry_count = sum(
                1
                for later_entry_index in range(entry_index + 1, entry_count)
                if not new_axis_mask[later_entry_index]
            )
            skipped_axis_count = layer_call.rank(0) - input_axis - later_entry_count
            input_axis, output_axis = (
                input_axis + skipped_axis_count,
                output_axis + skipped_axis_count,
            )
        elif new_axis_mask[entry_index]:
            slices.new_axes.append(output_axis)
            output_axis += 1
        else:
            yield entry_index, input_axis, shrink_axis_mask[entry_index]
            input_axis += 1
            output_axis += 0 if shrink_axis_mask[entry_index] else 1
