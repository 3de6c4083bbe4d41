"""Layers that move, join, cut and repeat: shapes and places, never numbers.

Source: OpenVINO operation sets, groups "Data movement" and "Shape manipulation".
"""

from __future__ import annotations

import numpy as np

from mdf_loop.errors import ModelError
from mdf_loop.importing.openvino.call import Call, Result, cast, layer, whole_list
from mdf_loop.importing.openvino.elements import dtype_of_type
from mdf_loop.importing.openvino.place import Term, op, parts

_FIRST = np.iinfo(np.int64).min
"""An end before the first element."""


@layer("MatMul")
def _matmul(call: Call) -> Result:
    sides: list[Term] = []
    for position, key in enumerate(("transpose_a", "transpose_b")):
        side: Term = call.input(position)
        if call.truth(key, False) and call.rank(position) > 1:
            rank = call.rank(position)
            side = op("Transpose", side, perm=[*range(rank - 2), rank - 1, rank - 2])
        sides.append(side)
    return op("MatMul", *sides)


@layer("Einsum")
def _einsum(call: Call) -> Result:
    return op("Einsum", *call.inputs(), equation=call.text("equation"))


@layer("Concat")
def _concat(call: Call) -> Result:
    return op("Concat", *call.inputs(), axis=call.whole("axis"))


@layer("Gather")
def _gather(call: Call) -> Result:
    if call.whole("batch_dims", 0) != 0:
        raise call.refused("with batch_dims cannot be read")
    indices: Term = call.input(1)
    if not call.is_of(1, "int32", "int64"):
        indices = cast(indices, "int64")
    return op("Gather", call.input(0), indices, axis=call.axis(2))


@layer("GatherElements")
def _gather_elements(call: Call) -> Result:
    return op("GatherElements", call.input(0), call.input(1), axis=call.whole("axis"))


@layer("GatherND")
def _gather_nd(call: Call) -> Result:
    dims = call.whole("batch_dims", 0)
    if dims and call.layer.opset == "opset5":
        raise call.refused("with batch_dims cannot be read")
    return op("GatherND", call.input(0), cast(call.input(1), "int64"), batch_dims=dims)


@layer("ScatterNDUpdate")
def _scatter_nd(call: Call) -> Result:
    if call.text("reduction", "none") != "none":
        raise call.refused("with a reduction cannot be read")
    return op("ScatterND", call.input(0), cast(call.input(1), "int64"), call.input(2))


@layer("ScatterElementsUpdate")
def _scatter_elements(call: Call) -> Result:
    if call.text("reduction", "none") != "none":
        raise call.refused("with a reduction cannot be read")
    axis = call.axis(3)
    return op("ScatterElements", call.input(0), call.input(1), call.input(2), axis=axis)


@layer("Reshape")
def _reshape(call: Call) -> Result:
    """With `special_zero`, 0 keeps an extent; without, it is an extent of 0."""
    kept = call.truth("special_zero")
    wanted = call.known(1)
    zeros = 0 if kept or (wanted is not None and np.all(wanted)) else 1
    return op("Reshape", call.input(0), call.int64(1), allowzero=zeros)


@layer("Squeeze")
def _squeeze(call: Call) -> Result:
    axes = call.int64(1) if call.count > 1 else None
    return op("Squeeze", call.input(0), axes)


@layer("Unsqueeze")
def _unsqueeze(call: Call) -> Result:
    return op("Unsqueeze", call.input(0), call.int64(1))


@layer("Transpose")
def _transpose(call: Call) -> Result:
    """An empty order turns the axes around."""
    order = [int(axis) for axis in call.fixed(1, "order").reshape(-1)]
    return op("Transpose", call.input(0), perm=order) if order else op("Transpose", call.input(0))


@layer("ShapeOf")
def _shape_of(call: Call) -> Result:
    dtype = dtype_of_type(call.text("output_type", "i64"), call.layer.where)
    shape = op("Shape", call.input(0))
    return shape if dtype == "int64" else cast(shape, dtype)


@layer("Broadcast")
def _broadcast(call: Call) -> Result:
    """To a shape; with `explicit`, the axes of the value go where `axes_mapping` says."""
    mode = call.choice(
        "mode", {"numpy": "numpy", "bidirectional": "both", "explicit": "explicit"}, "numpy"
    )
    value: Term = call.input(0)
    if mode == "explicit":
        value = _spread(call)
    return op("Expand", value, call.int64(1))


def _spread(call: Call) -> Term:
    mapping = [int(axis) for axis in call.fixed(2, "axes_mapping").reshape(-1)]
    rank = call.length(1, "axes")
    if mapping != sorted(set(mapping)):
        raise ModelError("the axes_mapping of a Broadcast must go up", call.layer.where)
    new = [axis for axis in range(rank) if axis not in mapping]
    if call.shape(0) == (1,) and not mapping:
        return call.input(0)
    return op("Unsqueeze", call.input(0), whole_list(*new)) if new else call.input(0)


