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
    Arrays,
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
from mdf_loop.ops.native.views import Stride, broadcast, contiguous_axes, strided_view
from mdf_loop.ops.registry import NativeArrayCode, qualified_name

Cells = Mapping[Value, Cell]


def _for_unknown_shapes(rule: NativeArrayCode) -> NativeArrayCode:
    """Return a code writer that uses `rule` only for shapes unknown at compile time."""

    def write(writer: Arrays, op: Op, cells: Cells) -> Cell:
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
    writer: Arrays, op: Op, cells: Cells, operand_index: int, name: str
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
        attribute = op.attributes.get(name)
        return None if attribute is None else tuple(int(integer) for integer in np.ravel(attribute))
    integers = writer.small_integers(operand, cells)
    if integers is None:
        raise NotNative(f"it has {qualified_name(op.op_type)} of what is computed")
    return integers


def _stated_axes(
    writer: Arrays, op: Op, cells: Cells, operand_index: int, rank: int
) -> list[int] | None:
    """Return the axes that an operand or the attribute `axes` states, or None."""
    axes = _stated_integers(writer, op, cells, operand_index, "axes")
    if axes is None:
        return None
    if not is_fixed(axes):
        raise NotNative(f"it has {qualified_name(op.op_type)} along axes that are computed")
    return [axis % rank for axis in axes]


def _with_extents(writer: Arrays, op: Op, cells: Cells, extents: Extents) -> Cell:
    """Return the first operand with a new shape and the same order of elements."""
    operand, output = _first_operand(op), op.outputs[0]
    cell = writer.cell(operand, cells)
    writer.set_extents(output, extents)
    if cell.is_scalar:
        return cell
    if cell.registers:
        return writer.integer_cell(
            output, [_register_extent(register) for register in cell.registers]
        )
    return writer.as_cell(output, writer.pointer_of(operand, cell))


def _register_extent(register: str) -> Extent:
    """Convert an LLVM register or literal (a string) to an extent."""
    return register if register.startswith("%") else int(register)


# --- shapes ---------------------------------------------------------------------------------------


def shape(writer: Arrays, op: Op, cells: Cells) -> Cell:
    """Write LLVM code of ONNX's `Shape`."""
    axis_range = slice(op.attributes.get("start", 0), op.attributes.get("end"))
    return writer.integer_cell(op.outputs[0], writer.extents(_first_operand(op))[axis_range])


def size(writer: Arrays, op: Op, cells: Cells) -> Cell:
    """Write LLVM code of ONNX's `Size`."""
    return writer.integer_cell(
        op.outputs[0], [product(writer.scalar_code, writer.extents(_first_operand(op)))]
    )


# --- operations that keep the order of elements ---------------------------------------------------


def identity(writer: Arrays, op: Op, cells: Cells) -> Cell:
    """Write LLVM code of ONNX's `Identity`."""
    return _with_extents(writer, op, cells, writer.extents(_first_operand(op)))


def flatten(writer: Arrays, op: Op, cells: Cells) -> Cell:
    """Write LLVM code of ONNX's `Flatten`."""
    extents = writer.extents(_first_operand(op))
    axis = op.attributes.get("axis", 1)
    axis += len(extents) if axis < 0 else 0
    side_sizes = (
        product(writer.scalar_code, side_extents)
        for side_extents in (extents[:axis], extents[axis:])
    )
    return _with_extents(writer, op, cells, tuple(side_sizes))


def unsqueeze(writer: Arrays, op: Op, cells: Cells) -> Cell:
    """Write LLVM code of ONNX's `Unsqueeze`."""
    extents = writer.extents(_first_operand(op))
    stated_axes = _stated_integers(writer, op, cells, 1, "axes") or ()
    axes = _stated_axes(writer, op, cells, 1, len(extents) + len(stated_axes)) or []
    input_extents = iter(extents)
    output_axes = range(len(extents) + len(axes))
    return _with_extents(
        writer, op, cells, tuple(1 if k in axes else next(input_extents) for k in output_axes)
    )


