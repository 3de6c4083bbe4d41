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
    Arrays,
    Cell,
    Code,
    Extent,
    Extents,
    NotNative,
    is_float,
)
from mdf_loop.ops.native.extents import product, strip_leading_ones
from mdf_loop.ops.ordered_sum import N_PARTS

Number = TypeVar("Number")
"""Type of the numbers that are reduced: registers or values."""

Join = Callable[[Code, str, str, str], str]
"""Function `join(code, dtype, a, b)` that writes the reduction of two numbers, such as their sum."""

ROWS_TOGETHER, VECTORS_TOGETHER = 4, 2
"""Number of rows, or of vectors of one row, that are summed in one loop, and number of vectors of several rows.

Measured: a product of a thousand rows takes half of the time.
"""

MAX_UNROLLED_TERMS = 16
"""Maximum number of terms of a sum that is written without a loop."""

MAX_MATRIX_ELEMENTS = 1 << 20
"""Maximum number of elements of a matrix. The runtime multiplies larger matrices faster."""


def matmul(writer: Arrays, op: Op, cells: Mapping[Value, Cell]) -> Cell:
    """Write `a @ b` of vectors, matrices and stacks of matrices.

    Raises:
        NotNative: A matrix is large or has booleans, there are several matrices of float32, or the number of
            terms or columns is known only at run time.
    """
    a, b = (value for value in op.inputs if value is not None)
    output, one = op.outputs[0], writer.scalar
    left, right = writer.extents(a), writer.extents(b)
    *left_stack, rows, inner = left if len(left) > 1 else (1, *left)
    *right_stack, terms, columns = right if len(right) > 1 else (*right, 1)
    if isinstance(inner, str) or isinstance(columns, str) or terms != inner:
        raise NotNative("it has onnx::MatMul of arrays whose shape is known only when it runs")
    stack = _stack_axes(tuple(left_stack), tuple(right_stack))
    output_extents = (*stack, *left[-2:-1], *(right[-1:] if len(right) > 1 else ()))
    if all(extent == 1 for extent in right_stack):  # all on the left are rows of one
        rows, stack = product(one, (*stack, rows)), ()
    # If terms cancel out, the sum consists of the runtime's rounding errors, which this code does not reproduce.
    if stack and output.dtype == "float32":
        raise NotNative("it has onnx::MatMul of several matrices of float32")
    sizes = (product(one, (rows, inner)), inner * columns)
    if output.dtype == "bool" or any(
        isinstance(size, int) and size > MAX_MATRIX_ELEMENTS for size in sizes
    ):
        raise NotNative("it has a large onnx::MatMul")
    steps = [
        0 if all(extent == 1 for extent in stack_axes) else size
        for stack_axes, size in zip((left_stack, right_stack), sizes, strict=True)
    ]
    writer.set_extents(output, output_extents)
    x, y = (writer.pointer_of(v, writer.cell(v, cells)) for v in (a, b))
    target = writer.buffer(output)
    shape = rows, inner, columns
    if not stack:
        _write_product(writer, output.dtype, (x, y, target), shape)
    else:
        size = product(one, (rows, columns))

        def write_one(number: str) -> None:
            places = zip((x, y, target), (*steps, size), strict=True)
            here = [
                writer.element_address(output.dtype, p, writer.multiply(number, step))
                for p, step in places
            ]
            _write_product(writer, output.dtype, (here[0], here[1], here[2]), shape)

        writer.repeat("0", str(product(one, stack)), 1, write_one)
    return writer.as_cell(output, target)


def _stack_axes(left: Extents, right: Extents) -> Extents:
    """Return the axes of the stack of products. The axes of both stacks must be equal, or one side has none."""
    if strip_leading_ones(left) == strip_leading_ones(right) or not strip_leading_ones(right):
        return left if len(left) >= len(right) else right
    if strip_leading_ones(left):
        raise NotNative("it has onnx::MatMul of matrices that may differ in number")
    return (*(1,) * (len(left) - len(right)), *right)


def _write_product(
    writer: Arrays, dtype: str, pointers: tuple[str, str, str], shape: tuple[Extent, int, int]
) -> None:
    """Write the product of two matrices."""
    x, y, target = pointers
    rows, inner, columns = shape
    if columns == 1:
        _multiply_rows_by_vector(writer, dtype, pointers, (rows, inner))
        return

    def make_group_writer(count: int) -> Callable[[str], None]:
        def write(number: str) -> None:
            row_pointer = writer.element_address(dtype, x, writer.multiply(number, inner))
            target_pointer = writer.element_address(dtype, target, writer.multiply(number, columns))
            _multiply_rows_by_matrix(
                writer, dtype, (row_pointer, y, target_pointer), (count, inner, columns)
            )

        return write

    _for_row_groups(writer, rows, make_group_writer)


