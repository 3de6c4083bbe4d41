"""Random operations on whole arrays along an axis, with exact results, for native loops in steps."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from hypothesis import strategies as st

from mdf_loop.build import Builder
from mdf_loop.ir import Value, is_fixed

Draw = st.DrawFn
Whole = Callable[[Draw, Builder, Value, int], Value]
"""Function `(draw, b, x, axis)` that appends an operation on `x` along `axis`."""


def numbers(b: Builder, *integers: int) -> Value:
    return b.constant(np.array(integers, np.int64))


def _shape(x: Value) -> tuple[int, ...]:
    assert is_fixed(x.shape)
    return x.shape


def positions(draw: Draw, b: Builder, x: Value, extent: int) -> Value:
    """Return integers of the shape of x that depend on x; few of them are out of range."""
    whole = b.op("Cast", x, to=draw(st.sampled_from([6, 7])))
    if draw(st.integers(0, 9)):
        many = b.constant(np.array(extent, whole.dtype))
        whole = b.op("Mod", whole, many)
        if draw(st.booleans()):
            whole = b.op("Sub", whole, many)
    return whole


def running_sum(draw: Draw, b: Builder, x: Value, axis: int) -> Value:
    flags = {name: draw(st.integers(0, 1)) for name in ("exclusive", "reverse")}
    return b.op("CumSum", x, b.constant(np.array(axis)), **flags)


def place(draw: Draw, b: Builder, x: Value, axis: int) -> Value:
    attributes = {name: draw(st.integers(0, 1)) for name in ("keepdims", "select_last_index")}
    if x.dtype.startswith("float"):  # of nan the place is open
        x = b.op("Where", b.op("IsNaN", x), b.constant(np.zeros((), x.dtype)), x)
    return b.op(draw(st.sampled_from(["ArgMax", "ArgMin"])), x, axis=axis, **attributes)


def gather_elements(draw: Draw, b: Builder, x: Value, axis: int) -> Value:
    return b.op("GatherElements", x, positions(draw, b, x, _shape(x)[axis]), axis=axis)


def scatter_elements(draw: Draw, b: Builder, x: Value, axis: int) -> Value:
    more = draw(st.sampled_from(["none", "none", "add", "mul"]))
    where = positions(draw, b, x, _shape(x)[axis])
    attributes = {} if more == "none" or x.dtype == "bool" else {"reduction": more}
    return b.op("ScatterElements", x, where, b.op("Identity", x), axis=axis, **attributes)


def _rows_of_positions(draw: Draw, b: Builder, x: Value, axis: int) -> Value:
    """Return index rows for elements of the last axis of x, with an index for each axis before `axis`."""
    first = b.op("Reshape", x, numbers(b, -1))
    extents = _shape(x)[: axis + 1]
    last = _shape(x)[-1]
    some = b.op("Slice", first, numbers(b, 0), numbers(b, last))
    columns = [
        b.op("Unsqueeze", b.op("Cast", positions(draw, b, some, e), to=7), numbers(b, 1))
        for e in extents
    ]
    return b.op("Concat", *columns, axis=1)


def gather_nd(draw: Draw, b: Builder, x: Value, axis: int) -> Value:
    return b.op("GatherND", x, _rows_of_positions(draw, b, x, axis))


def scatter_nd(draw: Draw, b: Builder, x: Value, axis: int) -> Value:
    where = _rows_of_positions(draw, b, x, axis)
    slices = b.op("GatherND", x, where)
    return b.op("ScatterND", x, where, b.op("Identity", slices))


def gather(draw: Draw, b: Builder, x: Value, axis: int) -> Value:
    """Append a gather at one or several indices."""
    flat = b.op("Reshape", x, numbers(b, -1))
    count = draw(st.integers(1, min(3, math.prod(_shape(x)))))
    some = b.op("Slice", flat, numbers(b, 0), numbers(b, count))
    if count == 1 and draw(st.booleans()):
        some = b.op("Squeeze", some, numbers(b, 0))
    return b.op("Gather", x, positions(draw, b, some, _shape(x)[axis]), axis=axis)


def lower_part(draw: Draw, b: Builder, x: Value, axis: int) -> Value:
    matrix = x if len(_shape(x)) > 1 else b.op("Unsqueeze", x, numbers(b, 0))
    return b.op("Trilu", matrix, b.constant(np.array(draw(st.integers(-2, 2)))), upper=0)


def padded(draw: Draw, b: Builder, x: Value, axis: int) -> Value:
    pads = [0] * (2 * len(_shape(x)))
    pads[axis], pads[axis - len(_shape(x))] = draw(st.integers(0, 2)), draw(st.integers(0, 2))
    return b.op("Pad", x, numbers(b, *pads))


def tiled(draw: Draw, b: Builder, x: Value, axis: int) -> Value:
    times = [2 if k == axis else 1 for k in range(len(_shape(x)))]
    return b.op("Tile", x, numbers(b, *times))


def split(draw: Draw, b: Builder, x: Value, axis: int) -> Value:
    extent = _shape(x)[axis]
    if extent == 1:
        return x
    first = draw(st.integers(1, extent - 1))
    parts = b.multi("Split", x, numbers(b, first, extent - first), output_count=2, axis=axis)
    return draw(st.sampled_from(parts))


OF_ALL: tuple[Whole, ...] = (
    *(gather_elements, scatter_elements, gather_nd, scatter_nd, gather),
    *(lower_part, padded, tiled, split),
)
"""Operations that only move elements, for every dtype."""

OF_NUMBERS: tuple[Whole, ...] = (running_sum, place)
"""Operations for floats, int64 and int32."""
