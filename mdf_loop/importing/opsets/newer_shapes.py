"""Downgrades of ONNX operators to opset 17: moving, splitting, joining, resizing, optionals."""

from __future__ import annotations

import numpy as np
import onnx

from mdf_loop.importing.opsets.rewrite import Rewrite

TensorProto = onnx.TensorProto


def split_18(rewrite: Rewrite) -> None:
    """Replace `num_outputs` of Split by a list of lengths, in which the last part may be shorter."""
    part_count = rewrite.attribute("num_outputs")
    if part_count is None:
        rewrite.add_copy()
        return
    if part_count != len(rewrite.node.output):
        rewrite.refuse(
            f"num_outputs is {part_count}, but there are {len(rewrite.node.output)} outputs"
        )
    axis = rewrite.attribute("axis", 0)
    shape = rewrite.facts.shape(rewrite.input(0))
    split_extent = shape[axis] if shape is not None else None
    if split_extent is not None and split_extent % part_count == 0:
        rewrite.add_copy([rewrite.input(0)], drop=("num_outputs",))
        return
    if split_extent is not None:
        part_length = -(-split_extent // part_count)
        part_lengths = rewrite.add_integers(
            [part_length] * (part_count - 1) + [split_extent - part_length * (part_count - 1)]
        )
    else:
        part_lengths = _part_lengths(rewrite, axis, part_count)
    rewrite.add_copy([rewrite.input(0), part_lengths], drop=("num_outputs",))


def _part_lengths(rewrite: Rewrite, axis: int, part_count: int) -> str:
    split_extent = extent_of(rewrite, rewrite.input(0), axis)
    rounded_up_extent = rewrite.add_node(
        "Add", [split_extent, rewrite.add_integers([part_count - 1])]
    )
    part_length = rewrite.add_node("Div", [rounded_up_extent, rewrite.add_integers([part_count])])
    if part_count == 1:
        return split_extent
    leading_length = rewrite.add_node("Mul", [part_length, rewrite.add_integers([part_count - 1])])
    last_length = rewrite.add_node("Sub", [split_extent, leading_length])
    return rewrite.add_node("Concat", [part_length] * (part_count - 1) + [last_length], axis=0)


def extent_of(rewrite: Rewrite, name: str, axis: int) -> str:
    """Return one extent of a value's shape, as a list with one number."""
    end_axis = axis + 1 if axis != -1 else None
    return rewrite.add_node("Shape", [name], start=axis, end=end_axis)


def pad_18(rewrite: Rewrite) -> None:
    """Downgrade Pad: extend the padding of some axes by zeros for the other axes."""
    axes_name = rewrite.input(3)
    if not axes_name:
        rewrite.add_copy([rewrite.input(input_index) for input_index in range(3)])
        return
    rank = rewrite.rank(rewrite.input(0))
    if rewrite.facts.constant_array(axes_name) is None:
        rank_constant = rewrite.add_integers([rank])
        nonnegative_axes = rewrite.add_node(
            "Mod", [rewrite.add_cast(axes_name, TensorProto.INT64), rank_constant]
        )
        pad_positions = rewrite.add_node(
            "Concat",
            [nonnegative_axes, rewrite.add_node("Add", [nonnegative_axes, rank_constant])],
            axis=0,
        )
    else:
        axis_numbers = [axis % rank for axis in rewrite.constant_integers(axes_name)]
        pad_positions = rewrite.add_integers(
            [*axis_numbers, *(axis + rank for axis in axis_numbers)]
        )
    zero_pads = rewrite.add_integers([0] * (2 * rank))
    all_pads = rewrite.add_node(
        "ScatterElements", [zero_pads, pad_positions, rewrite.input(1)], axis=0
    )
    rewrite.add_copy([rewrite.input(0), all_pads, rewrite.input(2)])


def pad_19(rewrite: Rewrite) -> None:
    """Replace the mode `wrap` of Pad by a Gather for each axis, with indices modulo the extent."""
    if rewrite.attribute("mode", "constant") != "wrap":
        rewrite.add_copy()
        return
    rank = rewrite.rank(rewrite.input(0))
    axes = rewrite.constant_integers(rewrite.input(3)) if rewrite.input(3) else list(range(rank))
    padded_data = rewrite.input(0)
    constant_one = rewrite.add_constant(np.array(1, dtype=np.int64))
    for axis_position, axis in enumerate(axes):
        axis_extent = rewrite.add_node(
            "Squeeze", [extent_of(rewrite, rewrite.input(0), axis % rank)]
        )
        padding_before = rewrite.add_node(
            "Gather", [rewrite.input(1), rewrite.add_constant(np.array(axis_position, np.int64))]
        )
        padding_after = rewrite.add_node(
            "Gather",
            [rewrite.input(1), rewrite.add_constant(np.array(axis_position + len(axes), np.int64))],
        )
        first_index = rewrite.add_node("Neg", [padding_before])
        source_indices = rewrite.add_node(
            "Range",
            [first_index, rewrite.add_node("Add", [axis_extent, padding_after]), constant_one],
        )
        padded_data = rewrite.add_node(
            "Gather",
            [padded_data, rewrite.add_node("Mod", [source_indices, axis_extent])],
            axis=axis % rank,
        )
    rewrite.add_node("Identity", [padded_data], to=rewrite.output())


def resize_18(rewrite: Rewrite) -> None:
    """Downgrade Resize: extend a Resize of some axes to all axes.

    The attributes `antialias` and `keep_aspect_ratio_policy` are new in opset 18.
    A node that keeps the aspect ratio of its own axes keeps its form.
    """
    if rewrite.input(3) and rewrite.attribute("keep_aspect_ratio_policy", "stretch") != "stretch":
        rewrite.add_copy()
        return
    resized_axes = rewrite.attribute("axes")
    resize_inputs = [rewrite.input(input_index) for input_index in range(4)]
    if resized_axes is not None:
        rank = rewrite.rank(rewrite.input(0))
        axis_numbers = [axis % rank for axis in resized_axes]
        resize_inputs[1:] = _extend_to_all_axes(rewrite, axis_numbers, rank)
    is_antialiased = (
        rewrite.attribute("antialias", 0) and rewrite.attribute("mode", "nearest") != "nearest"
    )
    dropped_attributes = () if is_antialiased else ("antialias",)
    rewrite.add_copy(resize_inputs, drop=("axes", "keep_aspect_ratio_policy", *dropped_attributes))


def _extend_to_all_axes(rewrite: Rewrite, axis_numbers: list[int], rank: int) -> list[str]:
    region_of_interest, scales, sizes = rewrite.input(1), rewrite.input(2), rewrite.input(3)
    if (
        region_of_interest
        and rewrite.attribute("coordinate_transformation_mode") == "tf_crop_and_resize"
    ):
        full_region = rewrite.add_constant(np.array([0] * rank + [1] * rank, dtype=np.float32))
        region_positions = rewrite.add_integers(
            [*axis_numbers, *(axis + rank for axis in axis_numbers)]
        )
        if rewrite.dtype(region_of_interest) != 1:
            rewrite.refuse("its region is not float32")
        region_of_interest = rewrite.add_node(
            "ScatterElements", [full_region, region_positions, region_of_interest], axis=0
        )
    else:
        region_of_interest = ""
    if scales:
        ones_for_all_axes = rewrite.add_constant(np.ones(rank, dtype=np.float32))
        scales = rewrite.add_node(
            "ScatterElements",
            [ones_for_all_axes, rewrite.add_integers(axis_numbers), scales],
            axis=0,
        )
    if sizes:
        all_extents = rewrite.add_node("Shape", [rewrite.input(0)])
        sizes = rewrite.add_node(
            "ScatterElements", [all_extents, rewrite.add_integers(axis_numbers), sizes], axis=0
        )
    return [region_of_interest, scales, sizes]


def optional_get_element_18(rewrite: Rewrite) -> None:
    """Replace OptionalGetElement by Identity if its input is not an optional."""
    type_proto = rewrite.facts.type(rewrite.input(0))
    if type_proto is None:
        rewrite.refuse(f"the type of '{rewrite.input(0)}' is not known")
    if type_proto.HasField("optional_type"):
        rewrite.add_copy()
    else:
        rewrite.add_node("Identity", [rewrite.input(0)], to=rewrite.output())


def optional_has_element_18(rewrite: Rewrite) -> None:
    """Replace OptionalHasElement by a constant if its input is missing or not an optional."""
    type_proto = rewrite.facts.type(rewrite.input(0)) if rewrite.input(0) else None
    if rewrite.input(0) and type_proto is None:
        rewrite.refuse(f"the type of '{rewrite.input(0)}' is not known")
    if type_proto is not None and type_proto.HasField("optional_type"):
        rewrite.add_copy()
    else:
        rewrite.add_node(
            "Identity",
            [rewrite.add_constant(np.array(type_proto is not None))],
            to=rewrite.output(),
        )


def tensor_scatter(rewrite: Rewrite) -> None:
    """Replace TensorScatter: write the update into the rows of the cache from `write_indices` on."""
    cache_name, update_name = rewrite.input(0), rewrite.input(1)
    rank = rewrite.rank(cache_name)
    axis = rewrite.attribute("axis", -2) % rank
    update_length = rewrite.add_node("Squeeze", [extent_of(rewrite, update_name, axis)])
    constant_zero, constant_one = (
        rewrite.add_constant(np.array(integer, dtype=np.int64)) for integer in (0, 1)
    )
    cache_indices = rewrite.add_node("Range", [constant_zero, update_length, constant_one])
    trailing_axes = rewrite.add_integers(list(range(1, rank - axis)))
    if rank - axis > 1:
        cache_indices = rewrite.add_node("Unsqueeze", [cache_indices, trailing_axes])
    if rewrite.input(2):
        start_indices = rewrite.add_node(
            "Unsqueeze", [rewrite.input(2), rewrite.add_integers(list(range(1, rank)))]
        )
        cache_indices = rewrite.add_node("Add", [cache_indices, start_indices])
    if rewrite.attribute("mode", "linear") == "circular":
        cache_indices = rewrite.add_node(
            "Mod", [cache_indices, extent_of(rewrite, cache_name, axis)]
        )
    cache_indices = rewrite.add_node(
        "Expand", [cache_indices, rewrite.add_node("Shape", [update_name])]
    )
    rewrite.add_node(
        "ScatterElements", [cache_name, cache_indices, update_name], to=rewrite.output(), axis=axis
    )