def squeeze(writer: Arrays, op: Op, cells: Cells) -> Cell:
    """Write LLVM code of ONNX's `Squeeze`."""
    extents = writer.extents(_first_operand(op))
    axes = _stated_axes(writer, op, cells, 1, len(extents))
    if axes is None and not is_fixed(extents):
        raise NotNative("it has onnx::Squeeze of axes that are known only when it runs")
    if axes is None:
        axes = [axis for axis, extent in enumerate(extents) if extent == 1]
    for axis in axes:
        if extents[axis] != 1:
            is_not_single = writer.scalar_code.emit(f"icmp ne i64 {extents[axis]}, 1")
            sentence = f"axis {axis} has {NUMBER_PLACEHOLDER} elements and cannot be left out"
            hint = "only an axis of 1 element can be squeezed"
            writer.scalar_code.fail_if(
                is_not_single, Failure(sentence, op.where, hint), [extents[axis]]
            )
    output_extents = (extent for axis, extent in enumerate(extents) if axis not in axes)
    return _with_extents(writer, op, cells, tuple(output_extents))


def reshape(writer: Arrays, op: Op, cells: Cells) -> Cell:
    """Write LLVM code of ONNX's `Reshape`.

    A stated extent of 0 keeps the axis unless `allowzero` is set, and -1 stands for the remaining extent.
    """
    code, input_extents = writer.scalar_code, writer.extents(_first_operand(op))
    stated_extents = list(_stated_integers(writer, op, cells, 1, "shape") or ())
    if not op.attributes.get("allowzero", 0):
        stated_extents = [
            _extent_unless_zero(code, extent, input_extents[k] if k < len(input_extents) else 0)
            for k, extent in enumerate(stated_extents)
        ]
    inferred_axes = [
        k for k, extent in enumerate(stated_extents) if extent == -1 or not writer.is_extent(extent)
    ]
    stated_factors = [
        _known_factor(code, extent) if k in inferred_axes else extent
        for k, extent in enumerate(stated_extents)
    ]
    target_extents = list(stated_extents)
    is_invalid = "false"
    for k in inferred_axes:
        other_factors = stated_factors[:k] + stated_factors[k + 1 :]
        remaining_extent = _remaining_extent(code, input_extents, other_factors)
        target_extents[k] = (
            remaining_extent
            if stated_extents[k] == -1
            else _replace_if_equal(code, (stated_extents[k], -1), remaining_extent)
        )
        is_inferred, is_empty = (
            code.compare("eq", "int64", str(extent), literal)
            for extent, literal in ((stated_extents[k], "-1"), (product(code, other_factors), "0"))
        )
        is_invalid = code.binary(
            "or", "bool", is_invalid, code.binary("and", "bool", is_inferred, is_empty)
        )
    _check_size(writer, op, (input_extents, target_extents, stated_extents), is_invalid)
    return _with_extents(writer, op, cells, tuple(target_extents))


def _extent_unless_zero(code: Code, stated: Extent, input_extent: Extent) -> Extent:
    """Write LLVM code of a Reshape's output extent, for which 0 keeps the input extent."""
    if isinstance(stated, int):
        return stated if stated else input_extent
    return stated if stated == input_extent else _replace_if_equal(code, (stated, 0), input_extent)


def _known_factor(code: Code, stated: Extent) -> Extent:
    """Write LLVM code that replaces an extent of -1 in a Reshape's shape by 1.

    An extent of -1, which stands for the remaining extent, has the factor 1.
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
    writer: Arrays,
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
    code, (input_extents, target_extents, stated_extents) = writer.scalar_code, shapes
    if (
        canonical_product(input_extents) != canonical_product(target_extents)
        or not canonical_product(input_extents)[0]
    ):
        input_size, target_size = product(code, input_extents), product(code, target_extents)
        has_other_size = code.compare("ne", "int64", str(input_size), str(target_size))
        is_invalid = code.binary("or", "bool", is_invalid, has_other_size)
    for extent in (extent for extent in target_extents if not writer.is_extent(extent)):
        is_negative = code.compare("slt", "int64", str(extent), "0")
        is_invalid = code.binary("or", "bool", is_invalid, is_negative)
    if is_invalid == "false":
        return
    input_notation, stated_notation = (
        f"[{', '.join([NUMBER_PLACEHOLDER] * len(shape))}]"
        for shape in (input_extents, stated_extents)
    )
    sentence = f"an array of shape {input_notation} cannot become one of shape {stated_notation}"
    hint = "both have the same number of elements"
    code.fail_if(is_invalid, Failure(sentence, op.where, hint), [*input_extents, *stated_extents])


# --- operations that move elements ----------------------------------------------------------------


@_for_unknown_shapes
def transpose(writer: Arrays, op: Op, cells: Cells) -> Cell:
    """Write LLVM code of ONNX's `Transpose`."""
    operand, output = _first_operand(op), op.outputs[0]
    extents = writer.extents(operand)
    axis_order = op.attributes.get("perm") or range(len(extents))[::-1]
    axes = contiguous_axes(extents)
    writer.set_extents(output, tuple(extents[k] for k in axis_order))
    return strided_view(
        writer, output, (operand, writer.cell(operand, cells)), [axes[k] for k in axis_order]
    )


