"""What a derivative of an operation is, and the kinds that there are.

    y = f(x0, x1, ...)
    tangent     dy = sum of (dy/dxk) dxk       how results change with operands
    cotangent   gk = transposed(dy/dxk) g      how a number changes with xk, that changes by g with y

A rule builds the tangents of an operation from those of its operands, or the cotangent of an operand
from those of its results; None stands for zeros. A cotangent has the shape of what it belongs to.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NoReturn, TypeAlias

from msgspec import Struct

from mdf_loop.errors import UnsupportedError
from mdf_loop.ir import Op, Value
from mdf_loop.ir.types import is_tensor, kind_of
from mdf_loop.ops.derivatives.shapes import fitted, spread, typed, zeros
from mdf_loop.ops.words import scalar

if TYPE_CHECKING:
    from mdf_loop.build import Builder

Changes: TypeAlias = Sequence["Value | None"]
"""Tangents or cotangents, one for each operand or result; None: zeros."""

Side: TypeAlias = "Callable[[Builder, Op, Value], Value]"
"""`g` times the derivative of a result by one operand, element by element; broadcast like the result."""

Transposed: TypeAlias = "Callable[[Builder, Op, Changes, int], Value | None]"
"""The cotangent of the operand at a position, for those of all results."""


class Pointwise(Struct, frozen=True):
    """Of what is computed element by element: a `side` for each operand; None: it changes nothing."""

    sides: Callable[[Op], Sequence[Side | None]]

    def tangents(self, b: Builder, op: Op, given: Changes) -> Changes:
        """The change of the result, for those of operands."""
        pairs = zip(self.sides(op), given, strict=False)
        parts = [side(b, op, t) for side, t in pairs if side is not None and t is not None]
        return (spread(b, summed(b, parts), op.outputs[0]) if parts else None,)

    def cotangent(self, b: Builder, op: Op, given: Changes, position: int) -> Value | None:
        """What the operand at a position gets of the result's cotangent."""
        return self._got(b, op, given, position, sure=False)

    def chosen_cotangent(self, b: Builder, op: Op, given: Changes, position: int) -> Value | None:
        """The same where a choice may leave out some elements: these get 0, also if the derivative is infinite.

        Where it is finite the product stays: a cotangent that is 0 by chance can change.
        """
        return self._got(b, op, given, position, sure=True)

    def _got(self, b: Builder, op: Op, given: Changes, k: int, *, sure: bool) -> Value | None:
        side, (g,), x = self.sides(op)[k], given, op.inputs[k]
        if side is None or g is None or x is None:
            return None
        made = side(b, op, g)
        if sure and made is not g:
            none = b.op("Equal", g, scalar(b, 0, g.dtype))
            lost = b.op("And", none, b.op("IsNaN", made))
            made = b.op("Where", lost, scalar(b, 0, made.dtype), made)
        return fitted(b, made, x)


class General(Struct, frozen=True):
    """Any other: both directions said."""

    tangents: Callable[[Builder, Op, Changes], Changes]
    cotangent: Transposed


class Through(Struct, frozen=True):
    """As that of other operations, which make the same results."""

    composition: Callable[[Builder, Op], Value | tuple[Value | None, ...]]


Derivative: TypeAlias = Pointwise | General | Through


def pointwise(*sides: Side | None) -> Pointwise:
    """Element by element, each operand with a side of its own."""
    return Pointwise(lambda op: sides)


def linear(transposed: Transposed, positions: Sequence[int] = (0,)) -> General:
    """Linear in all operands at these positions together: what changes is computed as the operation is."""

    def tangents(b: Builder, op: Op, given: Changes) -> Changes:
        at = positions or range(len(op.inputs))
        inputs = [
            x if k not in at or x is None else given[k] or zeros(b, x)
            for k, x in enumerate(op.inputs)
        ]
        made = b.multi(op.op_type, *inputs, n_outputs=len(op.outputs), **op.attributes)
        return [typed(b, change, y) for change, y in zip(made, op.outputs, strict=True)]

    return General(tangents, transposed)


def bilinear(transposed: Transposed, positions: Sequence[int] = (0, 1)) -> General:
    """Linear in each of these operands for itself: the sum of what changes with either."""

    def tangents(b: Builder, op: Op, given: Changes) -> Changes:
        parts = []
        for k in positions:
            if given[k] is not None:
                inputs = (*op.inputs[:k], given[k], *op.inputs[k + 1 :])
                part = b.op(op.op_type, *inputs, **op.attributes)
                parts.append(typed(b, part, op.outputs[0]))
        return (summed(b, parts) if parts else None,)

    return General(tangents, transposed)


def by_first(back: Side) -> Transposed:
    """Of the first operand alone, what goes back to it of the only result."""

    def transposed(b: Builder, op: Op, given: Changes, k: int) -> Value | None:
        (g,) = given
        return back(b, op, g) if k == 0 and g is not None else None

    return transposed


def summed(b: Builder, parts: Sequence[Value]) -> Value:
    """The sum of one value or more."""
    total, *others = parts
    for part in others:
        total = b.op("Add", total, part)
    return total


def is_float(value: Value | None) -> bool:
    """Whether a value is a number with a point: only those change a little."""
    return value is not None and kind_of(value.dtype) == "f"


def hides_floats(value: Value | None) -> bool:
    """Whether it is a sequence, or optional, of such numbers: no rule tells how it changes."""
    return value is not None and not is_tensor(value.dtype) and "float" in value.dtype


NOTHING = General(lambda b, op, given: (None,) * len(op.outputs), lambda b, op, given, k: None)
"""Of what stays the same when its operands change a little: comparisons, whole numbers, shapes."""


def refused(name: str, why: str, hint: str) -> General:
    """Of what has none, though it is composed: the composition has none either."""

    def refuse(b: Builder, op: Op, given: Changes, k: int = 0) -> NoReturn:
        raise UnsupportedError(f"{name} has no derivative here: {why}", op.where, hint)

    return General(refuse, refuse)
