"""Machine code of operations that only move elements, to positions known at compile time.

The operation is evaluated once on element numbers, which begin at 1: `Slice([1, 2, 3, 4], 1, 3)` gives 2, 3.
A number 0 in the result stands for a zero. Adjacent elements are copied together. A contiguous part of
an array is a view.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import TypeAlias

import numpy as np

from mdf_loop.ir import Array, Op, Shape, Value, is_fixed
from mdf_loop.ops.inference import infer
from mdf_loop.ops.native.code import ITEM_BYTES, ArrayCode, Cell, Code, NotNative
from mdf_loop.ops.numpy_evaluation import evaluate
from mdf_loop.ops.registry import qualified_name, row_of

ArrayLookup: TypeAlias = Callable[[Value], Array | None]
"""Function that returns the array of a value if it is known, else None."""

ZERO_POSITION = -1
"""Position of an output element that is zero instead of an element of an operand."""

MAX_ELEMENT_RUNS = 64
"""Maximum number of copies of adjacent elements. Otherwise, a table contains the position of each element."""


def write_move(writer: ArrayCode, op: Op, cells: Mapping[Value, Cell]) -> Cell:
    """Write LLVM code of an operation that only moves elements, such as a Transpose.

    Raises:
        NotNative: The positions depend on computed values.
    """
    moved_operands, positions = element_positions(writer, op)
    source_cells = [
        (operand, _move_to_memory(writer, operand, writer.cell(operand, cells)))
        for operand in moved_operands
    ]
    return gather_at_known_positions(writer, op.outputs[0], source_cells, positions)


def element_positions(writer: ArrayCode, op: Op) -> tuple[list[Value], Array]:
    """Return the moved operands of an operation, and the source index of each output element.

    The index is the position in the concatenation of the moved operands, or `ZERO_POSITION`.

    Raises:
        NotNative: The positions depend on computed values, or runtimes differ in the shape of the output.
    """
    if len(op.outputs) != 1:
        raise NotNative(f"it has {qualified_name(op.op_type)} of what is computed")
    moved_operands, (positions,) = positions_of(op, writer.shape, writer.constant_of)
    op_output = op.outputs[0]
    output_shape = op_output.shape if is_fixed(op_output.shape) else _infer_shape(writer, op)
    if is_fixed(output_shape) and positions.shape != output_shape:  # readers would exceed the array
        raise NotNative(f"it has {qualified_name(op.op_type)} that runtimes compute differently")
    writer.set_extents(op_output, positions.shape)
    return moved_operands, positions.reshape(-1)


def has_known_positions(op: Op, find_constant: ArrayLookup) -> bool:
    """Return True if an operation moves elements to positions known at compile time."""
    position_operands = _other_operands(op)
    return len(op.outputs) == 1 and all(
        find_constant(operand) is not None for operand in position_operands
    )


def _infer_shape(writer: ArrayCode, op: Op) -> Shape:
    """Return the output shape that ONNX infers for an operation from known input extents."""
    known_arrays = {
        k: array
        for k, operand in enumerate(op.inputs)
        if (array := writer.constant_of(operand)) is not None
    }
    operand_types = [
        None
        if operand is None
        else (operand.dtype, known_arrays[k].shape if k in known_arrays else writer.shape(operand))
        for k, operand in enumerate(op.inputs)
    ]
    ((_, inferred_shape),) = infer(op.op_type, operand_types, op.attributes, known_arrays, 1)
    return inferred_shape


def positions_of(
    op: Op, shape_of: Callable[[Value], tuple[int, ...]], find_constant: ArrayLookup
) -> tuple[list[Value], list[Array]]:
    """Return the moved operands of an operation, and the source indices for each output.

    The index is the position in the concatenation of the moved operands, or `ZERO_POSITION`.

    Args:
        op: The operation.
        shape_of: Function that returns the extents of a value.
        find_constant: Function that returns the array of a value if it is known, else None.

    Raises:
        NotNative: The positions depend on computed values, or the operation is invalid.
    """
    if any(find_constant(operand) is None for operand in _other_operands(op)):
        raise NotNative(f"it has {qualified_name(op.op_type)} of what is computed")
    operand_arrays = [None if operand is None else find_constant(operand) for operand in op.inputs]
    moved_operands, first_element_number = [], 1
    for operand_index in _moved_operand_indices(op):
        moved_operand = op.inputs[operand_index]
        if moved_operand is not None:
            operand_extents = shape_of(moved_operand)
            element_count = math.prod(operand_extents)
            operand_arrays[operand_index] = (
                first_element_number + np.arange(element_count)
            ).reshape(operand_extents)
            moved_operands.append(moved_operand)
            first_element_number += element_count
    try:
        output_positions = evaluate(op.op_type, operand_arrays, op.attributes, len(op.outputs))
    except Exception:  # noqa: BLE001 - numpy and onnx's reference raise anything
        raise NotNative(f"it has {qualified_name(op.op_type)} that cannot be computed") from None
    return moved_operands, [np.asarray(output) - 1 for output in output_positions]


def _moved_operand_indices(op: Op) -> Sequence[int]:
    """Return the positions of the operands whose elements an operation moves."""
    find_moved_operands = row_of(op.op_type).moved_operands
    return (0,) if find_moved_operands is None else find_moved_operands(op)


def _other_operands(op: Op) -> list[Value]:
    """Return the operands of an operation that are not moved, such as indices and shapes."""
    moved_indices = _moved_operand_indices(op)
    return [
        operand
        for k, operand in enumerate(op.inputs)
        if operand is not None and k not in moved_indices
    ]


def _move_to_memory(writer: ArrayCode, value: Value, cell: Cell) -> Cell:
    return cell if cell.is_scalar else Cell(pointer=writer.pointer_of(value, cell))


def gather_at_known_positions(
    writer: ArrayCode, output: Value, source_cells: Sequence[tuple[Value, Cell]], positions: Array
) -> Cell:
    """Write LLVM code that fills an array with elements of other arrays at known positions.

    Args:
        writer: Writer of the code.
        output: The array. Its other elements are zeros.
        source_cells: Arrays whose elements are copied.
        positions: Index of each output element in the concatenation of the sources, or `ZERO_POSITION`.
    """
    element_runs = _find_contiguous_ranges(
        [writer.shape(value) for value, _ in source_cells], positions
    )
    if len(element_runs) == 1 and element_runs[0][0] != ZERO_POSITION:
        source_index, first_element, _ = element_runs[0]
        return _view(writer, output, *source_cells[source_index], first_element)
    output_pointer = writer.allocate_buffer(output)
    element_bytes = ITEM_BYTES[output.dtype]
    if len(element_runs) > MAX_ELEMENT_RUNS:
        source_array = (
            source_cells[0]
            if len(source_cells) == 1
            else _concatenate_sources(writer, output.dtype, source_cells)
        )
        _gather_by_table(writer, output, source_array, positions, output_pointer)
        return writer.as_cell(output, output_pointer)
    if ZERO_POSITION in positions:
        zero_literal = writer.scalar_code.constant(0, output.dtype)
        writer.for_each_element(
            len(positions), _make_fill(writer, output.dtype, zero_literal, output_pointer)
        )
    written_count = 0
    for source_index, first_element, element_count in element_runs:
        if source_index == ZERO_POSITION:
            written_count += element_count
            continue
        source_cell = source_cells[source_index][1]
        target_pointer = _offset_pointer(writer, output_pointer, written_count * element_bytes)
        if source_cell.is_scalar:
            writer.for_each_element(
                element_count,
                _make_fill(writer, output.dtype, source_cell.registers[0], target_pointer),
            )
        else:
            writer.copy(
                target_pointer,
                _offset_pointer(writer, source_cell.pointer, first_element * element_bytes),
                element_count * element_bytes,
            )
        written_count += element_count
    return writer.as_cell(output, output_pointer)


def _concatenate_sources(
    writer: ArrayCode, dtype: str, source_cells: Sequence[tuple[Value, Cell]]
) -> tuple[Value, Cell]:
    """Write LLVM code that copies arrays one after the other into one array."""
    element_counts = [math.prod(writer.shape(value)) for value, _ in source_cells]
    concatenation = Value("all of them", dtype, (sum(element_counts),))
    output_pointer, written_count = writer.allocate_buffer(concatenation), 0
    for (value, cell), element_count in zip(source_cells, element_counts, strict=True):
        target_pointer = _offset_pointer(writer, output_pointer, written_count * ITEM_BYTES[dtype])
        writer.copy(
            target_pointer, writer.pointer_of(value, cell), element_count * ITEM_BYTES[dtype]
        )
        written_count += element_count
    return concatenation, Cell(pointer=output_pointer)


def _find_contiguous_ranges(
    shapes: Sequence[tuple[int, ...]], positions: Array
) -> list[tuple[int, int, int]]:
    """Group moved elements into contiguous source ranges (source index, first element, count).

    The source of zeros is `ZERO_POSITION`.
    """
    element_counts = [math.prod(shape) for shape in shapes]
    source_starts = np.cumsum([0, *element_counts])
    source_indices = np.searchsorted(source_starts, positions, side="right") - 1
    expected_steps = np.where(source_indices[1:] == ZERO_POSITION, 0, 1)
    run_starts = (
        np.flatnonzero((np.diff(positions) != expected_steps) | (np.diff(source_indices) != 0)) + 1
    )
    run_edges = [0, *run_starts.tolist(), len(positions)]
    return [
        (
            int(source_indices[start]),
            int(positions[start] - source_starts[source_indices[start]]),
            end - start,
        )
        for start, end in pairwise(run_edges)
        if end > start
    ]


def _make_fill(
    writer: ArrayCode, dtype: str, register: str, target: str
) -> Callable[[Code, str], None]:
    """Return a function that writes LLVM code which stores a scalar in all array elements."""

    def write(code: Code, k: str) -> None:
        writer.store(code, dtype, code.broadcast(register, dtype), target, k)

    return write


def _view(writer: ArrayCode, output: Value, value: Value, cell: Cell, begin: int) -> Cell:
    """Return a view of a contiguous part of an array, without a copy."""
    if cell.is_scalar:
        return cell
    return writer.as_cell(
        output, _offset_pointer(writer, cell.pointer, begin * ITEM_BYTES[value.dtype])
    )


def _offset_pointer(writer: ArrayCode, pointer: str, size: int) -> str:
    return writer.offset_pointer(pointer, size) if size else pointer


def _gather_by_table(
    writer: ArrayCode, output: Value, source: tuple[Value, Cell], positions: Array, target: str
) -> None:
    """Write an LLVM loop that copies elements whose source indices are in a constant table."""
    (value, cell), scalar_code = source, writer.scalar_code
    position_table = writer.constant_table(positions.tolist())

    def write(number: str) -> None:
        position = writer.load(scalar_code, "int64", position_table, number)
        is_zero = scalar_code.less("int64", position, "0")
        if cell.is_scalar:
            source_element = cell.registers[0]
        else:
            position = scalar_code.select(is_zero, "int64", "0", position)
            source_element = writer.load(scalar_code, value.dtype, cell.pointer, position)
        if ZERO_POSITION in positions:
            source_element = scalar_code.select(
                is_zero, output.dtype, scalar_code.constant(0, output.dtype), source_element
            )
        writer.store(scalar_code, output.dtype, source_element, target, number)

    writer.repeat("0", str(len(positions)), 1, write)
