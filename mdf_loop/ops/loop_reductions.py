"""Registry rows of reductions for loops: extremes that propagate nan, and sums in a fixed order.

    OrderedSum(x)            sum; its order depends neither on addresses nor on other rows
    ReduceMaximum(x)         largest element, or nan if there is one (IEEE 754-2019, maximum)
    ArgMaximum(x)            its position, or that of the first nan

ONNX Runtime's kernels guarantee neither. Machine code computes these operations themselves. An ONNX model
has several nodes for each of them (`onnx_form`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from onnx import defs, helper

from mdf_loop.ir import Array, Op, Shape, Value
from mdf_loop.ops import cuda_replacements, known_kernels, speeds
from mdf_loop.ops.batching import reductions as batching
from mdf_loop.ops.decompositions import extremes, ordered_sums
from mdf_loop.ops.derivatives import reductions as slopes
from mdf_loop.ops.failure_conditions import has_empty_axis
from mdf_loop.ops.known_kernels import FLOATS
from mdf_loop.ops.native import reductions as native
from mdf_loop.ops.native import running
from mdf_loop.ops.ordered_sum import ordered_sum
from mdf_loop.ops.reductions import arg_extreme_meaning
from mdf_loop.ops.registry import Bits, Known, Row, always, never

if TYPE_CHECKING:
    from mdf_loop.build import Builder

_T = ("T", ["tensor(double)", "tensor(float)", "tensor(float16)", "tensor(bfloat16)"], "")


def _attribute(name: str, default: int) -> defs.OpSchema.Attribute:
    return defs.OpSchema.Attribute(name, helper.make_attribute(name, default))


def _schema(name: str, *attributes: defs.OpSchema.Attribute, output: str = "T") -> defs.OpSchema:
    formal = defs.OpSchema.FormalParameter
    return defs.OpSchema(
        name,
        "mdf_loop.loops",
        1,
        inputs=[formal("data", "T")],
        outputs=[formal("reduced", output)],
        type_constraints=[_T],
        attributes=list(attributes),
    )


_AXES = defs.OpSchema.Attribute("axes", defs.OpSchema.AttrType.INTS, required=False)
_KEEPDIMS = _attribute("keepdims", 1)


def _types(
    inputs: Sequence[tuple[str, Shape] | None],
    attributes: Mapping[str, Any],
    known: Mapping[int, Array],
    dtype: str = "",
) -> list[tuple[str, Shape]]:
    """Return the type of a reduction along `axes` (default: all axes), or along one `axis` if `dtype` is set."""
    own, shape = inputs[0] or ("", None)
    if shape is None:
        of_all = not dtype and "axes" not in attributes and not attributes.get("keepdims", 1)
        return [(dtype or own, () if of_all else None)]
    every = (attributes.get("axis", 0),) if dtype else range(len(shape))
    axes = attributes.get("axes", every)
    reduced_axes = {axis % len(shape) for axis in axes}
    if attributes.get("keepdims", 1):
        return [(dtype or own, tuple(1 if k in reduced_axes else n for k, n in enumerate(shape)))]
    return [(dtype or own, tuple(n for k, n in enumerate(shape) if k not in reduced_axes))]


def _sum(x: Array, axes: Sequence[int] | None = None, keepdims: int = 1) -> Array:
    return ordered_sum(x, range(x.ndim) if axes is None else axes, keepdims=bool(keepdims))


def _extreme(
    largest: bool, x: Array, axes: Sequence[int] | None = None, keepdims: int = 1
) -> Array:
    of_all, neutral = (np.max, -np.inf) if largest else (np.min, np.inf)
    extremes = of_all(
        x, axis=None if axes is None else tuple(axes), keepdims=bool(keepdims), initial=neutral
    )
    return np.asarray(extremes, x.dtype)


_reduced = partial(
    Row,
    types=_types,
    may_fail=never,
    batched=batching.reduce,
    has_kernel=known_kernels.for_dtypes(FLOATS),
)
_ARG_ATTRIBUTES = (_attribute("axis", 0), _KEEPDIMS, _attribute("select_last_index", 0))


def _place_row(name: str, largest: bool, native_whole: Callable[..., Any]) -> Row:
    word = "ArgMax" if largest else "ArgMin"

    def without_branch(b: Builder, op: Op, _: Known) -> Value:
        return extremes.arg_extreme_with_nan(b, op, word)

    return Row(
        name=name,
        schema=_schema(name, *_ARG_ATTRIBUTES, output="tensor(int64)"),
        types=partial(_types, dtype="int64"),
        meaning=partial(arg_extreme_meaning, largest),
        bits=Bits.ONCE,
        may_fail=has_empty_axis,
        never_negative=always,
        batched=batching.along_axis,
        has_kernel=known_kernels.for_dtypes(FLOATS),
        native_whole=native_whole,
        speed=speeds.PLACE,
        for_cuda=without_branch,  # CUDA would copy the condition of a branch to the host.
        onnx_form=partial(extremes.arg_extreme, word=word),
    )


ROWS = (
    _reduced(
        name="OrderedSum",
        schema=_schema("OrderedSum", _AXES, _KEEPDIMS),
        meaning=_sum,
        derivative=slopes.SUM,
        for_cuda=cuda_replacements.reduce_sum,
        native_whole=native.total,
        speed=speeds.ordered_sum,
        onnx_form=ordered_sums.ordered_sum,
    ),
    _reduced(
        name="ReduceMaximum",
        schema=_schema("ReduceMaximum", _AXES, _KEEPDIMS),
        meaning=partial(_extreme, True),
        bits=Bits.ONCE,
        derivative=slopes.EXTREME,
        native_whole=native.largest,
        speed=speeds.extreme,
        onnx_form=partial(extremes.extreme, word="ReduceMax"),
    ),
    _reduced(
        name="ReduceMinimum",
        schema=_schema("ReduceMinimum", _AXES, _KEEPDIMS),
        meaning=partial(_extreme, False),
        bits=Bits.ONCE,
        derivative=slopes.EXTREME,
        native_whole=native.smallest,
        speed=speeds.extreme,
        onnx_form=partial(extremes.extreme, word="ReduceMin"),
    ),
    _place_row("ArgMaximum", True, running.extreme_position_writer(largest=True, nan_wins=True)),
    _place_row("ArgMinimum", False, running.extreme_position_writer(largest=False, nan_wins=True)),
)

NAN_UNAWARE_KERNELS = {"ArgMaximum": "ArgMax", "ArgMinimum": "ArgMin"}
"""ONNX operations that give the same results for operands without nan."""
