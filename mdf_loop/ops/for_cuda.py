"""How operations are written for ONNX Runtime's CUDA provider, whose kernels do what those of the CPU do not.

    y = Gather(x, i)        it is 0 where there is no position i; the CPU's fails
    q = Div(n, d)           it is any whole number where d is 0; the CPU's fails
    n: int64 = Cast(x)      nan is 0, what is too large the largest number; the CPU's is the smallest for both
    y = Sign(x)             of nan it is 0; the CPU's is nan
    s = ReduceSum(x)        it fails where there is nothing to add; the CPU's is 0
    y = Softmax(x)          it computes float64 in float32
    y = Gelu(x)             it fails for a single number

Rules are the `for_cuda` of rows: what an operation becomes, or None where its kernel will do.

Source: onnxruntime-gpu 1.31.1 on an H100 (tests/run/onnxruntime/test_cuda.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from mdf_loop.ir import Op, Value
from mdf_loop.ir.types import kind_of
from mdf_loop.ops.compositions import reductions
from mdf_loop.ops.compositions.words import attribute, number, operand, optional
from mdf_loop.ops.derivatives import shapes
from mdf_loop.ops.failing import DIVIDED_BY_ZERO, divides_by_zero, index_outside, tuple_outside
from mdf_loop.ops.words import all_true, cast, ints, scalar

if TYPE_CHECKING:
    from mdf_loop.build import Builder
    from mdf_loop.ops.registry import Known

NO_POSITION = "a position does not exist: a subscript is outside of its array"

# --- what fails on the CPU ----------------------------------------------------------------------


def divisor(b: Builder, op: Op, known: Known) -> Value | None:
    """A quotient or rest of whole numbers, whose divisor is looked at."""
    if not divides_by_zero(op, known):
        return None
    given = operand(op, 1)
    ok = b.op("Not", b.op("Equal", given, number(b, 0, given)))
    return _checked(b, op, ok, DIVIDED_BY_ZERO)


def index(b: Builder, op: Op, known: Known) -> Value | None:
    """What is at positions of an axis, which are looked at."""
    if not index_outside(op, known):
        return None
    extent = extent_of(b, operand(op), int(attribute(op, "axis") or 0))
    return _checked(b, op, _inside(b, operand(op, 1), extent), NO_POSITION)


def extent_of(b: Builder, x: Value, axis: int) -> Value:
    """The extent of an axis, of an array of any rank."""
    if x.shape is not None:
        return shapes.extent(b, x, axis)
    return b.op("Gather", b.op("Shape", x), scalar(b, axis, "int64"), axis=0)


def index_tuple(b: Builder, op: Op, known: Known) -> Value | None:
    """What is at positions of several axes, which are looked at."""
    if not tuple_outside(op, known):
        return None
    data, indices = operand(op), operand(op, 1)
    first = int(op.attributes.get("batch_dims", 0))
    ends = b.op("Add", b.op("Shape", indices, start=-1), ints(b, first))
    extents = b.op("Slice", shapes.shape_of(b, data), ints(b, first), ends)
    return _checked(b, op, _inside(b, indices, extents), NO_POSITION)


def _inside(b: Builder, indices: Value, extents: Value) -> Value:
    wide = cast(b, indices, "int64")
    below = b.op("Less", wide, extents)
    return b.op("And", b.op("GreaterOrEqual", wide, b.op("Neg", extents)), below)


def _checked(b: Builder, op: Op, ok: Value, sentence: str) -> Value:
    """The operation, as long as all of its second operand is right."""
    first, second, *others = op.inputs
    assert second is not None
    guarded = b.guard(second, all_true(b, ok), sentence)
    return b.op(op.op_type, first, guarded, *others, **op.attributes)


# --- what has other numbers ---------------------------------------------------------------------


def whole(b: Builder, op: Op, known: Known) -> Value | None:
    """A float as a whole number: towards zero, and of what does not fit the smallest."""
    x, target = operand(op), op.outputs[0].dtype
    if kind_of(x.dtype) != "f" or target not in ("int64", "int32"):
        return None
    wide = x if x.dtype == "float64" else cast(b, x, "float32")
    least = float(np.iinfo(target).min)
    if (
        target == "int32" and wide.dtype == "float64"
    ):  # which has numbers between least - 1 and least
        low = b.op("Greater", wide, number(b, least - 1, wide))
    else:
        low = b.op("GreaterOrEqual", wide, number(b, least, wide))
    fits = b.op("And", low, b.op("Less", wide, number(b, -least, wide)))
    safe = b.op("Where", fits, wide, number(b, least, wide))
    return b.op("Cast", safe, **op.attributes)


def sign(b: Builder, op: Op, known: Known) -> Value | None:
    """-1, 0, 1 or nan."""
    x = operand(op)
    if kind_of(x.dtype) != "f":
        return None
    return b.op("Where", b.op("Equal", x, x), b.op("Sign", x), x)


def softmax(b: Builder, op: Op, known: Known) -> Value | None:
    """In float64 from its parts."""
    return reductions.softmax(b, op) if op.outputs[0].dtype == "float64" else None


def log_softmax(b: Builder, op: Op, known: Known) -> Value | None:
    """In float64 from its parts."""
    return reductions.log_softmax(b, op) if op.outputs[0].dtype == "float64" else None


def bell(b: Builder, op: Op, known: Known) -> Value | None:
    """Of a single number, which the kernel wants in an array."""
    x = operand(op)
    if x.shape != ():
        return None
    made = b.op(op.op_type, b.op("Unsqueeze", x, ints(b, 0)), **op.attributes)
    return b.op("Squeeze", made, ints(b, 0))


# --- what fails for nothing ---------------------------------------------------------------------


def total(b: Builder, op: Op, known: Known) -> Value | None:
    """A sum to which a zero is added, where there may be nothing."""
    return _of_more(b, op, known, 0)


def product(b: Builder, op: Op, known: Known) -> Value | None:
    """A product that is multiplied by one, where there may be nothing."""
    return _of_more(b, op, known, 1)


def _of_more(b: Builder, op: Op, known: Known, neutral: float) -> Value | None:
    """The same of an array that is longer by one where it may have no elements."""
    x, axes = operand(op), _axes(op, known)
    if x.shape is None and axes == _ALL and not attribute(op, "keepdims"):
        x, axes = b.op("Reshape", x, ints(b, -1)), (0,)
    if x.shape is None or axes is None:
        return None
    rank = len(x.shape)
    summed = range(rank) if axes == _ALL else {axis % rank for axis in axes}
    may_be_empty = [not isinstance(extent, int) or extent == 0 for extent in x.shape]
    behind = [may_be_empty[axis] and axis in summed for axis in range(rank)]
    if not any(behind):
        return None
    pads = b.constant(np.array([*([0] * rank), *map(int, behind)]))
    longer = b.op("Pad", x, pads, number(b, neutral, x))
    return b.op(op.op_type, longer, *op.inputs[1:], **op.attributes)


_ALL: tuple[int, ...] = ()


def _axes(op: Op, known: Known) -> tuple[int, ...] | None:
    """The axes that are summed over; None if they are not known, or are none."""
    given = optional(op, 1)
    axes = op.attributes.get("axes", ()) if given is None else known(given)
    if axes is None or (not len(axes) and op.attributes.get("noop_with_empty_axes")):
        return None
    return tuple(map(int, axes)) or _ALL
