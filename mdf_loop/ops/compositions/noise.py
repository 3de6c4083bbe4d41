"""Numbers of streams by operations that every runtime computes to the last bit: see `mdf_loop.streams`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from mdf_loop import streams
from mdf_loop.ir import Op, Value
from mdf_loop.ir.types import element_type
from mdf_loop.ops.compositions.words import number, operand

if TYPE_CHECKING:
    from mdf_loop.build import Builder


def word(b: Builder, op: Op) -> Value:
    """`streams.squares`."""
    counter, key = operand(op), operand(op, 1)
    y = b.op("Mul", counter, key)
    z = b.op("Add", y, key)
    x = _turned(b, b.op("Add", b.op("Mul", y, y), y))
    x = _turned(b, b.op("Add", b.op("Mul", x, x), z))
    x = _turned(b, b.op("Add", b.op("Mul", x, x), y))
    kept = b.op("Add", b.op("Mul", x, x), z)
    x = _turned(b, kept)
    return b.op("Add", kept, _shifted(b, b.op("Add", b.op("Mul", x, x), y), 32))


def _turned(b: Builder, x: Value) -> Value:
    return b.op("Add", _shifted(b, x, 32), b.op("Mul", x, number(b, 2**32, x)))


def _shifted(b: Builder, x: Value, bits: int) -> Value:
    return b.op("BitShift", x, number(b, bits, x), direction="RIGHT")


def uniform(b: Builder, op: Op) -> Value:
    """`streams.uniform` of a word."""
    parts = b.op("Cast", _shifted(b, word(b, op), 12), to=element_type("float64"))
    middle = b.op("Add", parts, number(b, 0.5, parts))
    return b.op("Mul", middle, number(b, 2.0**-52, middle))


def normal(b: Builder, op: Op) -> Value:
    """`streams.normal` of a uniform number."""
    u = uniform(b, op)
    one = number(b, 1.0, u)
    q = b.op("Sub", u, number(b, 0.5, u))
    twice = b.op("Add", b.op("Abs", q), b.op("Abs", q))
    s = b.op("Mul", b.op("Sub", one, twice), b.op("Add", twice, one))
    for _ in range(4):
        s = b.op("Sqrt", s)
    w = b.op("Add", b.op("Mul", s, number(b, streams.SCALE, s)), number(b, streams.SHIFT, s))
    ratio = b.op("Div", _polynomial(b, w, streams.TOP), _polynomial(b, w, streams.BOTTOM))
    return b.op("Mul", q, ratio)


def exponential(b: Builder, op: Op) -> Value:
    """`streams.exponential` of a uniform number."""
    s = uniform(b, op)
    one = number(b, 1.0, s)
    for _ in range(streams.ROOTS):
        s = b.op("Sqrt", s)
    t = b.op("Div", b.op("Sub", one, s), b.op("Add", s, one))
    series = _polynomial(b, b.op("Mul", t, t), streams.SERIES)
    return b.op("Mul", series, b.op("Mul", t, number(b, 2.0 ** (streams.ROOTS + 1), t)))


def _polynomial(b: Builder, x: Value, coefficients: Sequence[float]) -> Value:
    *rest, last = coefficients
    made = x if last == 1.0 else b.op("Mul", x, number(b, last, x))
    made = b.op("Add", made, number(b, rest.pop(), x))
    while rest:
        made = b.op("Add", b.op("Mul", made, x), number(b, rest.pop(), x))
    return made
