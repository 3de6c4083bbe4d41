"""Decomposition of Col2Im into the sum of the windows of an image."""

from __future__ import annotations

import functools
import itertools
from typing import TYPE_CHECKING

from mdf_loop.errors import UnsupportedError
from mdf_loop.ir import Op, Value
from mdf_loop.ops.build_helpers import ints
from mdf_loop.ops.decompositions.build_helpers import operand
from mdf_loop.ops.decompositions.windows import Windows, pad_axes

if TYPE_CHECKING:
    from mdf_loop.build import Builder


def columns_to_image(b: Builder, op: Op) -> Value:
    """Build Col2Im as the sum of one image for each position in the window.

    Each image contains the element at this position of all windows, without elements outside of the image.

    Source: ONNX operators, Col2Im-18.
    """
    image, windows = _geometry(b, op)
    lengths = [
        (n + first + last - reach) // stride + 1
        for n, first, last, reach, stride in zip(
            image, windows.before, windows.after, windows.reach, windows.strides, strict=True
        )
    ]
    places = list(itertools.product(*map(range, windows.kernel)))
    shape = ints(b, 0, -1, len(places), *lengths)
    columns = b.op("Reshape", operand(op), shape)
    parts = []
    for number, place in enumerate(places):
        part = b.op("Gather", columns, ints(b, number), axis=2)
        part = b.op("Squeeze", part, ints(b, 2))
        parts.append(_place_in_image(b, part, lengths, place, image, windows))
    added = "Or" if parts[0].dtype == "bool" else "Add"
    return functools.reduce(lambda total, part: b.op(added, total, part), parts)


def _geometry(b: Builder, op: Op) -> tuple[tuple[int, ...], Windows]:
    image, kernel = (b.constant_of(operand(op, k)) for k in (1, 2))
    if image is None or kernel is None:
        raise UnsupportedError(
            f"onnx::Col2Im in {operand(op).dtype} needs image and window extents that are known"
        )
    axes = kernel.size
    pads = tuple(op.attributes.get("pads") or (0,) * 2 * axes)
    strides, dilations = (
        tuple(op.attributes.get(name) or (1,) * axes) for name in ("strides", "dilations")
    )
    windows = Windows(tuple(kernel.tolist()), strides, dilations, pads[:axes], pads[axes:])
    return tuple(image.tolist()), windows


def _place_in_image(
    b: Builder,
    part: Value,
    lengths: list[int],
    place: tuple[int, ...],
    image: tuple[int, ...],
    windows: Windows,
) -> Value:
    """Build an image with one element of each window at its position, and zeros elsewhere."""
    extents = list(lengths)
    for axis, stride in enumerate(windows.strides):
        if stride > 1:
            apart = b.op("Unsqueeze", part, ints(b, 3 + axis))
            apart = pad_axes(b, apart, [0], [stride - 1], first=3 + axis)
            extents[axis] *= stride
            part = b.op("Reshape", apart, ints(b, 0, 0, *extents))
    before = [
        k * d - first for k, d, first in zip(place, windows.dilations, windows.before, strict=True)
    ]
    after = [n - first - own for n, first, own in zip(image, before, extents, strict=True)]
    return pad_axes(b, part, before, after)