def _for_row_groups(
    writer: Arrays, rows: Extent, make_writer: Callable[[int], Callable[[str], None]]
) -> None:
    """Write loops over groups of rows, and over the remaining rows one by one.

    Args:
        writer: Writer of the code.
        rows: Number of rows.
        make_writer: Function that returns a writer for groups of this number of rows.
    """
    if isinstance(rows, int):
        grouped_rows: Extent = rows // ROWS_TOGETHER * ROWS_TOGETHER
    else:
        grouped_rows = writer.scalar.emit(f"and i64 {rows}, -{ROWS_TOGETHER}")
    if grouped_rows != 0:
        writer.repeat("0", str(grouped_rows), ROWS_TOGETHER, make_writer(ROWS_TOGETHER))
    if grouped_rows != rows:
        writer.repeat(str(grouped_rows), str(rows), 1, make_writer(1))


def _multiply_add(code: Code, dtype: str, a: str, b: str, total: str) -> str:
    """Write `a * b + total`, rounded once for floats."""
    if is_float(dtype):
        return code.intrinsic("fma", dtype, a, b, total)
    return code.binary("add", dtype, code.binary("mul", dtype, a, b), total)


def _multiply_rows_by_matrix(
    writer: Arrays, dtype: str, pointers: tuple[str, str, str], shape: tuple[int, int, int]
) -> None:
    """Write the product of a group of rows by a matrix, for groups of columns."""
    (count, _, columns), column = shape, 0
    max_vectors = ROWS_TOGETHER if count == 1 else VECTORS_TOGETHER
    for code, vectors_together in (
        (writer.vector, max_vectors),
        (writer.vector, 1),
        (writer.scalar, 1),
    ):
        step = vectors_together * code.width
        end = column + (columns - column) // step * step
        if end > column:
            _multiply_columns(
                writer, (code, vectors_together), dtype, pointers, shape, (column, end)
            )
        column = end


def _multiply_columns(
    writer: Arrays,
    vectors: tuple[Code, int],
    dtype: str,
    pointers: tuple[str, str, str],
    shape: tuple[int, int, int],
    part: tuple[int, int],
) -> None:
    """Write the product of a group of rows by a range of columns of a matrix.

    Args:
        writer: Writer of the code.
        vectors: Writer of instructions for a vector of columns, and number of vectors that are summed in one loop.
        dtype: Dtype of the numbers.
        pointers: Addresses of the rows, the matrix and the product.
        shape: Number of rows, terms and columns.
        part: First column, and the column after the last one.
    """
    (x, matrix, target), (count, inner, columns), (code, vectors_together) = (
        pointers,
        shape,
        vectors,
    )
    one, kind = writer.scalar, code.type(dtype)
    rows = [writer.element_address(dtype, x, str(k * inner)) for k in range(count)]

    def write_columns(column: str) -> None:
        sums = [[code.allocate_local(kind) for _ in range(vectors_together)] for _ in rows]

        def term(number: str) -> None:
            begin = one.emit(f"add i64 {writer.multiply(number, columns)}, {column}")
            places = [
                one.emit(f"add i64 {begin}, {k * code.width}") for k in range(vectors_together)
            ]
            weights = [writer.load(code, dtype, matrix, place) for place in places]
            for row, totals in zip(rows, sums, strict=True):
                factor = code.broadcast(writer.load(one, dtype, row, number), dtype)
                for weight, place in zip(weights, totals, strict=True):
                    total = code.emit(f"load {kind}, ptr {place}")
                    next_total = _multiply_add(code, dtype, factor, weight, total)
                    code.line(f"store {kind} {next_total}, ptr {place}")

        _sum_in_parts(
            writer, code, dtype, [place for places in sums for place in places], inner, term
        )
        for k, totals in enumerate(sums):
            begin = one.emit(f"add i64 {column}, {k * columns}")
            for j, place in enumerate(totals):
                at = one.emit(f"add i64 {begin}, {j * code.width}")
                writer.store(code, dtype, code.emit(f"load {kind}, ptr {place}"), target, at)

    writer.repeat(str(part[0]), str(part[1]), vectors_together * code.width, write_columns)


