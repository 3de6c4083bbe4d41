"""Products of matrices and vectors, as native loops compute them.

Every element of a result is summed in the order of its terms, or in eight parts that are added in pairs
(a row times a vector): the same order, so the same bits, whatever the processor. Products and sums of
floats are fused (rounded once).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from mdf_loop.ir import Op, Value
from mdf_loop.ops.native.code import TYPES, Arrays, Cell, Code, NotNative, is_float

Join = Callable[[Code, str, str, str], str]
"""`join(code, dtype, a, b)`: two numbers made one."""

SIDE = 4
"""Vectors of a result that are summed side by side."""

PARTS = 8
"""In so many parts a row times a vector is summed."""

MOST = 1 << 20
"""The most elements of a matrix; the runtime multiplies larger ones faster."""


def matmul(writer: Arrays, op: Op, cells: Mapping[Value, Cell]) -> Cell:
    """`a @ b` of vectors and matrices.

    Raises:
        NotNative: one has more axes, is large, or is no array of numbers of 32 or 64 bits.
    """
    a, b = (value for value in op.inputs if value is not None)
    made = op.outputs[0]
    left, right = writer.shape(a), writer.shape(b)
    if not 1 <= len(left) <= 2 or not 1 <= len(right) <= 2:
        raise NotNative("it has onnx::MatMul of arrays of more than two axes")
    if max(_size(left), _size(right)) > MOST or made.dtype == "bool":
        raise NotNative("it has a large onnx::MatMul")
    x, y = (writer.pointer_of(v, writer.cell(v, cells)) for v in (a, b))
    if len(right) == 1 or right[1] == 1:
        return _rows_times_vector(writer, made, x, y, left)
    target = writer.buffer(made)
    rows, inner = left if len(left) == 2 else (1, left[0])
    columns = right[1]

    def row(number: str) -> None:
        first = writer.at(made.dtype, x, writer.times(number, inner))
        there = writer.at(made.dtype, target, writer.times(number, columns))
        _vector_times_matrix(writer, made.dtype, (first, y, there), inner, columns)

    writer.repeat("0", str(rows), 1, row)
    return writer.as_cell(made, target)


def _size(shape: tuple[int, ...]) -> int:
    return shape[0] * (shape[1] if len(shape) == 2 else 1)


def _fused(code: Code, dtype: str, a: str, b: str, total: str) -> str:
    """`a * b + total`."""
    if is_float(dtype):
        return code.intrinsic("fma", dtype, a, b, total)
    return code.binary("add", dtype, code.binary("mul", dtype, a, b), total)


def _vector_times_matrix(
    writer: Arrays, dtype: str, pointers: tuple[str, str, str], inner: int, columns: int
) -> None:
    """Columns side by side, the terms of each in their order."""
    done = 0
    for code, side in ((writer.wide, SIDE), (writer.wide, 1), (writer.one, 1)):
        step = side * code.width
        end = done + (columns - done) // step * step
        if end > done:
            _columns(writer, code, side, dtype, pointers, (inner, columns), (done, end))
        done = end


def _columns(
    writer: Arrays,
    code: Code,
    side: int,
    dtype: str,
    pointers: tuple[str, str, str],
    extents: tuple[int, int],
    part: tuple[int, int],
) -> None:
    x, matrix, target = pointers
    inner, columns = extents
    kind = code.type(dtype)

    def some(column: str) -> None:
        sums = [code.place(kind) for _ in range(side)]
        for place in sums:
            code.line(f"store {kind} {code.number(0, dtype)}, ptr {place}")

        def term(number: str) -> None:
            factor = code.spread(writer.load(writer.one, dtype, x, number), dtype)
            begin = writer.one.put(f"add i64 {writer.times(number, columns)}, {column}")
            for k, place in enumerate(sums):
                at = writer.one.put(f"add i64 {begin}, {k * code.width}")
                weight = writer.load(code, dtype, matrix, at)
                total = code.put(f"load {kind}, ptr {place}")
                made = _fused(code, dtype, factor, weight, total)
                code.line(f"store {kind} {made}, ptr {place}")

        writer.repeat("0", str(inner), 1, term)
        for k, place in enumerate(sums):
            at = writer.one.put(f"add i64 {column}, {k * code.width}")
            writer.store(code, dtype, code.put(f"load {kind}, ptr {place}"), target, at)

    writer.repeat(str(part[0]), str(part[1]), side * code.width, some)


def _rows_times_vector(writer: Arrays, made: Value, x: str, y: str, left: tuple[int, ...]) -> Cell:
    rows, inner = left if len(left) == 2 else (1, left[0])
    target = writer.buffer(made)
    many = rows // SIDE * SIDE

    def some(side: int) -> Callable[[str], None]:
        def write(number: str) -> None:
            first = writer.at(made.dtype, x, writer.times(number, inner))
            for k, total in enumerate(_dots(writer, made.dtype, (first, y), inner, side)):
                place = writer.one.put(f"add i64 {number}, {k}")
                writer.store(writer.one, made.dtype, total, target, place)

        return write

    writer.repeat("0", str(many), SIDE, some(SIDE))
    writer.repeat(str(many), str(rows), 1, some(1))
    return writer.as_cell(made, target)


def _dots(
    writer: Arrays, dtype: str, pointers: tuple[str, str], inner: int, side: int
) -> list[str]:
    """Rows times a vector, side by side.

    Of each are eight sums of every eighth term, added in pairs; then the terms that are left, in order.
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
            made = _fused(parts, dtype, weight, factor, total)
            parts.line(f"store {kind} {made}, ptr {place}")

    writer.repeat("0", str(many), PARTS, terms)
    made = []
    for row, place in zip(rows, sums, strict=True):
        total = in_pairs(one, dtype, parts.put(f"load {kind}, ptr {place}"), added)
        for number in range(many, inner):
            a, b = (writer.load(one, dtype, pointer, str(number)) for pointer in (row, pointers[1]))
            total = _fused(one, dtype, a, b, total)
        made.append(total)
    return made


def added(code: Code, dtype: str, a: str, b: str) -> str:
    """`a + b`."""
    return code.binary("fadd" if is_float(dtype) else "add", dtype, a, b)


def multiplied(code: Code, dtype: str, a: str, b: str) -> str:
    """`a * b`."""
    return code.binary("fmul" if is_float(dtype) else "mul", dtype, a, b)


def in_pairs(one: Code, dtype: str, register: str, join: Join) -> str:
    """Eight numbers made one: those four apart, two apart, one apart."""
    kind = f"<{PARTS} x {TYPES[dtype]}>"
    numbers = [one.put(f"extractelement {kind} {register}, i32 {k}") for k in range(PARTS)]
    while len(numbers) > 1:
        half = len(numbers) // 2
        pairs = zip(numbers[:half], numbers[half:], strict=True)
        numbers = [join(one, dtype, a, b) for a, b in pairs]
    return numbers[0]
