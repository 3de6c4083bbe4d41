"""Machine code of operations that reshape arrays or move elements, for any run-time shape.

An operation that keeps the order of the elements returns a view. Other operations copy the elements (see
`views`). `moves` writes the code for known shapes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from mdf_loop.ir import Op, Value, is_fixed
from mdf_loop.ops.native.code import (
    ITEM_BYTES,
    NUMBER_PLACEHOLDER,
    ArrayCode,
    Cell,
    Code,
    Extent,
    Extents,
    Failure,
    NotNative,
)
from mdf_loop.ops.native.extents import (
    add_extents,
    canonical_product,
    product,
    quotient,
    subtract_extents,
    write_larger_extent,
    write_smaller_extent,
)
from mdf_loop.ops.native.moves import MAX_ELEMENT_RUNS, write_move
from mdf_loop.ops.native.views import StridedAxis, broadcast, contiguous_axes, strided_view
from mdf_loop.ops.registry import NativeArrayCode, qualified_name

Cells = Mapping[Value, Cell]


def _for_unknown_shapes(rule: NativeArrayCode) -> NativeArrayCode:
    """Return a code writer that uses `rule` only for shapes unknown at compile time."""

    def write(writer: ArrayCode, op: Op, cells: Cells) -> Cell:
        operands = [operand for operand in op.inputs if operand is not None]
        has_known_operands = all(
            writer.constant_of(operand) is not None for operand in operands[1:]
        )
        if has_known_operands and is_fixed(writer.extents(operands[0])):
            return write_move(writer, op, cells)
        return rule(writer, op, cells)

    return write


def _first_operand(op: Op) -> Value:
    """Return the first operand of an operation."""
    operand = op.inputs[0]
    assert operand is not None
    return operand


def _stated_integers(
    writer: ArrayCode, op: Op, cells: Cells, operand_index: int, name: str
) -> Extents | None:
    """Return the integers of an operand or an attribute, such as a shape, or None.

    Args:
        writer: Writer of the code.
        op: The operation.
        cells: Cells of values.
        operand_index: Position of the operand.
        name: Name of the attribute.
    """
    operand = op.inputs[operand_index] if operand_index < len(op.inputs) else None
    if operand is None:
        attribute_value = op.attributes.get(name)
        return (
            None
            if attribute_value is None
            else tuple(int(integer) for integer in np.ravel(attribute_value))
        )
    operand_integers = writer.small_integers(operand, cells)
    if operand_integers is None:
        raise NotNative(f"it has {qualified_name(op.op_type)} of what is computed")
    return operand_integers


def _stated_axes(
    writer: ArrayCode, op: Op, cells: Cells, operand_index: int, rank: int
) -> list[int] | None:
    """Return the axes that an operand or the attribute `axes` states, or None."""
    axis_numbers = _stated_integers(writer, op, cells, operand_index, "axes")
    if axis_numbers is None:
        return None
    if not is_fixed(axis_numbers):
        raise NotNative(f"it has {qualified_name(op.op_type)} along axes that are computed")
    return [axis % rank for axis in axis_numbers]


def _with_extents(writer: ArrayCode, op: Op, cells: Cells, extents: Extents) -> Cell:
    """Return the first operand with a new shape and the same order of elements."""
    operand, output = _first_operand(op), op.outputs[0]
    operand_cell = writer.cell(operand, cells)
    writer.set_extents(output, extents)
    if operand_cell.is_scalar:
        return operand_cell
    if operand_cell.registers:
        return writer.integer_cell(
            output, [_register_extent(register) for register in operand_cell.registers]
        )
    return writer.as_cell(output, writer.pointer_of(operand, operand_cell))


def _register_extent(register: str) -> Extent:
    """Convert an LLVM register or literal (a string) to an extent."""
    return register if register.startswith("%") else int(register)


# --- shapes ---------------------------------------------------------------------------------------


def shape(writer: ArrayCode, op: Op, cells: Cells) -> Cell:
    """Write LLVM code of ONNX's `Shape`."""
    axis_range = slice(op.attributes.get("start", 0), op.attributes.get("end"))
    return writer.integer_cell(op.outputs[0], writer.extents(_first_operand(op))[axis_range])


def size(writer: ArrayCode, op: Op, cells: Cells) -> Cell:
    """Write LLVM code of ONNX's `Size`."""
    return writer.integer_cell(
        op.outputs[0], [product(writer.scalar_code, writer.extents(_first_operand(op)))]
    )


