"""Upgrades of ONNX operators to opset 17: operators that move, split and join."""

from __future__ import annotations

import numpy as np
from onnx import helper

from mdf_loop.importing.opsets.rewrite import Rewrite


def reshape_5(r: Rewrite) -> None:
    """Upgrade Reshape: turn the shape into an input."""
    shape = r.add_constant(np.array(r.get("shape", ()), dtype=np.int64))
    r.add_copy([r.input(0), shape], drop=("shape", "consumed_inputs"))


def concat_4(r: Rewrite) -> None:
    """Upgrade Concat: write axis 1, the default of opset 1."""
    r.add_copy(axis=r.get("axis", 1))


def split_2(r: Rewrite) -> None:
    """Upgrade Split: turn the lengths of the parts into an attribute, and write the default axis 0."""
    part_lengths = r.get("split")
    if r.input(1):
        part_lengths = r.numbers(r.input(1))
    split_attribute = {} if part_lengths is None else {"split": list(part_lengths)}
    r.add_copy([r.input(0)], axis=r.get("axis", 0), **split_attribute)


def split_13(r: Rewrite) -> None:
    """Upgrade Split: turn the lengths of the parts into an input."""
    part_lengths = r.get("split")
    inputs = [r.input(0)]
    if part_lengths is not None:
        inputs.append(r.add_constant(np.array(part_lengths, dtype=np.int64)))
    r.add_copy(inputs, drop=("split",))


def pad_2(r: Rewrite) -> None:
    """Upgrade Pad: rename `paddings` to `pads`."""
    r.add_copy(drop=("paddings",), pads=r.get("paddings"))


def pad_11(r: Rewrite) -> None:
    """Upgrade Pad: turn the padding lengths and the filling value into inputs."""
    inputs = [r.input(0), r.add_constant(np.array(r.get("pads"), dtype=np.int64))]
    fill_value = r.get("value", 0.0)
    if fill_value:
        dtype = helper.tensor_dtype_to_np_dtype(r.dtype(r.input(0)))
        inputs.append(r.add_constant(np.array(fill_value).astype(dtype)))
    r.add_copy(inputs, drop=("pads", "value"))


def slice_10(r: Rewrite) -> None:
    """Upgrade Slice: turn starts, ends and axes into inputs."""
    attribute_names = ("starts", "ends", "axes")
    index_lists = [
        r.get(attribute_name)
        for attribute_name in attribute_names
        if r.get(attribute_name) is not None
    ]
    r.add_copy(
        [r.input(0), *(r.add_ints(indices) for indices in index_lists)], drop=attribute_names
    )


def tile_6(r: Rewrite) -> None:
    """Upgrade Tile: turn one axis and its repeats into a list of repeats for all axes."""
    (repeat_count,), (axis,) = r.numbers(r.input(1)), r.numbers(r.input(2))
    repeats = np.ones(r.rank(r.input(0)), dtype=np.int64)
    repeats[axis] = repeat_count
    r.add_copy([r.input(0), r.add_constant(repeats)])


def top_k_10(r: Rewrite) -> None:
    """Upgrade TopK: turn the count into an input."""
    top_count = r.add_constant(np.array([r.get("k")], dtype=np.int64))
    r.add_copy([r.input(0), top_count], drop=("k",))


def scatter_11(r: Rewrite) -> None:
    """Replace Scatter by ScatterElements, its new name."""
    r.add("ScatterElements", r.node.input, to=r.output(), axis=r.get("axis", 0))


def upsample_7(r: Rewrite) -> None:
    """Upgrade Upsample: turn the two scales into one list of scales for all axes."""
    scales = [1.0, 1.0, r.get("height_scale"), r.get("width_scale")]
    r.add_copy(drop=("height_scale", "width_scale"), scales=scales)


def upsample_9(r: Rewrite) -> None:
    """Upgrade Upsample: turn the scales into an input."""
    scales = r.add_constant(np.array(r.get("scales"), dtype=np.float32))
    r.add_copy([r.input(0), scales], drop=("scales",))


def upsample_10(r: Rewrite) -> None:
    """Replace Upsample by a Resize whose mode `nearest` rounds down."""
    _resize(r, "floor")


def resize_11(r: Rewrite) -> None:
    """Upgrade Resize: write the attributes for the coordinates and the rounding of opset 10.

    The coordinates are x_original = x / scale.

    The mode `nearest` rounds down for an enlargement, and up for a reduction.
    """
    if r.get("coordinate_transformation_mode") is not None:
        r.add_copy()  # converted from an Upsample, in the new form already
        return
    constant_scales = r.facts.value(r.input(1))
    if constant_scales is None and _resize_mode(r) == "nearest":
        r.refuse("its scales are only known when the model runs")
    scales = np.ones(1) if constant_scales is None else constant_scales
    enlarges, reduces = bool(np.any(scales > 1)), bool(np.any(scales < 1))
    if enlarges and reduces and _resize_mode(r) == "nearest":
        r.refuse("it makes one axis longer and another shorter in mode 'nearest'")
    _resize(r, "ceil" if reduces else "floor")


def _resize(r: Rewrite, rounding: str) -> None:
    mode = _resize_mode(r)
    no_region = r.add_constant(np.zeros(0, dtype=np.float32))
    r.add(
        "Resize",
        [r.input(0), no_region, r.input(1)],
        to=r.output(),
        mode=mode,
        coordinate_transformation_mode="asymmetric",
        nearest_mode=rounding if mode == "nearest" else None,
    )


def _resize_mode(r: Rewrite) -> str:
    mode = str(r.get("mode", "nearest"))
    return "linear" if mode == "bilinear" else mode
