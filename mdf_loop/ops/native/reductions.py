"""Machine code of sums, products, maxima and minima along axes.

Terms are reduced in the order of `ops.ordered_sum` on every processor. Along the last axes, few terms are
reduced one after the other. More terms are reduced in eight parts, which are then reduced in pairs. Along the
first axes, rows are reduced in order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from mdf_loop.ir import Op, Value
from mdf_loop.ops.native.arithmetic import extreme_of_two
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
from mdf_loop.ops.native.extents import larger_extent as largest_of
from mdf_loop.ops.native.extents import product as product_of
from mdf_loop.ops.native.moves import Known
from mdf_loop.ops.native.products import Join, reduce_lanes, write_multiplication, write_sum
from mdf_loop.ops.ordered_sum import MIN_TERMS_IN_PARTS, N_PARTS
from mdf_loop.ops.registry import NativeArrayCode, qualified_name


def _largest(code: Code, dtype: str, a: str, b: str) -> str:
    return extreme_of_two(code, dtype, "gt", a, b)


def _smallest(code: Code, dtype: str, a: str, b: str) -> str:
    return extreme_of_two(code, dtype, "lt", a, b)


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


def reduction_writer(join: Join, neutral: Neutral, *, mean: bool = False) -> NativeArrayCode:
    """Return a writer of a reduction along adjacent axes.

    Args:
        join: Function that writes the reduction of two numbers.
        neutral: Function that returns the neutral element for a dtype.
        mean: True to divide by the number of elements.
    """

    def write(writer: Arrays, op: Op, cells: Mapping[Value, Cell]) -> Cell:
        data, output = op.inputs[0], op.outputs[0]
        assert data is not None
        if data.dtype == "bool":
            raise NotNative(f"it has {qualified_name(op.op_type)} of truth values")
        outer, inner_extents = _shape_and_axes(writer, op)
        writer.set_extents(output, outer)
        pointer = writer.pointer_of(data, writer.cell(data, cells))
        target = writer.buffer(output)
        extents = writer.extents(data)
        front, inner, tail = (
            product_of(writer.scalar, part)
            for part in (
                extents[: inner_extents.start],
                extents[inner_extents.start : inner_extents.stop],
                extents[inner_extents.stop :],
            )
        )
        start = literal(neutral(data.dtype), data.dtype)
        if inner_extents.stop == len(extents):
            _reduce_last_axes(writer, data.dtype, (pointer, target), (front, inner), (join, start))
        else:
            _reduce_inner_axes(
                writer, data.dtype, (pointer, target), (front, inner, tail), (join, start)
            )
        if mean:
            _divide_by_count(writer, output, target, inner)
        return writer.as_cell(output, target)

    return write


def _shape_and_axes(writer: Arrays, op: Op) -> tuple[Extents, range]:
    """Return the shape of the output of a reduction, and the range of reduced axes.

    Raises:
        NotNative: The axes are not adjacent or are computed.
    """
    data = op.inputs[0]
    assert data is not None
    extents = writer.extents(data)
    reduced_axes = stated_axes(op, len(extents), writer.constant_of)
    if not reduced_axes:
        if op.attributes.get("noop_with_empty_axes"):
            raise NotNative(f"it has {qualified_name(op.op_type)} along no axis")
        reduced_axes = list(range(len(extents)))
    if reduced_axes and reduced_axes != list(range(reduced_axes[0], reduced_axes[-1] + 1)):
        raise NotNative(f"it has {qualified_name(op.op_type)} along axes that do not lie together")
    keeps_axes = op.attributes.get("keepdims", 1)
    shape = (
        1 if k in reduced_axes else e
        for k, e in enumerate(extents)
        if keeps_axes or k not in reduced_axes
    )
    return tuple(shape), range(reduced_axes[0], reduced_axes[-1] + 1) if reduced_axes else range(0)


def stated_axes(op: Op, rank: int, known: Known) -> list[int]:
    """Return the stated axes of a reduction, sorted.

    Raises:
        NotNative: The axes are computed.
    """
    axes = op.attributes.get("axes")
    if axes is None and len(op.inputs) > 1 and op.inputs[1] is not None:
        axes = known(op.inputs[1])
        if axes is None:
            raise NotNative(f"it has {qualified_name(op.op_type)} along axes that are computed")
    return sorted({int(axis) % rank for axis in np.ravel(axes)} if axes is not None else ())


def _reduce_last_axes(
    writer: Arrays,
    dtype: str,
    pointers: tuple[str, str],
    counts: tuple[Extent, Extent],
    reducer: tuple[Join, str],
) -> None:
    """Write a reduction along the last axes."""
    (source, target), (outer, inner) = pointers, counts

    def result(number: str) -> None:
        begin = writer.element_address(dtype, source, writer.multiply(number, inner))
        writer.store(
            writer.scalar,
            dtype,
            _reduce_contiguous(writer, dtype, begin, inner, reducer),
            target,
            number,
        )

    writer.repeat("0", str(outer), 1, result)


def _reduce_contiguous(
    writer: Arrays, dtype: str, pointer: str, count: Extent, reducer: tuple[Join, str]
) -> str:
    """Write the reduction of contiguous numbers, and return the register of the result."""
    (join, neutral), one = reducer, writer.scalar
    if isinstance(count, str):
        return _reduce_unknown_count(writer, dtype, pointer, count, reducer)
    if count == 0:
        return neutral
    if count >= MIN_TERMS_IN_PARTS:
        return _reduce_in_parts(writer, dtype, pointer, count, join)
    total = writer.load(one, dtype, pointer)
    for number in range(1, count):
        total = join(one, dtype, total, writer.load(one, dtype, pointer, str(number)))
    return total


def _reduce_in_parts(writer: Arrays, dtype: str, pointer: str, count: Extent, join: Join) -> str:
    """Write the reduction of at least eight numbers in eight parts, each of every eighth number."""
    parts, one = Code(writer.text, N_PARTS, True), writer.scalar
    kind, single = parts.type(dtype), one.type(dtype)
    place = parts.allocate_local(kind)
    parts.line(f"store {kind} {writer.load(parts, dtype, pointer)}, ptr {place}")

    def some(number: str) -> None:
        partial = parts.emit(f"load {kind}, ptr {place}")
        joined = join(parts, dtype, partial, writer.load(parts, dtype, pointer, number))
        parts.line(f"store {kind} {joined}, ptr {place}")

    def rest(number: str) -> None:
        index = one.emit(f"and i64 {number}, {N_PARTS - 1}")
        part = one.emit(f"getelementptr {single}, ptr {place}, i64 {index}")
        partial = one.emit(f"load {single}, ptr {part}")
        joined = join(one, dtype, partial, writer.load(one, dtype, pointer, number))
        one.line(f"store {single} {joined}, ptr {part}")

    if isinstance(count, int):
        count_in_vectors: Extent = count // N_PARTS * N_PARTS
    else:
        count_in_vectors = one.emit(f"and i64 {count}, -{N_PARTS}")
    writer.repeat(str(N_PARTS), str(count_in_vectors), N_PARTS, some)
    if count_in_vectors != count:
        writer.repeat(str(count_in_vectors), str(count), 1, rest)
    return reduce_lanes(one, dtype, parts.emit(f"load {kind}, ptr {place}"), join)


def _reduce_unknown_count(
    writer: Arrays, dtype: str, pointer: str, count: str, reducer: tuple[Join, str]
) -> str:
    """Write the reduction of numbers whose count is known only at run time."""
    (join, neutral), one = reducer, writer.scalar
    kind = one.type(dtype)
    place = one.allocate_local(kind)
    one.line(f"store {kind} {neutral}, ptr {place}")
    has_parts = one.emit(f"icmp sge i64 {count}, {MIN_TERMS_IN_PARTS}")
    has_some = one.emit(f"icmp ne i64 {count}, 0")

    def store_total(register: str) -> None:
        one.line(f"store {kind} {register}, ptr {place}")

    def reduce_next(number: str) -> None:
        total = one.emit(f"load {kind}, ptr {place}")
        store_total(join(one, dtype, total, writer.load(one, dtype, pointer, number)))

    def one_by_one() -> None:
        store_total(writer.load(one, dtype, pointer))
        writer.repeat("1", count, 1, reduce_next)

    one.branch(
        has_parts,
        lambda: store_total(_reduce_in_parts(writer, dtype, pointer, count, join)),
        lambda: one.branch(has_some, one_by_one),
    )
    return one.emit(f"load {kind}, ptr {place}")


def _reduce_inner_axes(
    writer: Arrays,
    dtype: str,
    pointers: tuple[str, str],
    counts: tuple[Extent, Extent, Extent],
    reducer: tuple[Join, str],
) -> None:
    """Write a reduction along axes other than the last, for each position of the axes in front of them."""
    (source, target), (front, inner, tail) = pointers, counts
    if front == 1:
        _reduce_first_axes(writer, dtype, pointers, (tail, inner), reducer)
        return
    size = product_of(writer.scalar, (inner, tail))

    def part(number: str) -> None:
        source_pointer = writer.element_address(dtype, source, writer.multiply(number, size))
        target_pointer = writer.element_address(dtype, target, writer.multiply(number, tail))
        _reduce_first_axes(writer, dtype, (source_pointer, target_pointer), (tail, inner), reducer)

    writer.repeat("0", str(front), 1, part)


def _reduce_first_axes(
    writer: Arrays,
    dtype: str,
    pointers: tuple[str, str],
    counts: tuple[Extent, Extent],
    reducer: tuple[Join, str],
) -> None:
    """Write a reduction along the first axes: each row is reduced elementwise with the result of the rows before."""
    (source, target), (outer, rows), (join, neutral) = pointers, counts, reducer

    def copy_row(code: Code, k: str) -> None:
        writer.store(code, dtype, writer.load(code, dtype, source, k), target, k)

    def fill_neutral(code: Code, k: str) -> None:
        writer.store(code, dtype, code.broadcast(neutral, dtype), target, k)

    if isinstance(rows, int):
        writer.for_each_element(outer, copy_row if rows else fill_neutral)
    else:
        has_rows = writer.scalar.emit(f"icmp ne i64 {rows}, 0")
        writer.scalar.branch(
            has_rows,
            lambda: writer.for_each_element(outer, copy_row),
            lambda: writer.for_each_element(outer, fill_neutral),
        )

    def row(number: str) -> None:
        begin = writer.element_address(dtype, source, writer.multiply(number, outer))

        def join_row(code: Code, k: str) -> None:
            partial, element = (writer.load(code, dtype, p, k) for p in (target, begin))
            writer.store(code, dtype, join(code, dtype, partial, element), target, k)

        writer.for_each_element(outer, join_row)

    writer.repeat("1", str(rows), 1, row)


def _divide_by_count(writer: Arrays, output: Value, target: str, inner: Extent) -> None:
    """Write the division of sums by the number of terms, which gives means. An empty sum is divided by 1."""
    dtype = output.dtype
    if not is_float(dtype):
        raise NotNative("it has onnx::ReduceMean of whole numbers")
    count = largest_of(writer.scalar, inner, 1)
    if isinstance(count, int):
        divisor = writer.scalar.constant(count, dtype)
    else:
        divisor = writer.scalar.cast("sitofp", "int64", count, dtype)

    def divide(code: Code, k: str) -> None:
        total = writer.load(code, dtype, target, k)
        mean = code.binary("fdiv", dtype, total, code.broadcast(divisor, dtype))
        writer.store(code, dtype, mean, target, k)

    writer.for_each_element(product_of(writer.scalar, writer.extents(output)), divide)


def _lowest(dtype: str) -> float:
    """Return the smallest number of a dtype."""
    return -np.inf if is_float(dtype) else int(np.iinfo(dtype).min)


def _highest(dtype: str) -> float:
    """Return the largest number of a dtype."""
    return np.inf if is_float(dtype) else int(np.iinfo(dtype).max)


total = reduction_writer(write_sum, lambda dtype: 0)
product = reduction_writer(write_multiplication, lambda dtype: 1)
mean = reduction_writer(write_sum, lambda dtype: 0, mean=True)
largest = reduction_writer(_largest, _lowest)
smallest = reduction_writer(_smallest, _highest)