# --- operations that keep the order of elements ---------------------------------------------------


def identity(writer: ArrayCode, op: Op, cells: Cells) -> Cell:
    """Write LLVM code of ONNX's `Identity`."""
    return _with_extents(writer, op, cells, writer.extents(_first_operand(op)))


def flatten(writer: ArrayCode, op: Op, cells: Cells) -> Cell:
    """Write LLVM code of ONNX's `Flatten`."""
    input_extents = writer.extents(_first_operand(op))
    split_axis = op.attributes.get("axis", 1)
    split_axis += len(input_extents) if split_axis < 0 else 0
    flattened_extents = (
        product(writer.scalar_code, merged_extents)
        for merged_extents in (input_extents[:split_axis], input_extents[split_axis:])
    )
    return _with_extents(writer, op, cells, tuple(flattened_extents))


def unsqueeze(writer: ArrayCode, op: Op, cells: Cells) -> Cell:
    """Write LLVM code of ONNX's `Unsqueeze`."""
    input_extents = writer.extents(_first_operand(op))
    stated_axes = _stated_integers(writer, op, cells, 1, "axes") or ()
    inserted_axes = _stated_axes(writer, op, cells, 1, len(input_extents) + len(stated_axes)) or []
    remaining_extents = iter(input_extents)
    output_axes = range(len(input_extents) + len(inserted_axes))
    return _with_extents(
        writer,
        op,
        cells,
        tuple(1 if k in inserted_axes else next(remaining_extents) for k in output_axes),
    )


def squeeze(writer: ArrayCode, op: Op, cells: Cells) -> Cell:
    """Write LLVM code of ONNX's `Squeeze`."""
    input_extents = writer.extents(_first_operand(op))
    squeezed_axes = _stated_axes(writer, op, cells, 1, len(input_extents))
    if squeezed_axes is None and not is_fixed(input_extents):
        raise NotNative("it has onnx::Squeeze of axes that are known only when it runs")
    if squeezed_axes is None:
        squeezed_axes = [axis for axis, extent in enumerate(input_extents) if extent == 1]
    for axis in squeezed_axes:
        if input_extents[axis] != 1:
            is_not_single = writer.scalar_code.emit(f"icmp ne i64 {input_extents[axis]}, 1")
            error_sentence = f"axis {axis} has {NUMBER_PLACEHOLDER} elements and cannot be left out"
            error_hint = "only an axis of 1 element can be squeezed"
            writer.scalar_code.fail_if(
                is_not_single, Failure(error_sentence, op.where, error_hint), [input_extents[axis]]
            )
    output_extents = (
        extent for axis, extent in enumerate(input_extents) if axis not in squeezed_axes
    )
    return _with_extents(writer, op, cells, tuple(output_extents))


def reshape(writer: ArrayCode, op: Op, cells: Cells) -> Cell:
    """Write LLVM code of ONNX's `Reshape`.

    A stated extent of 0 keeps the axis unless `allowzero` is set, and -1 stands for the remaining extent.
    """
    scalar_code, input_extents = writer.scalar_code, writer.extents(_first_operand(op))
    stated_extents = list(_stated_integers(writer, op, cells, 1, "shape") or ())
    if not op.attributes.get("allowzero", 0):
        stated_extents = [
            _extent_unless_zero(
                scalar_code, extent, input_extents[k] if k < len(input_extents) else 0
            )
            for k, extent in enumerate(stated_extents)
        ]
    inferred_axes = [
        k for k, extent in enumerate(stated_extents) if extent == -1 or not writer.is_extent(extent)
    ]
    size_factors = [
        _size_factor(scalar_code, extent) if k in inferred_axes else extent
        for k, extent in enumerate(stated_extents)
    ]
    target_extents = list(stated_extents)
    is_invalid = "false"
    for k in inferred_axes:
        other_factors = size_factors[:k] + size_factors[k + 1 :]
        remaining_extent = _remaining_extent(scalar_code, input_extents, other_factors)
        target_extents[k] = (
            remaining_extent
            if stated_extents[k] == -1
            else _replace_if_equal(scalar_code, (stated_extents[k], -1), remaining_extent)
        )
        is_inferred, is_empty = (
            scalar_code.compare("eq", "int64", str(extent), compared_number)
            for extent, compared_number in (
                (stated_extents[k], "-1"),
                (product(scalar_code, other_factors), "0"),
            )
        )
        is_invalid = scalar_code.binary(
            "or", "bool", is_invalid, scalar_code.binary("and", "bool", is_inferred, is_empty)
        )
    _check_size(writer, op, (input_extents, target_extents, stated_extents), is_invalid)
    return _with_extents(writer, op, cells, tuple(target_extents))


