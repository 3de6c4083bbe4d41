"""Conversion of OpenVINO layers that move, join, split and repeat elements.

Source: OpenVINO operation sets, groups "Data movement" and "Shape manipulation".
"""

from __future__ import annotations

import numpy as np

from mdf_loop.errors import ModelError
from mdf_loop.importing.openvino.call import LayerCall, LayerOutputs, cast, int64_array, layer
from mdf_loop.importing.openvino.elements import dtype_of_type
from mdf_loop.importing.openvino.network_writer import Term, op, op_outputs

_INDEX_BEFORE_FIRST = np.iinfo(np.int64).min
"""End of a backward slice that includes the first element."""


@layer("MatMul")
def _matmul(layer_call: LayerCall) -> LayerOutputs:
    matrices: list[Term] = []
    for input_index, attribute_key in enumerate(("transpose_a", "transpose_b")):
        matrix: Term = layer_call.input(input_index)
        if layer_call.read_bool(attribute_key, False) and layer_call.rank(input_index) > 1:
            rank = layer_call.rank(input_index)
            matrix = op("Transpose", matrix, perm=[*range(rank - 2), rank - 1, rank - 2])
        matrices.append(matrix)
    return op("MatMul", *matrices)


@layer("Einsum")
def _einsum(layer_call: LayerCall) -> LayerOutputs:
    return op("Einsum", *layer_call.inputs(), equation=layer_call.read_text("equation"))


@layer("Concat")
def _concat(layer_call: LayerCall) -> LayerOutputs:
    return op("Concat", *layer_call.inputs(), axis=layer_call.read_integer("axis"))


@layer("Gather")
def _gather(layer_call: LayerCall) -> LayerOutputs:
    if layer_call.read_integer("batch_dims", 0) != 0:
        raise layer_call.unsupported_error("with batch_dims cannot be read")
    gather_indices: Term = layer_call.input(1)
    if not layer_call.has_declared_dtype(1, "int32", "int64"):
        gather_indices = cast(gather_indices, "int64")
    return op("Gather", layer_call.input(0), gather_indices, axis=layer_call.constant_axis(2))


@layer("GatherElements")
def _gather_elements(layer_call: LayerCall) -> LayerOutputs:
    return op(
        "GatherElements",
        layer_call.input(0),
        layer_call.input(1),
        axis=layer_call.read_integer("axis"),
    )


@layer("GatherND")
def _gather_nd(layer_call: LayerCall) -> LayerOutputs:
    batch_axis_count = layer_call.read_integer("batch_dims", 0)
    if batch_axis_count and layer_call.layer.opset == "opset5":
        raise layer_call.unsupported_error("with batch_dims cannot be read")
    return op(
        "GatherND",
        layer_call.input(0),
        cast(layer_call.input(1), "int64"),
        batch_dims=batch_axis_count,
    )


@layer("ScatterNDUpdate")
def _scatter_nd(layer_call: LayerCall) -> LayerOutputs:
    if layer_call.read_text("reduction", "none") != "none":
        raise layer_call.unsupported_error("with a reduction cannot be read")
    return op(
        "ScatterND", layer_call.input(0), cast(layer_call.input(1), "int64"), layer_call.input(2)
    )


@layer("ScatterElementsUpdate")
def _scatter_elements(layer_call: LayerCall) -> LayerOutputs:
    if layer_call.read_text("reduction", "none") != "none":
        raise layer_call.unsupported_error("with a reduction cannot be read")
    axis = layer_call.constant_axis(3)
    return op(
        "ScatterElements", layer_call.input(0), layer_call.input(1), layer_call.input(2), axis=axis
    )


@layer("Reshape")
def _reshape(layer_call: LayerCall) -> LayerOutputs:
    """Convert Reshape. With `special_zero`, an extent of 0 keeps the extent of the input."""
    zero_keeps_extent = layer_call.read_bool("special_zero")
    constant_shape = layer_call.constant_array(1)
    allowzero = (
        0 if zero_keeps_extent or (constant_shape is not None and np.all(constant_shape)) else 1
    )
    return op("Reshape", layer_call.input(0), layer_call.int64_vector(1), allowzero=allowzero)


@layer("Squeeze")
def _squeeze(layer_call: LayerCall) -> LayerOutputs:
    axes_term = layer_call.int64_vector(1) if layer_call.input_count > 1 else None
    return op("Squeeze", layer_call.input(0), axes_term)


@layer("Unsqueeze")
def _unsqueeze(layer_call: LayerCall) -> LayerOutputs:
    return op("Unsqueeze", layer_call.input(0), layer_call.int64_vector(1))


