"""One of two ways to compute values, of which only the chosen one is computed.

    choose(b, go, lambda b: [b.op("Neg", x)], lambda b: [x], "y")

    if %go giving %y: float64[n]
      %Neg: float64[n] = Neg(%x)
      give %Neg
    else
      give %x

For a choice between two values that are there anyway see `operators.select`: where both have one
shape it is cheaper.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from msgspec import Struct

from mdf_loop.errors import ArityError, JoinError, Poisoned
from mdf_loop.ir import Branch, If, Shape, Value
from mdf_loop.ir.shape_join import any_shape, dtype_sentence
from mdf_loop.lower.builder import ModelBuilder
from mdf_loop.lower.terms import common_dtype, fits
from mdf_loop.ops.words import cast, ints

Reader: TypeAlias = Callable[[ModelBuilder], Sequence[Value]]
"""Appends what one branch computes and gives the values that leave it."""

Join: TypeAlias = Callable[[Shape, Shape], Shape]
"""The shape that two become together (`mdf_loop.ir.shape_join`)."""


class Words(Struct, frozen=True):
    """What errors and programs call the two sides, and each of the values (None: all alike)."""

    sides: tuple[str, str] = ("the then branch", "the else branch")
    value: Callable[[int], str] | None = None


class _Side(Struct, frozen=True):
    """A branch while it is read."""

    b: ModelBuilder
    leaves: list[Value]

    def branch(self) -> Branch:
        """The branch, once it is read."""
        return Branch(tuple(self.b.ops), tuple(self.leaves))


def choose(
    b: ModelBuilder,
    condition: Value,
    then: Reader,
    otherwise: Reader,
    name: str,
    *,
    words: Words | None = None,
    join: Join = any_shape,
) -> tuple[Value, ...]:
    """`then() if condition else otherwise()`, value by value; the values are called `name`.

    Of a condition that is known now the other branch is not even read. Both branches give the
    same number of values, in the same dtypes; plain numbers take the dtype of the other side.
    Shapes may differ: extents that are not equal in both are known only at run time, and so is a
    number of axes that is not. With `join=join_shapes` they must join.

    Raises:
        ArityError: the branches give different numbers of values.
        JoinError: two values for one place do not join.
        Poisoned: a branch has an error, which is noted.
    """
    known = b.constant_of(condition)
    if known is not None and condition.type == "bool[]":
        return tuple((then if known else otherwise)(b))
    words = words or Words()
    left, right = _side(b, then), _side(b, otherwise)
    if left is None or right is None:
        raise Poisoned
    if len(left.leaves) != len(right.leaves):
        raise ArityError(
            f"both branches of '{name}' must give the same number of values, but "
            f"{words.sides[0]} gives {len(left.leaves)}, {words.sides[1]} {len(right.leaves)}"
        )
    outputs = tuple(
        _joined(b, (left, right), k, words.value(k) if words.value else name, words, join)
        for k in range(len(left.leaves))
    )
    b.append(If(name, condition, left.branch(), right.branch(), outputs, b.where))
    return outputs


def one_of(b: ModelBuilder, test: Value, then: Value, otherwise: Value) -> Value:
    """One of two values of one dtype that are there anyway, in its own shape.

    A `Where` is cheaper, but repeats what is shorter: it is for shapes that are known to be equal.
    """
    if then.shape is not None and otherwise.shape is not None:
        rank = max(len(then.shape), len(otherwise.shape))
        then, otherwise = with_rank(b, then, rank), with_rank(b, otherwise, rank)
    return choose(b, test, lambda _: [then], lambda _: [otherwise], "chosen")[0]


def with_rank(b: ModelBuilder, value: Value, rank: int) -> Value:
    """A value with axes of one element in front, if it has not so many axes."""
    missing = rank - len(value.shape or ())
    return b.op("Unsqueeze", value, ints(b, *range(missing))) if missing > 0 else value


def _side(b: ModelBuilder, read: Reader) -> _Side | None:
    """One branch, None if it has errors: those of the other one are wanted too."""
    inside = b.body()
    with b.findings.catch():
        return _Side(inside, list(read(inside)))
    return None


def _joined(
    b: ModelBuilder, sides: tuple[_Side, _Side], k: int, name: str, words: Words, join: Join
) -> Value:
    """What the k-th value becomes after the choice; in its branches it becomes that first."""
    pair = sides[0].leaves[k], sides[1].leaves[k]
    place = (
        f"Cannot join the values of '{name}' from {words.sides[0]} ({pair[0].type}) "
        f"and {words.sides[1]} ({pair[1].type})"
    )
    dtype = _one_dtype(b, *pair, place)
    shape = _one_shape(pair[0].shape, pair[1].shape, place, join)
    for side, value in zip(sides, pair, strict=True):
        made = cast(side.b, value, dtype)
        side.leaves[k] = _with_axis(side.b, made) if shape == (1,) and made.shape == () else made
    named = shape and tuple(b.name("d") if str(d).startswith("?") else d for d in shape)
    output = b.new(dtype, named, name)
    return b.mark_weak(output) if all(map(b.is_weak, pair)) else output


def _one_dtype(b: ModelBuilder, then: Value, otherwise: Value, place: str) -> str:
    """The dtype of both; a plain number has that of the other side, if it can be said in it."""
    if then.dtype == otherwise.dtype:
        return then.dtype
    strong = {value.dtype for value in (then, otherwise) if not b.is_weak(value)}
    if len(strong) < 2 and all(
        value.dtype != "string" and "(" not in value.dtype for value in (then, otherwise)
    ):
        dtype = common_dtype(b, (then, otherwise))
        if strong <= {dtype} and fits(b, then, dtype) and fits(b, otherwise, dtype):
            return dtype
    raise JoinError(
        f"{place}: {dtype_sentence(then.dtype, otherwise.dtype)}",
        hint="make both whole numbers, or give both a point (6.0)",
    )


def _one_shape(then: Shape, otherwise: Shape, place: str, join: Join) -> Shape:
    try:
        return join(then, otherwise)
    except JoinError as error:
        raise JoinError(
            f"{place}: {error.findings[0].what}",
            hint="give both one shape, or allow the difference: metadata: {shapes: dynamic} in a "
            "branch, shapes='dynamic' or --shapes dynamic",
        ) from None


def _with_axis(b: ModelBuilder, value: Value) -> Value:
    return b.op("Reshape", value, ints(b, 1))
