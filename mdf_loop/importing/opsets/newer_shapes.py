"""Downgrades of ONNX operators to opset 17: move, split, join, resize; optionals."""

from __future__ import annotations

import numpy as np
import onnx

from mdf_loop.importing.opsets.rewrite import Rewrite

TensorProto = onnx.TensorProto


def split_18(r: Rewrite) -> None:
    """Replace `num_outputs` of Split by a list of lengths, in which the last part may be shorter."""
    part_count = r.get("num_outputs")
    if part_count is None:
        r.add_copy()
        return
    if part_count != len(r.node.output):
        r.refuse(f"num_outputs is {part_count}, but there are {len(r.node.output)} outputs")
    axis = r.get("axis", 0)
    shape = r.facts.shape(r.input(0))
    extent = shape[axis] if shape is not None else None
    if extent is not None and extent % part_count == 0:
        r.add_copy([r.input(0)], drop=("num_outputs",))
        return
    if extent is not None:
        part_length = -(-extent // part_count)
        lengths = r.add_ints(
            [part_length] * (part_count - 1) + [extent - part_length * (part_count - 1)]
        )
    else:
        lengths = _part_lengths(r, axis, part_count)
    r.add_copy([r.input(0), lengths], drop=("num_outputs",))


def _part_lengths(r: Rewrite, axis: int, count: int) -> str:
    extent = extent_of(r, r.input(0), axis)
    rounded_up_extent = r.add("Add", [extent, r.add_ints([count - 1])])
    part_length = r.add("Div", [rounded_up_extent, r.add_ints([count])])
    if count == 1:
        return extent
    leading_length = r.add("Mul", [part_length, r.add_ints([count - 1])])
    last_length = r.add("Sub", [extent, leading_length])
    return r.add("Concat", [part_length] * (count - 1) + [last_length], axis=0)


def extent_of(r: Rewrite, name: str, axis: int) -> str:
    """Return one extent of a value's shape, as a list with one number."""
    end = axis + 1 if axis != -1 else None
    return r.add("Shape", [name], start=axis, end=end)


def pad_18(r: Rewrite) -> None:
    """Downgrade Pad: extend the padding of some axes by zeros for the other axes."""
    axes = r.input(3)
    if not axes:
        r.add_copy([r.input(input_index) for input_index in range(3)])
        return
    rank = r.rank(r.input(0))
    if r.facts.value(axes) is None:
        rank_constant = r.add_ints([rank])
        nonnegative_axes = r.add("Mod", [r.add_cast(axes, TensorProto.INT64), rank_constant])
        positions = r.add(
            "Concat", [nonnegative_axes, r.add("Add", [nonnegative_axes, rank_constant])], axis=0
        )
    else:
        axis_numbers = [axis % rank for axis in r.numbers(axes)]
        positions = r.add_ints([*axis_numbers, *(axis + rank for axis in axis_numbers)])
    zeros = r.add_ints([0] * (2 * rank))
    pads = r.add("ScatterElements", [zeros, positions, r.input(1)], axis=0)
    r.add_copy([r.input(0), pads, r.input(2)])


def pad_19(r: Rewrite) -> None:
    """Replace the mode `wrap` of Pad by a Gather for each axis, with indices modulo the extent."""
    if r.get("mode", "constant") != "wrap":
        r.add_copy()
        return
    rank = r.rank(r.input(0))
    axes = r.numbers(r.input(3)) if r.input(3) else list(range(rank))
    padded_data = r.input(0)
    one = r.add_constant(np.array(1, dtype=np.int64))
    for position, axis in enumerate(axes):
        extent = r.add("Squeeze", [extent_of(r, r.input(0), axis % rank)])
        padding_before = r.add("Gather", [r.input(1), r.add_constant(np.array(position, np.int64))])
        padding_after = r.add(
            "Gather", [r.input(1), r.add_constant(np.array(position + len(axes), np.int64))]
        )
        start = r.add("Neg", [padding_before])
        indices = r.add("Range", [start, r.add("Add", [extent, padding_after]), one])
        padded_data = r.add(
            "Gather", [padded_data, r.add("Mod", [indices, extent])], axis=axis % rank
        )
    r.add("Identity", [padded_data], to=r.output())


def resize_18(r: Rewrite) -> None:
    """Extend a Resize of some axes to all axes. `antialias` and `keep_aspect_ratio_policy` are new in 18.

    A node that keeps the aspect ratio of its own axes keeps its form.
    """
    if r.input(3) and r.get("keep_aspect_ratio_policy", "stretch") != "stretch":
        r.add_copy()
        return
    axes = r.get("axes")
    inputs = [r.input(input_index) for input_index in range(4)]
    if axes is not None:
        rank = r.rank(r.input(0))
        axis_numbers = [axis % rank for axis in axes]
        inputs[1:] = _extend_to_all_axes(r, axis_numbers, rank)
    is_antialiased = r.get("antialias", 0) and r.get("mode", "nearest") != "nearest"
    dropped_attributes = () if is_antialiased else ("antialias",)
    r.add_copy(inputs, drop=("axes", "keep_aspect_ratio_policy", *dropped_attributes))


def _extend_to_all_axes(r: Rewrite, axis_numbers: list[int], rank: int) -> list[str]:
    region, scales, sizes = r.input(1), r.input(2), r.input(3)
    if region and r.get("coordinate_transformation_mode") == "tf_crop_and_resize":
        full_region = r.add_constant(np.array([0] * rank + [1] * rank, dtype=np.float32))
        positions = r.add_ints([*axis_numbers, *(axis + rank for axis in axis_numbers)])
        if r.dtype(region) != 1:
            r.refuse("its region is not float32")
        region = r.add("ScatterElements", [full_region, positions, region], axis=0)
    else:
        region = ""
    if scales:
        ones = r.add_constant(np.ones(rank, dtype=np.float32))
        scales = r.add("ScatterElements", [ones, r.add_ints(axis_numbers), scales], axis=0)
    if sizes:
        extents = r.add("Shape", [r.input(0)])
        sizes = r.add("ScatterElements", [extents, r.add_ints(axis_numbers), sizes], axis=0)
    return [region, scales, sizes]


def optional_get_element_18(r: Rewrite) -> None:
    """Replace OptionalGetElement by Identity if its input is not an optional."""
    type_proto = r.facts.type(r.input(0))
    if type_proto is None:
        r.refuse(f"the type of '{r.input(0)}' is not known")
    if type_proto.HasField("optional_type"):
        r.add_copy()
    else:
        r.add("Identity", [r.input(0)], to=r.output())


def optional_has_element_18(r: Rewrite) -> None:
    """Replace OptionalHasElement by a constant if its input is missing or not an optional."""
    type_proto = r.facts.type(r.input(0)) if r.input(0) else None
    if r.input(0) and type_proto is None:
        r.refuse(f"the type of '{r.input(0)}' is not known")
    if type_proto is not None and type_proto.HasField("optional_type"):
        r.add_copy()
    else:
        r.add("Identity", [r.add_constant(np.array(type_proto is not None))], to=r.output())


def tensor_scatter(r: Rewrite) -> None:
    """Replace TensorScatter: write the update into the rows of the cache from `write_indices` on."""
    cache, update = r.input(0), r.input(1)
    rank = r.rank(cache)
    axis = r.get("axis", -2) % rank
    length = r.add("Squeeze", [extent_of(r, update, axis)])
    zero, one = (r.add_constant(np.array(integer, dtype=np.int64)) for integer in (0, 1))
    indices = r.add("Range", [zero, length, one])
    trailing_axes = r.add_ints(list(range(1, rank - axis)))
    if rank - axis > 1:
        indices = r.add("Unsqueeze", [indices, trailing_axes])
    if r.input(2):
        starts = r.add("Unsqueeze", [r.input(2), r.add_ints(list(range(1, rank)))])
        indices = r.add("Add", [indices, starts])
    if r.get("mode", "linear") == "circular":
        indices = r.add("Mod", [indices, extent_of(r, cache, axis)])
    indices = r.add("Expand", [indices, r.add("Shape", [update])])
    r.add("ScatterElements", [cache, indices, update], to=r.output(), axis=axis)
