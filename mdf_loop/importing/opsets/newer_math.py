"""Steps down to opset 17: arithmetic, bits, reductions, casts, text."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
from onnx import helper

from mdf_loop.importing.opsets.rewrite import Rewrite

T = onnx.TensorProto
_BITS: dict[int, int] = {
    T.INT8: 8, T.INT16: 16, T.INT32: 32, T.INT64: 64,
    T.UINT8: 8, T.UINT16: 16, T.UINT32: 32, T.UINT64: 64,
}  # fmt: skip
_UNSIGNED: dict[int, int] = {
    T.INT8: T.UINT8, T.INT16: T.UINT16, T.INT32: T.UINT32, T.INT64: T.UINT64,
}  # fmt: skip


def axes_to_attribute(r: Rewrite) -> None:
    """ReduceMax, ReduceMin, ReduceProd: axes that are known stand in an attribute.

    A node whose axes only the run knows stays as it is.
    """
    axes = r.input(1)
    if axes and r.facts.value(axes) is None:
        r.keep()
        return
    known = r.numbers(axes) if axes else []
    if not known and r.get("noop_with_empty_axes", 0):
        r.make("Identity", [r.input(0)], to=r.output())
    elif known:
        r.keep([r.input(0)], drop=("noop_with_empty_axes",), axes=known)
    else:
        r.keep([r.input(0)], drop=("noop_with_empty_axes",))


def reduce_mean(r: Rewrite) -> None:
    """Axes that only the run knows: sum / number of summed elements."""
    axes = r.input(1)
    if not axes or r.facts.value(axes) is not None:
        axes_to_attribute(r)
        return
    options = {
        "keepdims": r.get("keepdims", 1),
        "noop_with_empty_axes": r.get("noop_with_empty_axes", 0),
    }
    data = r.input(0)
    total = r.make("ReduceSum", [data, axes], **options)
    one = helper.make_tensor("one", T.INT64, [1], [1])
    ones = r.make("ConstantOfShape", [r.make("Shape", [data])], value=one)
    count = r.make("ReduceSum", [ones, axes], **options)
    r.make("Div", [total, r.make("CastLike", [count, total])], to=r.output())


def reduce_bool(r: Rewrite) -> None:
    """Truth values are compared as 0 and 1."""
    if r.dtype(r.input(0)) != T.BOOL:
        r.keep()
        return
    numbers = r.cast(r.input(0), T.UINT8)
    kept = [numbers, *r.node.input[1:]]
    options = {a.name: helper.get_attribute_value(a) for a in r.node.attribute}
    found = r.make(r.node.op_type, kept, **options)
    r.cast(found, T.BOOL, to=r.output())


def reduce_composed(r: Rewrite) -> None:
    """ReduceL1 and its like: known axes stand in an attribute, others are those of a ReduceSum.

    ONNX's own definitions compute in float32.
    """
    axes = r.input(1)
    known = r.facts.value(axes) if axes else np.zeros(0)
    if known is not None and (known.size or not r.get("noop_with_empty_axes", 0)):
        axes_to_attribute(r)
        return
    dtype, data = r.dtype(r.input(0)), r.input(0)
    is_exact = r.node.op_type in ("ReduceL1", "ReduceSumSquare")
    wide = data if is_exact or dtype not in _WHOLE else r.cast(data, T.DOUBLE)
    result = _REDUCTIONS[r.node.op_type](r, wide, [axes] if axes else [])
    if wide == data:
        r.make("Identity", [result], to=r.output())
    else:
        r.cast(result, dtype, to=r.output())


def _reduce(
    r: Rewrite, op_type: str, data: str, axes: list[str], keepdims: int | None = None
) -> str:
    kept = r.get("keepdims", 1) if keepdims is None else keepdims
    noop = r.get("noop_with_empty_axes", 0)
    return r.make(op_type, [data, *axes], keepdims=kept, noop_with_empty_axes=noop)


def _l1(r: Rewrite, data: str, axes: list[str]) -> str:
    return _reduce(r, "ReduceSum", r.make("Abs", [data]), axes)


def _sum_square(r: Rewrite, data: str, axes: list[str]) -> str:
    return _reduce(r, "ReduceSum", r.make("Mul", [data, data]), axes)


def _l2(r: Rewrite, data: str, axes: list[str]) -> str:
    return r.make("Sqrt", [_sum_square(r, data, axes)])


def _log_sum(r: Rewrite, data: str, axes: list[str]) -> str:
    return r.make("Log", [_reduce(r, "ReduceSum", data, axes)])


def _log_sum_exp(r: Rewrite, data: str, axes: list[str]) -> str:
    """Build `log(sum(exp(x - m))) + m` of the largest x, or of 0 where that is infinite."""
    zero = r.make("CastLike", [r.constant(np.array(0.0)), data])
    largest, kept = (
        r.make("Where", [r.make("IsInf", [found]), zero, found])
        for found in (
            _reduce(r, "ReduceMax", data, axes, 1),
            _reduce(r, "ReduceMax", data, axes),
        )
    )
    powers = r.make("Exp", [r.make("Sub", [data, largest])])
    return r.make("Add", [r.make("Log", [_reduce(r, "ReduceSum", powers, axes)]), kept])


_WHOLE = frozenset(_BITS)

_REDUCTIONS: dict[str, Callable[[Rewrite, str, list[str]], str]] = {
    "ReduceL1": _l1,
    "ReduceL2": _l2,
    "ReduceLogSum": _log_sum,
    "ReduceLogSumExp": _log_sum_exp,
    "ReduceSumSquare": _sum_square,
}


def cast(r: Rewrite) -> None:
    """`saturate` and `round_mode` speak of 8-bit floats only."""
    r.keep(drop=("saturate", "round_mode"))


def equal_text(r: Rewrite) -> None:
    """Texts are equal where their places among the distinct texts are equal."""
    if r.dtype(r.input(0)) != T.STRING:
        r.keep()
        return
    line = r.ints([-1])
    flat = [r.make("Reshape", [name, line]) for name in r.node.input]
    places = r.make_all(
        "Unique",
        [r.make("Concat", flat, axis=0)],
        [r.between("distinct"), r.between("first"), r.between("places")],
    )[2]
    counts = r.make("Concat", [r.make("Shape", [name]) for name in flat], axis=0)
    parts = r.make_all("Split", [places, counts], [r.between("left"), r.between("right")])
    shaped = [
        r.make("Reshape", [part, r.make("Shape", [name])], allowzero=1)
        for part, name in zip(parts, r.node.input, strict=True)
    ]
    r.make("Equal", shaped, to=r.output())


def bit_not(r: Rewrite) -> None:
    """Every bit turned: ~x = -1 - x, for unsigned numbers largest - x."""
    dtype = np.dtype(helper.tensor_dtype_to_np_dtype(r.dtype(r.input(0))))
    largest = np.iinfo(dtype).max if dtype.kind == "u" else -1
    r.make("Sub", [r.constant(np.array(largest, dtype)), r.input(0)], to=r.output())


def bit_and(r: Rewrite) -> None:
    """The sum of the powers of two that both numbers have."""
    r.cast(_shared_bits(r), r.dtype(r.input(0)), to=r.output())


def bit_or(r: Rewrite) -> None:
    """All bits: a | b = a + b - (a & b)."""
    total, both = _sum_and_shared(r)
    r.cast(r.make("Sub", [total, both]), r.dtype(r.input(0)), to=r.output())


def bit_xor(r: Rewrite) -> None:
    """Bits of one only: a ^ b = a + b - 2 (a & b)."""
    total, both = _sum_and_shared(r)
    once = r.make("Sub", [total, both])
    r.cast(r.make("Sub", [once, both]), r.dtype(r.input(0)), to=r.output())


def _wide(r: Rewrite) -> tuple[list[str], int]:
    """Both numbers in 64 bits of their own kind, and the element type of that."""
    wide = (
        T.INT64 if r.dtype(r.input(0)) not in (T.UINT8, T.UINT16, T.UINT32, T.UINT64) else T.UINT64
    )
    return [r.cast(name, wide) for name in r.node.input], wide


def _sum_and_shared(r: Rewrite) -> tuple[str, str]:
    numbers, _ = _wide(r)
    return r.make("Add", numbers), _shared_bits(r)


def _shared_bits(r: Rewrite) -> str:
    """The bits of both in 64 bits: bits stand on a last axis of their own while they are compared."""
    numbers, wide = _wide(r)
    dtype = helper.tensor_dtype_to_np_dtype(wide)
    signed = wide == T.INT64
    width = _BITS[r.dtype(r.input(0))] - signed
    powers = r.constant(np.array([2**k for k in range(width)], dtype=dtype))
    two, zero = r.constant(np.array(2, dtype)), r.constant(np.array(0, dtype))
    bits = []
    for number in numbers:
        column = r.make("Unsqueeze", [number, r.ints([-1])])
        below = r.make("Mod", [column, powers])  # Mod follows the divisor: never negative
        shifted = r.make("Div", [r.make("Sub", [column, below]), powers])
        bits.append(r.make("Mod", [shifted, two]))
    weights = r.make("Mul", [r.make("Mul", bits), powers])
    found = r.make("ReduceSum", [r.cast(weights, T.INT64), r.ints([-1])], keepdims=0)
    found = r.cast(found, wide)
    if signed:
        negative = [r.make("Less", [number, zero]) for number in numbers]
        lowest = r.constant(np.array(-(2**width), dtype))
        sign = r.make("Where", [r.make("And", negative), lowest, zero])
        found = r.make("Add", [found, sign])
    return found


def bit_shift_28(r: Rewrite) -> None:
    """Signed numbers, shifted as unsigned ones.

    The bits of a number below 0 are turned before a right shift, and turned back after it; to
    shift by less than 0, or by all bits or more, is to shift all bits out.
    """
    dtype = r.dtype(r.input(0))
    if dtype not in _UNSIGNED:
        r.keep()
        return
    unsigned, width = _UNSIGNED[dtype], _BITS[dtype]
    numpy_dtype = helper.tensor_dtype_to_np_dtype(dtype)
    zero, most, minus_one = (r.constant(np.array(n, numpy_dtype)) for n in (0, width - 1, -1))
    x, y = r.input(0), r.input(1)
    outside = r.make("Or", [r.make("Less", [y, zero]), r.make("Greater", [y, most])])
    steps = r.cast(r.make("Where", [outside, zero, y]), unsigned)
    right = r.get("direction") == "RIGHT"
    below = r.make("Less", [x, zero])
    turned = r.make("Where", [below, r.make("Sub", [minus_one, x]), x]) if right else x
    bits = r.cast(turned, unsigned)
    moved = r.cast(r.make("BitShift", [bits, steps], direction=r.get("direction")), dtype)
    kept = r.make("Where", [outside, zero, moved])
    if not right:
        r.make("Identity", [kept], to=r.output())
        return
    r.make("Where", [below, r.make("Sub", [minus_one, kept]), kept], to=r.output())


def rows_before_depth(r: Rewrite) -> bool:
    """DCR is the only order of SpaceToDepth before 28."""
    return bool(r.get("mode", "DCR") != "DCR")


def space_to_depth(r: Rewrite) -> None:
    """DCR is what it always did."""
    r.keep(drop=("mode",))


def half_range(r: Rewrite) -> bool:
    """Ranges of half floats are new in 27."""
    return r.dtype(r.input(0)) in (T.FLOAT16, T.BFLOAT16)


def range_27(r: Rewrite) -> None:
    """For other dtypes than half floats nothing changed."""
    r.keep(drop=("stash_type",))


def cum_prod(r: Rewrite) -> None:
    """The running product, as a Scan along the axis.

    An axis that only the run knows is the middle one of three, between all axes before it as one
    and all axes after it as one.
    """
    if r.facts.value(r.input(1)) is not None:
        (axis,) = r.numbers(r.input(1))
        rank = r.rank(r.input(0))
        _running_product(r, r.input(0), axis + rank if axis < 0 else axis, r.output())
        return
    shape = r.make("Shape", [r.input(0)])
    middle = r.make("Reshape", [r.input(0), _around(r, shape)], allowzero=1)
    made = r.between("product")
    _running_product(r, middle, 1, made)
    r.make("Reshape", [made, shape], to=r.output(), allowzero=1)


def _around(r: Rewrite, shape: str) -> str:
    """The extents of three axes: those before the axis as one, the axis, those after it."""
    rank = r.rank(r.input(0))
    axis = r.make("Mod", [r.cast(r.input(1), T.INT64), r.constant(np.array(rank))])
    axis = r.make("Reshape", [axis, r.ints([1])])
    places, one = r.ints(range(rank)), r.ints([1])
    sides = [
        r.make("Where", [r.make(side, [places, axis]), shape, one]) for side in ("Less", "Greater")
    ]
    before, after = (r.make("ReduceProd", [side], keepdims=1) for side in sides)
    return r.make("Concat", [before, r.make("Gather", [shape, axis]), after], axis=0)


def _running_product(r: Rewrite, data: str, axis: int, to: str) -> None:
    dtype = r.dtype(r.input(0))
    row_axis = r.ints([axis])
    shape = r.make("Shape", [data])
    ones = r.make("ConstantOfShape", [shape], value=helper.make_tensor("one", dtype, [1], [1]))
    first = r.make("Slice", [ones, r.ints([0]), r.ints([1]), row_axis])
    initial = r.make("Squeeze", [first, row_axis])
    names = [r.between(word) for word in ("so_far", "factor", "product", "row")]
    row = names[0] if r.get("exclusive", 0) else names[2]
    body = helper.make_graph(
        [
            helper.make_node("Mul", names[:2], [names[2]]),
            helper.make_node("Identity", [row], [names[3]]),
        ],
        "running_product",
        [helper.make_tensor_value_info(name, dtype, None) for name in names[:2]],
        [helper.make_tensor_value_info(name, dtype, None) for name in names[2:]],
    )
    direction = [r.get("reverse", 0)]
    r.make_all(
        "Scan",
        [initial, data],
        [r.between("last"), to],
        body=body,
        num_scan_inputs=1,
        scan_input_axes=[axis],
        scan_output_axes=[axis],
        scan_input_directions=direction,
        scan_output_directions=direction,
    )
