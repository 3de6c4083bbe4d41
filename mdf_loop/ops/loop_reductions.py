"""Reductions as loops compute them: nan wins among extremes, and sums have one fixed order.

    OrderedSum(x)            the sum; its order depends neither on addresses nor on other rows
    ReduceMaximum(x)         the largest element; nan if there is one (IEEE 754-2019, maximum)
    ArgMaximum(x)            its place; that of the first nan if there is one

ONNX Runtime's kernels promise neither. Machine code computes these operations as they are; an ONNX
model spells them in several nodes (`onnx_form`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from onnx import defs, helper

from mdf_loop.ir import Array, Op, Shape, Value
from mdf_loop.ops import for_cuda, speeds, sure_kernels
from mdf_loop.ops.batching import reductions as batching
from mdf_loop.ops.compositions import extremes, ordered_sums
from mdf_loop.ops.derivatives import reductions as slopes
from mdf_loop.ops.failing import nothing_to_choose
from mdf_loop.ops.native import reductions as native
from mdf_loop.ops.native import running
from mdf_loop.ops.ordered_sum import ordered_sum
from mdf_loop.ops.reductions import place_of_extreme
from mdf_loop.ops.registry import Bits, Known, Row, no, yes
from mdf_loop.ops.sure_kernels import FLOATS

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
    """Return the type of a reduction along `axes` (all, if none are named), or along one `axis`."""
    own, shape = inputs[0] or ("", None)
    if shape is None:
        of_all = not dtype and "axes" not in attributes and not attributes.get("keepdims", 1)
        return [(dtype or own, () if of_all else None)]
    every = (attributes.get("axis", 0),) if dtype else range(len(shape))
    axes = attributes.get("axes", every)
    gone = {axis % len(shape) for axis in axes}
    if attributes.get("keepdims", 1):
        return [(dtype or own, tuple(1 if k in gone else n for k, n in enumerate(shape)))]
    return [(dtype or own, tuple(n for k, n in enumerate(shape) if k not in gone))]


def _sum(x: Array, axes: Sequence[int] | None = None, keepdims: int = 1) -> Array:
    return ordered_sum(x, range(x.ndim) if axes is None else axes, keepdims=bool(keepdims))


def _extreme(
    largest: bool, x: Array, axes: Sequence[int] | None = None, keepdims: int = 1
) -> Array:
    of_all, neutral = (np.max, -np.inf) if largest else (np.min, np.inf)
    made = of_all(
        x, axis=None if axes is None else tuple(axes), keepdims=bool(keepdims), initial=neutral
    )
    return np.asarray(made, x.dtype)


_reduced = partial(
    Row,
    types=_types,
    may_fail=no,
    batched=batching.reduce,
    has_kernel=sure_kernels.of(FLOATS),
)
_PLACE = (_attribute("axis", 0), _KEEPDIMS, _attribute("select_last_index", 0))


def _place_row(name: str, largest: bool, native_whole: Callable[..., Any]) -> Row:
    word = "ArgMax" if largest else "ArgMin"

    def without_branch(b: Builder, op: Op, _: Known) -> Value:
        return extremes.place_with_nan(b, op, word)

    return Row(
        name=name,
        schema=_schema(name, *_PLACE, output="tensor(int64)"),
        types=partial(_types, dtype="int64"),
        meaning=partial(place_of_extreme, largest),
        bits=Bits.ONCE,
        may_fail=nothing_to_choose,
        never_negative=yes,
        batched=batching.along_axis,
        has_kernel=sure_kernels.of(FLOATS),
        native_whole=native_whole,
        speed=speeds.PLACE,
        for_cuda=without_branch,  # the condition of a branch would be copied to the host
        onnx_form=partial(extremes.place, word=word),
    )


ROWS = (
    _reduced(
        name="OrderedSum",
        schema=_schema("OrderedSum", _AXES, _KEEPDIMS),
        meaning=_sum,
        derivative=slopes.SUM,
        for_cuda=for_cuda.total,
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
    _place_row("ArgMaximum", True, running.place_of(largest=True, nan_wins=True)),
    _place_row("ArgMinimum", False, running.place_of(largest=False, nan_wins=True)),
)