@layer("Transpose")
def _transpose(layer_call: LayerCall) -> LayerOutputs:
    """Convert Transpose. An empty order reverses the axes."""
    axis_order = [int(axis) for axis in layer_call.require_constant(1, "order").reshape(-1)]
    return (
        op("Transpose", layer_call.input(0), perm=axis_order)
        if axis_order
        else op("Transpose", layer_call.input(0))
    )


@layer("ShapeOf")
def _shape_of(layer_call: LayerCall) -> LayerOutputs:
    dtype = dtype_of_type(layer_call.read_text("output_type", "i64"), layer_call.layer.location)
    shape_term = op("Shape", layer_call.input(0))
    return shape_term if dtype == "int64" else cast(shape_term, dtype)


@layer("Broadcast")
def _broadcast(layer_call: LayerCall) -> LayerOutputs:
    """Convert Broadcast, including the mode `explicit` with `axes_mapping`.

    In the mode `explicit`, `axes_mapping` has the new positions of the axes.
    """
    broadcast_mode = layer_call.read_choice(
        "mode", {"numpy": "numpy", "bidirectional": "both", "explicit": "explicit"}, "numpy"
    )
    x: Term = layer_call.input(0)
    if broadcast_mode == "explicit":
        x = _add_mapped_axes(layer_call)
    return op("Expand", x, layer_call.int64_vector(1))


def _add_mapped_axes(layer_call: LayerCall) -> Term:
    mapped_axes = [int(axis) for axis in layer_call.require_constant(2, "axes_mapping").reshape(-1)]
    target_rank = layer_call.list_length(1, "axes")
    if mapped_axes != sorted(set(mapped_axes)):
        raise ModelError("the axes_mapping of a Broadcast must go up", layer_call.layer.location)
    unmapped_axes = [axis for axis in range(target_rank) if axis not in mapped_axes]
    if layer_call.shape(0) == (1,) and not mapped_axes:
        return layer_call.input(0)
    return (
        op("Unsqueeze", layer_call.input(0), int64_array(*unmapped_axes))
        if unmapped_axes
        else layer_call.input(0)
    )


@layer("Tile")
def _tile(layer_call: LayerCall) -> LayerOutputs:
    """Convert Tile, and pad the shorter of shape and repeats with leading ones."""
    x: Term = layer_call.input(0)
    repeats: Term = layer_call.int64_vector(1)
    repeat_count, rank = layer_call.list_length(1, "repeats"), layer_call.rank(0)
    if repeat_count < rank:
        repeats = concatenate_lists(int64_array(*(1,) * (rank - repeat_count)), repeats)
    elif repeat_count > rank:
        x = op("Unsqueeze", x, int64_array(*range(repeat_count - rank)))
    return op("Tile", x, repeats)


@layer("Pad")
def _pad(layer_call: LayerCall) -> LayerOutputs:
    pad_mode = layer_call.read_choice(
        "pad_mode", {"constant": "constant", "edge": "edge", "reflect": "reflect"}
    )
    pads_before_and_after = concatenate_lists(
        layer_call.int64_vector(1), layer_call.int64_vector(2)
    )
    fill_value: Term | None = layer_call.optional_input(3) if pad_mode == "constant" else None
    if fill_value is not None:
        fill_value = op("Reshape", fill_value, int64_array())
    return op("Pad", layer_call.input(0), pads_before_and_after, fill_value, mode=pad_mode)


# --- parts ------------------------------------------------------------------------------------


