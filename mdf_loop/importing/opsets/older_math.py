"""Upgrades of ONNX operators to opset 17: arithmetic, reductions, casts, activations."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import helper

from mdf_loop.importing.opsets.rewrite import Rewrite


def drop_consumed(r: Rewrite) -> None:
    """Remove `consumed_inputs`, a hint of opset 1 that does not affect results."""
    r.add_copy(drop=("consumed_inputs",))


def broadcast(r: Rewrite) -> None:
    """Replace the attribute `axis`, which aligned the second input before opset 7, by an Unsqueeze."""
    axis = r.get("axis")
    second_input = r.input(1)
    if r.get("broadcast", 0) and axis is not None:
        first_rank, second_rank = r.rank(r.input(0)), r.rank(second_input)
        first_axis = axis + first_rank if axis < 0 else axis
        trailing_axis_count = first_rank - first_axis - second_rank
        if trailing_axis_count > 0:
            axes = list(range(second_rank, second_rank + trailing_axis_count))
            second_input = r.add("Unsqueeze", [second_input], axes=axes)
    r.add_copy([r.input(0), second_input], drop=("axis", "broadcast"))


def prelu_7(r: Rewrite) -> None:
    """Upgrade PRelu: append axes to the slopes, which before 7 are one per channel or a single slope."""
    slope = r.input(1)
    shape = r.facts.shape(slope)
    if shape != (1,) and shape != ():
        trailing_axis_count = r.rank(r.input(0)) - 2
        if r.rank(slope) == 1 and trailing_axis_count > 0:
            slope = r.add("Unsqueeze", [slope], axes=list(range(1, trailing_axis_count + 1)))
    r.add_copy([r.input(0), slope])


def gemm_7(r: Rewrite) -> None:
    """Upgrade Gemm: remove `broadcast`, which is always on from 7."""
    r.add_copy(drop=("broadcast",))


def cast_6(r: Rewrite) -> None:
    """Upgrade Cast: turn `to`, a word before 6, into the number of the element type."""
    type_name = str(r.get("to", "")).upper()
    if type_name not in onnx.TensorProto.DataType.keys():  # noqa: SIM118 - no mapping
        r.refuse(f"there is no element type '{r.get('to')}'")
    r.add_copy(to=onnx.TensorProto.DataType.Value(type_name))


def clip_6(r: Rewrite) -> None:
    """Upgrade Clip: write infinite limits, which are the defaults of opset 1.

    The defaults of opset 6 are the limits of float32.
    """
    lower_bound, upper_bound = float(r.get("min", -np.inf)), float(r.get("max", np.inf))
    r.add_copy(drop=("consumed_inputs",), min=lower_bound, max=upper_bound)


def clip_11(r: Rewrite) -> None:
    """Upgrade Clip: turn the limits into inputs with the dtype of the data."""
    dtype = helper.tensor_dtype_to_np_dtype(r.dtype(r.input(0)))
    largest_float32 = float(np.finfo(np.float32).max)
    with np.errstate(over="ignore"):
        lower_bound = np.array(r.get("min", -largest_float32)).astype(dtype)
        upper_bound = np.array(r.get("max", largest_float32)).astype(dtype)
    limit_names = [
        "" if np.isinf(bound) and (bound > 0) == is_upper else r.add_constant(bound)
        for bound, is_upper in ((lower_bound, False), (upper_bound, True))
    ]
    r.add_copy([r.input(0), *limit_names], drop=("min", "max"))


def selu_6(r: Rewrite) -> None:
    """Upgrade Selu: write the default attributes of opset 1, which opset 6 changed."""
    alpha, gamma = r.get("alpha", 1.6732), r.get("gamma", 1.0507)
    r.add_copy(drop=("consumed_inputs",), alpha=alpha, gamma=gamma)


def softmax_13(r: Rewrite) -> None:
    """Upgrade Softmax: flatten all axes from `axis` on, which before 13 were treated as one axis."""
    axis = r.get("axis", 1)
    data = r.input(0)
    shape = r.facts.shape(data)
    if axis == -1 or (shape is not None and axis == len(shape) - 1):
        r.add_copy(axis=-1)
        return
    flat_data = r.add("Flatten", [data], axis=axis)
    flat_softmax = r.add(r.node.op_type, [flat_data], axis=-1)
    extents = r.add("Shape", [data])
    r.add("Reshape", [flat_softmax, extents], to=r.output(), allowzero=1)


def axes_to_input(r: Rewrite) -> None:
    """Turn the attribute `axes` of Squeeze, Unsqueeze and ReduceSum into an input."""
    axes = r.get("axes")
    inputs = [r.input(0)]
    if axes is not None:
        inputs.append(r.add_constant(np.array(axes, dtype=np.int64)))
    r.add_copy(inputs, drop=("axes",))
