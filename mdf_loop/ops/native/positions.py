"""Machine code of `GatherElements`, `GatherND`, `ScatterElements` and `ScatterND` with computed positions.

    GatherElements(x, p)[i, j] = x[p[i, j], j]          GatherND(x, p)[i] = x[p[i, 0], p[i, 1], ...]

A position that does not exist ends the run with an error, with the same message as in a standard loop.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from mdf_loop.ir import Op, Value
from mdf_loop.ops.native.code import (
    ITEM_BYTES,
    NUMBER_PLACEHOLDER,
    Arrays,
    Cell,
    Code,
    Failure,
    NotNative,
)
from mdf_loop.ops.native.grids import NO_POSITION, advance, loop_over_grid, strides, write_position
from mdf_loop.ops.native.moves import write_move
from mdf_loop.ops.native.products import Join, write_multiplication, write_sum
from mdf_loop.ops.registry import qualified_name

Cells = Mapping[Value, Cell]
"""Cells of values in one scope."""
WriteChange = Callable[[str, str], None]
"""Function `change(there, number)` that writes a move between position `there` and element `number`."""


def _operands(op: Op) -> tuple[Value, ...]:
    """Return the operands of an operation, without missing optional operands."""
    return tuple(value for value in op.inputs if value is not None)


def _shape_mismatch(op: Op) -> str:
    """Return the reason for operands whose shapes ONNX Runtime refuses."""
    return f"it has {qualified_name(op.op_type)} of operands whose shapes do not fit"


def _copy_first_operand(writer: Arrays, op: Op, cells: Cells) -> str:
    """Write a copy of the first operand."""
    data = _operands(op)[0]
    target = writer.buffer(op.outputs[0])
    source = writer.pointer_of(data, writer.cell(data, cells))
    writer.copy(target, source, math.prod(writer.shape(data)) * ITEM_BYTES[data.dtype])
    return target


# --- along one axis -------------------------------------------------------------------------------


def gather_elements(writer: Arrays, op: Op, cells: Cells) -> Cell:
    """Write `GatherElements`."""
    data, index = _operands(op)
    if writer.constant_of(index) is not None:
        return write_move(writer, op, cells)
    source = writer.pointer_of(data, writer.cell(data, cells))
    target, code = writer.buffer(op.outputs[0]), writer.scalar
    failure = Failure("a position does not exist", op.where, NO_POSITION)

    def take(there: str, number: str) -> None:
        writer.store(code, data.dtype, writer.load(code, data.dtype, source, there), target, number)

    _for_positions(writer, op, cells, failure, take)
    return writer.as_cell(op.outputs[0], target)


def scatter_elements(writer: Arrays, op: Op, cells: Cells) -> Cell:
    """Write `ScatterElements`. Several updates of one position are reduced, or the last one remains."""
    data, index, updates = _operands(op)
    if writer.shape(updates) != writer.shape(index):
        raise NotNative(_shape_mismatch(op))
    target, join = _copy_first_operand(writer, op, cells), _select_reduction(op)
    update_pointer = writer.pointer_of(updates, writer.cell(updates, cells))
    extent = writer.shape(data)[op.attributes.get("axis", 0)]
    ends = f"the axis has positions {-extent} to {extent - 1}"
    failure = Failure(
        f"position {NUMBER_PLACEHOLDER} does not exist: {ends}", op.where, NO_POSITION
    )

    def put(there: str, number: str) -> None:
        _update_element(
            writer, writer.scalar, data.dtype, (target, there), (update_pointer, number), join
        )

    _for_positions(writer, op, cells, failure, put)
    return writer.as_cell(op.outputs[0], target)


def _for_positions(
    writer: Arrays, op: Op, cells: Cells, failure: Failure, change: WriteChange
) -> None:
    """Write a loop over positions along one axis. `change` writes the move for each position."""
    data, index = _operands(op)[:2]
    shape, grid = writer.shape(data), writer.shape(index)
    if len(grid) != len(shape):
        raise NotNative(_shape_mismatch(op))
    axis = op.attributes.get("axis", 0) % len(shape)
    positions = writer.pointer_of(index, writer.cell(index, cells))
    step = strides(shape)[axis]
    other_strides = [0 if k == axis else each for k, each in enumerate(strides(shape))]

    def one(places: list[str]) -> None:
        number, offset = places
        index_register = writer.load(writer.scalar, index.dtype, positions, number)
        place = write_position(writer, index.dtype, index_register, shape[axis], failure)
        change(advance(writer, offset, place, step), number)

    loop_over_grid(writer, grid, [strides(grid), other_strides], one)


# --- along several axes ---------------------------------------------------------------------------


def gather_nd(writer: Arrays, op: Op, cells: Cells) -> Cell:
    """Write `GatherND`."""
    data, index = _operands(op)
    if writer.constant_of(index) is not None:
        return write_move(writer, op, cells)
    source = writer.pointer_of(data, writer.cell(data, cells))
    target, code = writer.buffer(op.outputs[0]), writer.scalar
    size = _slice_size(writer, op)

    def take(there: str, number: str) -> None:
        here = writer.multiply(number, size)
        if size == 1:
            element = writer.load(code, data.dtype, source, there)
            writer.store(code, data.dtype, element, target, here)
            return
        to, of = (
            writer.element_address(data.dtype, target, here),
            writer.element_address(data.dtype, source, there),
        )
        writer.copy(to, of, size * ITEM_BYTES[data.dtype])

    _for_position_rows(writer, op, cells, take)
    return writer.as_cell(op.outputs[0], target)


def scatter_nd(writer: Arrays, op: Op, cells: Cells) -> Cell:
    """Write `ScatterND`. Several updates of one position are reduced, or the last one remains."""
    data, index, updates = _operands(op)
    (*rows, count), extents = writer.shape(index), writer.shape(data)
    if writer.shape(updates) != (*rows, *extents[count:]):
        raise NotNative(_shape_mismatch(op))
    target, join = _copy_first_operand(writer, op, cells), _select_reduction(op)
    update_pointer = writer.pointer_of(updates, writer.cell(updates, cells))
    size = _slice_size(writer, op)

    def put(there: str, number: str) -> None:
        begin = writer.multiply(number, size)

        def one(code: Code, k: str) -> None:
            here, mine = (writer.scalar.emit(f"add i64 {each}, {k}") for each in (there, begin))
            _update_element(writer, code, data.dtype, (target, here), (update_pointer, mine), join)

        writer.for_each_element(size, one)

    _for_position_rows(writer, op, cells, put)
    return writer.as_cell(op.outputs[0], target)


def _slice_size(writer: Arrays, op: Op) -> int:
    """Return the number of elements that each row of positions selects."""
    data, index = _operands(op)[:2]
    axes = op.attributes.get("batch_dims", 0) + writer.shape(index)[-1]
    return math.prod(writer.shape(data)[axes:])


def _for_position_rows(writer: Arrays, op: Op, cells: Cells, change: WriteChange) -> None:
    """Write a loop over rows of positions. `change` writes the move for each row."""
    data, index = _operands(op)[:2]
    shape, (*grid, count) = writer.shape(data), writer.shape(index)
    batch = op.attributes.get("batch_dims", 0)
    positions = writer.pointer_of(index, writer.cell(index, cells))
    failure = Failure(f"position {NUMBER_PLACEHOLDER} does not exist", op.where, NO_POSITION)
    steps = strides(shape)
    batch_strides = [each if k < batch else 0 for k, each in enumerate(steps[: len(grid)])]
    batch_strides += [0] * (len(grid) - len(batch_strides))

    def one(places: list[str]) -> None:
        number, offset = places
        for k in range(count):
            at = advance(writer, str(k), number, count)
            index_register = writer.load(writer.scalar, index.dtype, positions, at)
            place = write_position(writer, index.dtype, index_register, shape[batch + k], failure)
            offset = advance(writer, offset, place, steps[batch + k])
        change(offset, number)

    loop_over_grid(writer, grid, [strides(grid), batch_strides], one)


# --- several updates of one position --------------------------------------------------------------


def _select_reduction(op: Op) -> Join | None:
    """Return the function that combines old and new elements, or None if new elements replace old elements."""
    reduction = op.attributes.get("reduction", "none")
    if reduction == "none":
        return None
    if op.outputs[0].dtype == "bool" or reduction not in _JOINS:
        raise NotNative(f"it has {qualified_name(op.op_type)} with reduction {reduction}")
    return _JOINS[reduction]


def _update_element(
    writer: Arrays,
    code: Code,
    dtype: str,
    target: tuple[str, str],
    source: tuple[str, str],
    join: Join | None,
) -> None:
    """Write an update of the element at `target` by the element at `source`. Each is a pointer with an index."""
    update = writer.load(code, dtype, *source)
    element = (
        update if join is None else join(code, dtype, writer.load(code, dtype, *target), update)
    )
    writer.store(code, dtype, element, *target)


def _larger(code: Code, dtype: str, old: str, new: str) -> str:
    """Write `old if old > new else new`, which is the new number if either is nan."""
    return code.select(code.less(dtype, new, old), dtype, old, new)


def _smaller(code: Code, dtype: str, old: str, new: str) -> str:
    """Write `old if old < new else new`, which is the new number if either is nan."""
    return code.select(code.less(dtype, old, new), dtype, old, new)


_JOINS: Mapping[str, Join] = {
    **{"add": write_sum, "mul": write_multiplication},
    **{"max": _larger, "min": _smaller},
}
