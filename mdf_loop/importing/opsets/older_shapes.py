"""Upgrades of ONNX operators to opset 17: operators that move, split and join."""

from __future__ import annotations

import numpy as np
from onnx import helper

from mdf_loop.importing.opsets.rewrite import Rewrite


def reshape_5(rewrite: Rewrite) -> None:
    """Upgrade Reshape: turn the shape into an input."""
    shape_constant = rewrite.add_constant(np.array(rewrite.attribute("shape", ()), dtype=np.int64))
    rewrite.add_copy([rewrite.input(0), shape_constant], drop=("shape", "consumed_inputs"))


def concat_4(rewrite: Rewrite) -> None:
    """Upgrade Concat: write axis 1, the default of opset 1."""
    rewrite.add_copy(axis=rewrite.attribute("axis", 1))


def split_2(rewrite: Rewrite) -> None:
    """Upgrade Split: turn the lengths of the parts into an attribute, and write the default axis 0."""
    part_lengths = rewrite.attribute("split")
    if rewrite.input(1):
        part_lengths = rewrite.constant_integers(rewrite.input(1))
    split_attribute = {} if part_lengths is None else {"split": list(part_lengths)}
    rewrite.add_copy([rewrite.input(0)], axis=rewrite.attribute("axis", 0), **split_attribute)


def split_13(rewrite: Rewrite) -> None:
    """Upgrade Split: turn the lengths of the parts into an input."""
    part_lengths = rewrite.attribute("split")
    input_names = [rewrite.input(0)]
    if part_lengths is not None:
        input_names.append(rewrite.add_constant(np.array(part_lengths, dtype=np.int64)))
    rewrite.add_copy(input_names, drop=("split",))


def pad_2(rewrite: Rewrite) -> None:
    """Upgrade Pad: rename `paddings` to `pads`."""
    rewrite.add_copy(drop=("paddings",), pads=rewrite.attribute("paddings"))


def pad_11(rewrite: Rewrite) -> None:
    """Upgrade Pad: turn the padding lengths and the filling value into inputs."""
    input_names = [
        rewrite.input(0),
        rewrite.add_constant(np.array(rewrite.attribute("pads"), dtype=np.int64)),
    ]
    fill_value = rewrite.attribute("value", 0.0)
    if fill_value:
        numpy_dtype = helper.tensor_dtype_to_np_dtype(rewrite.dtype(rewrite.input(0)))
        input_names.append(rewrite.add_constant(np.array(fill_value).astype(numpy_dtype)))
    rewrite.add_copy(input_names, drop=("pads", "value"))


def slice_10(rewrite: Rewrite) -> None:
    """Upgrade Slice: turn starts, ends and axes into inputs."""
    attribute_names = ("starts", "ends", "axes")
    index_lists = [
        rewrite.attribute(attribute_name)
        for attribute_name in attribute_names
        if rewrite.attribute(attribute_name) is not None
    ]
    rewrite.add_copy(
        [rewrite.input(0), *(rewrite.add_integers(index_list) for index_list in index_lists)],
        drop=attribute_names,
    )


def tile_6(rewrite: Rewrite) -> None:
    """Upgrade Tile: turn one axis and its repeats into a list of repeats for all axes."""
    (repeat_count,), (axis,) = (
        rewrite.constant_integers(rewrite.input(1)),
        rewrite.constant_integers(rewrite.input(2)),
    )
    repeats = np.ones(rewrite.rank(rewrite.input(0)), dtype=np.int64)
    repeats[axis] = repeat_count
    rewrite.add_copy([rewrite.input(0), rewrite.add_constant(repeats)])


def top_k_10(rewrite: Rewrite) -> None:
    """Upgrade TopK: turn the count into an input."""
    top_count_constant = rewrite.add_constant(np.array([rewrite.attribute("k")], dtype=np.int64))
    rewrite.add_copy([rewrite.input(0), top_count_constant], drop=("k",))


def scatter_11(rewrite: Rewrite) -> None:
    """Replace Scatter by ScatterElements, its new name."""
    rewrite.add_node(
        "ScatterElements",
        rewrite.node.input,
        to=rewrite.output(),
        axis=rewrite.attribute("axis", 0),
    )


def upsample_7(rewrite: Rewrite) -> None:
    """Upgrade Upsample: turn the two scales into one list of scales for all axes."""
    scales = [1.0, 1.0, rewrite.attribute("height_scale"), rewrite.attribute("width_scale")]
    rewrite.add_copy(drop=("height_scale", "width_scale"), scales=scales)


def upsample_9(rewrite: Rewrite) -> None:
    """Upgrade Upsample: turn the scales into an input."""
    scales = rewrite.add_constant(np.array(rewrite.attribute("scales"), dtype=np.float32))
    rewrite.add_copy([rewrite.input(0), scales], drop=("scales",))


def upsample_10(rewrite: Rewrite) -> None:
    """Replace Upsample by a Resize whose mode `nearest` rounds down."""
    _resize(rewrite, "floor")


def resize_11(rewrite: Rewrite) -> None:
    """Upgrade Resize: write opset 10's coordinate and rounding modes as attributes.

    The coordinates are x_original = x / scale.

    The mode `nearest` rounds down for an enlargement, and up for a reduction.
    """
    if rewrite.attribute("coordinate_transformation_mode") is not None:
        rewrite.add_copy()  # converted from an Upsample, in the new form already
        return
    constant_scales = rewrite.facts.constant_array(rewrite.input(1))
    if constant_scales is None and _resize_mode(rewrite) == "nearest":
        rewrite.refuse("its scales are only known when the model runs")
    scales = np.ones(1) if constant_scales is None else constant_scales
    has_enlarged_axis, has_reduced_axis = bool(np.any(scales > 1)), bool(np.any(scales < 1))
    if has_enlarged_axis and has_reduced_axis and _resize_mode(rewrite) == "nearest":
        rewrite.refuse("it makes one axis longer and another shorter in mode 'nearest'")
    _resize(rewrite, "ceil" if has_reduced_axis else "floor")


def _resize(rewrite: Rewrite, rounding: str) -> None:
    resize_mode = _resize_mode(rewrite)
    empty_region = rewrite.add_constant(np.zeros(0, dtype=np.float32))
    rewrite.add_node(
        "Resize",
        [rewrite.input(0), empty_region, rewrite.input(1)],
        to=rewrite.output(),
        mode=resize_mode,
        coordinate_transformation_mode="asymmetric",
        nearest_mode=rounding if resize_mode == "nearest" else None,
    )


def _resize_mode(rewrite: Rewrite) -> str:
    old_mode = str(rewrite.attribute("mode", "nearest"))
    return "linear" if old_mode == "bilinear" else old_mode
