"""Layers that reduce, sum up, sort and count.

Source: OpenVINO operation sets, groups "Reduction" and "Sorting and maximization".
"""

from __future__ import annotations

import numpy as np

from mdf_loop.errors import ModelError
from mdf_loop.importing.openvino.call import (
    LAYERS,
    Call,
    Result,
    Translator,
    cast,
    layer,
    whole_list,
)
from mdf_loop.importing.openvino.elements import dtype_of_type
from mdf_loop.importing.openvino.place import OnnxOp, Term, op, parts

LARGEST_DEPTH = 2**24
"""How many places a OneHot may have."""


def _reduction(op_type: str) -> Translator:
    def translate(call: Call) -> Result:
        """No axes: nothing is reduced."""
        keep = int(call.truth("keep_dims", False))
        axes = call.known(1)
        if axes is None:
            return op(op_type, call.input(0), call.int64(1), keepdims=keep, noop_with_empty_axes=1)
        if not axes.size:
            return call.input(0)
        listed = [int(axis) for axis in axes.reshape(-1)]
        if op_type == "ReduceSum":
            return op(op_type, call.input(0), whole_list(*listed), keepdims=keep)
        return op(op_type, call.input(0), axes=listed, keepdims=keep)

    return translate


def _of_truths(op_type: str) -> Translator:
    inner = _reduction(op_type)

    def translate(call: Call) -> Result:
        """Truths as 0 and 1."""
        found = inner(call)
        if not isinstance(found, OnnxOp):
            return found
        numbers = cast(call.input(0), "uint8")
        return cast(op(op_type, numbers, *found.inputs[1:], **found.attributes), "bool")

    return translate


LAYERS.update(
    {
        **{
            name: _reduction(name)
            for name in ("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd")
        },
        "ReduceL1": _reduction("ReduceL1"),
        "ReduceL2": _reduction("ReduceL2"),
        "ReduceLogicalAnd": _of_truths("ReduceMin"),
        "ReduceLogicalOr": _of_truths("ReduceMax"),
    }
)


@layer("CumSum")
def _cumsum(call: Call) -> Result:
    axis: Term = whole_list(0) if call.count < 2 else call.int64(1)
    flags = {key: int(call.truth(key, False)) for key in ("exclusive", "reverse")}
    return op("CumSum", call.input(0), op("Reshape", axis, whole_list()), **flags)


@layer("TopK")
def _topk(call: Call) -> Result:
    """The k largest or smallest, in the order of their values or of their places."""
    x, axis = call.input(0), call.whole("axis")
    largest = call.choice("mode", {"max": 1, "min": 0})
    by_place = call.choice("sort", {"value": False, "none": False, "index": True}, "value")
    about = {"axis": axis, "sorted": 1}
    values, places = parts(2, "TopK", x, call.int64(1), largest=largest, **about)
    if by_place:
        places, _ = parts(2, "TopK", places, call.int64(1), largest=0, **about)
        values = op("GatherElements", x, places, axis=axis)[0]
    dtype = dtype_of_type(call.text("index_element_type", "i32"), call.layer.where)
    numbers: Term = places if dtype == "int64" else cast(places, dtype)
    if len(call.layer.outputs) > 2:
        raise ModelError("a TopK has two outputs", call.layer.where)
    return (values, numbers)[: len(call.layer.outputs)]


@layer("OneHot")
def _one_hot(call: Call) -> Result:
    """On where the index is the place along a new axis; an index outside 0..depth-1 is nowhere."""
    axis = call.whole("axis")
    depth = call.axis(1, "depth")
    if call.text("negative_indices_mode", "ignore_negative") != "ignore_negative":
        raise call.refused("with negative_indices_mode other than ignore_negative cannot be read")
    if not 0 <= depth <= LARGEST_DEPTH:
        raise ModelError(f"the depth of a OneHot cannot be {depth}", call.layer.where)
    places: Term = op("Range", *(np.array(n, np.int64) for n in (0, depth, 1)))
    if axis != -1:
        rank = call.rank(0) + 1
        behind = rank - 1 - axis if axis >= 0 else -1 - axis
        places = op("Reshape", places, whole_list(-1, *(1,) * behind))
    indices = op("Unsqueeze", cast(call.input(0), "int64"), whole_list(axis))
    return op("Where", op("Equal", indices, places), call.input(2), call.input(3))


@layer("Range")
def _range(call: Call) -> Result:
    wanted = call.text("output_type", "")
    dtype = dtype_of_type(wanted, call.layer.where) if wanted else call.dtype()
    whole = not any(call.is_float(k) for k in range(3))
    if not whole and any(call.dtype(k) != dtype for k in range(3)):
        raise call.refused("with floats of another type than its result cannot be read")
    numbers: list[Term] = [op("Reshape", call.input(k), whole_list()) for k in range(3)]
    same = all(call.dtype(k) == dtype for k in range(3))
    if same and dtype in ("float32", "float64", "int64", "int32", "int16"):
        return op("Range", *numbers)
    working = "int64" if whole else "float32"
    made = op("Range", *(cast(number, working) for number in numbers))
    return cast(made, dtype)
