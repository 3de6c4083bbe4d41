"""Machine code of operations that only move elements, if their positions are known before the loop runs.

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
from mdf_loop.ops.meaning import evaluate
from mdf_loop.ops.native.code import ITEM_BYTES, Arrays, Cell, Code, NotNative
from mdf_loop.ops.registry import qualified_name, row_of

Known: TypeAlias = Callable[[Value], Array | None]
"""Function that returns the array of a value if it is known, else None."""

ZERO = -1
"""Position of an output element that is zero instead of an element of an operand."""

MAX_RUNS = 64
"""Maximum number of copies of adjacent elements. Otherwise, a table contains the position of each element."""


def write_move(writer: Arrays, op: Op, cells: Mapping[Value, Cell]) -> Cell:
    """Write an operation that only moves elements, and return its output.

    Raises:
        NotNative: The positions depend on computed values.
    """
    values, places = element_positions(writer, op)
    cells_of = [
        (value, _move_to_memory(writer, value, writer.cell(value, cells))) for value in values
    ]
    return gather_known(writer, op.outputs[0], cells_of, places)


def element_positions(writer: Arrays, op: Op) -> tuple[list[Value], Array]:
    """Return the moved operands, and the index of each output element in their concatenation, or `ZERO`.

    Raises:
        NotNative: The positions depend on computed values, or runtimes differ in the shape of the output.
    """
    if len(op.outputs) != 1:
        raise NotNative(f"it has {qualified_name(op.op_type)} of what is computed")
    values, (places,) = positions_of(op, writer.shape, writer.constant_of)
    output = op.outputs[0]
    declared = output.shape if is_fixed(output.shape) else _infer_shape(writer, op)
    if is_fixed(declared) and places.shape != declared:  # readers would exceed the array
        raise NotNative(f"it has {qualified_name(op.op_type)} that runtimes compute differently")
    writer.set_extents(output, places.shape)
    return values, places.reshape(-1)


def has_known_positions(op: Op, known: Known) -> bool:
    """Return True if the positions of the moved elements are known at compile time."""
    others = _other_operands(op)
    return len(op.outputs) == 1 and all(known(value) is not None for value in others)


def _infer_shape(writer: Arrays, op: Op) -> Shape:
    """Return the shape that ONNX infers for the output from the known extents."""
    known_arrays = {
        k: array for k, v in enumerate(op.inputs) if (array := writer.constant_of(v)) is not None
    }
    operand_types = [
        None
        if v is None
        else (v.dtype, known_arrays[k].shape if k in known_arrays else writer.shape(v))
        for k, v in enumerate(op.inputs)
    ]
    ((_, shape),) = infer(op.op_type, operand_types, op.attributes, known_arrays, 1)
    return shape


def positions_of(
    op: Op, shape: Callable[[Value], tuple[int, ...]], known: Known
) -> tuple[list[Value], list[Array]]:
    """Return the moved operands, and for each output the indices of its elements in their concatenation, or `ZERO`.

    Args:
        op: The operation.
        shape: Function that returns the extents of a value.
        known: Function that returns the array of a value if it is known, else None.

    Raises:
        NotNative: The positions depend on computed values, or the operation is invalid.
    """
    if any(known(value) is None for value in _other_operands(op)):
        raise NotNative(f"it has {qualified_name(op.op_type)} of what is computed")
    arrays = [None if value is None else known(value) for value in op.inputs]
    values, begin = [], 1
    for position in _moved_operand_indices(op):
        value = op.inputs[position]
        if value is not None:
            extents = shape(value)
            size = math.prod(extents)
            arrays[position] = (begin + np.arange(size)).reshape(extents)
            values.append(value)
            begin += size
    try:
        outputs = evaluate(op.op_type, arrays, op.attributes, len(op.outputs))
    except Exception:  # noqa: BLE001 - numpy and onnx's reference raise anything
        raise NotNative(f"it has {qualified_name(op.op_type)} that cannot be computed") from None
    return values, [np.asarray(each) - 1 for each in outputs]


def _moved_operand_indices(op: Op) -> Sequence[int]:
    """Return the positions of the operands whose elements are moved."""
    moves = row_of(op.op_type).moved_operands
    return (0,) if moves is None else moves(op)


def _other_operands(op: Op) -> list[Value]:
    """Return the operands that determine positions, but whose elements are not moved."""
    positions = _moved_operand_indices(op)
    return [v for k, v in enumerate(op.inputs) if v is not None and k not in positions]


def _move_to_memory(writer: Arrays, value: Value, cell: Cell) -> Cell:
    return cell if cell.single else Cell(pointer=writer.pointer_of(value, cell))


def gather_known(
    writer: Arrays, output: Value, sources: Sequence[tuple[Value, Cell]], places: Array
) -> Cell:
    """Write an array that consists of elements of other arrays and of zeros.

    Args:
        writer: Writer of the code.
        output: The array.
        sources: Arrays whose elements are copied.
        places: Index of each output element in the concatenation of the sources, or `ZERO`.
    """
    runs = _find_runs([writer.shape(value) for value, _ in sources], places)
    if len(runs) == 1 and runs[0][0] != ZERO:
        source, begin, _ = runs[0]
        return _view(writer, output, *sources[source], begin)
    target = writer.buffer(output)
    size = ITEM_BYTES[output.dtype]
    if len(runs) > MAX_RUNS:
        source_array = (
            sources[0] if len(sources) == 1 else _concatenate_sources(writer, output.dtype, sources)
        )
        _gather_by_table(writer, output, source_array, places, target)
        return writer.as_cell(output, target)
    if ZERO in places:
        zero = writer.scalar.constant(0, output.dtype)
        writer.for_each_element(len(places), _make_fill(writer, output.dtype, zero, target))
    written_count = 0
    for source, begin, count in runs:
        if source == ZERO:
            written_count += count
            continue
        cell = sources[source][1]
        target_pointer = _offset_pointer(writer, target, written_count * size)
        if cell.single:
            writer.for_each_element(
                count, _make_fill(writer, output.dtype, cell.registers[0], target_pointer)
            )
        else:
            writer.copy(
                target_pointer, _offset_pointer(writer, cell.pointer, begin * size), count * size
            )
        written_count += count
    return writer.as_cell(output, target)


def _concatenate_sources(
    writer: Arrays, dtype: str, sources: Sequence[tuple[Value, Cell]]
) -> tuple[Value, Cell]:
    """Write the concatenation of all sources, in order."""
    sizes = [math.prod(writer.shape(value)) for value, _ in sources]
    concatenation = Value("all of them", dtype, (sum(sizes),))
    target, begin = writer.buffer(concatenation), 0
    for (value, cell), size in zip(sources, sizes, strict=True):
        target_pointer = _offset_pointer(writer, target, begin * ITEM_BYTES[dtype])
        writer.copy(target_pointer, writer.pointer_of(value, cell), size * ITEM_BYTES[dtype])
        begin += size
    return concatenation, Cell(pointer=target)


def _find_runs(shapes: Sequence[tuple[int, ...]], places: Array) -> list[tuple[int, int, int]]:
    """Return the runs of adjacent elements: the source (or `ZERO`), the first index in the source, and the count."""
    sizes = [math.prod(shape) for shape in shapes]
    begins = np.cumsum([0, *sizes])
    source_indices = np.searchsorted(begins, places, side="right") - 1
    steps = np.where(source_indices[1:] == ZERO, 0, 1)
    run_starts = np.flatnonzero((np.diff(places) != steps) | (np.diff(source_indices) != 0)) + 1
    edges = [0, *run_starts.tolist(), len(places)]
    return [
        (int(source_indices[a]), int(places[a] - begins[source_indices[a]]), b - a)
        for a, b in pairwise(edges)
        if b > a
    ]


def _make_fill(
    writer: Arrays, dtype: str, register: str, target: str
) -> Callable[[Code, str], None]:
    """Return a function that writes a scalar to all elements of an array."""

    def write(code: Code, k: str) -> None:
        writer.store(code, dtype, code.broadcast(register, dtype), target, k)

    return write


def _view(writer: Arrays, output: Value, value: Value, cell: Cell, begin: int) -> Cell:
    """Return the cell of a contiguous part of an array, without a copy."""
    if cell.single:
        return cell
    return writer.as_cell(
        output, _offset_pointer(writer, cell.pointer, begin * ITEM_BYTES[value.dtype])
    )


def _offset_pointer(writer: Arrays, pointer: str, size: int) -> str:
    return writer.offset_pointer(pointer, size) if size else pointer


def _gather_by_table(
    writer: Arrays, output: Value, source: tuple[Value, Cell], places: Array, target: str
) -> None:
    """Write a loop that loads the position of each element from a table."""
    (value, cell), code = source, writer.scalar
    table = writer.table(places.tolist())

    def write(number: str) -> None:
        place = writer.load(code, "int64", table, number)
        is_none = code.less("int64", place, "0")
        if cell.single:
            register = cell.registers[0]
        else:
            place = code.select(is_none, "int64", "0", place)
            register = writer.load(code, value.dtype, cell.pointer, place)
        if ZERO in places:
            register = code.select(is_none, output.dtype, code.constant(0, output.dtype), register)
        writer.store(code, output.dtype, register, target, number)

    writer.repeat("0", str(len(places)), 1, write)