@layer("Tile")
def _tile(call: Call) -> Result:
    """The shorter of shape and repeats gets ones in front."""
    value: Term = call.input(0)
    repeats: Term = call.int64(1)
    count, rank = call.length(1, "repeats"), call.rank(0)
    if count < rank:
        repeats = joined(whole_list(*(1,) * (rank - count)), repeats)
    elif count > rank:
        value = op("Unsqueeze", value, whole_list(*range(count - rank)))
    return op("Tile", value, repeats)


@layer("Pad")
def _pad(call: Call) -> Result:
    mode = call.choice("pad_mode", {"constant": "constant", "edge": "edge", "reflect": "reflect"})
    pads = joined(call.int64(1), call.int64(2))
    fill: Term | None = call.optional(3) if mode == "constant" else None
    if fill is not None:
        fill = op("Reshape", fill, whole_list())
    return op("Pad", call.input(0), pads, fill, mode=mode)


# --- parts ------------------------------------------------------------------------------------


@layer("Split")
def _split(call: Call) -> Result:
    """`num_splits` equal parts."""
    axis, count = call.axis(1), call.whole("num_splits")
    if count != len(call.layer.outputs) or count < 1:
        raise ModelError(
            f"num_splits is {count}, but there are {len(call.layer.outputs)} outputs",
            call.layer.where,
        )
    if count == 1:
        return call.input(0)
    shape = call.shape(0)
    if shape is not None and -len(shape) <= axis < len(shape) and shape[axis] is not None:
        whole = int(shape[axis] or 0)
        if whole % count:
            raise ModelError(f"{whole} cannot be split in {count} equal parts", call.layer.where)
        return _parts(call, axis, whole_list(*(whole // count,) * count), count)
    each = op("Div", one(op("Shape", call.input(0)), axis), whole_list(count))
    return _parts(call, axis, op("Expand", each, whole_list(count)), count)


@layer("VariadicSplit")
def _variadic_split(call: Call) -> Result:
    """Parts of the stated lengths; -1 is what the others leave."""
    axis, count = call.axis(1), len(call.layer.outputs)
    lengths = call.known(2)
    if lengths is None:
        return _parts(call, axis, op("Reshape", call.int64(2), whole_list(count)), count)
    lengths = lengths.astype(np.int64).reshape(-1)
    if lengths.size != count:
        raise ModelError(f"{lengths.size} lengths, but {count} outputs", call.layer.where)
    if not np.any(lengths == -1):
        return _parts(call, axis, lengths, count)
    others = lengths[lengths != -1].sum()
    extent = one(op("Shape", call.input(0)), axis)
    rest = op("Sub", extent, whole_list(int(others)))
    shown = op("Where", lengths == -1, rest, lengths)
    return _parts(call, axis, shown, count)


def _parts(call: Call, axis: int, lengths: Term, count: int) -> Result:
    return parts(count, "Split", call.input(0), lengths, axis=axis)


@layer("Slice")
def _slice(call: Call) -> Result:
    start, stop, step = (call.int64(k) for k in (1, 2, 3))
    axes = call.int64(4) if call.count > 4 else None
    return op("Slice", call.input(0), start, stop, axes, step)


@layer("Reverse")
def _reverse(call: Call) -> Result:
    """Turned around along axes; in the mode `mask` a truth for each axis."""
    wanted = call.fixed(1, "axes").reshape(-1)
    if call.choice("mode", {"index": False, "mask": True}):
        wanted = np.flatnonzero(wanted)
    axes = wanted.astype(np.int64)
    if not axes.size:
        return call.input(0)
    back = np.full(axes.size, -1, np.int64)
    return op("Slice", call.input(0), back, np.full(axes.size, _FIRST, np.int64), axes, back)


@layer("DepthToSpace")
def _depth_to_space(call: Call) -> Result:
    mode = call.choice("mode", {"blocks_first": "DCR", "depth_first": "CRD"})
    return op("DepthToSpace", call.input(0), blocksize=call.whole("block_size", 1), mode=mode)


@layer("ReverseSequence")
def _reverse_sequence(call: Call) -> Result:
    rank = call.rank(0)
    batch, time = call.whole("batch_axis", 0) % rank, call.whole("seq_axis", 1) % rank
    if {batch, time} != {0, 1}:
        raise call.refused("with other axes than the first two cannot be read")
    lengths = cast(call.input(1), "int64")
    return op("ReverseSequence", call.input(0), lengths, batch_axis=batch, time_axis=time)


def one(value: Term, position: int) -> Term:
    """The element of a list at a position, as a list of one."""
    if isinstance(value, np.ndarray):
        return value[position : position + 1]
    return op("Gather", value, whole_list(position), axis=0)


def joined(*lists: Term) -> Term:
    """Lists of whole numbers, one behind the other."""
    constants = [part for part in lists if isinstance(part, np.ndarray)]
    if len(constants) == len(lists):
        return np.concatenate(constants)
    return op("Concat", *lists, axis=0)
