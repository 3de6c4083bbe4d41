"""Machine code of sums, means, products, maxima and minima along axes.

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
    ArrayCode,
    Cell,
    Code,
    Extent,
    Extents,
    NotNative,
    is_float,
    literal,
)
from mdf_loop.ops.native.extents import product as product_of
from mdf_loop.ops.native.extents import write_larger_extent as largest_of
from mdf_loop.ops.native.moves import ArrayLookup
from mdf_loop.ops.native.products import Combiner, reduce_lanes, write_multiplication, write_sum
from mdf_loop.ops.ordered_sum import MIN_TERMS_IN_PARTS, PARTIAL_SUM_COUNT
from mdf_loop.ops.registry import NativeArrayCode, qualified_name


def _largest(code: Code, dtype: str, a: str, b: str) -> str:
    return extreme_of_two(code, dtype, "gt", a, b)


def _smallest(code: Code, dtype: str, a: str, b: str) -> str:
    return extreme_of_two(code, dtype, "lt", a, b)


BINARY_OP_BY_REDUCTION = {
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

NeutralElement = Callable[[str], float]
"""Function that returns the neutral element of a reduction for a dtype, such as 0 for a sum."""


def reduction_writer(
    combine: Combiner, neutral: NeutralElement, *, mean: bool = False
) -> NativeArrayCode:
    """Return a function that writes LLVM code of a reduction along adjacent axes.

    Args:
        combine: Function that writes the reduction of two numbers.
        neutral: Function that returns the neutral element for a dtype.
        mean: True to divide by the number of elements.
    """

    def write(writer: ArrayCode, op: Op, cells: Mapping[Value, Cell]) -> Cell:
        array, output = op.inputs[0], op.outputs[0]
        assert array is not None
        if array.dtype == "bool":
            raise NotNative(f"it has {qualified_name(op.op_type)} of truth values")
        output_extents, reduced_axes = _shape_and_axes(writer, op)
        writer.set_extents(output, output_extents)
        array_pointer = writer.pointer_of(array, writer.cell(array, cells))
        output_pointer = writer.allocate_buffer(output)
        array_extents = writer.extents(array)
        front_size, reduced_size, tail_size = (
            product_of(writer.scalar_code, group_extents)
            for group_extents in (
                array_extents[: reduced_axes.start],
                array_extents[reduced_axes.start : reduced_axes.stop],
                array_extents[reduced_axes.stop :],
            )
        )
        neutral_literal = literal(neutral(array.dtype), array.dtype)
        if reduced_axes.stop == len(array_extents):
            _reduce_last_axes(
                writer,
                array.dtype,
                (array_pointer, output_pointer),
                (front_size, reduced_size),
                (combine, neutral_literal),
            )
        else:
            _reduce_inner_axes(
                writer,
                array.dtype,
                (array_pointer, output_pointer),
                (front_size, reduced_size, tail_size),
                (combine, neutral_literal),
            )
        if mean:
            _divide_by_count(writer, output, output_pointer, reduced_size)
        return writer.as_cell(output, output_pointer)

    return write


def _shape_and_axes(writer: ArrayCode, op: Op) -> tuple[Extents, range]:
    """Return the output shape of a reduction, and the range of reduced axes.

    Raises:
        NotNative: The axes are not adjacent or are computed.
    """
    array = op.inputs[0]
    assert array is not None
    array_extents = writer.extents(array)
    reduced_axes = stated_axes(op, len(array_extents), writer.constant_of)
    if not reduced_axes:
        if op.attributes.get("noop_with_empty_axes"):
            raise NotNative(f"it has {qualified_name(op.op_type)} along no axis")
        reduced_axes = list(range(len(array_extents)))
    if reduced_axes and reduced_axes != list(range(reduced_axes[0], reduced_axes[-1] + 1)):
        raise NotNative(f"it has {qualified_name(op.op_type)} along axes that do not lie together")
    keeps_axes = op.attributes.get("keepdims", 1)
    output_extents = (
        1 if k in reduced_axes else extent
        for k, extent in enumerate(array_extents)
        if keeps_axes or k not in reduced_axes
    )
    return tuple(output_extents), range(
        reduced_axes[0], reduced_axes[-1] + 1
    ) if reduced_axes else range(0)


def stated_axes(op: Op, rank: int, find_constant: ArrayLookup) -> list[int]:
    """Return the sorted axes of a reduction, from an attribute or a constant operand.

    Raises:
        NotNative: The axes are computed.
    """
    axis_numbers = op.attributes.get("axes")
    if axis_numbers is None and len(op.inputs) > 1 and op.inputs[1] is not None:
        axis_numbers = find_constant(op.inputs[1])
        if axis_numbers is None:
            raise NotNative(f"it has {qualified_name(op.op_type)} along axes that are computed")
    return sorted(
        {int(axis) % rank for axis in np.ravel(axis_numbers)} if axis_numbers is not None else ()
    )


def _reduce_last_axes(
    writer: ArrayCode,
    dtype: str,
    pointers: tuple[str, str],
    counts: tuple[Extent, Extent],
    reducer: tuple[Combiner, str],
) -> None:
    """Write LLVM code of a reduction along the last axes of an array."""
    (array_pointer, output_pointer), (output_size, term_count) = pointers, counts

    def result(number: str) -> None:
        terms_pointer = writer.element_address(
            dtype, array_pointer, writer.multiply(number, term_count)
        )
        writer.store(
            writer.scalar_code,
            dtype,
            _reduce_contiguous(writer, dtype, terms_pointer, term_count, reducer),
            output_pointer,
            number,
        )

    writer.repeat("0", str(output_size), 1, result)


def _reduce_contiguous(
    writer: ArrayCode, dtype: str, pointer: str, count: Extent, reducer: tuple[Combiner, str]
) -> str:
    """Write LLVM code that reduces contiguous numbers to one number."""
    (write_combination, neutral_literal), scalar_code = reducer, writer.scalar_code
    if isinstance(count, str):
        return _reduce_unknown_count(writer, dtype, pointer, count, reducer)
    if count == 0:
        return neutral_literal
    if count >= MIN_TERMS_IN_PARTS:
        return _reduce_in_parts(writer, dtype, pointer, count, write_combination)
    total = writer.load(scalar_code, dtype, pointer)
    for term_number in range(1, count):
        total = write_combination(
            scalar_code, dtype, total, writer.load(scalar_code, dtype, pointer, str(term_number))
        )
    return total


def _reduce_in_parts(
    writer: ArrayCode, dtype: str, pointer: str, count: Extent, combine: Combiner
) -> str:
    """Write LLVM code that reduces eight interleaved parts of an array, and joins the results."""
    part_code, scalar_code = Code(writer.function_text, PARTIAL_SUM_COUNT, True), writer.scalar_code
    vector_type, scalar_type = part_code.type(dtype), scalar_code.type(dtype)
    local_pointer = part_code.allocate_local(vector_type)
    part_code.line(
        f"store {vector_type} {writer.load(part_code, dtype, pointer)}, ptr {local_pointer}"
    )

    def some(number: str) -> None:
        partial_results = part_code.emit(f"load {vector_type}, ptr {local_pointer}")
        next_results = combine(
            part_code, dtype, partial_results, writer.load(part_code, dtype, pointer, number)
        )
        part_code.line(f"store {vector_type} {next_results}, ptr {local_pointer}")

    def rest(number: str) -> None:
        lane_index = scalar_code.emit(f"and i64 {number}, {PARTIAL_SUM_COUNT - 1}")
        lane_pointer = scalar_code.emit(
            f"getelementptr {scalar_type}, ptr {local_pointer}, i64 {lane_index}"
        )
        partial_result = scalar_code.emit(f"load {scalar_type}, ptr {lane_pointer}")
        next_result = combine(
            scalar_code, dtype, partial_result, writer.load(scalar_code, dtype, pointer, number)
        )
        scalar_code.line(f"store {scalar_type} {next_result}, ptr {lane_pointer}")

    if isinstance(count, int):
        vectorized_count: Extent = count // PARTIAL_SUM_COUNT * PARTIAL_SUM_COUNT
    else:
        vectorized_count = scalar_code.emit(f"and i64 {count}, -{PARTIAL_SUM_COUNT}")
    writer.repeat(str(PARTIAL_SUM_COUNT), str(vectorized_count), PARTIAL_SUM_COUNT, some)
    if vectorized_count != count:
        writer.repeat(str(vectorized_count), str(count), 1, rest)
    return reduce_lanes(
        scalar_code, dtype, part_code.emit(f"load {vector_type}, ptr {local_pointer}"), combine
    )


def _reduce_unknown_count(
    writer: ArrayCode, dtype: str, pointer: str, count: str, reducer: tuple[Combiner, str]
) -> str:
    """Write LLVM code of a reduction of numbers whose count is known only at run time."""
    (write_combination, neutral_literal), scalar_code = reducer, writer.scalar_code
    llvm_type = scalar_code.type(dtype)
    total_pointer = scalar_code.allocate_local(llvm_type)
    scalar_code.line(f"store {llvm_type} {neutral_literal}, ptr {total_pointer}")
    has_partial_reductions = scalar_code.emit(f"icmp sge i64 {count}, {MIN_TERMS_IN_PARTS}")
    has_terms = scalar_code.emit(f"icmp ne i64 {count}, 0")

    def store_total(register: str) -> None:
        scalar_code.line(f"store {llvm_type} {register}, ptr {total_pointer}")

    def reduce_next(number: str) -> None:
        total = scalar_code.emit(f"load {llvm_type}, ptr {total_pointer}")
        store_total(
            write_combination(
                scalar_code, dtype, total, writer.load(scalar_code, dtype, pointer, number)
            )
        )

    def one_by_one() -> None:
        store_total(writer.load(scalar_code, dtype, pointer))
        writer.repeat("1", count, 1, reduce_next)

    scalar_code.branch(
        has_partial_reductions,
        lambda: store_total(_reduce_in_parts(writer, dtype, pointer, count, write_combination)),
        lambda: scalar_code.branch(has_terms, one_by_one),
    )
    return scalar_code.emit(f"load {llvm_type}, ptr {total_pointer}")


def _reduce_inner_axes(
    writer: ArrayCode,
    dtype: str,
    pointers: tuple[str, str],
    counts: tuple[Extent, Extent, Extent],
    reducer: tuple[Combiner, str],
) -> None:
    """Write LLVM code of a reduction along axes other than the last."""
    (array_pointer, output_pointer), (front_size, reduced_size, tail_size) = pointers, counts
    if front_size == 1:
        _reduce_first_axes(writer, dtype, pointers, (tail_size, reduced_size), reducer)
        return
    block_size = product_of(writer.scalar_code, (reduced_size, tail_size))

    def part(number: str) -> None:
        source_pointer = writer.element_address(
            dtype, array_pointer, writer.multiply(number, block_size)
        )
        target_pointer = writer.element_address(
            dtype, output_pointer, writer.multiply(number, tail_size)
        )
        _reduce_first_axes(
            writer, dtype, (source_pointer, target_pointer), (tail_size, reduced_size), reducer
        )

    writer.repeat("0", str(front_size), 1, part)


def _reduce_first_axes(
    writer: ArrayCode,
    dtype: str,
    pointers: tuple[str, str],
    counts: tuple[Extent, Extent],
    reducer: tuple[Combiner, str],
) -> None:
    """Write LLVM code of a reduction along the first axes, which combines row after row."""
    (
        (array_pointer, output_pointer),
        (row_length, row_count),
        (write_combination, neutral_literal),
    ) = pointers, counts, reducer

    def copy_row(code: Code, k: str) -> None:
        writer.store(code, dtype, writer.load(code, dtype, array_pointer, k), output_pointer, k)

    def fill_neutral(code: Code, k: str) -> None:
        writer.store(code, dtype, code.broadcast(neutral_literal, dtype), output_pointer, k)

    if isinstance(row_count, int):
        writer.for_each_element(row_length, copy_row if row_count else fill_neutral)
    else:
        has_rows = writer.scalar_code.emit(f"icmp ne i64 {row_count}, 0")
        writer.scalar_code.branch(
            has_rows,
            lambda: writer.for_each_element(row_length, copy_row),
            lambda: writer.for_each_element(row_length, fill_neutral),
        )

    def row(number: str) -> None:
        row_pointer = writer.element_address(
            dtype, array_pointer, writer.multiply(number, row_length)
        )

        def join_row(code: Code, k: str) -> None:
            partial_result, element = (
                writer.load(code, dtype, pointer, k) for pointer in (output_pointer, row_pointer)
            )
            writer.store(
                code,
                dtype,
                write_combination(code, dtype, partial_result, element),
                output_pointer,
                k,
            )

        writer.for_each_element(row_length, join_row)

    writer.repeat("1", str(row_count), 1, row)


def _divide_by_count(
    writer: ArrayCode, output: Value, output_pointer: str, reduced_size: Extent
) -> None:
    """Write LLVM code that divides sums by the number of terms, to compute means.

    An empty sum is divided by 1.
    """
    dtype = output.dtype
    if not is_float(dtype):
        raise NotNative("it has onnx::ReduceMean of whole numbers")
    term_count = largest_of(writer.scalar_code, reduced_size, 1)
    if isinstance(term_count, int):
        divisor = writer.scalar_code.constant(term_count, dtype)
    else:
        divisor = writer.scalar_code.cast("sitofp", "int64", term_count, dtype)

    def divide(code: Code, k: str) -> None:
        total = writer.load(code, dtype, output_pointer, k)
        mean = code.binary("fdiv", dtype, total, code.broadcast(divisor, dtype))
        writer.store(code, dtype, mean, output_pointer, k)

    writer.for_each_element(product_of(writer.scalar_code, writer.extents(output)), divide)


def _lowest(dtype: str) -> float:
    """Return the smallest number of a dtype, which is the neutral element of a maximum."""
    return -np.inf if is_float(dtype) else int(np.iinfo(dtype).min)


def _highest(dtype: str) -> float:
    """Return the largest number of a dtype, which is the neutral element of a minimum."""
    return np.inf if is_float(dtype) else int(np.iinfo(dtype).max)


reduce_sum = reduction_writer(write_sum, lambda dtype: 0)
reduce_product = reduction_writer(write_multiplication, lambda dtype: 1)
reduce_mean = reduction_writer(write_sum, lambda dtype: 0, mean=True)
reduce_max = reduction_writer(_largest, _lowest)
reduce_min = reduction_writer(_smallest, _highest)