@_for_unknown_shapes
def expand(writer: Arrays, op: Op, cells: Cells) -> Cell:
    """Write LLVM code of ONNX's `Expand`."""
    operand, output = _first_operand(op), op.outputs[0]
    stated_extents = _stated_integers(writer, op, cells, 1, "shape") or ()
    input_extents = writer.extents(operand)
    rank = max(len(input_extents), len(stated_extents))
    aligned_shapes = (
        (*[1] * (rank - len(extents)), *extents) for extents in (input_extents, stated_extents)
    )
    target_extents = tuple(
        _broadcast_extent(writer, op, *extent_pair)
        for extent_pair in zip(*aligned_shapes, strict=True)
    )
    writer.set_extents(output, target_extents)
    cell = writer.cell(operand, cells)
    if cell.is_scalar:
        return cell
    broadcast_cell = broadcast(writer, operand, cell, target_extents)
    return writer.as_cell(output, writer.pointer_of(output, broadcast_cell))


def _broadcast_extent(
    writer: Arrays, op: Op, input_extent: Extent, target_extent: Extent
) -> Extent:
    """Write LLVM code of the extent of an axis after an Expand."""
    if input_extent in (1, target_extent):
        return target_extent
    if target_extent != 1:
        code = writer.scalar_code
        is_other_extent = code.compare("ne", "int64", str(target_extent), str(input_extent))
        is_not_one = code.compare("ne", "int64", str(target_extent), "1")
        sentence = f"an axis of {NUMBER_PLACEHOLDER} elements cannot have {NUMBER_PLACEHOLDER}"
        hint = "only an axis of 1 element can be repeated"
        failure = Failure(sentence, op.where, hint)
        code.fail_if(
            code.binary("and", "bool", is_other_extent, is_not_one),
            failure,
            [input_extent, target_extent],
        )
    return input_extent


@_for_unknown_shapes
def slice_axes(writer: Arrays, op: Op, cells: Cells) -> Cell:
    """Write LLVM code of ONNX's `Slice`."""
    operand, output = _first_operand(op), op.outputs[0]
    extents = writer.extents(operand)
    starts, ends = (_stated_integers(writer, op, cells, k, "") or () for k in (1, 2))
    stated_axes = _stated_axes(writer, op, cells, 3, len(extents))
    steps = _stated_integers(writer, op, cells, 4, "") or (1,) * len(starts)
    if not is_fixed(steps) or 0 in steps:
        raise NotNative("it has onnx::Slice of what is computed")
    code, axes, output_extents = writer.scalar_code, contiguous_axes(extents), list(extents)
    first_element: Extent = 0
    for k, axis in enumerate(stated_axes if stated_axes is not None else range(len(starts))):
        first_position, position_count = _slice_range(
            writer, extents[axis], starts[k], ends[k], steps[k]
        )
        offset = product(code, (first_position, *axes[axis].step))
        first_element = add_extents(code, first_element, offset)
        axes[axis] = Stride((position_count,), (*axes[axis].step, steps[k]))
        output_extents[axis] = position_count
    writer.set_extents(output, tuple(output_extents))
    return strided_view(writer, output, (operand, writer.cell(operand, cells)), axes, first_element)


