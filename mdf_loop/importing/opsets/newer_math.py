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


def axes_to_attribute(rewrite: Rewrite) -> None:
    """Turn constant axes of ReduceMax, ReduceMin and ReduceProd into an attribute.

    A node whose axes are not constant keeps its form.
    """
    axes_name = rewrite.input(1)
    if axes_name and rewrite.facts.constant_array(axes_name) is None:
        rewrite.add_copy()
        return
    axis_numbers = rewrite.constant_integers(axes_name) if axes_name else []
    if not axis_numbers and rewrite.attribute("noop_with_empty_axes", 0):
        rewrite.add_node("Identity", [rewrite.input(0)], to=rewrite.output())
    elif axis_numbers:
        rewrite.add_copy([rewrite.input(0)], drop=("noop_with_empty_axes",), axes=axis_numbers)
    else:
        rewrite.add_copy([rewrite.input(0)], drop=("noop_with_empty_axes",))


def reduce_mean(rewrite: Rewrite) -> None:
    """Replace ReduceMean over variable axes by the sum divided by the number of summed elements."""
    axes_name = rewrite.input(1)
    if not axes_name or rewrite.facts.constant_array(axes_name) is not None:
        axes_to_attribute(rewrite)
        return
    reduction_attributes = {
        "keepdims": rewrite.attribute("keepdims", 1),
        "noop_with_empty_axes": rewrite.attribute("noop_with_empty_axes", 0),
    }
    data_name = rewrite.input(0)
    element_sum = rewrite.add_node("ReduceSum", [data_name, axes_name], **reduction_attributes)
    one_tensor = helper.make_tensor("one", TensorProto.INT64, [1], [1])
    ones_like_data = rewrite.add_node(
        "ConstantOfShape", [rewrite.add_node("Shape", [data_name])], value=one_tensor
    )
    element_count = rewrite.add_node(
        "ReduceSum", [ones_like_data, axes_name], **reduction_attributes
    )
    rewrite.add_node(
        "Div",
        [element_sum, rewrite.add_node("CastLike", [element_count, element_sum])],
        to=rewrite.output(),
    )


def reduce_bool(rewrite: Rewrite) -> None:
    """Replace a reduction of booleans by a reduction of the numbers 0 and 1."""
    if rewrite.dtype(rewrite.input(0)) != TensorProto.BOOL:
        rewrite.add_copy()
        return
    integer_data = rewrite.add_cast(rewrite.input(0), TensorProto.UINT8)
    reduction_inputs = [integer_data, *rewrite.node.input[1:]]
    reduction_attributes = {
        attribute.name: helper.get_attribute_value(attribute)
        for attribute in rewrite.node.attribute
    }
    reduced_data = rewrite.add_node(rewrite.node.op_type, reduction_inputs, **reduction_attributes)
    rewrite.add_cast(reduced_data, TensorProto.BOOL, to=rewrite.output())


def reduce_composed(rewrite: Rewrite) -> None:
    """Downgrade ReduceL1 and similar reductions: turn constant axes into an attribute.

    With other axes, the reduction is composed from ReduceSum.

    The definitions of ONNX itself compute in float32.
    """
    axes_name = rewrite.input(1)
    constant_axes = rewrite.facts.constant_array(axes_name) if axes_name else np.zeros(0)
    if constant_axes is not None and (
        constant_axes.size or not rewrite.attribute("noop_with_empty_axes", 0)
    ):
        axes_to_attribute(rewrite)
        return
    dtype, data_name = rewrite.dtype(rewrite.input(0)), rewrite.input(0)
    is_exact_for_integers = rewrite.node.op_type in ("ReduceL1", "ReduceSumSquare")
    data_for_sum = (
        data_name
        if is_exact_for_integers or dtype not in _INTEGER_DTYPES
        else rewrite.add_cast(data_name, TensorProto.DOUBLE)
    )
    reduced_data = _REDUCTIONS[rewrite.node.op_type](
        rewrite, data_for_sum, [axes_name] if axes_name else []
    )
    if data_for_sum == data_name:
        rewrite.add_node("Identity", [reduced_data], to=rewrite.output())
    else:
        rewrite.add_cast(reduced_data, dtype, to=rewrite.output())


