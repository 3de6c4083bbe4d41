"""Registry rows of neural network operators: convolutions, pools, normalizations, recurrent layers, losses, images."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from mdf_loop.errors import OperandError
from mdf_loop.ir import Array
from mdf_loop.ir.types import kind_of
from mdf_loop.ops import known_kernels, speeds
from mdf_loop.ops.batching import reductions, rows
from mdf_loop.ops.costs import convolution as window
from mdf_loop.ops.decompositions import (
    columns,
    convolution,
    normalization,
    pooling,
    recurrent,
    resize,
    selection,
)
from mdf_loop.ops.derivatives import networks as slopes
from mdf_loop.ops.failure_conditions import may_mismatch_unknown_extent, unless_values_known
from mdf_loop.ops.opset_changes import general_mode_names, opset_of_coordinates, opset_of_grid
from mdf_loop.ops.recurrent_meaning import recurrent_meaning
from mdf_loop.ops.registry import Bits, Row, Type
from mdf_loop.ops.roi_align_regions import regions_fault

_by_row = partial(Row, may_fail=may_mismatch_unknown_extent, batched=rows.row_by_row)
_exact = partial(Row, small_matters=True)


def _type_of_first(
    inputs: Sequence[Type | None], attributes: Mapping[str, Any], known: Mapping[int, Array]
) -> Sequence[Type]:
    """Return the type of the first operand as the type of the result, which ONNX's inference does not infer."""
    first = inputs[0]
    if first is None or kind_of(first[0]) != "f":
        raise OperandError("a normalization takes floats")
    return [first]


WINDOWS = (
    _by_row(
        name="Conv",
        work=window,
        speed=speeds.convolution,
        decomposition=convolution.conv,
        # Its sums overflow or not, depending on whether the weights are constant (onnxruntime 1.32).
        wrong_kernel=known_kernels.for_first_dtype({"float16"}),
    ),
    _by_row(name="ConvTranspose", decomposition=convolution.conv_transpose),
    _by_row(name="MaxPool", derivative=slopes.MAX_POOL, bits=Bits.ONCE),
    _by_row(name="AveragePool", decomposition=pooling.average_pool),
    _by_row(name="LpPool", derivative=slopes.LP_POOL, decomposition=pooling.lp_pool),
    _by_row(name="GlobalAveragePool", decomposition=pooling.global_average_pool),
    _by_row(name="GlobalMaxPool", bits=Bits.ONCE, decomposition=pooling.global_max_pool),
    _by_row(
        name="GlobalLpPool", derivative=slopes.GLOBAL_LP_POOL, decomposition=pooling.global_lp_pool
    ),
    Row(name="DeformConv", work=window),
    Row(name="Col2Im", may_fail=unless_values_known(1, 2), decomposition=columns.columns_to_image),
    Row(name="MaxUnpool", decomposition=selection.max_unpool),
)

NORMALIZATIONS = (
    _by_row(
        name="BatchNormalization",
        decomposition=normalization.batch_normalization,
        # y is wrong if no operation reads the running moments (onnxruntime 1.32).
        wrong_kernel=lambda op: bool(op.attributes.get("training_mode")),
    ),
    _by_row(name="InstanceNormalization", decomposition=normalization.instance_normalization),
    _by_row(name="LRN", decomposition=normalization.local_response_normalization),
    Row(
        name="LayerNormalization",
        speed=speeds.NORMALIZATION,
        may_fail=may_mismatch_unknown_extent,
        batched=reductions.along_axis,
        decomposition=normalization.layer_normalization,
    ),
    Row(name="GroupNormalization", derivative=slopes.GROUP_NORMALIZATION, types=_type_of_first),
    Row(
        name="MeanVarianceNormalization",
        derivative=slopes.MEAN_VARIANCE,
        may_fail=may_mismatch_unknown_extent,
        decomposition=normalization.mean_variance_normalization,
        types=_type_of_first,
    ),
)


RECURRENT = (
    Row(name="RNN", decomposition=recurrent.recurrent, meaning=partial(recurrent_meaning, "RNN")),
    # The error at run time is "LSTM operator does not support double yet", and so for GRU.
    Row(
        name="LSTM",
        wrong_kernel=known_kernels.for_first_dtype({"float64"}),
        decomposition=recurrent.recurrent,
        meaning=partial(recurrent_meaning, "LSTM"),
    ),
    Row(
        name="GRU",
        wrong_kernel=known_kernels.for_first_dtype({"float64"}),
        decomposition=recurrent.recurrent,
        meaning=partial(recurrent_meaning, "GRU"),
    ),
)

LOSSES = (
    Row(name="NegativeLogLikelihoodLoss", derivative=slopes.LIKELIHOOD_LOSS),
    Row(name="SoftmaxCrossEntropyLoss", derivative=slopes.CROSS_ENTROPY),
)

IMAGES = (
    Row(name="Resize", opset=opset_of_coordinates, decomposition=resize.resize),
    Row(
        name="GridSample",
        derivative=slopes.GRID_SAMPLE,
        opset=opset_of_grid,
        newer_forms=((20, general_mode_names),),
        decomposition=resize.grid_sample,
    ),
    Row(name="AffineGrid"),
    Row(name="MaxRoiPool", not_decomposed="regions of varying size have no composition"),
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
