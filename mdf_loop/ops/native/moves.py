"""Whole arrays whose elements are moved: which one goes where is known before the loop runs.

The operation is done once on the numbers of its elements, from 1 on: `Slice([1, 2, 3, 4], 1, 3)` gives 2, 3,
and where it gives 0 there is a zero. What lies together is copied together; a part of an array that stays
as it is, is read where it is.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np

from mdf_loop.ir import Array, Op, Value
from mdf_loop.ops.meaning import evaluate
from mdf_loop.ops.native.code import BYTES, Arrays, Cell, Code, Failure, NotNative
from mdf_loop.ops.registry import row_of, title

MOST_RUNS = 64
"""Copies of elements that lie together; where there are more, each element has its place in a table."""


def moved(writer: Arrays, op: Op, cells: Mapping[Value, Cell]) -> Cell:
    """What an operation gives that only moves elements.

    Raises:
        NotNative: where they go depends on what is computed.
    """
    row = row_of(op.op_type)
    sources = op.inputs[:1] if row.moves is None else row.moves(op)
    given = [value for value in op.inputs if value is not None]
    values = [value for value in sources if value is not None]
    others = [value for value in given if value not in values]
    if len(op.outputs) != 1 or any(writer.known(value) is None for value in others):
        raise NotNative(f"it has {title(op.op_type)} of what is computed")
    numbers, begin = {}, 1
    for value in values:
        shape = writer.shape(value)
        size = math.prod(shape)
        numbers[value] = (begin + np.arange(size)).reshape(shape)
        begin += size
    arrays = [None if v is None else numbers.get(v, writer.known(v)) for v in op.inputs]
    (places,) = evaluate(op.op_type, arrays, op.attributes, 1)
    cells_of = [(value, writer.cell(value, cells)) for value in values]
    return gathered(writer, op.outputs[0], cells_of, np.asarray(places).reshape(-1) - 1)


ZERO = -1
"""The place of no element: there is a zero."""


def gathered(
    writer: Arrays, made: Value, sources: Sequence[tuple[Value, Cell]], places: Array
) -> Cell:
    """An array of elements of others, which are numbered one source after the other, and of zeros."""
    runs = _runs([writer.shape(value) for value, _ in sources], places)
    if len(runs) == 1 and runs[0][0] != ZERO:
        source, begin, _ = runs[0]
        return _part(writer, made, *sources[source], begin)
    if not runs:
        raise NotNative("it has an empty array")
    target = writer.buffer(made)
    size = BYTES[made.dtype]
    if len(runs) > MOST_RUNS and len(sources) == 1:
        _by_table(writer, made, sources[0], places, target)
        return writer.as_cell(made, target)
    if len(runs) > MOST_RUNS:
        raise NotNative("it has arrays that are mixed")
    if ZERO in places:
        writer.over(len(places), lambda code, k: _zero(writer, code, made.dtype, target, k))
    done = 0
    for source, begin, count in runs:
        if source == ZERO:
            done += count
            continue
        cell = sources[source][1]
        there = _far(writer, target, done * size)
        if cell.single:
            writer.store(writer.one, made.dtype, cell.registers[0], there)
        else:
            writer.copy(there, _far(writer, cell.pointer, begin * size), count * size)
        done += count
    return writer.as_cell(made, target)


def _runs(shapes: Sequence[tuple[int, ...]], places: Array) -> list[tuple[int, int, int]]:
    """Elements that lie together, in order: which source (or `ZERO`), number of the first there, how many."""
    sizes = [math.prod(shape) for shape in shapes]
    begins = np.cumsum([0, *sizes])
    which = np.searchsorted(begins, places, side="right") - 1
    steps = np.where(which[1:] == ZERO, 0, 1)
    cut = np.flatnonzero((np.diff(places) != steps) | (np.diff(which) != 0)) + 1
    edges = [0, *cut.tolist(), len(places)]
    return [
        (int(which[a]), int(places[a] - begins[which[a]]), b - a)
        for a, b in pairwise(edges)
        if b > a
    ]


def _zero(writer: Arrays, code: Code, dtype: str, target: str, place: str) -> None:
    writer.store(code, dtype, code.number(0, dtype), target, place)


def _part(writer: Arrays, made: Value, value: Value, cell: Cell, begin: int) -> Cell:
    """A part of an array, where it is."""
    if cell.single:
        return cell
    return writer.as_cell(made, _far(writer, cell.pointer, begin * BYTES[value.dtype]))


def _far(writer: Arrays, pointer: str, size: int) -> str:
    return writer.far(pointer, size) if size else pointer


def _by_table(
    writer: Arrays, made: Value, source: tuple[Value, Cell], places: Array, target: str
) -> None:
    """Each element from its place in a table."""
    (value, cell), code = source, writer.one
    table = writer.table(places.tolist())

    def write(number: str) -> None:
        place = writer.load(code, "int64", table, number)
        is_none = code.less("int64", place, "0")
        if cell.single:
            register = cell.registers[0]
        else:
            place = code.choose(is_none, "int64", "0", place)
            register = writer.load(code, value.dtype, cell.pointer, place)
        if ZERO in places:
            register = code.choose(is_none, made.dtype, code.number(0, made.dtype), register)
        writer.store(code, made.dtype, register, target, number)

    writer.repeat("0", str(len(places)), 1, write)


# --- a row by its number --------------------------------------------------------------------------


def gather(writer: Arrays, op: Op, cells: Mapping[Value, Cell]) -> Cell:
    """Elements by their numbers; a row by a number that is computed, where it is.

    Raises:
        NotNative: several numbers are computed, or not that of a row.
    """
    data, index = op.inputs[0], op.inputs[1]
    assert data is not None
    assert index is not None
    if writer.known(index) is not None:
        return moved(writer, op, cells)
    shape, which = writer.shape(data), writer.cell(index, cells)
    if not which.single or op.attributes.get("axis", 0) not in (0, -len(shape)):
        raise NotNative(f"it has {title(op.op_type)} of numbers that are computed")
    code, count = writer.one, shape[0]
    number = which.registers[0]
    if index.dtype == "int32":
        number = code.cast("sext", "int32", number, "int64")
    low = code.compare("slt", "int64", number, str(-count))
    high = code.compare("sge", "int64", number, str(count))
    sentence = f"a position does not exist: the axis has positions {-count} to {count - 1}"
    failure = Failure(sentence, op.where, "a subscript is outside of its array")
    code.fail_if(code.binary("or", "bool", low, high), failure)
    negative = code.compare("slt", "int64", number, "0")
    behind = code.binary("add", "int64", number, str(count))
    place = code.choose(negative, "int64", behind, number)
    pointer = writer.pointer_of(data, writer.cell(data, cells))
    there = writer.at(data.dtype, pointer, writer.times(place, math.prod(shape[1:])))
    return writer.as_cell(op.outputs[0], there)