def _extent_unless_zero(code: Code, stated: Extent, input_extent: Extent) -> Extent:
    """Write LLVM code of a Reshape's output extent, for which 0 keeps the input extent."""
    if isinstance(stated, int):
        return stated if stated else input_extent
    return stated if stated == input_extent else _replace_if_equal(code, (stated, 0), input_extent)


def _size_factor(code: Code, stated: Extent) -> Extent:
    """Write LLVM code of a Reshape's extent as a factor of the known size: 1 in place of -1.

    An extent of -1 stands for the remaining extent.
    """
    return 1 if stated == -1 else _replace_if_equal(code, (stated, -1), 1)


def _replace_if_equal(code: Code, comparison: tuple[Extent, int], replacement: Extent) -> Extent:
    """Write LLVM code of `replacement if extent == searched_extent else extent`."""
    extent, searched_extent = comparison
    is_equal = code.emit(f"icmp eq i64 {extent}, {searched_extent}")
    return code.emit(f"select i1 {is_equal}, i64 {replacement}, i64 {extent}")


def _remaining_extent(code: Code, input_extents: Extents, divisors: Sequence[Extent]) -> Extent:
    """Write LLVM code of the extent that a Reshape infers from the number of elements."""
    dividend_factors, divisor_factors = list(input_extents), []
    for extent in divisors:
        if extent in dividend_factors and extent != 0:
            dividend_factors.remove(extent)
        else:
            divisor_factors.append(extent)
    divisor = write_larger_extent(code, product(code, divisor_factors), 1)
    return quotient(code, product(code, dividend_factors), divisor)


def _check_size(
    writer: ArrayCode,
    op: Op,
    shapes: tuple[Extents, Sequence[Extent], Sequence[Extent]],
    is_invalid: str,
) -> None:
    """Write LLVM code that ends the run with an error for an invalid Reshape.

    Args:
        writer: Writer of the code.
        op: The operation.
        shapes: Extents of the operand, of the output, and as stated by the operation.
        is_invalid: Register of the condition.
    """
    scalar_code, (input_extents, target_extents, stated_extents) = writer.scalar_code, shapes
    if (
        canonical_product(input_extents) != canonical_product(target_extents)
        or not canonical_product(input_extents)[0]
    ):
        input_size, target_size = (
            product(scalar_code, input_extents),
            product(scalar_code, target_extents),
        )
        has_other_size = scalar_code.compare("ne", "int64", str(input_size), str(target_size))
        is_invalid = scalar_code.binary("or", "bool", is_invalid, has_other_size)
    for extent in (extent for extent in target_extents if not writer.is_extent(extent)):
        is_negative = scalar_code.compare("slt", "int64", str(extent), "0")
        is_invalid = scalar_code.binary("or", "bool", is_invalid, is_negative)
    if is_invalid == "false":
        return
    input_notation, stated_notation = (
        f"[{', '.join([NUMBER_PLACEHOLDER] * len(shape))}]"
        for shape in (input_extents, stated_extents)
    )
    error_sentence = (
        f"an array of shape {input_notation} cannot become one of shape {stated_notation}"
    )
    error_hint = "both have the same number of elements"
    scalar_code.fail_if(
        is_invalid, Failure(error_sentence, op.where, error_hint), [*input_extents, *stated_extents]
    )


# --- operations that move elements ----------------------------------------------------------------


@_for_unknown_shapes
def transpose(writer: ArrayCode, op: Op, cells: Cells) -> Cell:
    """Write LLVM code of ONNX's `Transpose`."""
    operand, output = _first_operand(op), op.outputs[0]
    input_extents = writer.extents(operand)
    axis_order = op.attributes.get("perm") or range(len(input_extents))[::-1]
    input_axes = contiguous_axes(input_extents)
    writer.set_extents(output, tuple(input_extents[k] for k in axis_order))
    return strided_view(
        writer, output, (operand, writer.cell(operand, cells)), [input_axes[k] for k in axis_order]
    )