def _add_reduction(
    rewrite: Rewrite, op_type: str, data: str, axes: list[str], keepdims: int | None = None
) -> str:
    keepdims_value = rewrite.attribute("keepdims", 1) if keepdims is None else keepdims
    keeps_data_without_axes = rewrite.attribute("noop_with_empty_axes", 0)
    return rewrite.add_node(
        op_type,
        [data, *axes],
        keepdims=keepdims_value,
        noop_with_empty_axes=keeps_data_without_axes,
    )


def _build_l1(rewrite: Rewrite, data: str, axes: list[str]) -> str:
    return _add_reduction(rewrite, "ReduceSum", rewrite.add_node("Abs", [data]), axes)


def _build_sum_square(rewrite: Rewrite, data: str, axes: list[str]) -> str:
    return _add_reduction(rewrite, "ReduceSum", rewrite.add_node("Mul", [data, data]), axes)


def _build_l2(rewrite: Rewrite, data: str, axes: list[str]) -> str:
    return rewrite.add_node("Sqrt", [_build_sum_square(rewrite, data, axes)])


def _build_log_sum(rewrite: Rewrite, data: str, axes: list[str]) -> str:
    return rewrite.add_node("Log", [_add_reduction(rewrite, "ReduceSum", data, axes)])


def _build_log_sum_exp(rewrite: Rewrite, data: str, axes: list[str]) -> str:
    """Build `log(sum(exp(x - m))) + m`, where m is the largest x, or 0 if that is infinite."""
    zero = rewrite.add_node("CastLike", [rewrite.add_constant(np.array(0.0)), data])
    broadcastable_maximum, reduced_maximum = (
        rewrite.add_node("Where", [rewrite.add_node("IsInf", [maximum]), zero, maximum])
        for maximum in (
            _add_reduction(rewrite, "ReduceMax", data, axes, 1),
            _add_reduction(rewrite, "ReduceMax", data, axes),
        )
    )
    exponentials = rewrite.add_node("Exp", [rewrite.add_node("Sub", [data, broadcastable_maximum])])
    return rewrite.add_node(
        "Add",
        [
            rewrite.add_node("Log", [_add_reduction(rewrite, "ReduceSum", exponentials, axes)]),
            reduced_maximum,
        ],
    )


_INTEGER_DTYPES = frozenset(_BIT_WIDTHS)

_REDUCTIONS: dict[str, Callable[[Rewrite, str, list[str]], str]] = {
    "ReduceL1": _build_l1,
    "ReduceL2": _build_l2,
    "ReduceLogSum": _build_log_sum,
    "ReduceLogSumExp": _build_log_sum_exp,
    "ReduceSumSquare": _build_sum_square,
}


def cast(rewrite: Rewrite) -> None:
    """Downgrade Cast: remove `saturate` and `round_mode`, which affect only 8-bit floats."""
    rewrite.add_copy(drop=("saturate", "round_mode"))


def equal_text(rewrite: Rewrite) -> None:
    """Replace Equal of strings by a comparison of their indices among the distinct strings."""
    if rewrite.dtype(rewrite.input(0)) != TensorProto.STRING:
        rewrite.add_copy()
        return
    flat_shape = rewrite.add_integers([-1])
    flat_texts = [rewrite.add_node("Reshape", [name, flat_shape]) for name in rewrite.node.input]
    index_outputs = rewrite.add_node_with_outputs(
        "Unique",
        [rewrite.add_node("Concat", flat_texts, axis=0)],
        [
            rewrite.intermediate_name("distinct"),
            rewrite.intermediate_name("first"),
            rewrite.intermediate_name("places"),
        ],
    )[2]
    element_counts = rewrite.add_node(
        "Concat", [rewrite.add_node("Shape", [name]) for name in flat_texts], axis=0
    )
    flat_index_outputs = rewrite.add_node_with_outputs(
        "Split",
        [index_outputs, element_counts],
        [rewrite.intermediate_name("left"), rewrite.intermediate_name("right")],
    )
    index_arrays = [
        rewrite.add_node("Reshape", [flat_index, rewrite.add_node("Shape", [name])], allowzero=1)
        for flat_index, name in zip(flat_index_outputs, rewrite.node.input, strict=True)
    ]
    rewrite.add_node("Equal", index_arrays, to=rewrite.output())


