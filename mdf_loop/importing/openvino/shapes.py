"""Conversion of OpenVINO layers that move, join, split and repeat elements.

Source: OpenVINO operation sets, groups "Data movement" and "Shape manipulation".
"""

from __future__ import annotations

import numpy as np

from mdf_loop.errors import ModelError
from mdf_loop.importing.openvino.call import LayerCall, Result, cast, int64_array, layer
from mdf_loop.importing.openvino.elements import dtype_of_type
from mdf_loop.importing.openvino.place import Term, op, op_outputs

_INDEX_BEFORE_FIRST = np.iinfo(np.int64).min
"""End of a backward slice that includes the first element."""


@layer("MatMul")
def _matmul(call: LayerCall) -> Result:
    operands: list[Term] = []
    for input_index, attribute_key in enumerate(("transpose_a", "transpose_b")):
        operand: Term = call.input(input_index)
        if call.read_bool(attribute_key, False) and call.rank(input_index) > 1:
            rank = call.rank(input_index)
            operand = op("Transpose", operand, perm=[*range(rank - 2), rank - 1, rank - 2])
        operands.append(operand)
    return op("MatMul", *operands)


@layer("Einsum")
def _einsum(call: LayerCall) -> Result:
    return op("Einsum", *call.inputs(), equation=call.text("equation"))


@layer("Concat")
def _concat(call: LayerCall) -> Result:
    return op("Concat", *call.inputs(), axis=call.read_integer("axis"))


@layer("Gather")
def _gather(call: LayerCall) -> Result:
    if call.read_integer("batch_dims", 0) != 0:
        raise call.unsupported("with batch_dims cannot be read")
    indices: Term = call.input(1)
    if not call.is_of(1, "int32", "int64"):
        indices = cast(indices, "int64")
    return op("Gather", call.input(0), indices, axis=call.axis(2))


@layer("GatherElements")
def _gather_elements(call: LayerCall) -> Result:
    return op("GatherElements", call.input(0), call.input(1), axis=call.read_integer("axis"))


@layer("GatherND")
def _gather_nd(call: LayerCall) -> Result:
    batch_axes = call.read_integer("batch_dims", 0)
    if batch_axes and call.layer.opset == "opset5":
        raise call.unsupported("with batch_dims cannot be read")
    return op("GatherND", call.input(0), cast(call.input(1), "int64"), batch_dims=batch_axes)


@layer("ScatterNDUpdate")
def _scatter_nd(call: LayerCall) -> Result:
    if call.text("reduction", "none") != "none":
        raise call.unsupported("with a reduction cannot be read")
    return op("ScatterND", call.input(0), cast(call.input(1), "int64"), call.input(2))


@layer("ScatterElementsUpdate")
def _scatter_elements(call: LayerCall) -> Result:
    if call.text("reduction", "none") != "none":
        raise call.unsupported("with a reduction cannot be read")
    axis = call.axis(3)
    return op("ScatterElements", call.input(0), call.input(1), call.input(2), axis=axis)


@layer("Reshape")
def _reshape(call: LayerCall) -> Result:
    """Convert Reshape. With `special_zero`, an extent of 0 keeps the extent of the input."""
    zero_keeps_extent = call.read_bool("special_zero")
    constant_shape = call.constant_value(1)
    allowzero = (
        0 if zero_keeps_extent or (constant_shape is not None and np.all(constant_shape)) else 1
    )
    return op("Reshape", call.input(0), call.int64(1), allowzero=allowzero)


@layer("Squeeze")
def _squeeze(call: LayerCall) -> Result:
    axes = call.int64(1) if call.count > 1 else None
    return op("Squeeze", call.input(0), axes)


@layer("Unsqueeze")
def _unsqueeze(call: LayerCall) -> Result:
    return op("Unsqueeze", call.input(0), call.int64(1))


@layer("Transpose")
def _transpose(call: LayerCall) -> Result:
    """Convert Transpose. An empty order reverses the axes."""
    axis_order = [int(axis) for axis in call.require_constant(1, "order").reshape(-1)]
    return (
        op("Transpose", call.input(0), perm=axis_order)
        if axis_order
        else op("Transpose", call.input(0))
    )


@layer("ShapeOf")
def _shape_of(call: LayerCall) -> Result:
    dtype = dtype_of_type(call.text("output_type", "i64"), call.layer.where)
    shape = op("Shape", call.input(0))
    return shape if dtype == "int64" else cast(shape, dtype)


@layer("Broadcast")
def _broadcast(call: LayerCall) -> Result:
    """Convert Broadcast, including the mode `explicit` with `axes_mapping`.

    In the mode `explicit`, `axes_mapping` has the new positions of the axes.
    """
    mode = call.choice(
        "mode", {"numpy": "numpy", "bidirectional": "both", "explicit": "explicit"}, "numpy"
    )
    x: Term = call.input(0)
    if mode == "explicit":
        x = _add_mapped_axes(call)
    return op("Expand", x, call.int64(1))


def _add_mapped_axes(call: LayerCall) -> Term:
    mapped_axes = [int(axis) for axis in call.require_constant(2, "axes_mapping").reshape(-1)]
    rank = call.length(1, "axes")
    if mapped_axes != sorted(set(mapped_axes)):
        raise ModelError("the axes_mapping of a Broadcast must go up", call.layer.where)
    new_axes = [axis for axis in range(rank) if axis not in mapped_axes]
    if call.shape(0) == (1,) and not mapped_axes:
        return call.input(0)
    return op("Unsqueeze", call.input(0), int64_array(*new_axes)) if new_axes else call.input(0)


