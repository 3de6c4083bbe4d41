"""Machine code of operations that reshape arrays or move elements, for shapes that are known only at run time.

An operation that keeps the order of the elements returns a view. Other operations copy the elements (see
`views`). `moves` writes the code for known shapes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from mdf_loop.ir import Op, Value, is_fixed
from mdf_loop.ops.native.code import (
    BYTES,
    NUMBER,
    Arrays,
    Cell,
    Code,
    Extent,
    Extents,
    Failure,
    NotNative,
)
from mdf_loop.ops.native.extents import alike, largest, least, less, product, quotient, total
from mdf_loop.ops.native.moves import MOST_RUNS, moved
from mdf_loop.ops.native.views import Stride, axes_of, broadcast, seen
from mdf_loop.ops.registry import NativeWhole, title

Cells = Mapping[Value, Cell]


def _open(rule: NativeWhole) -> NativeWhole:
    """Return a writer that uses `moves` for known shapes and `rule` for shapes that are known only at run time."""

    def form(writer: Arrays, op: Op, cells: Cells) -> Cell:
        values = [value for value in op.inputs if value is not None]
        known = all(writer.known(value) is not None for value in values[1:])
        if known and is_fixed(writer.extents(values[0])):
            return moved(writer, op, cells)
        return rule(writer, op, cells)

    return form


def _data(op: Op) -> Value:
    """Return the first operand of an operation."""
    value = op.inputs[0]
    assert value is not None
    return value


def _said(writer: Arrays, op: Op, cells: Cells, place: int, name: str) -> Extents | None:
    """Return the integers that an operand or attribute states, or None if neither exists.

    Args:
        writer: Writer of the code.
        op: The operation.
        cells: Cells of values.
        place: Position of the operand.
        name: Name of the attribute.
    """
    value = op.inputs[place] if place < len(op.inputs) else None
    if value is None:
        attribute = op.attributes.get(name)
        return None if attribute is None else tuple(int(number) for number in np.ravel(attribute))
    numbers = writer.numbers(value, cells)
    if numbers is None:
        raise NotNative(f"it has {title(op.op_type)} of what is computed")
    return numbers


def _axes(writer: Arrays, op: Op, cells: Cells, place: int, rank: int) -> list[int] | None:
    """Return the axes that an operand or the attribute `axes` states, or None if neither exists."""
    axes = _said(writer, op, cells, place, "axes")
    if axes is None:
        return None
    if not is_fixed(axes):
        raise NotNative(f"it has {title(op.op_type)} along axes that are computed")
    return [axis % rank for axis in axes]


def _same(writer: Arrays, op: Op, cells: Cells, extents: Extents) -> Cell:
    """Return the first operand with new extents. The order of its elements does not change."""
    value, output = _data(op), op.outputs[0]
    cell = writer.cell(value, cells)
    writer.shaped(output, extents)
    if cell.single:
        return cell
    if cell.registers:
        return writer.few(output, [_extent(register) for register in cell.registers])
    return writer.as_cell(output, writer.pointer_of(value, cell))


def _extent(register: str) -> Extent:
    """Convert a register or a literal to an extent."""
    return register if register.startswith("%") else int(register)


# --- shapes ---------------------------------------------------------------------------------------


def shape(writer: Arrays, op: Op, cells: Cells) -> Cell:
    """Write `Shape`."""
    part = slice(op.attributes.get("start", 0), op.attributes.get("end"))
    return writer.few(op.outputs[0], writer.extents(_data(op))[part])


def size(writer: Arrays, op: Op, cells: Cells) -> Cell:
    """Write `Size`."""
    return writer.few(op.outputs[0], [product(writer.one, writer.extents(_data(op)))])


# --- operations that keep the order of elements ---------------------------------------------------


def identity(writer: Arrays, op: Op, cells: Cells) -> Cell:
    """Write `Identity`."""
    return _same(writer, op, cells, writer.extents(_data(op)))


def flattened(writer: Arrays, op: Op, cells: Cells) -> Cell:
    """Write `Flatten`."""
    extents = writer.extents(_data(op))
    axis = op.attributes.get("axis", 1)
    axis += len(extents) if axis < 0 else 0
    sides = (product(writer.one, part) for part in (extents[:axis], extents[axis:]))
    return _same(writer, op, cells, tuple(sides))


def unsqueezed(writer: Arrays, op: Op, cells: Cells) -> Cell:
    """Write `Unsqueeze`."""
    extents = writer.extents(_data(op))
    added = _said(writer, op, cells, 1, "axes") or ()
    axes = _axes(writer, op, cells, 1, len(extents) + len(added)) or []
    own = iter(extents)
    rank = range(len(extents) + len(axes))
    return _same(writer, op, cells, tuple(1 if k in axes else next(own) for k in rank))


def squeezed(writer: Arrays, op: Op, cells: Cells) -> Cell:
    """Write `Squeeze`."""
    extents = writer.extents(_data(op))
    axes = _axes(writer, op, cells, 1, len(extents))
    if axes is None and not is_fixed(extents):
        raise NotNative("it has onnx::Squeeze of axes that are known only when it runs")
    if axes is None:
        axes = [axis for axis, extent in enumerate(extents) if extent == 1]
    for axis in axes:
        if extents[axis] != 1:
            wrong = writer.one.put(f"icmp ne i64 {extents[axis]}, 1")
            sentence = f"axis {axis} has {NUMBER} elements and cannot be left out"
            hint = "only an axis of 1 element can be squeezed"
            writer.one.fail_if(wrong, Failure(sentence, op.where, hint), [extents[axis]])
    output_extents = (extent for axis, extent in enumerate(extents) if axis not in axes)
    return _same(writer, op, cells, tuple(output_extents))


def reshaped(writer: Arrays, op: Op, cells: Cells) -> Cell:
    """Write `Reshape`.

    A stated extent of 0 keeps the axis unless `allowzero` is set, and -1 stands for the remaining extent.
    """
    code, input_extents = writer.one, writer.extents(_data(op))
    stated = list(_said(writer, op, cells, 1, "shape") or ())
    if not op.attributes.get("allowzero", 0):
        stated = [
            _kept(code, e, input_extents[k] if k < len(input_extents) else 0)
            for k, e in enumerate(stated)
        ]
    open_ends = [k for k, e in enumerate(stated) if e == -1 or not writer.is_extent(e)]
    others = [_known(code, e) if k in open_ends else e for k, e in enumerate(stated)]
    target = list(stated)
    wrong = "false"
    for k in open_ends:
        rest = others[:k] + others[k + 1 :]
        left = _left(code, input_extents, rest)
        target[k] = left if stated[k] == -1 else _if_it_is(code, (stated[k], -1), left)
        is_left, nothing = (
            code.compare("eq", "int64", str(number), certain)
            for number, certain in ((stated[k], "-1"), (product(code, rest), "0"))
        )
        wrong = code.binary("or", "bool", wrong, code.binary("and", "bool", is_left, nothing))
    _fits(writer, op, (input_extents, target, stated), wrong)
    return _same(writer, op, cells, tuple(target))


def _kept(code: Code, stated: Extent, mine: Extent) -> Extent:
    """Write the output extent of an axis. A stated extent of 0 stands for the extent of the operand."""
    if isinstance(stated, int):
        return stated if stated else mine
    return stated if stated == mine else _if_it_is(code, (stated, 0), mine)


def _known(code: Code, stated: Extent) -> Extent:
    """Write the factor of a stated extent in the product of all stated extents.

    An extent of -1, which stands for the remaining extent, has the factor 1.
    """
    return 1 if stated == -1 else _if_it_is(code, (stated, -1), 1)


def _if_it_is(code: Code, pair: tuple[Extent, int], other: Extent) -> Extent:
    """Write `other if number == certain else number` for a pair of `number` and `certain`."""
    number, certain = pair
    is_it = code.put(f"icmp eq i64 {number}, {certain}")
    return code.put(f"select i1 {is_it}, i64 {other}, i64 {number}")


def _left(code: Code, input_extents: Extents, others: Sequence[Extent]) -> Extent:
    """Write the product of the input extents, divided by the product of `others`."""
    mine, theirs = list(input_extents), []
    for extent in others:
        if extent in mine and extent != 0:
            mine.remove(extent)
        else:
            theirs.append(extent)
    divisor = largest(code, product(code, theirs), 1)
    return quotient(code, product(code, mine), divisor)


def _fits(
    writer: Arrays,
    op: Op,
    shapes: tuple[Extents, Sequence[Extent], Sequence[Extent]],
    wrong: str,
) -> None:
    """Write a check that fails the run if a condition is true or the number of elements changes.

    Args:
        writer: Writer of the code.
        op: The operation.
        shapes: Extents of the operand, of the output, and as stated by the operation.
        wrong: Register of the condition.
    """
    code, (input_extents, target, stated) = writer.one, shapes
    if alike(input_extents) != alike(target) or not alike(input_extents)[0]:
        there, target_size = product(code, input_extents), product(code, target)
        other = code.compare("ne", "int64", str(there), str(target_size))
        wrong = code.binary("or", "bool", wrong, other)
    for extent in (extent for extent in target if not writer.is_extent(extent)):
        low = code.compare("slt", "int64", str(extent), "0")
        wrong = code.binary("or", "bool", wrong, low)
    if wrong == "false":
        return
    before, after = (f"[{', '.join([NUMBER] * len(shape))}]" for shape in (input_extents, stated))
    sentence = f"an array of shape {before} cannot become one of shape {after}"
    hint = "both have the same number of elements"
    code.fail_if(wrong, Failure(sentence, op.where, hint), [*input_extents, *stated])


# --- operations that move elements ----------------------------------------------------------------


@_open
def transposed(writer: Arrays, op: Op, cells: Cells) -> Cell:
    """Write `Transpose`."""
    value, output = _data(op), op.outputs[0]
    extents = writer.extents(value)
    order = op.attributes.get("perm") or range(len(extents))[::-1]
    axes = axes_of(extents)
    writer.shaped(output, tuple(extents[k] for k in order))
    return seen(writer, output, (value, writer.cell(value, cells)), [axes[k] for k in order])


@_open
def expanded(writer: Arrays, op: Op, cells: Cells) -> Cell:
    """Write `Expand`."""
    value, output = _data(op), op.outputs[0]
    stated = _said(writer, op, cells, 1, "shape") or ()
    input_extents = writer.extents(value)
    rank = max(len(input_extents), len(stated))
    sides = ((*[1] * (rank - len(part)), *part) for part in (input_extents, stated))
    target = tuple(_wider(writer, op, *pair) for pair in zip(*sides, strict=True))
    writer.shaped(output, target)
    cell = writer.cell(value, cells)
    if cell.single:
        return cell
    wide = broadcast(writer, value, cell, target)
    return writer.as_cell(output, writer.pointer_of(output, wide))


def _wider(writer: Arrays, op: Op, mine: Extent, theirs: Extent) -> Extent:
    """Write the extent of an axis that is broadcast from `mine` to `theirs`."""
    if mine in (1, theirs):
        return theirs
    if theirs != 1:
        code = writer.one
        wrong = code.compare("ne", "int64", str(theirs), str(mine))
        other = code.compare("ne", "int64", str(theirs), "1")
        sentence = f"an axis of {NUMBER} elements cannot have {NUMBER}"
        hint = "only an axis of 1 element can be repeated"
        failure = Failure(sentence, op.where, hint)
        code.fail_if(code.binary("and", "bool", wrong, other), failure, [mine, theirs])
    return mine


@_open
def sliced(writer: Arrays, op: Op, cells: Cells) -> Cell:
    """Write `Slice`."""
    value, output = _data(op), op.outputs[0]
    extents = writer.extents(value)
    starts, ends = (_said(writer, op, cells, k, "") or () for k in (1, 2))
    along = _axes(writer, op, cells, 3, len(extents))
    steps = _said(writer, op, cells, 4, "") or (1,) * len(starts)
    if not is_fixed(steps) or 0 in steps:
        raise NotNative("it has onnx::Slice of what is computed")
    code, axes, target = writer.one, axes_of(extents), list(extents)
    begin: Extent = 0
    for k, axis in enumerate(along if along is not None else range(len(starts))):
        first, count = _part(writer, extents[axis], starts[k], ends[k], steps[k])
        offset = product(code, (first, *axes[axis].step))
        begin = total(code, begin, offset)
        axes[axis] = Stride((count,), (*axes[axis].step, steps[k]))
        target[axis] = count
    writer.shaped(output, tuple(target))
    return seen(writer, output, (value, writer.cell(value, cells)), axes, begin)


def _part(
    writer: Arrays, extent: Extent, start: Extent, end: Extent, step: int
) -> tuple[Extent, Extent]:
    """Write the first position and the number of positions of a slice. Positions out of range are clipped."""
    code = writer.one
    lowest, highest = (0, extent) if step > 0 else (-1, less(code, extent, 1))
    first = least(code, largest(code, _from_end(code, start, extent), 0), highest)
    last = least(code, largest(code, _from_end(code, end, extent), lowest), highest)
    away = less(code, last, first) if step > 0 else less(code, first, last)
    count = quotient(code, total(code, away, abs(step) - 1), abs(step))
    return first, least(code, largest(code, count, 0), extent)


def _from_end(code: Code, place: Extent, extent: Extent) -> Extent:
    """Write a position that counts from the end if it is negative."""
    if isinstance(place, int):
        return total(code, place, extent) if place < 0 else place
    behind = total(code, place, extent)
    negative = code.put(f"icmp slt i64 {place}, 0")
    return code.put(f"select i1 {negative}, i64 {behind}, i64 {place}")


def joined(writer: Arrays, op: Op, cells: Cells) -> Cell:
    """Write `Concat`: copies of the parts of all arrays, for each position of the axes in front."""
    values, output = [value for value in op.inputs if value is not None], op.outputs[0]
    shapes = [writer.extents(value) for value in values]
    code, axis = writer.one, op.attributes["axis"] % len(shapes[0])
    front = product(code, shapes[0][:axis])
    if all(map(is_fixed, shapes)) and isinstance(front, int) and front * len(values) <= MOST_RUNS:
        return moved(writer, op, cells)
    for value in values[1:]:
        _agree(writer, op, (values[0], value), axis)
    joined_extents = list(shapes[0])
    joined_extents[axis] = total(code, *(extents[axis] for extents in shapes))
    writer.shaped(output, tuple(joined_extents))
    target = writer.buffer(output)
    whole = product(code, joined_extents[axis:])
    begin: Extent = 0
    for value, extents in zip(values, shapes, strict=True):
        source = writer.pointer_of(value, writer.cell(value, cells))
        size = product(code, (extents[axis], *joined_extents[axis + 1 :]))
        _strewn(writer, output.dtype, (target, source), (front, size), (begin, whole))
        begin = total(code, begin, size)
    return Cell(pointer=target)


def _strewn(
    writer: Arrays,
    dtype: str,
    pointers: tuple[str, str],
    parts: tuple[Extent, Extent],
    places: tuple[Extent, Extent],
) -> None:
    """Write copies of contiguous parts of an array to equidistant positions.

    Args:
        writer: Writer of the code.
        dtype: Dtype of the elements.
        pointers: Addresses of the target and the source.
        parts: Number of parts, and number of elements of each.
        places: First position in the target, and stride of the positions.
    """
    (target, source), (count, size), (begin, step) = pointers, parts, places
    bytes_of = product(writer.one, (size, BYTES[dtype]))

    def part(number: str) -> None:
        here = writer.at(dtype, source, writer.times(number, size))
        there = writer.at(dtype, target, writer.times(number, step))
        writer.copy(writer.at(dtype, there, str(begin)), here, bytes_of)

    writer.repeat("0", str(count), 1, part)


def _agree(writer: Arrays, op: Op, values: tuple[Value, Value], axis: int) -> None:
    """Write a check that two arrays have equal extents along all axes but the concatenated axis."""
    code = writer.one
    first, other = (writer.extents(value) for value in values)
    for k, (one, more) in enumerate(zip(first, other, strict=True)):
        if k != axis and one != more:
            wrong = code.put(f"icmp ne i64 {one}, {more}")
            sentence = f"arrays that are joined differ in axis {k}: {NUMBER} and {NUMBER} elements"
            hint = "they may differ only along the axis on which they are joined"
            code.fail_if(wrong, Failure(sentence, op.where, hint), [one, more])