def bit_not(rewrite: Rewrite) -> None:
    """Replace BitwiseNot by -1 - x, or by (largest value - x) for unsigned integers."""
    dtype = np.dtype(helper.tensor_dtype_to_np_dtype(rewrite.dtype(rewrite.input(0))))
    number_with_all_bits = np.iinfo(dtype).max if dtype.kind == "u" else -1
    rewrite.add_node(
        "Sub",
        [rewrite.add_constant(np.array(number_with_all_bits, dtype)), rewrite.input(0)],
        to=rewrite.output(),
    )


def bit_and(rewrite: Rewrite) -> None:
    """Replace BitwiseAnd by the sum of the powers of two whose bits are set in both integers."""
    rewrite.add_cast(_common_bits(rewrite), rewrite.dtype(rewrite.input(0)), to=rewrite.output())


def bit_or(rewrite: Rewrite) -> None:
    """Replace BitwiseOr by a | b = a + b - (a & b)."""
    number_sum, common_bits = _sum_and_common_bits(rewrite)
    rewrite.add_cast(
        rewrite.add_node("Sub", [number_sum, common_bits]),
        rewrite.dtype(rewrite.input(0)),
        to=rewrite.output(),
    )


def bit_xor(rewrite: Rewrite) -> None:
    """Replace BitwiseXor by a ^ b = a + b - 2 (a & b)."""
    number_sum, common_bits = _sum_and_common_bits(rewrite)
    bit_union = rewrite.add_node("Sub", [number_sum, common_bits])
    rewrite.add_cast(
        rewrite.add_node("Sub", [bit_union, common_bits]),
        rewrite.dtype(rewrite.input(0)),
        to=rewrite.output(),
    )


def _to_64_bits(rewrite: Rewrite) -> tuple[list[str], int]:
    """Cast both inputs to 64-bit integers of the same signedness.

    Return the integers with their element type.
    """
    dtype_of_64_bits = (
        TensorProto.INT64
        if rewrite.dtype(rewrite.input(0))
        not in (TensorProto.UINT8, TensorProto.UINT16, TensorProto.UINT32, TensorProto.UINT64)
        else TensorProto.UINT64
    )
    return [
        rewrite.add_cast(name, dtype_of_64_bits) for name in rewrite.node.input
    ], dtype_of_64_bits


def _sum_and_common_bits(rewrite: Rewrite) -> tuple[str, str]:
    wide_numbers, _ = _to_64_bits(rewrite)
    return rewrite.add_node("Add", wide_numbers), _common_bits(rewrite)


def _common_bits(rewrite: Rewrite) -> str:
    """Return the bitwise AND of two integers as a 64-bit integer."""
    wide_numbers, wide_dtype = _to_64_bits(rewrite)
    numpy_dtype = helper.tensor_dtype_to_np_dtype(wide_dtype)
    is_signed = wide_dtype == TensorProto.INT64
    bit_width = _BIT_WIDTHS[rewrite.dtype(rewrite.input(0))] - is_signed
    powers_of_two = rewrite.add_constant(
        np.array([2**bit_index for bit_index in range(bit_width)], dtype=numpy_dtype)
    )
    constant_two, constant_zero = (
        rewrite.add_constant(np.array(2, numpy_dtype)),
        rewrite.add_constant(np.array(0, numpy_dtype)),
    )
    bits_of_operands = []
    for wide_number in wide_numbers:
        unsqueezed_number = rewrite.add_node("Unsqueeze", [wide_number, rewrite.add_integers([-1])])
        lower_bits = rewrite.add_node(
            "Mod", [unsqueezed_number, powers_of_two]
        )  # Mod has the sign of the divisor
        shifted_column = rewrite.add_node(
            "Div", [rewrite.add_node("Sub", [unsqueezed_number, lower_bits]), powers_of_two]
        )
        bits_of_operands.append(rewrite.add_node("Mod", [shifted_column, constant_two]))
    bit_values = rewrite.add_node("Mul", [rewrite.add_node("Mul", bits_of_operands), powers_of_two])
    common_bits = rewrite.add_node(
        "ReduceSum",
        [rewrite.add_cast(bit_values, TensorProto.INT64), rewrite.add_integers([-1])],
        keepdims=0,
    )
    common_bits = rewrite.add_cast(common_bits, wide_dtype)
    if is_signed:
        are_negative = [
            rewrite.add_node("Less", [wide_number, constant_zero]) for wide_number in wide_numbers
        ]
        lowest_number = rewrite.add_constant(np.array(-(2**bit_width), numpy_dtype))
        sign_part = rewrite.add_node(
            "Where", [rewrite.add_node("And", are_negative), lowest_number, constant_zero]
        )
        common_bits = rewrite.add_node("Add", [common_bits, sign_part])
    return common_bits