def _sum_in_parts(
    writer: Arrays,
    code: Code,
    dtype: str,
    sums: Sequence[str],
    inner: int,
    term: Callable[[str], None],
) -> None:
    """Write sums in the same order as `_compute_dot_products`, one partial sum after the other.

    Args:
        writer: Writer of the loop.
        code: Writer of instructions for the sums.
        dtype: Dtype of the numbers.
        sums: Pointers to the sums.
        inner: Number of terms.
        term: Writes the addition of a term to each sum, for the index of the term.
    """
    kind, summed_in_parts = code.type(dtype), inner // N_PARTS * N_PARTS

    def part(first: int) -> list[str]:
        for place in sums:
            code.line(f"store {kind} {code.constant(0, dtype)}, ptr {place}")
        if summed_in_parts <= MAX_UNROLLED_TERMS:
            for number in range(first, summed_in_parts, N_PARTS):
                term(str(number))
        else:
            writer.repeat(str(first), str(summed_in_parts), N_PARTS, term)
        return [code.emit(f"load {kind}, ptr {place}") for place in sums]

    def total(first: int, step: int) -> list[str]:
        if step == N_PARTS:
            return part(first)
        halves = total(first, 2 * step), total(first + step, 2 * step)
        return [write_sum(code, dtype, a, b) for a, b in zip(*halves, strict=True)]

    totals = total(0, 1) if summed_in_parts else [code.constant(0, dtype) for _ in sums]
    for place, register in zip(sums, totals, strict=True):
        code.line(f"store {kind} {register}, ptr {place}")
    writer.repeat(str(summed_in_parts), str(inner), 1, term)


def _multiply_rows_by_vector(
    writer: Arrays, dtype: str, pointers: tuple[str, str, str], shape: tuple[Extent, int]
) -> None:
    """Write the product of a matrix and a vector."""
    (x, y, target), (rows, inner) = pointers, shape

    def make_group_writer(count: int) -> Callable[[str], None]:
        def write(number: str) -> None:
            row_pointer = writer.element_address(dtype, x, writer.multiply(number, inner))
            for k, total in enumerate(
                _compute_dot_products(writer, dtype, (row_pointer, y), inner, count)
            ):
                place = writer.scalar.emit(f"add i64 {number}, {k}")
                writer.store(writer.scalar, dtype, total, target, place)

        return write

    _for_row_groups(writer, rows, make_group_writer)


def _compute_dot_products(
    writer: Arrays, dtype: str, pointers: tuple[str, str], inner: int, row_count: int
) -> list[str]:
    """Write the products of several rows with a vector, and return their registers.

    Each product has eight partial sums of every eighth term, which are added in pairs. The remaining terms
    are then added in order.
    """
    parts, one = Code(writer.text, N_PARTS, True), writer.scalar
    kind, terms_in_parts = parts.type(dtype), inner // N_PARTS * N_PARTS
    sums = [parts.allocate_local(kind) for _ in range(row_count)]
    for place in sums:
        parts.line(f"store {kind} {parts.constant(0, dtype)}, ptr {place}")
    rows = [writer.element_address(dtype, pointers[0], str(k * inner)) for k in range(row_count)]

    def terms(number: str) -> None:
        factor = writer.load(parts, dtype, pointers[1], number)
        for row, place in zip(rows, sums, strict=True):
            weight = writer.load(parts, dtype, row, number)
            total = parts.emit(f"load {kind}, ptr {place}")
            next_total = _multiply_add(parts, dtype, weight, factor, total)
            parts.line(f"store {kind} {next_total}, ptr {place}")

    writer.repeat("0", str(terms_in_parts), N_PARTS, terms)
    totals = []
    for row, place in zip(rows, sums, strict=True):
        total = reduce_lanes(one, dtype, parts.emit(f"load {kind}, ptr {place}"), write_sum)
        for number in range(terms_in_parts, inner):
            a, b = (writer.load(one, dtype, pointer, str(number)) for pointer in (row, pointers[1]))
            total = _multiply_add(one, dtype, a, b, total)
        totals.append(total)
    return totals


def write_sum(code: Code, dtype: str, a: str, b: str) -> str:
    """Write `a + b`."""
    return code.binary("fadd" if is_float(dtype) else "add", dtype, a, b)


def write_multiplication(code: Code, dtype: str, a: str, b: str) -> str:
    """Write `a * b`."""
    return code.binary("fmul" if is_float(dtype) else "mul", dtype, a, b)


def reduce_lanes(one: Code, dtype: str, register: str, join: Join) -> str:
    """Write the pairwise reduction of the eight lanes of a register: lanes at distance four, then two, then one."""
    kind = f"<{N_PARTS} x {REGISTER_TYPES[dtype]}>"
    numbers = [one.emit(f"extractelement {kind} {register}, i32 {k}") for k in range(N_PARTS)]
    return reduce_in_pairs(numbers, lambda a, b: join(one, dtype, a, b))


def reduce_in_pairs(numbers: Sequence[Number], join: Callable[[Number, Number], Number]) -> Number:
    """Reduce 2**n numbers in pairs: numbers at a distance of half the list, then a quarter, and so on."""
    while len(numbers) > 1:
        half = len(numbers) // 2
        numbers = [join(a, b) for a, b in zip(numbers[:half], numbers[half:], strict=True)]
    return numbers[0]