def _slice_range(
    writer: Arrays, extent: Extent, start: Extent, end: Extent, step: int
) -> tuple[Extent, Extent]:
    """Write LLVM code of the first index and the length of a slice along one axis.

    Positions out of range are clipped.
    """
    code = writer.scalar_code
    lower_bound, upper_bound = (0, extent) if step > 0 else (-1, subtract_extents(code, extent, 1))
    clipped_start = write_smaller_extent(
        code, write_larger_extent(code, _normalize_position(code, start, extent), 0), upper_bound
    )
    clipped_end = write_smaller_extent(
        code,
        write_larger_extent(code, _normalize_position(code, end, extent), lower_bound),
        upper_bound,
    )
    distance = (
        subtract_extents(code, clipped_end, clipped_start)
        if step > 0
        else subtract_extents(code, clipped_start, clipped_end)
    )
    position_count = quotient(code, add_extents(code, distance, abs(step) - 1), abs(step))
    return clipped_start, write_smaller_extent(
        code, write_larger_extent(code, position_count, 0), extent
    )


def _normalize_position(code: Code, position: Extent, extent: Extent) -> Extent:
    """Write LLVM code that makes a negative index, which counts from the end, nonnegative."""
    if isinstance(position, int):
        return add_extents(code, position, extent) if position < 0 else position
    wrapped_position = add_extents(code, position, extent)
    is_negative = code.emit(f"icmp slt i64 {position}, 0")
    return code.emit(f"select i1 {is_negative}, i64 {wrapped_position}, i64 {position}")


def concatenate(writer: Arrays, op: Op, cells: Cells) -> Cell:
    """Write LLVM code of ONNX's `Concat`.

    The parts of all arrays are copied for each position of the axes in front.
    """
    operands, output = [operand for operand in op.inputs if operand is not None], op.outputs[0]
    shapes = [writer.extents(operand) for operand in operands]
    code, axis = writer.scalar_code, op.attributes["axis"] % len(shapes[0])
    block_count = product(code, shapes[0][:axis])
    if (
        all(map(is_fixed, shapes))
        and isinstance(block_count, int)
        and block_count * len(operands) <= MAX_ELEMENT_RUNS
    ):
        return write_move(writer, op, cells)
    for array in operands[1:]:
        _check_equal_axes(writer, op, (operands[0], array), axis)
    joined_extents = list(shapes[0])
    joined_extents[axis] = add_extents(code, *(extents[axis] for extents in shapes))
    writer.set_extents(output, tuple(joined_extents))
    target = writer.buffer(output)
    block_size = product(code, joined_extents[axis:])
    block_offset: Extent = 0
    for array, extents in zip(operands, shapes, strict=True):
        source = writer.pointer_of(array, writer.cell(array, cells))
        part_size = product(code, (extents[axis], *joined_extents[axis + 1 :]))
        _copy_with_stride(
            writer,
            output.dtype,
            (target, source),
            (block_count, part_size),
            (block_offset, block_size),
        )
        block_offset = add_extents(code, block_offset, part_size)
    return Cell(pointer=target)


def _copy_with_stride(
    writer: Arrays,
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
    (target, source), (part_count, part_size), (first_position, stride) = pointers, parts, positions
    part_bytes = product(writer.scalar_code, (part_size, ITEM_BYTES[dtype]))

    def part(number: str) -> None:
        source_pointer = writer.element_address(dtype, source, writer.multiply(number, part_size))
        target_pointer = writer.element_address(dtype, target, writer.multiply(number, stride))
        writer.copy(
            writer.element_address(dtype, target_pointer, str(first_position)),
            source_pointer,
            part_bytes,
        )

    writer.repeat("0", str(part_count), 1, part)


def _check_equal_axes(writer: Arrays, op: Op, values: tuple[Value, Value], axis: int) -> None:
    """Write LLVM code that ends the run if two arrays cannot be joined by a Concat."""
    code = writer.scalar_code
    first_extents, other_extents = (writer.extents(array) for array in values)
    for k, (first_extent, other_extent) in enumerate(
        zip(first_extents, other_extents, strict=True)
    ):
        if k != axis and first_extent != other_extent:
            has_other_extent = code.emit(f"icmp ne i64 {first_extent}, {other_extent}")
            sentence = f"arrays that are joined differ in axis {k}: {NUMBER_PLACEHOLDER} and {NUMBER_PLACEHOLDER} elements"
            hint = "they may differ only along the axis on which they are joined"
            code.fail_if(
                has_other_extent, Failure(sentence, op.where, hint), [first_extent, other_extent]
            )