def bit_shift_28(rewrite: Rewrite) -> None:
    """Replace BitShift of signed integers by BitShift of unsigned integers.

    The bits of a negative number are inverted before a right shift, and inverted back after the
    shift. A shift by a negative number, or by the bit width or more, shifts all bits out.
    """
    dtype = rewrite.dtype(rewrite.input(0))
    if dtype not in _UNSIGNED_TYPES:
        rewrite.add_copy()
        return
    unsigned_type, bit_width = _UNSIGNED_TYPES[dtype], _BIT_WIDTHS[dtype]
    numpy_dtype = helper.tensor_dtype_to_np_dtype(dtype)
    constant_zero, max_shift, minus_one = (
        rewrite.add_constant(np.array(number, numpy_dtype)) for number in (0, bit_width - 1, -1)
    )
    x, y = rewrite.input(0), rewrite.input(1)
    is_out_of_range = rewrite.add_node(
        "Or",
        [rewrite.add_node("Less", [y, constant_zero]), rewrite.add_node("Greater", [y, max_shift])],
    )
    nonnegative_shift = rewrite.add_cast(
        rewrite.add_node("Where", [is_out_of_range, constant_zero, y]), unsigned_type
    )
    is_right_shift = rewrite.attribute("direction") == "RIGHT"
    is_negative = rewrite.add_node("Less", [x, constant_zero])
    nonnegative_number = (
        rewrite.add_node("Where", [is_negative, rewrite.add_node("Sub", [minus_one, x]), x])
        if is_right_shift
        else x
    )
    unsigned_bits = rewrite.add_cast(nonnegative_number, unsigned_type)
    shifted_number = rewrite.add_cast(
        rewrite.add_node(
            "BitShift", [unsigned_bits, nonnegative_shift], direction=rewrite.attribute("direction")
        ),
        dtype,
    )
    shifted_or_zero = rewrite.add_node("Where", [is_out_of_range, constant_zero, shifted_number])
    if not is_right_shift:
        rewrite.add_node("Identity", [shifted_or_zero], to=rewrite.output())
        return
    rewrite.add_node(
        "Where",
        [is_negative, rewrite.add_node("Sub", [minus_one, shifted_or_zero]), shifted_or_zero],
        to=rewrite.output(),
    )


def has_new_mode(rewrite: Rewrite) -> bool:
    """Return True if a node's mode is not DCR, the only block order before opset 28."""
    return bool(rewrite.attribute("mode", "DCR") != "DCR")


def space_to_depth(rewrite: Rewrite) -> None:
    """Downgrade SpaceToDepth: remove the mode DCR, the only block order before opset 28."""
    rewrite.add_copy(drop=("mode",))


def is_half_range(rewrite: Rewrite) -> bool:
    """Return True if a Range computes half-precision floats, which it supports since opset 27."""
    return rewrite.dtype(rewrite.input(0)) in (TensorProto.FLOAT16, TensorProto.BFLOAT16)


