"""Machine code of products of matrices and vectors.

Every element is a sum of eight partial sums, each of every eighth term, which are added in pairs. The
remaining terms are then added in order. So the bits of an element depend on its terms only, and not on the
processor, the shapes or the notation of the product. Products and sums of floats are fused (rounded once).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from mdf_loop.ir import Op, Value
from mdf_loop.ops.native.code import TYPES, Arrays, Cell, Code, Extent, Extents, NotNative, is_float
from mdf_loop.ops.native.extents import bare, product
from mdf_loop.ops.ordered_sum import PARTS

Number = TypeVar("Number")
"""Type of the numbers that are reduced: registers or values."""

Join = Callable[[Code, str, str, str], str]
"""Function `join(code, dtype, a, b)` that writes the reduction of two numbers, such as their sum."""

SIDE, FEW = 4, 2
"""Number of rows, or of vectors of one row, that are summed in one loop, and number of vectors of several rows.

Measured: a product of a thousand rows takes half of the time.
"""

UNROLLED = 16
"""Maximum number of terms of a sum that is written without a loop."""

MOST = 1 << 20
"""Maximum number of elements of a matrix. The runtime multiplies larger matrices faster."""


def matmul(writer: Arrays, op: Op, cells: Mapping[Value, Cell]) -> Cell:
    """Write `a @ b` of vectors, matrices and stacks of matrices.

    Raises:
        NotNative: A matrix is large or has booleans, there are several matrices of float32, or the number of
            terms or columns is known only at run time.
    """
    a, b = (value for value in op.inputs if value is not None)
    output, one = op.outputs[0], writer.one
    left, right = writer.extents(a), writer.extents(b)
    *many_left, rows, inner = left if len(left) > 1 else (1, *left)
    *many_right, terms, columns = right if len(right) > 1 else (*right, 1)
    if isinstance(inner, str) or isinstance(columns, str) or terms != inner:
        raise NotNative("it has onnx::MatMul of arrays whose shape is known only when it runs")
    many = _joined(tuple(many_left), tuple(many_right))
    output_extents = (*many, *left[-2:-1], *(right[-1:] if len(right) > 1 else ()))
    if all(extent == 1 for extent in many_right):  # all on the left are rows of one
        rows, many = product(one, (*many, rows)), ()
    # If terms cancel out, the sum consists of the runtime's rounding errors, which this code does not reproduce.
    if many and output.dtype == "float32":
        raise NotNative("it has onnx::MatMul of several matrices of float32")
    sizes = (product(one, (rows, inner)), inner * columns)
    if output.dtype == "bool" or any(isinstance(size, int) and size > MOST for size in sizes):
        raise NotNative("it has a large onnx::MatMul")
    steps = [
        0 if all(extent == 1 for extent in own) else size
        for own, size in zip((many_left, many_right), sizes, strict=True)
    ]
    writer.shaped(output, output_extents)
    x, y = (writer.pointer_of(v, writer.cell(v, cells)) for v in (a, b))
    target = writer.buffer(output)
    shape = rows, inner, columns
    if not many:
        _one_product(writer, output.dtype, (x, y, target), shape)
    else:
        size = product(one, (rows, columns))

        def each(number: str) -> None:
            places = zip((x, y, target), (*steps, size), strict=True)
            here = [writer.at(output.dtype, p, writer.times(number, step)) for p, step in places]
            _one_product(writer, output.dtype, (here[0], here[1], here[2]), shape)

        writer.repeat("0", str(product(one, many)), 1, each)
    return writer.as_cell(output, target)


def _joined(left: Extents, right: Extents) -> Extents:
    """Return the axes of the stack of products. The axes of both stacks must be equal, or one side has none."""
    if bare(left) == bare(right) or not bare(right):
        return left if len(left) >= len(right) else right
    if bare(left):
        raise NotNative("it has onnx::MatMul of matrices that may differ in number")
    return (*(1,) * (len(left) - len(right)), *right)


def _one_product(
    writer: Arrays, dtype: str, pointers: tuple[str, str, str], shape: tuple[Extent, int, int]
) -> None:
    """Write the product of two matrices."""
    x, y, target = pointers
    rows, inner, columns = shape
    if columns == 1:
        _rows_times_vector(writer, dtype, pointers, (rows, inner))
        return

    def some(count: int) -> Callable[[str], None]:
        def write(number: str) -> None:
            first = writer.at(dtype, x, writer.times(number, inner))
            there = writer.at(dtype, target, writer.times(number, columns))
            _rows_times_matrix(writer, dtype, (first, y, there), (count, inner, columns))

        return write

    _in_groups(writer, rows, some)


def _in_groups(writer: Arrays, rows: Extent, some: Callable[[int], Callable[[str], None]]) -> None:
    """Write loops over groups of rows, and over the remaining rows one by one.

    Args:
        writer: Writer of the code.
        rows: Number of rows.
        some: Function that returns a writer for groups of this number of rows.
    """
    if isinstance(rows, int):
        many: Extent = rows // SIDE * SIDE
    else:
        many = writer.one.put(f"and i64 {rows}, -{SIDE}")
    if many != 0:
        writer.repeat("0", str(many), SIDE, some(SIDE))
    if many != rows:
        writer.repeat(str(many), str(rows), 1, some(1))


def _fused(code: Code, dtype: str, a: str, b: str, total: str) -> str:
    """Write `a * b + total`, rounded once for floats."""
    if is_float(dtype):
        return code.intrinsic("fma", dtype, a, b, total)
    return code.binary("add", dtype, code.binary("mul", dtype, a, b), total)


def _rows_times_matrix(
    writer: Arrays, dtype: str, pointers: tuple[str, str, str], shape: tuple[int, int, int]
) -> None:
    """Write the product of a group of rows by a matrix, for groups of columns."""
    (count, _, columns), done = shape, 0
    most = SIDE if count == 1 else FEW
    for code, side in ((writer.wide, most), (writer.wide, 1), (writer.one, 1)):
        step = side * code.width
        end = done + (columns - done) // step * step
        if end > done:
            _columns(writer, (code, side), dtype, pointers, shape, (done, end))
        done = end


def _columns(
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
    (x, matrix, target), (count, inner, columns), (code, side) = pointers, shape, vectors
    one, kind = writer.one, code.type(dtype)
    rows = [writer.at(dtype, x, str(k * inner)) for k in range(count)]

    def some(column: str) -> None:
        sums = [[code.place(kind) for _ in range(side)] for _ in rows]

        def term(number: str) -> None:
            begin = one.put(f"add i64 {writer.times(number, columns)}, {column}")
            places = [one.put(f"add i64 {begin}, {k * code.width}") for k in range(side)]
            weights = [writer.load(code, dtype, matrix, place) for place in places]
            for row, totals in zip(rows, sums, strict=True):
                factor = code.spread(writer.load(one, dtype, row, number), dtype)
                for weight, place in zip(weights, totals, strict=True):
                    total = code.put(f"load {kind}, ptr {place}")
                    next_total = _fused(code, dtype, factor, weight, total)
                    code.line(f"store {kind} {next_total}, ptr {place}")

        _in_parts(writer, code, dtype, [place for places in sums for place in places], inner, term)
        for k, totals in enumerate(sums):
            begin = one.put(f"add i64 {column}, {k * columns}")
            for j, place in enumerate(totals):
                at = one.put(f"add i64 {begin}, {j * code.width}")
                writer.store(code, dtype, code.put(f"load {kind}, ptr {place}"), target, at)

    writer.repeat(str(part[0]), str(part[1]), side * code.width, some)


def _in_parts(
    writer: Arrays,
    code: Code,
    dtype: str,
    sums: Sequence[str],
    inner: int,
    term: Callable[[str], None],
) -> None:
    """Write sums in the same order as `_dots`, one partial sum after the other.

    Args:
        writer: Writer of the loop.
        code: Writer of instructions for the sums.
        dtype: Dtype of the numbers.
        sums: Pointers to the sums.
        inner: Number of terms.
        term: Writes the addition of a term to each sum, for the index of the term.
    """
    kind, many = code.type(dtype), inner // PARTS * PARTS

    def part(first: int) -> list[str]:
        for place in sums:
            code.line(f"store {kind} {code.number(0, dtype)}, ptr {place}")
        if many <= UNROLLED:
            for number in range(first, many, PARTS):
                term(str(number))
        else:
            writer.repeat(str(first), str(many), PARTS, term)
        return [code.put(f"load {kind}, ptr {place}") for place in sums]

    def total(first: int, step: int) -> list[str]:
        if step == PARTS:
            return part(first)
        halves = total(first, 2 * step), total(first + step, 2 * step)
        return [added(code, dtype, a, b) for a, b in zip(*halves, strict=True)]

    whole = total(0, 1) if many else [code.number(0, dtype) for _ in sums]
    for place, register in zip(sums, whole, strict=True):
        code.line(f"store {kind} {register}, ptr {place}")
    writer.repeat(str(many), str(inner), 1, term)


def _rows_times_vector(
    writer: Arrays, dtype: str, pointers: tuple[str, str, str], shape: tuple[Extent, int]
) -> None:
    """Write the product of a matrix and a vector."""
    (x, y, target), (rows, inner) = pointers, shape

    def some(count: int) -> Callable[[str], None]:
        def write(number: str) -> None:
            first = writer.at(dtype, x, writer.times(number, inner))
            for k, total in enumerate(_dots(writer, dtype, (first, y), inner, count)):
                place = writer.one.put(f"add i64 {number}, {k}")
                writer.store(writer.one, dtype, total, target, place)

        return write

    _in_groups(writer, rows, some)


def _dots(
    writer: Arrays, dtype: str, pointers: tuple[str, str], inner: int, side: int
) -> list[str]:
    """Write the products of several rows with a vector, and return their registers.

    Each product has eight partial sums of every eighth term, which are added in pairs. The remaining terms
    are then added in order.
    """
    parts, one = Code(writer.text, PARTS, True), writer.one
    kind, many = parts.type(dtype), inner // PARTS * PARTS
    sums = [parts.place(kind) for _ in range(side)]
    for place in sums:
        parts.line(f"store {kind} {parts.number(0, dtype)}, ptr {place}")
    rows = [writer.at(dtype, pointers[0], str(k * inner)) for k in range(side)]

    def terms(number: str) -> None:
        factor = writer.load(parts, dtype, pointers[1], number)
        for row, place in zip(rows, sums, strict=True):
            weight = writer.load(parts, dtype, row, number)
            total = parts.put(f"load {kind}, ptr {place}")
            next_total = _fused(parts, dtype, weight, factor, total)
            parts.line(f"store {kind} {next_total}, ptr {place}")

    writer.repeat("0", str(many), PARTS, terms)
    totals = []
    for row, place in zip(rows, sums, strict=True):
        total = in_pairs(one, dtype, parts.put(f"load {kind}, ptr {place}"), added)
        for number in range(many, inner):
            a, b = (writer.load(one, dtype, pointer, str(number)) for pointer in (row, pointers[1]))
            total = _fused(one, dtype, a, b, total)
        totals.append(total)
    return totals


def added(code: Code, dtype: str, a: str, b: str) -> str:
    """Write `a + b`."""
    return code.binary("fadd" if is_float(dtype) else "add", dtype, a, b)


def multiplied(code: Code, dtype: str, a: str, b: str) -> str:
    """Write `a * b`."""
    return code.binary("fmul" if is_float(dtype) else "mul", dtype, a, b)


def in_pairs(one: Code, dtype: str, register: str, join: Join) -> str:
    """Write the pairwise reduction of the eight lanes of a register: lanes at distance four, then two, then one."""
    kind = f"<{PARTS} x {TYPES[dtype]}>"
    numbers = [one.put(f"extractelement {kind} {register}, i32 {k}") for k in range(PARTS)]
    return paired(numbers, lambda a, b: join(one, dtype, a, b))


def paired(numbers: Sequence[Number], join: Callable[[Number, Number], Number]) -> Number:
    """Reduce 2**n numbers in pairs: numbers at a distance of half the list, then a quarter, and so on."""
    while len(numbers) > 1:
        half = len(numbers) // 2
        numbers = [join(a, b) for a, b in zip(numbers[:half], numbers[half:], strict=True)]
    return numbers[0]
