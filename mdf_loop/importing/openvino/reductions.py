"""Conversion of OpenVINO layers that reduce, accumulate, sort and count.

Source: OpenVINO operation sets, groups "Reduction" and "Sorting and maximization".
"""

from __future__ import annotations

import numpy as np

from mdf_loop.errors import ModelError
from mdf_loop.importing.openvino.call import (
    TRANSLATORS,
    LayerCall,
    LayerOutputs,
    Translator,
    cast,
    int64_array,
    layer,
)
from mdf_loop.importing.openvino.elements import dtype_of_type
from mdf_loop.importing.openvino.network_writer import OnnxOp, Term, op, op_outputs

MAX_ONE_HOT_DEPTH = 2**24
"""Maximum depth of a OneHot."""


def _reduction(op_type: str) -> Translator:
    def translate(layer_call: LayerCall) -> LayerOutputs:
        """Convert an OpenVINO reduction layer. An empty list of axes gives the identity."""
        keepdims = int(layer_call.read_bool("keep_dims", False))
        axes_array = layer_call.constant_array(1)
        if axes_array is None:
            return op(
                op_type,
                layer_call.input(0),
                layer_call.int64_vector(1),
                keepdims=keepdims,
                noop_with_empty_axes=1,
            )
        if not axes_array.size:
            return layer_call.input(0)
        axis_numbers = [int(axis) for axis in axes_array.reshape(-1)]
        if op_type == "ReduceSum":
            return op(op_type, layer_call.input(0), int64_array(*axis_numbers), keepdims=keepdims)
        return op(op_type, layer_call.input(0), axes=axis_numbers, keepdims=keepdims)

    return translate


def _boolean_reduction(op_type: str) -> Translator:
    translate_as_numbers = _reduction(op_type)

    def translate(layer_call: LayerCall) -> LayerOutputs:
        """Convert a reduction of booleans into a reduction of the numbers 0 and 1."""
        reduced_term = translate_as_numbers(layer_call)
        if not isinstance(reduced_term, OnnxOp):
            return reduced_term
        integer_input = cast(layer_call.input(0), "uint8")
        return cast(
            op(op_type, integer_input, *reduced_term.inputs[1:], **reduced_term.attributes), "bool"
        )

    return translate


TRANSLATORS.update(
    {
        **{
            op_type: _reduction(op_type)
            for op_type in ("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd")
        },
        "ReduceL1": _reduction("ReduceL1"),
        "ReduceL2": _reduction("ReduceL2"),
        "ReduceLogicalAnd": _boolean_reduction("ReduceMin"),
        "ReduceLogicalOr": _boolean_reduction("ReduceMax"),
    }
)


@layer("CumSum")
def _cumsum(layer_call: LayerCall) -> LayerOutputs:
    axis: Term = int64_array(0) if layer_call.input_count < 2 else layer_call.int64_vector(1)
    onnx_attributes = {
        attribute_key: int(layer_call.read_bool(attribute_key, False))
        for attribute_key in ("exclusive", "reverse")
    }
    return op("CumSum", layer_call.input(0), op("Reshape", axis, int64_array()), **onnx_attributes)


@layer("TopK")
def _topk(layer_call: LayerCall) -> LayerOutputs:
    """Convert TopK, with results sorted by value or by index."""
    x, axis = layer_call.input(0), layer_call.read_integer("axis")
    selects_largest = layer_call.read_choice("mode", {"max": 1, "min": 0})
    sorts_by_index = layer_call.read_choice(
        "sort", {"value": False, "none": False, "index": True}, "value"
    )
    onnx_attributes = {"axis": axis, "sorted": 1}
    sorted_values, value_indices = op_outputs(
        2, "TopK", x, layer_call.int64_vector(1), largest=selects_largest, **onnx_attributes
    )
    if sorts_by_index:
        value_indices, _ = op_outputs(
            2, "TopK", value_indices, layer_call.int64_vector(1), largest=0, **onnx_attributes
        )
        sorted_values = op("GatherElements", x, value_indices, axis=axis)[0]
    dtype = dtype_of_type(
        layer_call.read_text("index_element_type", "i32"), layer_call.layer.location
    )
    typed_indices: Term = value_indices if dtype == "int64" else cast(value_indices, dtype)
    if len(layer_call.layer.output_ports) > 2:
        raise ModelError("a TopK has two outputs", layer_call.layer.location)
    return (sorted_values, typed_indices)[: len(layer_call.layer.output_ports)]


@layer("OneHot")
def _one_hot(layer_call: LayerCall) -> LayerOutputs:
    """Convert OneHot, which adds an axis with the on value at the index, else the off value."""
    axis = layer_call.read_integer("axis")
    depth = layer_call.constant_axis(1, "depth")
    if layer_call.read_text("negative_indices_mode", "ignore_negative") != "ignore_negative":
        raise layer_call.unsupported_error(
            "with negative_indices_mode other than ignore_negative cannot be read"
        )
    if not 0 <= depth <= MAX_ONE_HOT_DEPTH:
        raise ModelError(f"the depth of a OneHot cannot be {depth}", layer_call.layer.location)
    class_numbers: Term = op("Range", *(np.array(limit, np.int64) for limit in (0, depth, 1)))
    if axis != -1:
        output_rank = layer_call.rank(0) + 1
        trailing_axis_count = output_rank - 1 - axis if axis >= 0 else -1 - axis
        class_numbers = op("Reshape", class_numbers, int64_array(-1, *(1,) * trailing_axis_count))
    class_indices = op("Unsqueeze", cast(layer_call.input(0), "int64"), int64_array(axis))
    return op(
        "Where", op("Equal", class_indices, class_numbers), layer_call.input(2), layer_call.input(3)
    )


@layer("Range")
def _range(layer_call: LayerCall) -> LayerOutputs:
    output_type = layer_call.read_text("output_type", "")
    dtype = (
        dtype_of_type(output_type, layer_call.layer.location) if output_type else layer_call.dtype()
    )
    inputs_are_integers = not any(layer_call.is_float(k) for k in range(3))
    if not inputs_are_integers and any(layer_call.dtype(k) != dtype for k in range(3)):
        raise layer_call.unsupported_error(
            "with floats of another type than its result cannot be read"
        )
    start_stop_step: list[Term] = [
        op("Reshape", layer_call.input(position), int64_array()) for position in range(3)
    ]
    has_equal_dtypes = all(layer_call.dtype(k) == dtype for k in range(3))
    if has_equal_dtypes and dtype in ("float32", "float64", "int64", "int32", "int16"):
        return op("Range", *start_stop_step)
    compute_dtype = "int64" if inputs_are_integers else "float32"
    number_sequence = op(
        "Range", *(cast(limit_or_step, compute_dtype) for limit_or_step in start_stop_step)
    )
    return cast(number_sequence, dtype)