def range_27(rewrite: Rewrite) -> None:
    """Downgrade Range: remove `stash_type`, which affects only half-precision floats."""
    rewrite.add_copy(drop=("stash_type",))


def cum_prod(rewrite: Rewrite) -> None:
    """Replace CumProd by a Scan along the axis.

    If the axis is not constant, the data are reshaped to three axes: all axes before the axis, the
    axis itself, and all axes after it. The Scan then runs along the second axis.
    """
    if rewrite.facts.constant_array(rewrite.input(1)) is not None:
        (axis,) = rewrite.constant_integers(rewrite.input(1))
        rank = rewrite.rank(rewrite.input(0))
        _cumulative_product(
            rewrite, rewrite.input(0), axis + rank if axis < 0 else axis, rewrite.output()
        )
        return
    shape = rewrite.add_node("Shape", [rewrite.input(0)])
    three_axis_data = rewrite.add_node(
        "Reshape", [rewrite.input(0), _extents_around_axis(rewrite, shape)], allowzero=1
    )
    product_name = rewrite.intermediate_name("product")
    _cumulative_product(rewrite, three_axis_data, 1, product_name)
    rewrite.add_node("Reshape", [product_name, shape], to=rewrite.output(), allowzero=1)


def _extents_around_axis(rewrite: Rewrite, shape: str) -> str:
    """Return three extents: the product before the axis, the axis itself, the product after it."""
    rank = rewrite.rank(rewrite.input(0))
    axis = rewrite.add_node(
        "Mod",
        [
            rewrite.add_cast(rewrite.input(1), TensorProto.INT64),
            rewrite.add_constant(np.array(rank)),
        ],
    )
    axis = rewrite.add_node("Reshape", [axis, rewrite.add_integers([1])])
    axis_indices, one_element_shape = rewrite.add_integers(range(rank)), rewrite.add_integers([1])
    side_extents = [
        rewrite.add_node(
            "Where", [rewrite.add_node(comparison, [axis_indices, axis]), shape, one_element_shape]
        )
        for comparison in ("Less", "Greater")
    ]
    extent_before_axis, extent_after_axis = (
        rewrite.add_node("ReduceProd", [side_extent], keepdims=1) for side_extent in side_extents
    )
    return rewrite.add_node(
        "Concat",
        [extent_before_axis, rewrite.add_node("Gather", [shape, axis]), extent_after_axis],
        axis=0,
    )


def _cumulative_product(rewrite: Rewrite, data: str, axis: int, to: str) -> None:
    dtype = rewrite.dtype(rewrite.input(0))
    scan_axis = rewrite.add_integers([axis])
    shape = rewrite.add_node("Shape", [data])
    ones_like_data = rewrite.add_node(
        "ConstantOfShape", [shape], value=helper.make_tensor("one", dtype, [1], [1])
    )
    first_slice_ones = rewrite.add_node(
        "Slice", [ones_like_data, rewrite.add_integers([0]), rewrite.add_integers([1]), scan_axis]
    )
    initial_product = rewrite.add_node("Squeeze", [first_slice_ones, scan_axis])
    body_value_names = [
        rewrite.intermediate_name(suffix) for suffix in ("so_far", "factor", "product", "row")
    ]
    row_name = body_value_names[0] if rewrite.attribute("exclusive", 0) else body_value_names[2]
    body_graph = helper.make_graph(
        [
            helper.make_node("Mul", body_value_names[:2], [body_value_names[2]]),
            helper.make_node("Identity", [row_name], [body_value_names[3]]),
        ],
        "running_product",
        [helper.make_tensor_value_info(name, dtype, None) for name in body_value_names[:2]],
        [helper.make_tensor_value_info(name, dtype, None) for name in body_value_names[2:]],
    )
    scan_directions = [rewrite.attribute("reverse", 0)]
    rewrite.add_node_with_outputs(
        "Scan",
        [initial_product, data],
        [rewrite.intermediate_name("last"), to],
        body=body_graph,
        num_scan_inputs=1,
        scan_input_axes=[axis],
        scan_output_axes=[axis],
        scan_input_directions=scan_directions,
        scan_output_directions=scan_directions,
    )
