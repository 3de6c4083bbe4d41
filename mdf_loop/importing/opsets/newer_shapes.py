"""Steps down to opset 17: operators that move, cut, join and resize; optionals."""

from __future__ import annotations

import numpy as np
import onnx

from mdf_loop.importing.opsets.rewrite import Rewrite

T = onnx.TensorProto


def split_18(r: Rewrite) -> None:
    """`num_outputs` parts: equal ones, a shorter last one; at 17 their lengths are listed."""
    count = r.get("num_outputs")
    if count is None:
        r.keep()
        return
    if count != len(r.node.output):
        r.refuse(f"num_outputs is {count}, but there are {len(r.node.output)} outputs")
    axis = r.get("axis", 0)
    shape = r.facts.shape(r.input(0))
    extent = shape[axis] if shape is not None else None
    if extent is not None and extent % count == 0:
        r.keep([r.input(0)], drop=("num_outputs",))
        return
    if extent is not None:
        part = -(-extent // count)
        lengths = r.ints([part] * (count - 1) + [extent - part * (count - 1)])
    else:
        lengths = _part_lengths(r, axis, count)
    r.keep([r.input(0), lengths], drop=("num_outputs",))


def _part_lengths(r: Rewrite, axis: int, count: int) -> str:
    whole = extent_of(r, r.input(0), axis)
    more = r.make("Add", [whole, r.ints([count - 1])])
    part = r.make("Div", [more, r.ints([count])])
    if count == 1:
        return whole
    all_but_last = r.make("Mul", [part, r.ints([count - 1])])
    last = r.make("Sub", [whole, all_but_last])
    return r.make("Concat", [part] * (count - 1) + [last], axis=0)


def extent_of(r: Rewrite, name: str, axis: int) -> str:
    """One extent of a value, as a list of one number."""
    end = axis + 1 if axis != -1 else None
    return r.make("Shape", [name], start=axis, end=end)


def pad_18(r: Rewrite) -> None:
    """Padding of some axes: the others get nothing."""
    axes = r.input(3)
    if not axes:
        r.keep([r.input(i) for i in range(3)])
        return
    rank = r.rank(r.input(0))
    if r.facts.value(axes) is None:
        last = r.ints([rank])
        chosen = r.make("Mod", [r.cast(axes, T.INT64), last])
        places = r.make("Concat", [chosen, r.make("Add", [chosen, last])], axis=0)
    else:
        known = [axis % rank for axis in r.numbers(axes)]
        places = r.ints([*known, *(axis + rank for axis in known)])
    none = r.ints([0] * (2 * rank))
    pads = r.make("ScatterElements", [none, places, r.input(1)], axis=0)
    r.keep([r.input(0), pads, r.input(2)])


def pad_19(r: Rewrite) -> None:
    """Wrapping around: along each axis the indices are taken modulo its extent."""
    if r.get("mode", "constant") != "wrap":
        r.keep()
        return
    rank = r.rank(r.input(0))
    axes = r.numbers(r.input(3)) if r.input(3) else list(range(rank))
    value = r.input(0)
    one = r.constant(np.array(1, dtype=np.int64))
    for place, axis in enumerate(axes):
        extent = r.make("Squeeze", [extent_of(r, r.input(0), axis % rank)])
        before = r.make("Gather", [r.input(1), r.constant(np.array(place, np.int64))])
        after = r.make("Gather", [r.input(1), r.constant(np.array(place + len(axes), np.int64))])
        start = r.make("Neg", [before])
        indices = r.make("Range", [start, r.make("Add", [extent, after]), one])
        value = r.make("Gather", [value, r.make("Mod", [indices, extent])], axis=axis % rank)
    r.make("Identity", [value], to=r.output())


def resize_18(r: Rewrite) -> None:
    """Some axes: the others keep their extents. Antialiasing and kept ratios are new in 18.

    A node that keeps a ratio, which is that of its own axes, stays as it is.
    """
    if r.input(3) and r.get("keep_aspect_ratio_policy", "stretch") != "stretch":
        r.keep()
        return
    axes = r.get("axes")
    inputs = [r.input(i) for i in range(4)]
    if axes is not None:
        rank = r.rank(r.input(0))
        places = [axis % rank for axis in axes]
        inputs[1:] = _for_all_axes(r, places, rank)
    smooth = r.get("antialias", 0) and r.get("mode", "nearest") != "nearest"
    plain = () if smooth else ("antialias",)
    r.keep(inputs, drop=("axes", "keep_aspect_ratio_policy", *plain))


def _for_all_axes(r: Rewrite, places: list[int], rank: int) -> list[str]:
    region, scales, sizes = r.input(1), r.input(2), r.input(3)
    if region and r.get("coordinate_transformation_mode") == "tf_crop_and_resize":
        whole = r.constant(np.array([0] * rank + [1] * rank, dtype=np.float32))
        both = r.ints([*places, *(place + rank for place in places)])
        if r.dtype(region) != 1:
            r.refuse("its region is not float32")
        region = r.make("ScatterElements", [whole, both, region], axis=0)
    else:
        region = ""
    if scales:
        ones = r.constant(np.ones(rank, dtype=np.float32))
        scales = r.make("ScatterElements", [ones, r.ints(places), scales], axis=0)
    if sizes:
        extents = r.make("Shape", [r.input(0)])
        sizes = r.make("ScatterElements", [extents, r.ints(places), sizes], axis=0)
    return [region, scales, sizes]


def optional_get_element_18(r: Rewrite) -> None:
    """What is no optional is its own element."""
    found = r.facts.type(r.input(0))
    if found is None:
        r.refuse(f"the type of '{r.input(0)}' is not known")
    if found.HasField("optional_type"):
        r.keep()
    else:
        r.make("Identity", [r.input(0)], to=r.output())


def optional_has_element_18(r: Rewrite) -> None:
    """Nothing has no element; what is no optional has one."""
    found = r.facts.type(r.input(0)) if r.input(0) else None
    if r.input(0) and found is None:
        r.refuse(f"the type of '{r.input(0)}' is not known")
    if found is not None and found.HasField("optional_type"):
        r.keep()
    else:
        r.make("Identity", [r.constant(np.array(found is not None))], to=r.output())


def tensor_scatter(r: Rewrite) -> None:
    """Rows of the cache from `write_indices` on are those of the update."""
    cache, update = r.input(0), r.input(1)
    rank = r.rank(cache)
    axis = r.get("axis", -2) % rank
    length = r.make("Squeeze", [extent_of(r, update, axis)])
    zero, one = (r.constant(np.array(n, dtype=np.int64)) for n in (0, 1))
    places = r.make("Range", [zero, length, one])
    behind = r.ints(list(range(1, rank - axis)))
    if rank - axis > 1:
        places = r.make("Unsqueeze", [places, behind])
    if r.input(2):
        starts = r.make("Unsqueeze", [r.input(2), r.ints(list(range(1, rank)))])
        places = r.make("Add", [places, starts])
    if r.get("mode", "linear") == "circular":
        places = r.make("Mod", [places, extent_of(r, cache, axis)])
    places = r.make("Expand", [places, r.make("Shape", [update])])
    r.make("ScatterElements", [cache, places, update], to=r.output(), axis=axis)
