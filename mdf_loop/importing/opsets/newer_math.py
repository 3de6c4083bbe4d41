"""Downgrades of ONNX operators to opset 17: arithmetic, bits, reductions, casts, text."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
from onnx import helper

from mdf_loop.importing.opsets.rewrite import Rewrite

TensorProto = onnx.TensorProto
_BIT_WIDTHS: dict[int, int] = {
    TensorProto.INT8: 8, TensorProto.INT16: 16, TensorProto.INT32: 32, TensorProto.INT64: 64,
    TensorProto.UINT8: 8, TensorProto.UINT16: 16, TensorProto.UINT32: 32, TensorProto.UINT64: 64,
}  # fmt: skip
_UNSIGNED_TYPES: dict[int, int] = {
    TensorProto.INT8: TensorProto.UINT8, TensorProto.INT16: TensorProto.UINT16,
    TensorProto.INT32: TensorProto.UINT32, TensorProto.INT64: TensorProto.UINT64,
}  # fmt: skip


def axes_to_attribute(r: Rewrite) -> None:
    """Turn constant axes of ReduceMax, ReduceMin and ReduceProd into an attribute.

    A node whose axes are not constant keeps its form.
    """
    axes = r.input(1)
    if axes and r.facts.value(axes) is None:
        r.add_copy()
        return
    axis_numbers = r.numbers(axes) if axes else []
    if not axis_numbers and r.get("noop_with_empty_axes", 0):
        r.add("Identity", [r.input(0)], to=r.output())
    elif axis_numbers:
        r.add_copy([r.input(0)], drop=("noop_with_empty_axes",), axes=axis_numbers)
    else:
        r.add_copy([r.input(0)], drop=("noop_with_empty_axes",))


def reduce_mean(r: Rewrite) -> None:
    """Replace ReduceMean over variable axes by the sum divided by the number of summed elements."""
    axes = r.input(1)
    if not axes or r.facts.value(axes) is not None:
        axes_to_attribute(r)
        return
    reduction_attributes = {
        "keepdims": r.get("keepdims", 1),
        "noop_with_empty_axes": r.get("noop_with_empty_axes", 0),
    }
    data = r.input(0)
    element_sum = r.add("ReduceSum", [data, axes], **reduction_attributes)
    one = helper.make_tensor("one", TensorProto.INT64, [1], [1])
    ones = r.add("ConstantOfShape", [r.add("Shape", [data])], value=one)
    element_count = r.add("ReduceSum", [ones, axes], **reduction_attributes)
    r.add("Div", [element_sum, r.add("CastLike", [element_count, element_sum])], to=r.output())


def reduce_bool(r: Rewrite) -> None:
    """Replace a reduction of booleans by a reduction of the numbers 0 and 1."""
    if r.dtype(r.input(0)) != TensorProto.BOOL:
        r.add_copy()
        return
    integer_data = r.add_cast(r.input(0), TensorProto.UINT8)
    inputs = [integer_data, *r.node.input[1:]]
    reduction_attributes = {
        attribute.name: helper.get_attribute_value(attribute) for attribute in r.node.attribute
    }
    reduced_data = r.add(r.node.op_type, inputs, **reduction_attributes)
    r.add_cast(reduced_data, TensorProto.BOOL, to=r.output())


def reduce_composed(r: Rewrite) -> None:
    """Downgrade ReduceL1 and similar reductions: turn constant axes into an attribute.

    With other axes, the reduction is composed from ReduceSum.

    The definitions of ONNX itself compute in float32.
    """
    axes = r.input(1)
    constant_axes = r.facts.value(axes) if axes else np.zeros(0)
    if constant_axes is not None and (constant_axes.size or not r.get("noop_with_empty_axes", 0)):
        axes_to_attribute(r)
        return
    dtype, data = r.dtype(r.input(0)), r.input(0)
    is_exact = r.node.op_type in ("ReduceL1", "ReduceSumSquare")
    wide_data = (
        data if is_exact or dtype not in _INTEGER_DTYPES else r.add_cast(data, TensorProto.DOUBLE)
    )
    reduced_data = _REDUCTIONS[r.node.op_type](r, wide_data, [axes] if axes else [])
    if wide_data == data:
        r.add("Identity", [reduced_data], to=r.output())
    else:
        r.add_cast(reduced_data, dtype, to=r.output())


def _add_reduction(
    r: Rewrite, op_type: str, data: str, axes: list[str], keepdims: int | None = None
) -> str:
    keepdims_value = r.get("keepdims", 1) if keepdims is None else keepdims
    keeps_data_without_axes = r.get("noop_with_empty_axes", 0)
    return r.add(
        op_type,
        [data, *axes],
        keepdims=keepdims_value,
        noop_with_empty_axes=keeps_data_without_axes,
    )


def _build_l1(r: Rewrite, data: str, axes: list[str]) -> str:
    return _add_reduction(r, "ReduceSum", r.add("Abs", [data]), axes)


def _build_sum_square(r: Rewrite, data: str, axes: list[str]) -> str:
    return _add_reduction(r, "ReduceSum", r.add("Mul", [data, data]), axes)


def _build_l2(r: Rewrite, data: str, axes: list[str]) -> str:
    return r.add("Sqrt", [_build_sum_square(r, data, axes)])


def _build_log_sum(r: Rewrite, data: str, axes: list[str]) -> str:
    return r.add("Log", [_add_reduction(r, "ReduceSum", data, axes)])


def _build_log_sum_exp(r: Rewrite, data: str, axes: list[str]) -> str:
    """Build `log(sum(exp(x - m))) + m`, where m is the largest x, or 0 if that is infinite."""
    zero = r.add("CastLike", [r.add_constant(np.array(0.0)), data])
    largest, maximum_with_axes = (
        r.add("Where", [r.add("IsInf", [maximum]), zero, maximum])
        for maximum in (
            _add_reduction(r, "ReduceMax", data, axes, 1),
            _add_reduction(r, "ReduceMax", data, axes),
        )
    )
    exponentials = r.add("Exp", [r.add("Sub", [data, largest])])
    return r.add(
        "Add",
        [r.add("Log", [_add_reduction(r, "ReduceSum", exponentials, axes)]), maximum_with_axes],
    )


_INTEGER_DTYPES = frozenset(_BIT_WIDTHS)

_REDUCTIONS: dict[str, Callable[[Rewrite, str, list[str]], str]] = {
    "ReduceL1": _build_l1,
    "ReduceL2": _build_l2,
    "ReduceLogSum": _build_log_sum,
    "ReduceLogSumExp": _build_log_sum_exp,
    "ReduceSumSquare": _build_sum_square,
}


def cast(r: Rewrite) -> None:
    """Downgrade Cast: remove `saturate` and `round_mode`, which affect only 8-bit floats."""
    r.add_copy(drop=("saturate", "round_mode"))


def equal_text(r: Rewrite) -> None:
    """Replace Equal of strings by a comparison of their indices among the distinct strings."""
    if r.dtype(r.input(0)) != TensorProto.STRING:
        r.add_copy()
        return
    flat_shape = r.add_ints([-1])
    flat_texts = [r.add("Reshape", [name, flat_shape]) for name in r.node.input]
    indices = r.add_all(
        "Unique",
        [r.add("Concat", flat_texts, axis=0)],
        [
            r.intermediate_name("distinct"),
            r.intermediate_name("first"),
            r.intermediate_name("places"),
        ],
    )[2]
    element_counts = r.add("Concat", [r.add("Shape", [name]) for name in flat_texts], axis=0)
    flat_indices = r.add_all(
        "Split",
        [indices, element_counts],
        [r.intermediate_name("left"), r.intermediate_name("right")],
    )
    index_arrays = [
        r.add("Reshape", [flat_index, r.add("Shape", [name])], allowzero=1)
        for flat_index, name in zip(flat_indices, r.node.input, strict=True)
    ]
    r.add("Equal", index_arrays, to=r.output())


def bit_not(r: Rewrite) -> None:
    """Replace BitwiseNot by -1 - x, or by (largest value - x) for unsigned integers."""
    dtype = np.dtype(helper.tensor_dtype_to_np_dtype(r.dtype(r.input(0))))
    all_bits_set = np.iinfo(dtype).max if dtype.kind == "u" else -1
    r.add("Sub", [r.add_constant(np.array(all_bits_set, dtype)), r.input(0)], to=r.output())


def bit_and(r: Rewrite) -> None:
    """Replace BitwiseAnd by the sum of the powers of two whose bits are set in both integers."""
    r.add_cast(_common_bits(r), r.dtype(r.input(0)), to=r.output())


def bit_or(r: Rewrite) -> None:
    """Replace BitwiseOr by a | b = a + b - (a & b)."""
    number_sum, common_bits = _sum_and_common_bits(r)
    r.add_cast(r.add("Sub", [number_sum, common_bits]), r.dtype(r.input(0)), to=r.output())


def bit_xor(r: Rewrite) -> None:
    """Replace BitwiseXor by a ^ b = a + b - 2 (a & b)."""
    number_sum, common_bits = _sum_and_common_bits(r)
    bit_union = r.add("Sub", [number_sum, common_bits])
    r.add_cast(r.add("Sub", [bit_union, common_bits]), r.dtype(r.input(0)), to=r.output())


def _to_64_bits(r: Rewrite) -> tuple[list[str], int]:
    """Cast both inputs to 64-bit integers of the same signedness.

    Return the integers with their element type.
    """
    wide_dtype = (
        TensorProto.INT64
        if r.dtype(r.input(0))
        not in (TensorProto.UINT8, TensorProto.UINT16, TensorProto.UINT32, TensorProto.UINT64)
        else TensorProto.UINT64
    )
    return [r.add_cast(name, wide_dtype) for name in r.node.input], wide_dtype


def _sum_and_common_bits(r: Rewrite) -> tuple[str, str]:
    wide_numbers, _ = _to_64_bits(r)
    return r.add("Add", wide_numbers), _common_bits(r)


def _common_bits(r: Rewrite) -> str:
    """Return the bitwise AND of two integers as a 64-bit integer."""
    wide_numbers, wide_dtype = _to_64_bits(r)
    dtype = helper.tensor_dtype_to_np_dtype(wide_dtype)
    is_signed = wide_dtype == TensorProto.INT64
    bit_width = _BIT_WIDTHS[r.dtype(r.input(0))] - is_signed
    powers = r.add_constant(np.array([2**bit_index for bit_index in range(bit_width)], dtype=dtype))
    two, zero = r.add_constant(np.array(2, dtype)), r.add_constant(np.array(0, dtype))
    operand_bits = []
    for wide_number in wide_numbers:
        column = r.add("Unsqueeze", [wide_number, r.add_ints([-1])])
        lower_bits = r.add("Mod", [column, powers])  # Mod has the sign of the divisor
        shifted_column = r.add("Div", [r.add("Sub", [column, lower_bits]), powers])
        operand_bits.append(r.add("Mod", [shifted_column, two]))
    bit_values = r.add("Mul", [r.add("Mul", operand_bits), powers])
    common_bits = r.add(
        "ReduceSum", [r.add_cast(bit_values, TensorProto.INT64), r.add_ints([-1])], keepdims=0
    )
    common_bits = r.add_cast(common_bits, wide_dtype)
    if is_signed:
        is_negative = [r.add("Less", [wide_number, zero]) for wide_number in wide_numbers]
        lowest_number = r.add_constant(np.array(-(2**bit_width), dtype))
        sign_part = r.add("Where", [r.add("And", is_negative), lowest_number, zero])
        common_bits = r.add("Add", [common_bits, sign_part])
    return common_bits


def bit_shift_28(r: Rewrite) -> None:
    """Replace BitShift of signed integers by BitShift of unsigned integers.

    The bits of a negative number are inverted before a right shift, and inverted back after the
    shift. A shift by a negative number, or by the bit width or more, shifts all bits out.
    """
    dtype = r.dtype(r.input(0))
    if dtype not in _UNSIGNED_TYPES:
        r.add_copy()
        return
    unsigned_type, bit_width = _UNSIGNED_TYPES[dtype], _BIT_WIDTHS[dtype]
    numpy_dtype = helper.tensor_dtype_to_np_dtype(dtype)
    zero, max_shift, minus_one = (
        r.add_constant(np.array(number, numpy_dtype)) for number in (0, bit_width - 1, -1)
    )
    x, y = r.input(0), r.input(1)
    is_out_of_range = r.add("Or", [r.add("Less", [y, zero]), r.add("Greater", [y, max_shift])])
    shift = r.add_cast(r.add("Where", [is_out_of_range, zero, y]), unsigned_type)
    is_right_shift = r.get("direction") == "RIGHT"
    is_negative = r.add("Less", [x, zero])
    nonnegative_number = (
        r.add("Where", [is_negative, r.add("Sub", [minus_one, x]), x]) if is_right_shift else x
    )
    bits = r.add_cast(nonnegative_number, unsigned_type)
    shifted_number = r.add_cast(
        r.add("BitShift", [bits, shift], direction=r.get("direction")), dtype
    )
    shifted_or_zero = r.add("Where", [is_out_of_range, zero, shifted_number])
    if not is_right_shift:
        r.add("Identity", [shifted_or_zero], to=r.output())
        return
    r.add(
        "Where",
        [is_negative, r.add("Sub", [minus_one, shifted_or_zero]), shifted_or_zero],
        to=r.output(),
    )


def has_new_mode(r: Rewrite) -> bool:
    """Return True if a node's mode is not DCR, the only block order before opset 28."""
    return bool(r.get("mode", "DCR") != "DCR")