@_for_unknown_shapes
def expand(writer: ArrayCode, op: Op, cells: Cells) -> Cell:
    """Write LLVM code of ONNX's `Expand`."""
    operand, output = _first_operand(op), op.outputs[0]
    stated_extents = _stated_integers(writer, op, cells, 1, "shape") or ()
    input_extents = writer.extents(operand)
    output_rank = max(len(input_extents), len(stated_extents))
    aligned_shapes = (
        (*[1] * (output_rank - len(extents)), *extents)
        for extents in (input_extents, stated_extents)
    )
    target_extents = tuple(
        _broadcast_extent(writer, op, *extent_pair)
        for extent_pair in zip(*aligned_shapes, strict=True)
    )
    writer.set_extents(output, target_extents)
    operand_cell = writer.cell(operand, cells)
    if operand_cell.is_scalar:
        return operand_cell
    broadcast_cell = broadcast(writer, operand, operand_cell, target_extents)
    return writer.as_cell(output, writer.pointer_of(output, broadcast_cell))


def _broadcast_extent(
    writer: ArrayCode, op: Op, input_extent: Extent, target_extent: Extent
) -> Extent:
    """Write LLVM code of the extent of an axis after an Expand."""
    if input_extent in (1, target_extent):
        return target_extent
    if target_extent != 1:
        scalar_code = writer.scalar_code
        is_other_extent = scalar_code.compare("ne", "int64", str(target_extent), str(input_extent))
        is_not_one = scalar_code.compare("ne", "int64", str(target_extent), "1")
        error_sentence = (
            f"an axis of {NUMBER_PLACEHOLDER} elements cannot have {NUMBER_PLACEHOLDER}"
        )
        error_hint = "only an axis of 1 element can be repeated"
        extent_failure = Failure(error_sentence, op.where, error_hint)
        scalar_code.fail_if(
            scalar_code.binary("and", "bool", is_other_extent, is_not_one),
            extent_failure,
            [input_extent, target_extent],
        )
    return input_extent


@_for_unknown_shapes
def slice_axes(writer: ArrayCode, op: Op, cells: Cells) -> Cell:
    """Write LLVM code of ONNX's `Slice`."""
    operand, output = _first_operand(op), op.outputs[0]
    input_extents = writer.extents(operand)
    slice_starts, slice_ends = (_stated_integers(writer, op, cells, k, "") or () for k in (1, 2))
    stated_axes = _stated_axes(writer, op, cells, 3, len(input_extents))
    slice_steps = _stated_integers(writer, op, cells, 4, "") or (1,) * len(slice_starts)
    if not is_fixed(slice_steps) or 0 in slice_steps:
        raise NotNative("it has onnx::Slice of what is computed")
    scalar_code, strided_axes, output_extents = (
        writer.scalar_code,
        contiguous_axes(input_extents),
        list(input_extents),
    )
    first_element: Extent = 0
    for k, axis in enumerate(stated_axes if stated_axes is not None else range(len(slice_starts))):
        first_position, position_count = _slice_range(
            writer, input_extents[axis], slice_starts[k], slice_ends[k], slice_steps[k]
        )
        element_offset = product(scalar_code, (first_position, *strided_axes[axis].stride))
        first_element = add_extents(scalar_code, first_element, element_offset)
        strided_axes[axis] = StridedAxis(
            (position_count,), (*strided_axes[axis].stride, slice_steps[k])
        )
        output_extents[axis] = position_count
    writer.set_extents(output, tuple(output_extents))
    return strided_view(
        writer, output, (operand, writer.cell(operand, cells)), strided_axes, first_element
    )


def _slice_range(
    writer: ArrayCode, extent: Extent, start: Extent, end: Extent, step: int
) -> tuple[Extent, Extent]:
    """Write LLVM code of the first index and the length of a slice along one axis.

    Positions out of range are clipped.
    """
    scalar_code = writer.scalar_code
    lower_bound, upper_bound = (
        (0, extent) if step > 0 else (-1, subtract_extents(scalar_code, extent, 1))
    )
    clipped_start = write_smaller_extent(
        scalar_code,
        write_larger_extent(scalar_code, _normalize_position(scalar_code, start, extent), 0),
        upper_bound,
    )
    clipped_end = write_smaller_extent(
        scalar_code,
        write_larger_extent(
            scalar_code, _normalize_position(scalar_code, end, extent), lower_bound
        ),
        upper_bound,
    )
    index_distance = (
        subtract_extents(scalar_code, clipped_end, clipped_start)
        if step > 0
        else subtract_extents(scalar_code, clipped_start, clipped_end)
    )
    position_count = quotient(
        scalar_code, add_extents(scalar_code, index_distance, abs(step) - 1), abs(step)
    )
    return clipped_start, write_smaller_extent(
        scalar_code, write_larger_extent(scalar_code, position_count, 0), extent
    )


