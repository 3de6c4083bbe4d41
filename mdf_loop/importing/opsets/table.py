"""Tables of the operators that changed at an opset, with their conversion functions.

UPGRADES[op, v]: a node of opset v - 1 -> nodes of opset v (v <= 17).
DOWNGRADES[op, v]: a node of opset v -> nodes of opset v - 1 (v > 17).

An operator without an entry has the same form in both opsets, so only the opset number changes. A node
with a new form or a new operator that older opsets cannot express keeps its form. Programs are written
in the lowest opset that has all their operators (`mdf_loop.ops.opset`).
"""

from __future__ import annotations

from mdf_loop.importing.opsets import (
    newer_layers,
    newer_math,
    newer_quantization,
    newer_shapes,
    older_layers,
    older_math,
    older_shapes,
    scan8,
)
from mdf_loop.importing.opsets.rewrite import Conversion, RewriteCondition

_OPERATORS_WITH_CONSUMED_INPUTS = (
    "Abs Add Div Mul Sub Ceil Floor Exp Log Sqrt Neg Reciprocal Relu Sigmoid Tanh Elu HardSigmoid "
    "LeakyRelu Max Min Mean Sum PRelu InstanceNormalization BatchNormalization Dropout"
)
_OPERATORS_WITH_BROADCAST = "Add Sub Mul Div Pow And Or Xor Equal Greater Less"

UPGRADES: dict[tuple[str, int], Conversion] = {
    **{
        (op_type, 6): older_math.drop_consumed
        for op_type in _OPERATORS_WITH_CONSUMED_INPUTS.split()
    },
    **{(name, 7): older_math.broadcast for name in _OPERATORS_WITH_BROADCAST.split()},
    **{(name, 13): older_math.softmax_13 for name in ("Softmax", "LogSoftmax", "Hardmax")},
    **{(name, 13): older_math.axes_to_input for name in ("Squeeze", "Unsqueeze", "ReduceSum")},
    **{(name, 7): older_layers.recurrent_7 for name in ("RNN", "LSTM", "GRU")},
    **{(name, 2): older_layers.norm_2 for name in ("LpPool", "GlobalLpPool")},
    ("BatchNormalization", 7): older_layers.batch_norm_7,
    ("BatchNormalization", 9): older_layers.batch_norm_9,
    ("BatchNormalization", 14): older_layers.batch_norm_14,
    ("Cast", 6): older_math.cast_6,
    ("Clip", 6): older_math.clip_6,
    ("Clip", 11): older_math.clip_11,
    ("Concat", 4): older_shapes.concat_4,
    ("Dropout", 7): older_layers.dropout_7,
    ("Dropout", 12): older_layers.dropout_12,
    ("GRU", 3): older_layers.gru_3,
    ("Gemm", 7): older_math.gemm_7,
    ("PRelu", 7): older_math.prelu_7,
    ("Pad", 2): older_shapes.pad_2,
    ("Pad", 11): older_shapes.pad_11,
    ("Reshape", 5): older_shapes.reshape_5,
    ("Resize", 11): older_shapes.resize_11,
    ("RoiAlign", 16): older_layers.roi_align_16,
    ("Scan", 9): scan8.scan_9,
    ("Scatter", 11): older_shapes.scatter_11,
    ("Selu", 6): older_math.selu_6,
    ("Slice", 10): older_shapes.slice_10,
    ("Split", 2): older_shapes.split_2,
    ("Split", 13): older_shapes.split_13,
    ("Tile", 6): older_shapes.tile_6,
    ("TopK", 10): older_shapes.top_k_10,
    ("Upsample", 7): older_shapes.upsample_7,
    ("Upsample", 9): older_shapes.upsample_9,
    ("Upsample", 10): older_shapes.upsample_10,
}

_COMPOSED_REDUCTIONS = "ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceSumSquare"

DOWNGRADES: dict[tuple[str, int], Conversion] = {
    **{
        (name, 18): newer_math.axes_to_attribute
        for name in ("ReduceMax", "ReduceMin", "ReduceProd")
    },
    **{(name, 18): newer_math.reduce_composed for name in _COMPOSED_REDUCTIONS.split()},
    **{(name, 20): newer_math.reduce_bool for name in ("ReduceMax", "ReduceMin")},
    **{
        (name, opset_version): newer_math.cast
        for name in ("Cast", "CastLike")
        for opset_version in (19, 24)
    },
    ("AveragePool", 19): newer_layers.average_pool_19,
    ("BitShift", 28): newer_math.bit_shift_28,
    ("BitwiseAnd", 18): newer_math.bit_and,
    ("BitwiseNot", 18): newer_math.bit_not,
    ("BitwiseOr", 18): newer_math.bit_or,
    ("BitwiseXor", 18): newer_math.bit_xor,
    ("CumProd", 26): newer_math.cum_prod,
    ("DFT", 20): newer_layers.dft_20,
    ("DequantizeLinear", 21): newer_quantization.dequantize_21,
    ("DequantizeLinear", 23): newer_quantization.dequantize_23,
    ("Equal", 19): newer_math.equal_text,
    ("GridSample", 20): newer_layers.grid_sample_20,
    ("LpPool", 18): newer_layers.lp_pool_18,
    ("OptionalGetElement", 18): newer_shapes.optional_get_element_18,
    ("OptionalHasElement", 18): newer_shapes.optional_has_element_18,
    ("Pad", 18): newer_shapes.pad_18,
    ("Pad", 19): newer_shapes.pad_19,
    ("QLinearMatMul", 21): newer_quantization.q_linear_mat_mul_21,
    ("QuantizeLinear", 19): newer_quantization.quantize_19,
    ("QuantizeLinear", 21): newer_quantization.quantize_21,
    ("QuantizeLinear", 23): newer_quantization.quantize_23,
    ("Range", 27): newer_math.range_27,
    ("ReduceMean", 18): newer_math.reduce_mean,
    ("Resize", 18): newer_shapes.resize_18,
    ("SpaceToDepth", 28): newer_math.space_to_depth,
    ("Split", 18): newer_shapes.split_18,
    ("TensorScatter", 24): newer_shapes.tensor_scatter,
}

EXPANSION_CONDITIONS: dict[tuple[str, int], RewriteCondition] = {
    ("Range", 27): newer_math.is_half_range,
    ("SpaceToDepth", 28): newer_math.has_new_mode,
}
"""RewriteCondition by operator and opset v: nodes for which it is true are replaced by ONNX's definition."""