def space_to_depth(r: Rewrite) -> None:
    """Downgrade SpaceToDepth: remove the mode DCR, the only block order before opset 28."""
    r.add_copy(drop=("mode",))


def is_half_range(r: Rewrite) -> bool:
    """Return True if a Range computes half-precision floats, which are new in 27."""
    return r.dtype(r.input(0)) in (TensorProto.FLOAT16, TensorProto.BFLOAT16)


def range_27(r: Rewrite) -> None:
    """Downgrade Range: remove `stash_type`, which affects only half-precision floats."""
    r.add_copy(drop=("stash_type",))


def cum_prod(r: Rewrite) -> None:
    """Replace CumProd by a Scan along the axis.

    If the axis is not constant, the data are reshaped to three axes: all axes before the axis, the
    axis itself, and all axes after it. The Scan then runs along the second axis.
    """
    if r.facts.value(r.input(1)) is not None:
        (axis,) = r.numbers(r.input(1))
        rank = r.rank(r.input(0))
        _cumulative_product(r, r.input(0), axis + rank if axis < 0 else axis, r.output())
        return
    shape = r.add("Shape", [r.input(0)])
    three_axis_data = r.add("Reshape", [r.input(0), _extents_around_axis(r, shape)], allowzero=1)
    product = r.intermediate_name("product")
    _cumulative_product(r, three_axis_data, 1, product)
    r.add("Reshape", [product, shape], to=r.output(), allowzero=1)