@layer("Tile")
def _tile(call: LayerCall) -> Result:
    """Convert Tile, and pad the shorter of shape and repeats with leading ones."""
    x: Term = call.input(0)
    repeats: Term = call.int64(1)
    repeat_count, rank = call.length(1, "repeats"), call.rank(0)
    if repeat_count < rank:
        repeats = concatenate_lists(int64_array(*(1,) * (rank - repeat_count)), repeats)
    elif repeat_count > rank:
        x = op("Unsqueeze", x, int64_array(*range(repeat_count - rank)))
    return op("Tile", x, repeats)


@layer("Pad")
def _pad(call: LayerCall) -> Result:
    mode = call.choice("pad_mode", {"constant": "constant", "edge": "edge", "reflect": "reflect"})
    pads = concatenate_lists(call.int64(1), call.int64(2))
    fill_value: Term | None = call.optional(3) if mode == "constant" else None
    if fill_value is not None:
        fill_value = op("Reshape", fill_value, int64_array())
    return op("Pad", call.input(0), pads, fill_value, mode=mode)


# --- parts ------------------------------------------------------------------------------------


@layer("Split")
def _split(call: LayerCall) -> Result:
    """Convert Split into `num_splits` equal parts."""
    axis, part_count = call.axis(1), call.read_integer("num_splits")
    if part_count != len(call.layer.outputs) or part_count < 1:
        raise ModelError(
            f"num_splits is {part_count}, but there are {len(call.layer.outputs)} outputs",
            call.layer.where,
        )
    if part_count == 1:
        return call.input(0)
    shape = call.shape(0)
    if shape is not None and -len(shape) <= axis < len(shape) and shape[axis] is not None:
        extent = int(shape[axis] or 0)
        if extent % part_count:
            raise ModelError(
                f"{extent} cannot be split in {part_count} equal parts", call.layer.where
            )
        return _split_outputs(
            call, axis, int64_array(*(extent // part_count,) * part_count), part_count
        )
    part_length = op("Div", element_at(op("Shape", call.input(0)), axis), int64_array(part_count))
    return _split_outputs(
        call, axis, op("Expand", part_length, int64_array(part_count)), part_count
    )


@layer("VariadicSplit")
def _variadic_split(call: LayerCall) -> Result:
    """Convert VariadicSplit. A part length of -1 means all remaining elements."""
    axis, part_count = call.axis(1), len(call.layer.outputs)
    lengths = call.constant_value(2)
    if lengths is None:
        return _split_outputs(
            call, axis, op("Reshape", call.int64(2), int64_array(part_count)), part_count
        )
    lengths = lengths.astype(np.int64).reshape(-1)
    if lengths.size != part_count:
        raise ModelError(f"{lengths.size} lengths, but {part_count} outputs", call.layer.where)
    if not np.any(lengths == -1):
        return _split_outputs(call, axis, lengths, part_count)
    known_length = lengths[lengths != -1].sum()
    extent = element_at(op("Shape", call.input(0)), axis)
    remaining_length = op("Sub", extent, int64_array(int(known_length)))
    all_lengths = op("Where", lengths == -1, remaining_length, lengths)
    return _split_outputs(call, axis, all_lengths, part_count)


def _split_outputs(call: LayerCall, axis: int, lengths: Term, count: int) -> Result:
    return op_outputs(count, "Split", call.input(0), lengths, axis=axis)


@layer("Slice")
def _slice(call: LayerCall) -> Result:
    start, stop, step = (call.int64(input_index) for input_index in (1, 2, 3))
    slice_axes = call.int64(4) if call.count > 4 else None
    return op("Slice", call.input(0), start, stop, slice_axes, step)


@layer("Reverse")
def _reverse(call: LayerCall) -> Result:
    """Convert Reverse, whose axes are listed by index or by a boolean mask."""
    axis_numbers = call.require_constant(1, "axes").reshape(-1)
    if call.choice("mode", {"index": False, "mask": True}):
        axis_numbers = np.flatnonzero(axis_numbers)
    axes = axis_numbers.astype(np.int64)
    if not axes.size:
        return call.input(0)
    steps = np.full(axes.size, -1, np.int64)
    return op(
        "Slice",
        call.input(0),
        steps,
        np.full(axes.size, _INDEX_BEFORE_FIRST, np.int64),
        axes,
        steps,
    )


@layer("DepthToSpace")
def _depth_to_space(call: LayerCall) -> Result:
    mode = call.choice("mode", {"blocks_first": "DCR", "depth_first": "CRD"})
    return op(
        "DepthToSpace", call.input(0), blocksize=call.read_integer("block_size", 1), mode=mode
    )


@layer("ReverseSequence")
def _reverse_sequence(call: LayerCall) -> Result:
    rank = call.rank(0)
    batch_axis, time_axis = (
        call.read_integer("batch_axis", 0) % rank,
        call.read_integer("seq_axis", 1) % rank,
    )
    if {batch_axis, time_axis} != {0, 1}:
        raise call.unsupported("with other axes than the first two cannot be read")
    lengths = cast(call.input(1), "int64")
    return op("ReverseSequence", call.input(0), lengths, batch_axis=batch_axis, time_axis=time_axis)


def element_at(value: Term, position: int) -> Term:
    """Return one element of a list of integers, as a list of length 1."""
    if isinstance(value, np.ndarray):
        return value[position : position + 1]
    return op("Gather", value, int64_array(position), axis=0)


def concatenate_lists(*lists: Term) -> Term:
    """Concatenate lists of integers."""
    constants = [list_term for list_term in lists if isinstance(list_term, np.ndarray)]
    if len(constants) == len(lists):
        return np.concatenate(constants)
    return op("Concat", *lists, axis=0)
