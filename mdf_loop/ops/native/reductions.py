"""Sums, products and extremes along axes, as native loops compute them.

Along the last axes each result is of eight parts, which are put together in pairs, then of what is
left; along the first axes in the order of the rows: the same order whatever the processor.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from mdf_loop.ir import Op, Value
from mdf_loop.ops.native.arithmetic import of_two
from mdf_loop.ops.native.code import Arrays, Cell, Code, NotNative, is_float
from mdf_loop.ops.native.products import PARTS, Join, added, in_pairs, multiplied
from mdf_loop.ops.registry import NativeWhole, title


def _largest(code: Code, dtype: str, a: str, b: str) -> str:
    return of_two(code, dtype, "gt", a, b)


def _smallest(code: Code, dtype: str, a: str, b: str) -> str:
    return of_two(code, dtype, "lt", a, b)


def reduced(join: Join, *, mean: bool = False) -> NativeWhole:
    """An operation that makes one number of those along some axes."""

    def form(writer: Arrays, op: Op, cells: Mapping[Value, Cell]) -> Cell:
        data, made = op.inputs[0], op.outputs[0]
        assert data is not None
        shape = writer.shape(data)
        kept, inner, last = _parts(writer, op, shape)
        if data.dtype == "bool" or 0 in shape:
            raise NotNative(f"it has {title(op.op_type)} of nothing, or of truth values")
        pointer = writer.pointer_of(data, writer.cell(data, cells))
        target = writer.buffer(made)
        if last:
            _along_last(writer, data.dtype, (pointer, target), (kept, inner), join)
        else:
            _along_first(writer, data.dtype, (pointer, target), (kept, inner), join)
        if mean:
            _divided(writer, made, target, kept, inner)
        return writer.as_cell(made, target)

    return form


def _parts(writer: Arrays, op: Op, shape: tuple[int, ...]) -> tuple[int, int, bool]:
    """How many results, of how many numbers each, and whether those lie together.

    Raises:
        NotNative: neither the first nor the last axes are left out.
    """
    axes = op.attributes.get("axes")
    if axes is None and len(op.inputs) > 1 and op.inputs[1] is not None:
        axes = writer.known(op.inputs[1])
        if axes is None:
            raise NotNative(f"it has {title(op.op_type)} along axes that are computed")
    gone = sorted({int(axis) % len(shape) for axis in np.ravel(axes)} if axes is not None else ())
    if not gone:
        if op.attributes.get("noop_with_empty_axes"):
            raise NotNative(f"it has {title(op.op_type)} along no axis")
        return 1, math.prod(shape), True
    inner = math.prod(shape[axis] for axis in gone)
    kept = math.prod(shape) // inner
    if gone == list(range(len(shape) - len(gone), len(shape))):
        return kept, inner, True
    if gone == list(range(len(gone))):
        return kept, inner, False
    raise NotNative(f"it has {title(op.op_type)} along an axis in the middle")


def _along_last(
    writer: Arrays, dtype: str, pointers: tuple[str, str], counts: tuple[int, int], join: Join
) -> None:
    (source, target), (kept, inner) = pointers, counts

    def result(number: str) -> None:
        begin = writer.at(dtype, source, writer.times(number, inner))
        writer.store(writer.one, dtype, _of_all(writer, dtype, begin, inner, join), target, number)

    writer.repeat("0", str(kept), 1, result)


def _of_all(writer: Arrays, dtype: str, pointer: str, count: int, join: Join) -> str:
    """One number of those that lie together."""
    parts, one = Code(writer.text, PARTS, True), writer.one
    many = count // PARTS * PARTS
    if not many:
        total, rest = writer.load(one, dtype, pointer), range(1, count)
    else:
        kind = parts.type(dtype)
        place = parts.place(kind)
        parts.line(f"store {kind} {writer.load(parts, dtype, pointer)}, ptr {place}")

        def some(number: str) -> None:
            so_far = parts.put(f"load {kind}, ptr {place}")
            made = join(parts, dtype, so_far, writer.load(parts, dtype, pointer, number))
            parts.line(f"store {kind} {made}, ptr {place}")

        writer.repeat(str(PARTS), str(many), PARTS, some)
        total = in_pairs(one, dtype, parts.put(f"load {kind}, ptr {place}"), join)
        rest = range(many, count)
    for number in rest:
        total = join(one, dtype, total, writer.load(one, dtype, pointer, str(number)))
    return total


def _along_first(
    writer: Arrays, dtype: str, pointers: tuple[str, str], counts: tuple[int, int], join: Join
) -> None:
    """Row after row, all results side by side."""
    (source, target), (kept, rows) = pointers, counts

    def first(code: Code, k: str) -> None:
        writer.store(code, dtype, writer.load(code, dtype, source, k), target, k)

    writer.over(kept, first)

    def row(number: str) -> None:
        begin = writer.at(dtype, source, writer.times(number, kept))

        def join_row(code: Code, k: str) -> None:
            so_far, more = (writer.load(code, dtype, p, k) for p in (target, begin))
            writer.store(code, dtype, join(code, dtype, so_far, more), target, k)

        writer.over(kept, join_row)

    writer.repeat("1", str(rows), 1, row)


def _divided(writer: Arrays, made: Value, target: str, kept: int, inner: int) -> None:
    dtype = made.dtype
    if not is_float(dtype):
        raise NotNative("it has onnx::ReduceMean of whole numbers")

    def divide(code: Code, k: str) -> None:
        total = writer.load(code, dtype, target, k)
        mean = code.binary("fdiv", dtype, total, code.number(inner, dtype))
        writer.store(code, dtype, mean, target, k)

    writer.over(kept, divide)


total = reduced(added)
product = reduced(multiplied)
mean = reduced(added, mean=True)
largest = reduced(_largest)
smallest = reduced(_smallest)