def _extents_around_axis(r: Rewrite, shape: str) -> str:
    """Return three extents: the product before the axis, the axis itself, the product after it."""
    rank = r.rank(r.input(0))
    axis = r.add("Mod", [r.add_cast(r.input(1), TensorProto.INT64), r.add_constant(np.array(rank))])
    axis = r.add("Reshape", [axis, r.add_ints([1])])
    indices, one = r.add_ints(range(rank)), r.add_ints([1])
    side_extents = [
        r.add("Where", [r.add(comparison, [indices, axis]), shape, one])
        for comparison in ("Less", "Greater")
    ]
    extent_before, extent_after = (
        r.add("ReduceProd", [side_extent], keepdims=1) for side_extent in side_extents
    )
    return r.add("Concat", [extent_before, r.add("Gather", [shape, axis]), extent_after], axis=0)


def _cumulative_product(r: Rewrite, data: str, axis: int, to: str) -> None:
    dtype = r.dtype(r.input(0))
    scan_axis = r.add_ints([axis])
    shape = r.add("Shape", [data])
    ones = r.add("ConstantOfShape", [shape], value=helper.make_tensor("one", dtype, [1], [1]))
    first_ones = r.add("Slice", [ones, r.add_ints([0]), r.add_ints([1]), scan_axis])
    initial_product = r.add("Squeeze", [first_ones, scan_axis])
    body_value_names = [
        r.intermediate_name(suffix) for suffix in ("so_far", "factor", "product", "row")
    ]
    row_name = body_value_names[0] if r.get("exclusive", 0) else body_value_names[2]
    body = helper.make_graph(
        [
            helper.make_node("Mul", body_value_names[:2], [body_value_names[2]]),
            helper.make_node("Identity", [row_name], [body_value_names[3]]),
        ],
        "running_product",
        [helper.make_tensor_value_info(name, dtype, None) for name in body_value_names[:2]],
        [helper.make_tensor_value_info(name, dtype, None) for name in body_value_names[2:]],
    )
    scan_directions = [r.get("reverse", 0)]
    r.add_all(
        "Scan",
        [initial_product, data],
        [r.intermediate_name("last"), to],
        body=body,
        num_scan_inputs=1,
        scan_input_axes=[axis],
        scan_output_axes=[axis],
        scan_input_directions=scan_directions,
        scan_output_directions=scan_directions,
    )
