"""Machine code of sums, products, maxima and minima along axes.

Terms are reduced in the order of `ops.ordered_sum` on every processor. Along the last axes, few terms are
reduced one after the other. More terms are reduced in eight parts, which are then reduced in pairs. Along the
first axes, rows are reduced in order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from mdf_loop.ir import Op, Value
from mdf_loop.ops.native.arithmetic import of_two
from mdf_loop.ops.native.code import (
    Arrays,
    Cell,
    Code,
    Extent,
    Extents,
    NotNative,
    is_float,
    literal,
)
from mdf_loop.ops.native.extents import largest as largest_of
from mdf_loop.ops.native.extents import product as product_of
from mdf_loop.ops.native.moves import Known
from mdf_loop.ops.native.products import Join, added, in_pairs, multiplied
from mdf_loop.ops.ordered_sum import MIN_TERMS_IN_PARTS, PARTS
from mdf_loop.ops.registry import NativeWhole, title


def _largest(code: Code, dtype: str, a: str, b: str) -> str:
    return of_two(code, dtype, "gt", a, b)


def _smallest(code: Code, dtype: str, a: str, b: str) -> str:
    return of_two(code, dtype, "lt", a, b)


JOINS = {
    "ReduceSum": "Add",
    "ReduceMean": "Add",
    "ReduceProd": "Mul",
    "ReduceMax": "Max",
    "ReduceMin": "Min",
    "OrderedSum": "Add",
    "ReduceMaximum": "Max",
    "ReduceMinimum": "Min",
}
"""Binary operation that reduces two elements, by the type of the reduction."""

Neutral = Callable[[str], float]
"""Function that returns the neutral element of a reduction for a dtype, such as 0 for a sum."""


def reduced(join: Join, neutral: Neutral, *, mean: bool = False) -> NativeWhole:
    """Return a writer of a reduction along adjacent axes.

    Args:
        join: Function that writes the reduction of two numbers.
        neutral: Function that returns the neutral element for a dtype.
        mean: True to divide by the number of elements.
    """

    def form(writer: Arrays, op: Op, cells: Mapping[Value, Cell]) -> Cell:
        data, output = op.inputs[0], op.outputs[0]
        assert data is not None
        if data.dtype == "bool":
            raise NotNative(f"it has {title(op.op_type)} of truth values")
        outer, inner_extents = _parts(writer, op)
        writer.shaped(output, outer)
        pointer = writer.pointer_of(data, writer.cell(data, cells))
        target = writer.buffer(output)
        extents = writer.extents(data)
        front, inner, tail = (
            product_of(writer.one, part)
            for part in (
                extents[: inner_extents.start],
                extents[inner_extents.start : inner_extents.stop],
                extents[inner_extents.stop :],
            )
        )
        start = literal(neutral(data.dtype), data.dtype)
        if inner_extents.stop == len(extents):
            _along_last(writer, data.dtype, (pointer, target), (front, inner), (join, start))
        else:
            _along_others(
                writer, data.dtype, (pointer, target), (front, inner, tail), (join, start)
            )
        if mean:
            _divided(writer, output, target, inner)
        return writer.as_cell(output, target)

    return form


def _parts(writer: Arrays, op: Op) -> tuple[Extents, range]:
    """Return the shape of the output of a reduction, and the range of reduced axes.

    Raises:
        NotNative: The axes are not adjacent or are computed.
    """
    data = op.inputs[0]
    assert data is not None
    extents = writer.extents(data)
    reduced_axes = axes_named(op, len(extents), writer.known)
    if not reduced_axes:
        if op.attributes.get("noop_with_empty_axes"):
            raise NotNative(f"it has {title(op.op_type)} along no axis")
        reduced_axes = list(range(len(extents)))
    if reduced_axes and reduced_axes != list(range(reduced_axes[0], reduced_axes[-1] + 1)):
        raise NotNative(f"it has {title(op.op_type)} along axes that do not lie together")
    keeps = op.attributes.get("keepdims", 1)
    shape = (
        1 if k in reduced_axes else e
        for k, e in enumerate(extents)
        if keeps or k not in reduced_axes
    )
    return tuple(shape), range(reduced_axes[0], reduced_axes[-1] + 1) if reduced_axes else range(0)


def axes_named(op: Op, rank: int, known: Known) -> list[int]:
    """Return the stated axes of a reduction, sorted.

    Raises:
        NotNative: The axes are computed.
    """
    axes = op.attributes.get("axes")
    if axes is None and len(op.inputs) > 1 and op.inputs[1] is not None:
        axes = known(op.inputs[1])
        if axes is None:
            raise NotNative(f"it has {title(op.op_type)} along axes that are computed")
    return sorted({int(axis) % rank for axis in np.ravel(axes)} if axes is not None else ())


def _along_last(
    writer: Arrays,
    dtype: str,
    pointers: tuple[str, str],
    counts: tuple[Extent, Extent],
    how: tuple[Join, str],
) -> None:
    """Write a reduction along the last axes."""
    (source, target), (outer, inner) = pointers, counts

    def result(number: str) -> None:
        begin = writer.at(dtype, source, writer.times(number, inner))
        writer.store(writer.one, dtype, _of_all(writer, dtype, begin, inner, how), target, number)

    writer.repeat("0", str(outer), 1, result)


def _of_all(writer: Arrays, dtype: str, pointer: str, count: Extent, how: tuple[Join, str]) -> str:
    """Write the reduction of contiguous numbers, and return the register of the result."""
    (join, neutral), one = how, writer.one
    if isinstance(count, str):
        return _of_so_many(writer, dtype, pointer, count, how)
    if count == 0:
        return neutral
    if count >= MIN_TERMS_IN_PARTS:
        return _of_parts(writer, dtype, pointer, count, join)
    total = writer.load(one, dtype, pointer)
    for number in range(1, count):
        total = join(one, dtype, total, writer.load(one, dtype, pointer, str(number)))
    return total


def _of_parts(writer: Arrays, dtype: str, pointer: str, count: Extent, join: Join) -> str:
    """Write the reduction of at least eight numbers in eight parts, each of every eighth number."""
    parts, one = Code(writer.text, PARTS, True), writer.one
    kind, single = parts.type(dtype), one.type(dtype)
    place = parts.place(kind)
    parts.line(f"store {kind} {writer.load(parts, dtype, pointer)}, ptr {place}")

    def some(number: str) -> None:
        so_far = parts.put(f"load {kind}, ptr {place}")
        joined = join(parts, dtype, so_far, writer.load(parts, dtype, pointer, number))
        parts.line(f"store {kind} {joined}, ptr {place}")

    def rest(number: str) -> None:
        index = one.put(f"and i64 {number}, {PARTS - 1}")
        part = one.put(f"getelementptr {single}, ptr {place}, i64 {index}")
        so_far = one.put(f"load {single}, ptr {part}")
        joined = join(one, dtype, so_far, writer.load(one, dtype, pointer, number))
        one.line(f"store {single} {joined}, ptr {part}")

    if isinstance(count, int):
        many: Extent = count // PARTS * PARTS
    else:
        many = one.put(f"and i64 {count}, -{PARTS}")
    writer.repeat(str(PARTS), str(many), PARTS, some)
    if many != count:
        writer.repeat(str(many), str(count), 1, rest)
    return in_pairs(one, dtype, parts.put(f"load {kind}, ptr {place}"), join)


def _of_so_many(writer: Arrays, dtype: str, pointer: str, count: str, how: tuple[Join, str]) -> str:
    """Write the reduction of numbers whose count is known only at run time."""
    (join, neutral), one = how, writer.one
    kind = one.type(dtype)
    place = one.place(kind)
    one.line(f"store {kind} {neutral}, ptr {place}")
    has_parts = one.put(f"icmp sge i64 {count}, {MIN_TERMS_IN_PARTS}")
    has_some = one.put(f"icmp ne i64 {count}, 0")

    def keep(register: str) -> None:
        one.line(f"store {kind} {register}, ptr {place}")

    def more(number: str) -> None:
        total = one.put(f"load {kind}, ptr {place}")
        keep(join(one, dtype, total, writer.load(one, dtype, pointer, number)))

    def one_by_one() -> None:
        keep(writer.load(one, dtype, pointer))
        writer.repeat("1", count, 1, more)

    one.when(
        has_parts,
        lambda: keep(_of_parts(writer, dtype, pointer, count, join)),
        lambda: one.when(has_some, one_by_one),
    )
    return one.put(f"load {kind}, ptr {place}")


def _along_others(
    writer: Arrays,
    dtype: str,
    pointers: tuple[str, str],
    counts: tuple[Extent, Extent, Extent],
    how: tuple[Join, str],
) -> None:
    """Write a reduction along axes other than the last, for each position of the axes in front of them."""
    (source, target), (front, inner, tail) = pointers, counts
    if front == 1:
        _along_first(writer, dtype, pointers, (tail, inner), how)
        return
    size = product_of(writer.one, (inner, tail))

    def part(number: str) -> None:
        here = writer.at(dtype, source, writer.times(number, size))
        there = writer.at(dtype, target, writer.times(number, tail))
        _along_first(writer, dtype, (here, there), (tail, inner), how)

    writer.repeat("0", str(front), 1, part)


def _along_first(
    writer: Arrays,
    dtype: str,
    pointers: tuple[str, str],
    counts: tuple[Extent, Extent],
    how: tuple[Join, str],
) -> None:
    """Write a reduction along the first axes: each row is reduced elementwise with the result of the rows before."""
    (source, target), (outer, rows), (join, neutral) = pointers, counts, how

    def first(code: Code, k: str) -> None:
        writer.store(code, dtype, writer.load(code, dtype, source, k), target, k)

    def none(code: Code, k: str) -> None:
        writer.store(code, dtype, code.spread(neutral, dtype), target, k)

    if isinstance(rows, int):
        writer.over(outer, first if rows else none)
    else:
        some = writer.one.put(f"icmp ne i64 {rows}, 0")
        writer.one.when(some, lambda: writer.over(outer, first), lambda: writer.over(outer, none))

    def row(number: str) -> None:
        begin = writer.at(dtype, source, writer.times(number, outer))

        def join_row(code: Code, k: str) -> None:
            so_far, more = (writer.load(code, dtype, p, k) for p in (target, begin))
            writer.store(code, dtype, join(code, dtype, so_far, more), target, k)

        writer.over(outer, join_row)

    writer.repeat("1", str(rows), 1, row)


def _divided(writer: Arrays, output: Value, target: str, inner: Extent) -> None:
    """Write the division of sums by the number of terms, which gives means. An empty sum is divided by 1."""
    dtype = output.dtype
    if not is_float(dtype):
        raise NotNative("it has onnx::ReduceMean of whole numbers")
    count = largest_of(writer.one, inner, 1)
    if isinstance(count, int):
        divisor = writer.one.number(count, dtype)
    else:
        divisor = writer.one.cast("sitofp", "int64", count, dtype)

    def divide(code: Code, k: str) -> None:
        total = writer.load(code, dtype, target, k)
        mean = code.binary("fdiv", dtype, total, code.spread(divisor, dtype))
        writer.store(code, dtype, mean, target, k)

    writer.over(product_of(writer.one, writer.extents(output)), divide)


def _lowest(dtype: str) -> float:
    """Return the smallest number of a dtype."""
    return -np.inf if is_float(dtype) else int(np.iinfo(dtype).min)


def _highest(dtype: str) -> float:
    """Return the largest number of a dtype."""
    return np.inf if is_float(dtype) else int(np.iinfo(dtype).max)


total = reduced(added, lambda dtype: 0)
product = reduced(multiplied, lambda dtype: 1)
mean = reduced(added, lambda dtype: 0, mean=True)
largest = reduced(_largest, _lowest)
smallest = reduced(_smallest, _highest)
