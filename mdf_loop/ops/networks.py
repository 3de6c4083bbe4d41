"""Registry rows of neural network operators: convolutions, pools, normalizations, losses, ..."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from mdf_loop.errors import OperandError
from mdf_loop.ir import Array
from mdf_loop.ir.types import kind_of
from mdf_loop.ops import known_kernels, speeds
from mdf_loop.ops.batching import reductions, rows
from mdf_loop.ops.costs import convolution_microseconds
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
from mdf_loop.ops.opset_changes import mode_name_of_opset_20, opset_of_coordinates, opset_of_grid
from mdf_loop.ops.recurrent_numpy import compute_recurrent
from mdf_loop.ops.registry import Reproducibility, Row, Type
from mdf_loop.ops.roi_align_regions import regions_fault

_rowwise_row = partial(Row, may_fail=may_mismatch_unknown_extent, batching_rule=rows.apply_to_rows)
_quantized_row = partial(Row, needs_narrow_dtype=True)


def _infer_same_type(
    inputs: Sequence[Type | None], attributes: Mapping[str, Any], known: Mapping[int, Array]
) -> Sequence[Type]:
    """Return the first operand's type as the result type, for operations that ONNX cannot infer."""
    first_type = inputs[0]
    if first_type is None or kind_of(first_type[0]) != "f":
        raise OperandError("a normalization takes floats")
    return [first_type]


WINDOW_ROWS = (
    _rowwise_row(
        name="Conv",
        min_microseconds=convolution_microseconds,
        loop_cost=speeds.convolution_cost,
        decomposition=convolution.conv,
        # Its sums overflow or not, depending on whether the weights are constant (onnxruntime 1.32).
        wrong_kernel=known_kernels.first_operand_has({"float16"}),
    ),
    _rowwise_row(name="ConvTranspose", decomposition=convolution.conv_transpose),
    _rowwise_row(
        name="MaxPool",
        derivative=slopes.MAX_POOL_DERIVATIVE,
        reproducibility=Reproducibility.ROUNDED_ONCE,
    ),
    _rowwise_row(name="AveragePool", decomposition=pooling.average_pool),
    _rowwise_row(
        name="LpPool", derivative=slopes.LP_POOL_DERIVATIVE, decomposition=pooling.lp_pool
    ),
    _rowwise_row(name="GlobalAveragePool", decomposition=pooling.global_average_pool),
    _rowwise_row(
        name="GlobalMaxPool",
        reproducibility=Reproducibility.ROUNDED_ONCE,
        decomposition=pooling.global_max_pool,
    ),
    _rowwise_row(
        name="GlobalLpPool",
        derivative=slopes.GLOBAL_LP_POOL_DERIVATIVE,
        decomposition=pooling.global_lp_pool,
    ),
    Row(name="DeformConv", min_microseconds=convolution_microseconds),
    Row(name="Col2Im", may_fail=unless_values_known(1, 2), decomposition=columns.columns_to_image),
    Row(name="MaxUnpool", decomposition=selection.max_unpool),
)

NORMALIZATION_ROWS = (
    _rowwise_row(
        name="BatchNormalization",
        decomposition=normalization.batch_normalization,
        # y is wrong if no operation reads the running moments (onnxruntime 1.32).
        wrong_kernel=lambda op: bool(op.attributes.get("training_mode")),
    ),
    _rowwise_row(name="InstanceNormalization", decomposition=normalization.instance_normalization),
    _rowwise_row(name="LRN", decomposition=normalization.local_response_normalization),
    Row(
        name="LayerNormalization",
        loop_cost=speeds.NORMALIZATION_COST,
        may_fail=may_mismatch_unknown_extent,
        batching_rule=reductions.apply_along_axis,
        decomposition=normalization.layer_normalization,
    ),
    Row(
        name="GroupNormalization",
        derivative=slopes.GROUP_NORMALIZATION_DERIVATIVE,
        type_rule=_infer_same_type,
    ),
    Row(
        name="MeanVarianceNormalization",
        derivative=slopes.MEAN_VARIANCE_DERIVATIVE,
        may_fail=may_mismatch_unknown_extent,
        decomposition=normalization.mean_variance_normalization,
        type_rule=_infer_same_type,
    ),
)


RECURRENT_ROWS = (
    Row(
        name="RNN",
        decomposition=recurrent.recurrent,
        numpy_function=partial(compute_recurrent, "RNN"),
    ),
    # The error at run time is "LSTM operator does not support double yet", and so for GRU.
    Row(
        name="LSTM",
        wrong_kernel=known_kernels.first_operand_has({"float64"}),
        decomposition=recurrent.recurrent,
        numpy_function=partial(compute_recurrent, "LSTM"),
    ),
    Row(
        name="GRU",
        wrong_kernel=known_kernels.first_operand_has({"float64"}),
        decomposition=recurrent.recurrent,
        numpy_function=partial(compute_recurrent, "GRU"),
    ),
)

LOSS_ROWS = (
    Row(name="NegativeLogLikelihoodLoss", derivative=slopes.LIKELIHOOD_LOSS_DERIVATIVE),
    Row(name="SoftmaxCrossEntropyLoss", derivative=slopes.CROSS_ENTROPY_DERIVATIVE),
)

IMAGE_ROWS = (
    Row(name="Resize", opset=opset_of_coordinates, decomposition=resize.resize),
    Row(
        name="GridSample",
        derivative=slopes.GRID_SAMPLE_DERIVATIVE,
        opset=opset_of_grid,
        newer_encodings=((20, mode_name_of_opset_20),),
        decomposition=resize.grid_sample,
    ),
    Row(name="AffineGrid"),
    Row(name="MaxRoiPool", undecomposed_reason="regions of varying size have no composition"),
    Row(name="RoiAlign", operand_fault=regions_fault),
    Row(name="NonMaxSuppression"),
)

QUANTIZED_ROWS = (
    _quantized_row(name="QuantizeLinear"),
    _quantized_row(name="DequantizeLinear"),
    Row(name="DynamicQuantizeLinear"),
    _quantized_row(name="QLinearConv"),
    _quantized_row(name="ConvInteger"),
)

OPERATOR_ROWS = (
    *WINDOW_ROWS,
    *NORMALIZATION_ROWS,
    *RECURRENT_ROWS,
    *LOSS_ROWS,
    *IMAGE_ROWS,
    *QUANTIZED_ROWS,
)