def _normalize_position(code: Code, position: Extent, extent: Extent) -> Extent:
    """Write LLVM code that makes a negative index, which counts from the end, nonnegative."""
    if isinstance(position, int):
        return add_extents(code, position, extent) if position < 0 else position
    wrapped_position = add_extents(code, position, extent)
    is_negative = code.emit(f"icmp slt i64 {position}, 0")
    return code.emit(f"select i1 {is_negative}, i64 {wrapped_position}, i64 {position}")


def concatenate(writer: ArrayCode, op: Op, cells: Cells) -> Cell:
    """Write LLVM code of ONNX's `Concat`.

    The parts of all arrays are copied for each position of the axes in front.
    """
    operands, output = [operand for operand in op.inputs if operand is not None], op.outputs[0]
    operand_shapes = [writer.extents(operand) for operand in operands]
    scalar_code, joined_axis = writer.scalar_code, op.attributes["axis"] % len(operand_shapes[0])
    block_count = product(scalar_code, operand_shapes[0][:joined_axis])
    if (
        all(map(is_fixed, operand_shapes))
        and isinstance(block_count, int)
        and block_count * len(operands) <= MAX_ELEMENT_RUNS
    ):
        return write_move(writer, op, cells)
    for array in operands[1:]:
        _check_equal_axes(writer, op, (operands[0], array), joined_axis)
    joined_extents = list(operand_shapes[0])
    joined_extents[joined_axis] = add_extents(
        scalar_code, *(extents[joined_axis] for extents in operand_shapes)
    )
    writer.set_extents(output, tuple(joined_extents))
    output_pointer = writer.allocate_buffer(output)
    block_size = product(scalar_code, joined_extents[joined_axis:])
    block_offset: Extent = 0
    for array, extents in zip(operands, operand_shapes, strict=True):
        array_pointer = writer.pointer_of(array, writer.cell(array, cells))
        part_size = product(scalar_code, (extents[joined_axis], *joined_extents[joined_axis + 1 :]))
        _copy_with_stride(
            writer,
            output.dtype,
            (output_pointer, array_pointer),
            (block_count, part_size),
            (block_offset, block_size),
        )
        block_offset = add_extents(scalar_code, block_offset, part_size)
    return Cell(pointer=output_pointer)


def _copy_with_stride(
    writer: ArrayCode,
    dtype: str,
    pointers: tuple[str, str],
    parts: tuple[Extent, Extent],
    positions: tuple[Extent, Extent],
) -> None:
    """Write LLVM code that copies parts of an array to positions at equal distances.

    Args:
        writer: Writer of the code.
        dtype: Dtype of the elements.
        pointers: Addresses of the target and the source.
        parts: Number of parts, and number of elements of each.
        positions: First position in the target, and stride of the positions.
    """
    (output_pointer, array_pointer), (part_count, part_size), (first_position, stride) = (
        pointers,
        parts,
        positions,
    )
    part_bytes = product(writer.scalar_code, (part_size, ITEM_BYTES[dtype]))

    def part(number: str) -> None:
        source_pointer = writer.element_address(
            dtype, array_pointer, writer.multiply(number, part_size)
        )
        target_pointer = writer.element_address(
            dtype, output_pointer, writer.multiply(number, stride)
        )
        writer.copy(
            writer.element_address(dtype, target_pointer, str(first_position)),
            source_pointer,
            part_bytes,
        )

    writer.repeat("0", str(part_count), 1, part)


def _check_equal_axes(writer: ArrayCode, op: Op, values: tuple[Value, Value], axis: int) -> None:
    """Write LLVM code that ends the run if two arrays cannot be joined by a Concat."""
    scalar_code = writer.scalar_code
    first_extents, other_extents = (writer.extents(array) for array in values)
    for k, (first_extent, other_extent) in enumerate(
        zip(first_extents, other_extents, strict=True)
    ):
        if k != axis and first_extent != other_extent:
            has_other_extent = scalar_code.emit(f"icmp ne i64 {first_extent}, {other_extent}")
            error_sentence = f"arrays that are joined differ in axis {k}: {NUMBER_PLACEHOLDER} and {NUMBER_PLACEHOLDER} elements"
            error_hint = "they may differ only along the axis on which they are joined"
            scalar_code.fail_if(
                has_other_extent,
                Failure(error_sentence, op.where, error_hint),
                [first_extent, other_extent],
            )
