"""One of two ways to compute values, of which only the chosen one is computed.

    choose(b, go, lambda b: [b.op("Neg", x)], lambda b: [x], "y")

    if %go giving %y: float64[n]
      %Neg: float64[n] = Neg(%x)
      give %Neg
    else
      give %x

For a choice between two values that are there anyway see `operators.choose`: it is cheaper.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from mdf_loop.build import Builder
from mdf_loop.errors import ArityError, OperandError
from mdf_loop.ir import Branch, If, Shape, Value

Reader: TypeAlias = Callable[[Builder], Sequence[Value]]
"""Appends what one branch computes and gives the values that leave it."""


def choose(
    b: Builder, condition: Value, then: Reader, otherwise: Reader, name: str
) -> tuple[Value, ...]:
    """`then() if condition else otherwise()`, value by value; the values are called `name`.

    Of a condition that is known now the other branch is not even read. Both branches give the
    same number of values, in the same dtypes. Shapes may differ: extents that are not equal in
    both are known only at run time, and so is a number of axes that is not.

    Raises:
        ArityError: the branches give different numbers of values.
        OperandError: two values for one place differ in dtype.
    """
    known = b.constant_of(condition)
    if known is not None and condition.type == "bool[]":
        return tuple((then if known else otherwise)(b))
    branches = _branch(b, then), _branch(b, otherwise)
    left, right = (branch.leaves for branch in branches)
    if len(left) != len(right):
        raise ArityError(
            f"both branches of '{name}' must give the same number of values, but if "
            f"'{condition.name}' is true there are {len(left)}, else {len(right)}"
        )
    outputs = tuple(_joined(b, name, *pair) for pair in zip(left, right, strict=True))
    b.append(If(name, condition, *branches, outputs, b.where))
    return outputs


def _branch(b: Builder, read: Reader) -> Branch:
    inside = b.body()
    leaves = tuple(read(inside))
    return Branch(tuple(inside.ops), leaves)


def _joined(b: Builder, name: str, then: Value, otherwise: Value) -> Value:
    """What either of two values becomes after the choice."""
    if then.dtype != otherwise.dtype:
        raise OperandError(
            f"both branches of '{name}' must give one dtype, but "
            f"'{then.name}' is {then.type} and '{otherwise.name}' is {otherwise.type}",
            hint="make both whole numbers, or give both a point (6.0)",
        )
    output = b.new(then.dtype, _joined_shape(b, then.shape, otherwise.shape), name)
    plain = b.is_weak(then) and b.is_weak(otherwise)
    return b.mark_weak(output) if plain else output


def _joined_shape(b: Builder, then: Shape, otherwise: Shape) -> Shape:
    """The extents that both have; fresh names for others; None if the numbers of axes differ."""
    if then is None or otherwise is None or len(then) != len(otherwise):
        return None
    pairs = zip(then, otherwise, strict=True)
    return tuple(p if p == q else b.name("d") for p, q in pairs)
