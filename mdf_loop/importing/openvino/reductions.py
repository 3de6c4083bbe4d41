"""Conversion of OpenVINO layers that reduce, accumulate, sort and count.

Source: OpenVINO operation sets, groups "Reduction" and "Sorting and maximization".
"""

from __future__ import annotations

import numpy as np

from mdf_loop.errors import ModelError
from mdf_loop.importing.openvino.call import (
    TRANSLATORS,
    LayerCall,
    Result,
    Translator,
    cast,
    int64_array,
    layer,
)
from mdf_loop.importing.openvino.elements import dtype_of_type
from mdf_loop.importing.openvino.place import OnnxOp, Term, op, op_outputs

MAX_ONE_HOT_DEPTH = 2**24
"""Maximum depth of a OneHot."""


def _reduction(op_type: str) -> Translator:
    def translate(call: LayerCall) -> Result:
        """Convert a reduction, which is the identity for an empty list of axes."""
        keepdims = int(call.read_bool("keep_dims", False))
        axes = call.constant_value(1)
        if axes is None:
            return op(
                op_type, call.input(0), call.int64(1), keepdims=keepdims, noop_with_empty_axes=1
            )
        if not axes.size:
            return call.input(0)
        axis_numbers = [int(axis) for axis in axes.reshape(-1)]
        if op_type == "ReduceSum":
            return op(op_type, call.input(0), int64_array(*axis_numbers), keepdims=keepdims)
        return op(op_type, call.input(0), axes=axis_numbers, keepdims=keepdims)

    return translate


def _boolean_reduction(op_type: str) -> Translator:
    translate_numbers = _reduction(op_type)

    def translate(call: LayerCall) -> Result:
        """Convert a reduction of booleans into a reduction of the numbers 0 and 1."""
        reduction = translate_numbers(call)
        if not isinstance(reduction, OnnxOp):
            return reduction
        integer_input = cast(call.input(0), "uint8")
        return cast(
            op(op_type, integer_input, *reduction.inputs[1:], **reduction.attributes), "bool"
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
def _cumsum(call: LayerCall) -> Result:
    axis: Term = int64_array(0) if call.count < 2 else call.int64(1)
    flags = {key: int(call.read_bool(key, False)) for key in ("exclusive", "reverse")}
    return op("CumSum", call.input(0), op("Reshape", axis, int64_array()), **flags)


@layer("TopK")
def _topk(call: LayerCall) -> Result:
    """Convert TopK, with results sorted by value or by index."""
    x, axis = call.input(0), call.read_integer("axis")
    selects_largest = call.choice("mode", {"max": 1, "min": 0})
    sorts_by_index = call.choice("sort", {"value": False, "none": False, "index": True}, "value")
    attributes = {"axis": axis, "sorted": 1}
    values, indices = op_outputs(2, "TopK", x, call.int64(1), largest=selects_largest, **attributes)
    if sorts_by_index:
        indices, _ = op_outputs(2, "TopK", indices, call.int64(1), largest=0, **attributes)
        values = op("GatherElements", x, indices, axis=axis)[0]
    dtype = dtype_of_type(call.text("index_element_type", "i32"), call.layer.where)
    typed_indices: Term = indices if dtype == "int64" else cast(indices, dtype)
    if len(call.layer.outputs) > 2:
        raise ModelError("a TopK has two outputs", call.layer.where)
    return (values, typed_indices)[: len(call.layer.outputs)]


@layer("OneHot")
def _one_hot(call: LayerCall) -> Result:
    """Convert OneHot, which adds an axis with the on value at the index, else the off value."""
    axis = call.read_integer("axis")
    depth = call.axis(1, "depth")
    if call.text("negative_indices_mode", "ignore_negative") != "ignore_negative":
        raise call.unsupported(
            "with negative_indices_mode other than ignore_negative cannot be read"
        )
    if not 0 <= depth <= MAX_ONE_HOT_DEPTH:
        raise ModelError(f"the depth of a OneHot cannot be {depth}", call.layer.where)
    positions: Term = op("Range", *(np.array(limit, np.int64) for limit in (0, depth, 1)))
    if axis != -1:
        rank = call.rank(0) + 1
        trailing_axes = rank - 1 - axis if axis >= 0 else -1 - axis
        positions = op("Reshape", positions, int64_array(-1, *(1,) * trailing_axes))
    indices = op("Unsqueeze", cast(call.input(0), "int64"), int64_array(axis))
    return op("Where", op("Equal", indices, positions), call.input(2), call.input(3))


@layer("Range")
def _range(call: LayerCall) -> Result:
    output_type = call.text("output_type", "")
    dtype = dtype_of_type(output_type, call.layer.where) if output_type else call.dtype()
    all_integers = not any(call.is_float(k) for k in range(3))
    if not all_integers and any(call.dtype(k) != dtype for k in range(3)):
        raise call.unsupported("with floats of another type than its result cannot be read")
    limits_and_step: list[Term] = [
        op("Reshape", call.input(position), int64_array()) for position in range(3)
    ]
    has_equal_dtypes = all(call.dtype(k) == dtype for k in range(3))
    if has_equal_dtypes and dtype in ("float32", "float64", "int64", "int32", "int16"):
        return op("Range", *limits_and_step)
    compute_dtype = "int64" if all_integers else "float32"
    sequence = op(
        "Range", *(cast(limit_or_step, compute_dtype) for limit_or_step in limits_and_step)
    )
    return cast(sequence, dtype)
