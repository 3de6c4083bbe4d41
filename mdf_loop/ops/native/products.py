"""Machine code of products of matrices and vectors.

Every element is a sum of eight partial sums, each of every eighth term, which are added in pairs. The
remaining terms are then added in order. So the bits of an element depend on its terms only, and not on the
processor, the shapes or the notation of the product. Products and sums of floats are fused (rounded once).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from mdf_loop.ir import Op, Value
from mdf_loop.ops.native.code import (
    REGISTER_TYPES,
    ArrayCode,
    Cell,
    Code,
    Extent,
    Extents,
    NotNative,
    is_float,
)
from mdf_loop.ops.native.extents import product, strip_leading_ones
from mdf_loop.ops.ordered_sum import PARTIAL_SUM_COUNT

Number = TypeVar("Number")
"""Type of the numbers that are reduced: registers or values."""

Combiner = Callable[[Code, str, str, str], str]
"""Function `combine(code, dtype, a, b)` that writes the reduction of two numbers, such as their sum."""

ROWS_PER_LOOP, VECTORS_PER_LOOP = 4, 2
"""Number of rows, or of vectors of one row, that are summed in one loop, and number of vectors of several rows.

Measured: a product of a thousand rows takes half of the time.
"""

MAX_UNROLLED_TERMS = 16
"""Maximum number of terms of a sum that is written without a loop."""

MAX_MATRIX_ELEMENTS = 1 << 20
"""Maximum number of elements of a matrix. The runtime multiplies larger matrices faster."""


def matmul(writer: ArrayCode, op: Op, cells: Mapping[Value, Cell]) -> Cell:
    """Write LLVM code of the matrix product `a @ b` of vectors, matrices and stacks of matrices.

    Raises:
        NotNative: A matrix is large or has booleans, there are several matrices of float32, or the number of
            terms or columns is known only at run time.
    """
    left_operand, right_operand = (operand for operand in op.inputs if operand is not None)
    product_array, scalar_code = op.outputs[0], writer.scalar_code
    left_extents, right_extents = writer.extents(left_operand), writer.extents(right_operand)
    *left_stack_extents, row_count, term_count = (
        left_extents if len(left_extents) > 1 else (1, *left_extents)
    )
    *right_stack_extents, right_term_count, column_count = (
        right_extents if len(right_extents) > 1 else (*right_extents, 1)
    )
    if (
        isinstance(term_count, str)
        or isinstance(column_count, str)
        or right_term_count != term_count
    ):
        raise NotNative("it has onnx::MatMul of arrays whose shape is known only when it runs")
    stack_extents = _stack_axes(tuple(left_stack_extents), tuple(right_stack_extents))
    output_extents = (
        *stack_extents,
        *left_extents[-2:-1],
        *(right_extents[-1:] if len(right_extents) > 1 else ()),
    )
    if all(extent == 1 for extent in right_stack_extents):  # all on the left are rows of one
        row_count, stack_extents = product(scalar_code, (*stack_extents, row_count)), ()
    # If terms cancel out, the sum consists of the runtime's rounding errors, which this code does not reproduce.
    if stack_extents and product_array.dtype == "float32":
        raise NotNative("it has onnx::MatMul of several matrices of float32")
    matrix_sizes = (product(scalar_code, (row_count, term_count)), term_count * column_count)
    if product_array.dtype == "bool" or any(
        isinstance(matrix_size, int) and matrix_size > MAX_MATRIX_ELEMENTS
        for matrix_size in matrix_sizes
    ):
        raise NotNative("it has a large onnx::MatMul")
    stack_strides = [
        0 if all(extent == 1 for extent in stack_axes) else matrix_size
        for stack_axes, matrix_size in zip(
            (left_stack_extents, right_stack_extents), matrix_sizes, strict=True
        )
    ]
    writer.set_extents(product_array, output_extents)
    left_pointer, right_pointer = (
        writer.pointer_of(operand, writer.cell(operand, cells))
        for operand in (left_operand, right_operand)
    )
    output_pointer = writer.allocate_buffer(product_array)
    product_shape = row_count, term_count, column_count
    if not stack_extents:
        _write_product(
            writer,
            product_array.dtype,
            (left_pointer, right_pointer, output_pointer),
            product_shape,
        )
    else:
        product_size = product(scalar_code, (row_count, column_count))

        def write_one(number: str) -> None:
            pointers_with_strides = zip(
                (left_pointer, right_pointer, output_pointer),
                (*stack_strides, product_size),
                strict=True,
            )
            matrix_pointers = [
                writer.element_address(
                    product_array.dtype, pointer, writer.multiply(number, stride)
                )
                for pointer, stride in pointers_with_strides
            ]
            _write_product(
                writer,
                product_array.dtype,
                (matrix_pointers[0], matrix_pointers[1], matrix_pointers[2]),
                product_shape,
            )

        writer.repeat("0", str(product(scalar_code, stack_extents)), 1, write_one)
    return writer.as_cell(product_array, output_pointer)


def _stack_axes(left: Extents, right: Extents) -> Extents:
    """Return the common leading axes of two stacks of matrices that are multiplied.

    The leading axes of both stacks must be equal, or one operand has none.
    """
    if strip_leading_ones(left) == strip_leading_ones(right) or not strip_leading_ones(right):
        return left if len(left) >= len(right) else right
    if strip_leading_ones(left):
        raise NotNative("it has onnx::MatMul of matrices that may differ in number")
    return (*(1,) * (len(left) - len(right)), *right)


def _write_product(
    writer: ArrayCode, dtype: str, pointers: tuple[str, str, str], shape: tuple[Extent, int, int]
) -> None:
    """Write LLVM code of the product of two matrices."""
    left_pointer, right_pointer, output_pointer = pointers
    row_count, term_count, column_count = shape
    if column_count == 1:
        _multiply_rows_by_vector(writer, dtype, pointers, (row_count, term_count))
        return

    def make_group_writer(group_size: int) -> Callable[[str], None]:
        def write(number: str) -> None:
            row_pointer = writer.element_address(
                dtype, left_pointer, writer.multiply(number, term_count)
            )
            target_pointer = writer.element_address(
                dtype, output_pointer, writer.multiply(number, column_count)
            )
            _multiply_rows_by_matrix(
                writer,
                dtype,
                (row_pointer, right_pointer, target_pointer),
                (group_size, term_count, column_count),
            )

        return write

    _for_row_groups(writer, row_count, make_group_writer)


def _for_row_groups(
    writer: ArrayCode, row_count: Extent, make_writer: Callable[[int], Callable[[str], None]]
) -> None:
    """Write LLVM loops over groups of matrix rows, and over the remaining single rows.

    Args:
        writer: Writer of the code.
        row_count: Number of rows.
        make_writer: Function that returns a writer for groups of this number of rows.
    """
    if isinstance(row_count, int):
        grouped_row_count: Extent = row_count // ROWS_PER_LOOP * ROWS_PER_LOOP
    else:
        grouped_row_count = writer.scalar_code.emit(f"and i64 {row_count}, -{ROWS_PER_LOOP}")
    if grouped_row_count != 0:
        writer.repeat("0", str(grouped_row_count), ROWS_PER_LOOP, make_writer(ROWS_PER_LOOP))
    if grouped_row_count != row_count:
        writer.repeat(str(grouped_row_count), str(row_count), 1, make_writer(1))


def _multiply_add(code: Code, dtype: str, a: str, b: str, total: str) -> str:
    """Write LLVM code of `a * b + total`, rounded once for floats."""
    if is_float(dtype):
        return code.intrinsic("fma", dtype, a, b, total)
    return code.binary("add", dtype, code.binary("mul", dtype, a, b), total)


def _multiply_rows_by_matrix(
    writer: ArrayCode, dtype: str, pointers: tuple[str, str, str], shape: tuple[int, int, int]
) -> None:
    """Write LLVM code of the product of a few matrix rows and a matrix."""
    (row_count, _, column_count), first_column = shape, 0
    max_vector_count = ROWS_PER_LOOP if row_count == 1 else VECTORS_PER_LOOP
    for code, vectors_per_group in (
        (writer.vector_code, max_vector_count),
        (writer.vector_code, 1),
        (writer.scalar_code, 1),
    ):
        columns_per_group = vectors_per_group * code.lane_count
        column_end = (
            first_column + (column_count - first_column) // columns_per_group * columns_per_group
        )
        if column_end > first_column:
            _multiply_columns(
                writer,
                (code, vectors_per_group),
                dtype,
                pointers,
                shape,
                (first_column, column_end),
            )
        first_column = column_end


def _multiply_columns(
    writer: ArrayCode,
    vectors: tuple[Code, int],
    dtype: str,
    pointers: tuple[str, str, str],
    shape: tuple[int, int, int],
    part: tuple[int, int],
) -> None:
    """Write LLVM code of the product of a few rows of a matrix and a few columns of another.

    Args:
        writer: Writer of the code.
        vectors: Writer of instructions for a vector of columns, and number of vectors that are summed in one loop.
        dtype: Dtype of the numbers.
        pointers: Addresses of the rows, the matrix and the product.
        shape: Number of rows, terms and columns.
        part: First column, and the column after the last one.
    """
    (
        (row_pointer, matrix_pointer, output_pointer),
        (row_count, term_count, column_count),
        (code, vectors_per_group),
    ) = (
        pointers,
        shape,
        vectors,
    )
    scalar_code, llvm_type = writer.scalar_code, code.type(dtype)
    row_pointers = [
        writer.element_address(dtype, row_pointer, str(k * term_count)) for k in range(row_count)
    ]

    def write_columns(column: str) -> None:
        sum_pointers = [
            [code.allocate_local(llvm_type) for _ in range(vectors_per_group)] for _ in row_pointers
        ]

        def term(number: str) -> None:
            first_weight = scalar_code.emit(
                f"add i64 {writer.multiply(number, column_count)}, {column}"
            )
            weight_indices = [
                scalar_code.emit(f"add i64 {first_weight}, {k * code.lane_count}")
                for k in range(vectors_per_group)
            ]
            weights = [writer.load(code, dtype, matrix_pointer, index) for index in weight_indices]
            for factor_pointer, row_sum_pointers in zip(row_pointers, sum_pointers, strict=True):
                factor = code.broadcast(
                    writer.load(scalar_code, dtype, factor_pointer, number), dtype
                )
                for weight, sum_pointer in zip(weights, row_sum_pointers, strict=True):
                    total = code.emit(f"load {llvm_type}, ptr {sum_pointer}")
                    next_total = _multiply_add(code, dtype, factor, weight, total)
                    code.line(f"store {llvm_type} {next_total}, ptr {sum_pointer}")

        _sum_in_parts(
            writer,
            code,
            dtype,
            [pointer for pointers in sum_pointers for pointer in pointers],
            term_count,
            term,
        )
        for k, row_sums in enumerate(sum_pointers):
            first_index = scalar_code.emit(f"add i64 {column}, {k * column_count}")
            for j, sum_pointer in enumerate(row_sums):
                target_index = scalar_code.emit(f"add i64 {first_index}, {j * code.lane_count}")
                writer.store(
                    code,
                    dtype,
                    code.emit(f"load {llvm_type}, ptr {sum_pointer}"),
                    output_pointer,
                    target_index,
                )

    writer.repeat(str(part[0]), str(part[1]), vectors_per_group * code.lane_count, write_columns)


def _sum_in_parts(
    writer: ArrayCode,
    code: Code,
    dtype: str,
    sum_pointers: Sequence[str],
    term_count: int,
    term: Callable[[str], None],
) -> None:
    """Write LLVM code of sums of products, added in a fixed order of partial sums.

    Args:
        writer: Writer of the loop.
        code: Writer of instructions for the sums.
        dtype: Dtype of the numbers.
        sum_pointers: Pointers to the sums.
        term_count: Number of terms.
        term: Writes the addition of a term to each sum, for the index of the term.
    """
    llvm_type, grouped_term_count = (
        code.type(dtype),
        term_count // PARTIAL_SUM_COUNT * PARTIAL_SUM_COUNT,
    )

    def part(first: int) -> list[str]:
        for sum_pointer in sum_pointers:
            code.line(f"store {llvm_type} {code.constant(0, dtype)}, ptr {sum_pointer}")
        if grouped_term_count <= MAX_UNROLLED_TERMS:
            for term_number in range(first, grouped_term_count, PARTIAL_SUM_COUNT):
                term(str(term_number))
        else:
            writer.repeat(str(first), str(grouped_term_count), PARTIAL_SUM_COUNT, term)
        return [code.emit(f"load {llvm_type}, ptr {pointer}") for pointer in sum_pointers]

    def total(first: int, step: int) -> list[str]:
        if step == PARTIAL_SUM_COUNT:
            return part(first)
        half_sums = total(first, 2 * step), total(first + step, 2 * step)
        return [write_sum(code, dtype, a, b) for a, b in zip(*half_sums, strict=True)]

    totals = total(0, 1) if grouped_term_count else [code.constant(0, dtype) for _ in sum_pointers]
    for sum_pointer, register in zip(sum_pointers, totals, strict=True):
        code.line(f"store {llvm_type} {register}, ptr {sum_pointer}")
    writer.repeat(str(grouped_term_count), str(term_count), 1, term)


def _multiply_rows_by_vector(
    writer: ArrayCode, dtype: str, pointers: tuple[str, str, str], shape: tuple[Extent, int]
) -> None:
    """Write LLVM code of the product of a matrix and a vector."""
    (left_pointer, right_pointer, output_pointer), (row_count, term_count) = pointers, shape

    def make_group_writer(group_size: int) -> Callable[[str], None]:
        def write(number: str) -> None:
            row_pointer = writer.element_address(
                dtype, left_pointer, writer.multiply(number, term_count)
            )
            for k, dot_product in enumerate(
                _compute_dot_products(
                    writer, dtype, (row_pointer, right_pointer), term_count, group_size
                )
            ):
                target_index = writer.scalar_code.emit(f"add i64 {number}, {k}")
                writer.store(writer.scalar_code, dtype, dot_product, output_pointer, target_index)

        return write

    _for_row_groups(writer, row_count, make_group_writer)


def _compute_dot_products(
    writer: ArrayCode, dtype: str, pointers: tuple[str, str], inner: int, row_count: int
) -> list[str]:
    """Write LLVM code of the dot products of several matrix rows with a vector.

    Each product has eight partial sums of every eighth term, which are added in pairs. The remaining terms
    are then added in order.
    """
    vector_code, scalar_code = (
        Code(writer.function_text, PARTIAL_SUM_COUNT, True),
        writer.scalar_code,
    )
    vector_type, grouped_term_count = (
        vector_code.type(dtype),
        inner // PARTIAL_SUM_COUNT * PARTIAL_SUM_COUNT,
    )
    sum_pointers = [vector_code.allocate_local(vector_type) for _ in range(row_count)]
    for sum_pointer in sum_pointers:
        vector_code.line(f"store {vector_type} {vector_code.constant(0, dtype)}, ptr {sum_pointer}")
    row_pointers = [
        writer.element_address(dtype, pointers[0], str(k * inner)) for k in range(row_count)
    ]

    def terms(number: str) -> None:
        vector_elements = writer.load(vector_code, dtype, pointers[1], number)
        for row_pointer, accumulator in zip(row_pointers, sum_pointers, strict=True):
            row_elements = writer.load(vector_code, dtype, row_pointer, number)
            total = vector_code.emit(f"load {vector_type}, ptr {accumulator}")
            next_total = _multiply_add(vector_code, dtype, row_elements, vector_elements, total)
            vector_code.line(f"store {vector_type} {next_total}, ptr {accumulator}")

    writer.repeat("0", str(grouped_term_count), PARTIAL_SUM_COUNT, terms)
    totals = []
    for row_start, sum_pointer in zip(row_pointers, sum_pointers, strict=True):
        total = reduce_lanes(
            scalar_code,
            dtype,
            vector_code.emit(f"load {vector_type}, ptr {sum_pointer}"),
            write_sum,
        )
        for term_number in range(grouped_term_count, inner):
            a, b = (
                writer.load(scalar_code, dtype, pointer, str(term_number))
                for pointer in (row_start, pointers[1])
            )
            total = _multiply_add(scalar_code, dtype, a, b, total)
        totals.append(total)
    return totals


def write_sum(code: Code, dtype: str, a: str, b: str) -> str:
    """Write LLVM code of the sum `a + b`."""
    return code.binary("fadd" if is_float(dtype) else "add", dtype, a, b)


def write_multiplication(code: Code, dtype: str, a: str, b: str) -> str:
    """Write LLVM code of the product `a * b`."""
    return code.binary("fmul" if is_float(dtype) else "mul", dtype, a, b)


def reduce_lanes(scalar_code: Code, dtype: str, register: str, combine: Combiner) -> str:
    """Write LLVM code that reduces the eight lanes of a vector to one number, in pairs.

    The lanes are combined at distance four, then two, then one.
    """
    vector_type = f"<{PARTIAL_SUM_COUNT} x {REGISTER_TYPES[dtype]}>"
    lane_registers = [
        scalar_code.emit(f"extractelement {vector_type} {register}, i32 {k}")
        for k in range(PARTIAL_SUM_COUNT)
    ]
    return reduce_in_pairs(lane_registers, lambda a, b: combine(scalar_code, dtype, a, b))


def reduce_in_pairs(
    numbers: Sequence[Number], combine: Callable[[Number, Number], Number]
) -> Number:
    """Reduce 2**n numbers to one number, by combining pairs in n rounds.

    The numbers of a pair are at a distance of half the list, then a quarter, and so on.
    """
    while len(numbers) > 1:
        half_length = len(numbers) // 2
        numbers = [
            combine(a, b) for a, b in zip(numbers[:half_length], numbers[half_length:], strict=True)
        ]
    return numbers[0]