@layer("Split")
def _split(layer_call: LayerCall) -> LayerOutputs:
    """Convert Split into `num_splits` equal parts."""
    axis, part_count = layer_call.constant_axis(1), layer_call.read_integer("num_splits")
    if part_count != len(layer_call.layer.output_ports) or part_count < 1:
        raise ModelError(
            f"num_splits is {part_count}, but there are {len(layer_call.layer.output_ports)} outputs",
            layer_call.layer.location,
        )
    if part_count == 1:
        return layer_call.input(0)
    input_shape = layer_call.shape(0)
    if (
        input_shape is not None
        and -len(input_shape) <= axis < len(input_shape)
        and input_shape[axis] is not None
    ):
        split_extent = int(input_shape[axis] or 0)
        if split_extent % part_count:
            raise ModelError(
                f"{split_extent} cannot be split in {part_count} equal parts",
                layer_call.layer.location,
            )
        return _split_outputs(
            layer_call, axis, int64_array(*(split_extent // part_count,) * part_count), part_count
        )
    part_length = op(
        "Div", element_at(op("Shape", layer_call.input(0)), axis), int64_array(part_count)
    )
    return _split_outputs(
        layer_call, axis, op("Expand", part_length, int64_array(part_count)), part_count
    )


@layer("VariadicSplit")
def _variadic_split(layer_call: LayerCall) -> LayerOutputs:
    """Convert VariadicSplit. A part length of -1 means all remaining elements."""
    axis, part_count = layer_call.constant_axis(1), len(layer_call.layer.output_ports)
    part_lengths = layer_call.constant_array(2)
    if part_lengths is None:
        return _split_outputs(
            layer_call,
            axis,
            op("Reshape", layer_call.int64_vector(2), int64_array(part_count)),
            part_count,
        )
    part_lengths = part_lengths.astype(np.int64).reshape(-1)
    if part_lengths.size != part_count:
        raise ModelError(
            f"{part_lengths.size} lengths, but {part_count} outputs", layer_call.layer.location
        )
    if not np.any(part_lengths == -1):
        return _split_outputs(layer_call, axis, part_lengths, part_count)
    sum_of_known_lengths = part_lengths[part_lengths != -1].sum()
    split_extent = element_at(op("Shape", layer_call.input(0)), axis)
    remaining_length = op("Sub", split_extent, int64_array(int(sum_of_known_lengths)))
    resolved_part_lengths = op("Where", part_lengths == -1, remaining_length, part_lengths)
    return _split_outputs(layer_call, axis, resolved_part_lengths, part_count)


def _split_outputs(layer_call: LayerCall, axis: int, lengths: Term, count: int) -> LayerOutputs:
    return op_outputs(count, "Split", layer_call.input(0), lengths, axis=axis)


@layer("Slice")
def _slice(layer_call: LayerCall) -> LayerOutputs:
    slice_start, slice_stop, slice_step = (
        layer_call.int64_vector(input_index) for input_index in (1, 2, 3)
    )
    slice_axes = layer_call.int64_vector(4) if layer_call.input_count > 4 else None
    return op("Slice", layer_call.input(0), slice_start, slice_stop, slice_axes, slice_step)


@layer("Reverse")
def _reverse(layer_call: LayerCall) -> LayerOutputs:
    """Convert Reverse, whose axes are listed by index or by a boolean mask."""
    axes_array = layer_call.require_constant(1, "axes").reshape(-1)
    if layer_call.read_choice("mode", {"index": False, "mask": True}):
        axes_array = np.flatnonzero(axes_array)
    axes = axes_array.astype(np.int64)
    if not axes.size:
        return layer_call.input(0)
    slice_steps = np.full(axes.size, -1, np.int64)
    return op(
        "Slice",
        layer_call.input(0),
        slice_steps,
        np.full(axes.size, _INDEX_BEFORE_FIRST, np.int64),
        axes,
        slice_steps,
    )


@layer("DepthToSpace")
def _depth_to_space(layer_call: LayerCall) -> LayerOutputs:
    block_order = layer_call.read_choice("mode", {"blocks_first": "DCR", "depth_first": "CRD"})
    return op(
        "DepthToSpace",
        layer_call.input(0),
        blocksize=layer_call.read_integer("block_size", 1),
        mode=block_order,
    )


@layer("ReverseSequence")
def _reverse_sequence(layer_call: LayerCall) -> LayerOutputs:
    rank = layer_call.rank(0)
    batch_axis, time_axis = (
        layer_call.read_integer("batch_axis", 0) % rank,
        layer_call.read_integer("seq_axis", 1) % rank,
    )
    if {batch_axis, time_axis} != {0, 1}:
        raise layer_call.unsupported_error("with other axes than the first two cannot be read")
    sequence_lengths = cast(layer_call.input(1), "int64")
    return op(
        "ReverseSequence",
        layer_call.input(0),
        sequence_lengths,
        batch_axis=batch_axis,
        time_axis=time_axis,
    )


def element_at(value: Term, position: int) -> Term:
    """Return one element of a list of integers, as a list of length 1."""
    if isinstance(value, np.ndarray):
        return value[position : position + 1]
    return op("Gather", value, int64_array(position), axis=0)


def concatenate_lists(*lists: Term) -> Term:
    """Concatenate lists of integers."""
    constant_lists = [list_term for list_term in lists if isinstance(list_term, np.ndarray)]
    if len(constant_lists) == len(lists):
        return np.concatenate(constant_lists)
    return op("Concat", *lists, axis=0)
