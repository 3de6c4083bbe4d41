"""Upgrades of ONNX operators to opset 17: arithmetic, reductions, casts, activations."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import helper

from mdf_loop.importing.opsets.rewrite import Rewrite


def drop_consumed(rewrite: Rewrite) -> None:
    """Remove `consumed_inputs`, a hint of opset 1 that does not affect results."""
    rewrite.add_copy(drop=("consumed_inputs",))


def broadcast(rewrite: Rewrite) -> None:
    """Replace the attribute `axis`, which aligned the second input before opset 7, by an Unsqueeze."""
    axis = rewrite.attribute("axis")
    second_input_name = rewrite.input(1)
    if rewrite.attribute("broadcast", 0) and axis is not None:
        first_rank, second_rank = rewrite.rank(rewrite.input(0)), rewrite.rank(second_input_name)
        first_axis = axis + first_rank if axis < 0 else axis
        trailing_axis_count = first_rank - first_axis - second_rank
        if trailing_axis_count > 0:
            axes = list(range(second_rank, second_rank + trailing_axis_count))
            second_input_name = rewrite.add_node("Unsqueeze", [second_input_name], axes=axes)
    rewrite.add_copy([rewrite.input(0), second_input_name], drop=("axis", "broadcast"))


def prelu_7(rewrite: Rewrite) -> None:
    """Upgrade PRelu: append axes to the slopes, which before opset 7 are per channel or single."""
    slope_name = rewrite.input(1)
    shape = rewrite.facts.shape(slope_name)
    if shape != (1,) and shape != ():
        trailing_axis_count = rewrite.rank(rewrite.input(0)) - 2
        if rewrite.rank(slope_name) == 1 and trailing_axis_count > 0:
            slope_name = rewrite.add_node(
                "Unsqueeze", [slope_name], axes=list(range(1, trailing_axis_count + 1))
            )
    rewrite.add_copy([rewrite.input(0), slope_name])


def gemm_7(rewrite: Rewrite) -> None:
    """Upgrade Gemm: remove `broadcast`, which is always on since opset 7."""
    rewrite.add_copy(drop=("broadcast",))


def cast_6(rewrite: Rewrite) -> None:
    """Upgrade Cast: turn `to`, a word before opset 6, into the number of the element type."""
    type_name = str(rewrite.attribute("to", "")).upper()
    if type_name not in onnx.TensorProto.DataType.keys():  # noqa: SIM118 - no mapping
        rewrite.refuse(f"there is no element type '{rewrite.attribute('to')}'")
    rewrite.add_copy(to=onnx.TensorProto.DataType.Value(type_name))


def clip_6(rewrite: Rewrite) -> None:
    """Upgrade Clip: write infinite limits, which are the defaults of opset 1.

    The defaults of opset 6 are the limits of float32.
    """
    lower_bound, upper_bound = (
        float(rewrite.attribute("min", -np.inf)),
        float(rewrite.attribute("max", np.inf)),
    )
    rewrite.add_copy(drop=("consumed_inputs",), min=lower_bound, max=upper_bound)


def clip_11(rewrite: Rewrite) -> None:
    """Upgrade Clip: turn the limits into inputs with the dtype of the data."""
    numpy_dtype = helper.tensor_dtype_to_np_dtype(rewrite.dtype(rewrite.input(0)))
    largest_float32 = float(np.finfo(np.float32).max)
    with np.errstate(over="ignore"):
        lower_bound = np.array(rewrite.attribute("min", -largest_float32)).astype(numpy_dtype)
        upper_bound = np.array(rewrite.attribute("max", largest_float32)).astype(numpy_dtype)
    clip_limit_names = [
        ""
        if np.isinf(bound_array) and (bound_array > 0) == is_upper
        else rewrite.add_constant(bound_array)
        for bound_array, is_upper in ((lower_bound, False), (upper_bound, True))
    ]
    rewrite.add_copy([rewrite.input(0), *clip_limit_names], drop=("min", "max"))


def selu_6(rewrite: Rewrite) -> None:
    """Upgrade Selu: write the default attributes of opset 1, which opset 6 changed."""
    alpha, gamma = rewrite.attribute("alpha", 1.6732), rewrite.attribute("gamma", 1.0507)
    rewrite.add_copy(drop=("consumed_inputs",), alpha=alpha, gamma=gamma)


def softmax_13(rewrite: Rewrite) -> None:
    """Upgrade Softmax: flatten the axes from `axis` on, which are one axis before opset 13."""
    axis = rewrite.attribute("axis", 1)
    data_name = rewrite.input(0)
    shape = rewrite.facts.shape(data_name)
    if axis == -1 or (shape is not None and axis == len(shape) - 1):
        rewrite.add_copy(axis=-1)
        return
    flat_data = rewrite.add_node("Flatten", [data_name], axis=axis)
    flat_softmax = rewrite.add_node(rewrite.node.op_type, [flat_data], axis=-1)
    original_shape = rewrite.add_node("Shape", [data_name])
    rewrite.add_node("Reshape", [flat_softmax, original_shape], to=rewrite.output(), allowzero=1)


def axes_to_input(rewrite: Rewrite) -> None:
    """Turn the attribute `axes` of Squeeze, Unsqueeze and ReduceSum into an input."""
    axes = rewrite.attribute("axes")
    input_names = [rewrite.input(0)]
    if axes is not None:
        input_names.append(rewrite.add_constant(np.array(axes, dtype=np.int64)))
    rewrite.add_copy(input_names, drop=("axes",))
