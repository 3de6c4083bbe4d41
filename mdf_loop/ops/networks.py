"""Operators of networks: convolutions, pools, normalizations, recurrent layers, losses, images."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from mdf_loop.errors import OperandError
from mdf_loop.ir import Array
from mdf_loop.ir.types import kind_of
from mdf_loop.ops import speeds, sure_kernels
from mdf_loop.ops.batching import reductions, rows
from mdf_loop.ops.compositions import (
    columns,
    convolution,
    normalization,
    pooling,
    recurrent,
    resize,
    selection,
)
from mdf_loop.ops.costs import convolution as window
from mdf_loop.ops.derivatives import networks as slopes
from mdf_loop.ops.failing import unless_fixed, unless_known
from mdf_loop.ops.newer_forms import of_coordinates, of_grid, sampling_words
from mdf_loop.ops.recurrent_meaning import recurrent_meaning
from mdf_loop.ops.regions import regions_fault
from mdf_loop.ops.registry import Bits, Row, Type

_by_row = partial(Row, may_fail=unless_fixed, batched=rows.row_by_row)
_exact = partial(Row, small_matters=True)


def _as_first(
    inputs: Sequence[Type | None], attributes: Mapping[str, Any], known: Mapping[int, Array]
) -> Sequence[Type]:
    """Of the type of the first operand, which ONNX's inference does not tell."""
    first = inputs[0]
    if first is None or kind_of(first[0]) != "f":
        raise OperandError("a normalization takes floats")
    return [first]


WINDOWS = (
    _by_row(
        name="Conv",
        work=window,
        speed=speeds.convolution,
        composed=convolution.conv,
        # its sums overflow or not, depending on whether the weights are constant (onnxruntime 1.32)
        wrong_kernel=sure_kernels.first_of({"float16"}),
    ),
    _by_row(name="ConvTranspose", composed=convolution.conv_transpose),
    _by_row(name="MaxPool", derivative=slopes.MAX_POOL, bits=Bits.ONCE),
    _by_row(name="AveragePool", composed=pooling.average_pool),
    _by_row(name="LpPool", derivative=slopes.LP_POOL, composed=pooling.lp_pool),
    _by_row(name="GlobalAveragePool", composed=pooling.global_average_pool),
    _by_row(name="GlobalMaxPool", bits=Bits.ONCE, composed=pooling.global_max_pool),
    _by_row(name="GlobalLpPool", derivative=slopes.GLOBAL_LP_POOL, composed=pooling.global_lp_pool),
    Row(name="DeformConv", work=window),
    Row(name="Col2Im", may_fail=unless_known(1, 2), composed=columns.columns_to_image),
    Row(name="MaxUnpool", composed=selection.max_unpool),
)

NORMALIZATIONS = (
    _by_row(
        name="BatchNormalization",
        composed=normalization.batch_normalization,
        # y is wrong where nobody reads the running moments (onnxruntime 1.32)
        wrong_kernel=lambda op: bool(op.attributes.get("training_mode")),
    ),
    _by_row(name="InstanceNormalization", composed=normalization.instance_normalization),
    _by_row(name="LRN", composed=normalization.local_response_normalization),
    Row(
        name="LayerNormalization",
        speed=speeds.NORMALIZATION,
        may_fail=unless_fixed,
        batched=reductions.along_axis,
        composed=normalization.layer_normalization,
    ),
    Row(name="GroupNormalization", derivative=slopes.GROUP_NORMALIZATION, types=_as_first),
    Row(
        name="MeanVarianceNormalization",
        derivative=slopes.MEAN_VARIANCE,
        may_fail=unless_fixed,
        composed=normalization.mean_variance_normalization,
        types=_as_first,
    ),
)


RECURRENT = (
    Row(name="RNN", composed=recurrent.recurrent, meaning=partial(recurrent_meaning, "RNN")),
    # "LSTM operator does not support double yet", when it runs; so with GRU
    Row(
        name="LSTM",
        wrong_kernel=sure_kernels.first_of({"float64"}),
        composed=recurrent.recurrent,
        meaning=partial(recurrent_meaning, "LSTM"),
    ),
    Row(
        name="GRU",
        wrong_kernel=sure_kernels.first_of({"float64"}),
        composed=recurrent.recurrent,
        meaning=partial(recurrent_meaning, "GRU"),
    ),
)

LOSSES = (
    Row(name="NegativeLogLikelihoodLoss", derivative=slopes.LIKELIHOOD_LOSS),
    Row(name="SoftmaxCrossEntropyLoss", derivative=slopes.CROSS_ENTROPY),
)

IMAGES = (
    Row(name="Resize", opset=of_coordinates, composed=resize.resize),
    Row(
        name="GridSample",
        derivative=slopes.GRID_SAMPLE,
        opset=of_grid,
        newer_forms=((20, sampling_words),),
        composed=resize.grid_sample,
    ),
    Row(name="AffineGrid"),
    Row(name="MaxRoiPool", not_composed="regions of varying size have no composition"),
    Row(name="RoiAlign", operand_fault=regions_fault),
    Row(name="NonMaxSuppression"),
)

QUANTIZED = (
    _exact(name="QuantizeLinear"),
    _exact(name="DequantizeLinear"),
    Row(name="DynamicQuantizeLinear"),
    _exact(name="QLinearConv"),
    _exact(name="ConvInteger"),
)

ROWS = (*WINDOWS, *NORMALIZATIONS, *RECURRENT, *LOSSES, *IMAGES, *QUANTIZED)
