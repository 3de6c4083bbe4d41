"""Steps up to opset 17: operators that move, cut and join."""

from __future__ import annotations

import numpy as np
from onnx import helper

from mdf_loop.importing.opsets.rewrite import Rewrite


def reshape_5(r: Rewrite) -> None:
    """The shape becomes an input."""
    shape = r.constant(np.array(r.get("shape", ()), dtype=np.int64))
    r.keep([r.input(0), shape], drop=("shape", "consumed_inputs"))


def concat_4(r: Rewrite) -> None:
    """Opset 1 joined along axis 1 where nothing is written."""
    r.keep(axis=r.get("axis", 1))


def split_2(r: Rewrite) -> None:
    """The lengths of the parts become an attribute, axis 0 the default."""
    lengths = r.get("split")
    if r.input(1):
        lengths = r.numbers(r.input(1))
    given = {} if lengths is None else {"split": list(lengths)}
    r.keep([r.input(0)], axis=r.get("axis", 0), **given)


def split_13(r: Rewrite) -> None:
    """The lengths of the parts become an input."""
    lengths = r.get("split")
    inputs = [r.input(0)]
    if lengths is not None:
        inputs.append(r.constant(np.array(lengths, dtype=np.int64)))
    r.keep(inputs, drop=("split",))


def pad_2(r: Rewrite) -> None:
    """`paddings` is called `pads`."""
    r.keep(drop=("paddings",), pads=r.get("paddings"))


def pad_11(r: Rewrite) -> None:
    """The lengths and the filling value become inputs."""
    inputs = [r.input(0), r.constant(np.array(r.get("pads"), dtype=np.int64))]
    value = r.get("value", 0.0)
    if value:
        dtype = helper.tensor_dtype_to_np_dtype(r.dtype(r.input(0)))
        inputs.append(r.constant(np.array(value).astype(dtype)))
    r.keep(inputs, drop=("pads", "value"))


def slice_10(r: Rewrite) -> None:
    """Starts, ends and axes become inputs."""
    words = ("starts", "ends", "axes")
    given = [r.get(word) for word in words if r.get(word) is not None]
    r.keep([r.input(0), *(r.ints(numbers) for numbers in given)], drop=words)


def tile_6(r: Rewrite) -> None:
    """One axis and a number of tiles become a number for every axis."""
    (tiles,), (axis,) = r.numbers(r.input(1)), r.numbers(r.input(2))
    repeats = np.ones(r.rank(r.input(0)), dtype=np.int64)
    repeats[axis] = tiles
    r.keep([r.input(0), r.constant(repeats)])


def top_k_10(r: Rewrite) -> None:
    """The count becomes an input."""
    count = r.constant(np.array([r.get("k")], dtype=np.int64))
    r.keep([r.input(0), count], drop=("k",))


def scatter_11(r: Rewrite) -> None:
    """Scatter is called ScatterElements."""
    r.make("ScatterElements", r.node.input, to=r.output(), axis=r.get("axis", 0))


def upsample_7(r: Rewrite) -> None:
    """One list of scales for all axes."""
    scales = [1.0, 1.0, r.get("height_scale"), r.get("width_scale")]
    r.keep(drop=("height_scale", "width_scale"), scales=scales)


def upsample_9(r: Rewrite) -> None:
    """The scales become an input."""
    scales = r.constant(np.array(r.get("scales"), dtype=np.float32))
    r.keep([r.input(0), scales], drop=("scales",))


def upsample_10(r: Rewrite) -> None:
    """Upsample is a Resize that only makes longer: nearest rounds down."""
    _resize(r, "floor")


def resize_11(r: Rewrite) -> None:
    """Before 11: x_original = x / scale; nearest rounds down going up and up going down."""
    if r.get("coordinate_transformation_mode") is not None:
        r.keep()  # an Upsample: already in the new form
        return
    known = r.facts.value(r.input(1))
    if known is None and _mode(r) == "nearest":
        r.refuse("its scales are only known when the model runs")
    scales = np.ones(1) if known is None else known
    longer, shorter = bool(np.any(scales > 1)), bool(np.any(scales < 1))
    if longer and shorter and _mode(r) == "nearest":
        r.refuse("it makes one axis longer and another shorter in mode 'nearest'")
    _resize(r, "ceil" if shorter else "floor")


def _resize(r: Rewrite, rounding: str) -> None:
    mode = _mode(r)
    no_region = r.constant(np.zeros(0, dtype=np.float32))
    r.make(
        "Resize",
        [r.input(0), no_region, r.input(1)],
        to=r.output(),
        mode=mode,
        coordinate_transformation_mode="asymmetric",
        nearest_mode=rounding if mode == "nearest" else None,
    )


def _mode(r: Rewrite) -> str:
    mode = str(r.get("mode", "nearest"))
    return "linear" if mode == "bilinear" else mode
