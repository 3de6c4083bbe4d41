"""Arrays that are made of numbers: one number again and again, numbers in a row."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from mdf_loop.ir import Op, Value
from mdf_loop.ops.native.code import Arrays, Cell, Code, Extents, NotNative
from mdf_loop.ops.native.extents import largest, less, product, quotient, total
from mdf_loop.ops.registry import title

Cells = Mapping[Value, Cell]


def filled(writer: Arrays, op: Op, cells: Cells) -> Cell:
    """`ConstantOfShape`.

    Raises:
        NotNative: nobody knows whether what it is given is a shape.
    """
    made, extents = op.outputs[0], _numbers(writer, op, 0, cells)
    if not all(map(writer.is_extent, extents)):
        raise NotNative(f"it has {title(op.op_type)} of what is computed")
    number = np.ravel(op.attributes.get("value", 0.0))[0]
    writer.shaped(made, extents)
    target = writer.buffer(made)

    def fill(code: Code, k: str) -> None:
        writer.store(code, made.dtype, code.number(number, made.dtype), target, k)

    writer.over(product(writer.one, extents), fill)
    return writer.as_cell(made, target)


def in_a_row(writer: Arrays, op: Op, cells: Cells) -> Cell:
    """`Range` of int64.

    Raises:
        NotNative: numbers are of another dtype, or the step is computed.
    """
    made, code = op.outputs[0], writer.one
    if made.dtype != "int64":
        raise NotNative(f"it has {title(op.op_type)} of {made.dtype}")
    ((start,), (end,), (step,)) = (_numbers(writer, op, k, cells) for k in range(3))
    if isinstance(step, str) or step == 0:
        raise NotNative(f"it has {title(op.op_type)} of what is computed")
    away = less(code, end, start) if step > 0 else less(code, start, end)
    last = quotient(code, total(code, away, abs(step) - 1), abs(step))
    count = largest(code, last, 0)
    writer.shaped(made, (count,))
    target = writer.buffer(made)

    def one(k: str) -> None:
        number = code.put(f"add i64 {writer.times(k, step)}, {start}")
        writer.store(code, "int64", number, target, k)

    writer.repeat("0", str(count), 1, one)
    return writer.as_cell(made, target)


def _numbers(writer: Arrays, op: Op, place: int, cells: Cells) -> Extents:
    value = op.inputs[place]
    assert value is not None
    numbers = writer.numbers(value, cells)
    if numbers is None:
        raise NotNative(f"it has {title(op.op_type)} of what is computed")
    return numbers
