"""One small call of every operator whose inputs and outputs are tensors.

`F` marks an input of the dtype under test; other inputs are arrays of their own dtype.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Sample:
    inputs: tuple[Any, ...]
    attributes: dict[str, Any] = field(default_factory=dict)
    output_count: int = 1


@dataclass(frozen=True)
class F:
    """Marker of an input of the dtype under test."""

    values: Any

    def array(self, dtype: str) -> np.ndarray:
        array = np.asarray(self.values, np.float64)
        if np.dtype(dtype).kind == "f":
            return np.asarray(array, dtype)
        whole = np.round(4 * array)
        if np.dtype(dtype).kind in "ub":
            whole = np.abs(whole)
        return np.asarray(whole > 3 if dtype == "bool" else whole).astype(dtype)


def _ramp(*shape: int, low: float = -1.9, high: float = 2.1) -> F:
    return F(np.linspace(low, high, int(np.prod(shape))).reshape(shape))


def I(*values: int) -> np.ndarray:  # noqa: E743
    return np.array(values, np.int64)


X = _ramp(2, 3)
UNIT = _ramp(2, 3, low=-0.9, high=0.95)
POSITIVE = _ramp(2, 3, low=1.1, high=3.0)
TRUTH = np.array([[True, False, True], [False, False, True]])

_WORDS = np.array([[1, 2**40, 3]], np.uint64)

_UNARY = (
    *("Abs", "Atan", "Asinh", "Ceil", "Celu", "Cos", "Cosh", "Elu", "Erf", "Exp", "Floor"),
    *("HardSigmoid", "HardSwish", "Hardmax", "Identity", "IsInf", "IsNaN", "LeakyRelu"),
    *("LogSoftmax", "LpNormalization", "Neg", "NonZero", "Reciprocal", "Relu", "Round", "Selu"),
    *("Shape", "Shrink", "Sigmoid", "Sign", "Sin", "Sinh", "Size", "Softmax", "Softplus"),
    *(
        "Softsign",
        "StopGradient",
        "Tan",
        "Tanh",
        "ThresholdedRelu",
        "Transpose",
        "Flatten",
        "EyeLike",
        "Trilu",
    ),
    *("ReduceL1", "ReduceL2", "ReduceLogSumExp", "ReduceMax", "ReduceMean", "ReduceMin"),
    *("ReduceProd", "ReduceSum", "ReduceSumSquare", "ArgMax", "ArgMin", "Squeeze"),
    *("Mean", "Sum", "Max", "Min", "Clip"),
)
_BINARY = ("Add", "Sub", "Mul", "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual")
IMAGE = _ramp(1, 2, 5, 4)

SAMPLES: dict[str, Sample] = {
    **{name: Sample((X,)) for name in _UNARY},
    **{name: Sample((X, _ramp(3, low=-1, high=1))) for name in (*_BINARY, "Mean", "Sum")},
    **{name: Sample((X, _ramp(3, low=-1, high=1), F(0.3))) for name in ("Max", "Min")},
    **{
        name: Sample((X,), {"axes": (1,)})
        for name in ("OrderedSum", "ReduceMaximum", "ReduceMinimum")
    },
    **{name: Sample((X,)) for name in ("ArgMaximum", "ArgMinimum")},
    **{name: Sample((UNIT,)) for name in ("Acos", "Asin", "Atanh")},
    **{name: Sample((POSITIVE,)) for name in ("Acosh", "Log", "Sqrt", "ReduceLogSum")},
    **{name: Sample((TRUTH, TRUTH[:1])) for name in ("And", "Or", "Xor")},
    "Not": Sample((TRUTH,)),
    "Clip": Sample((X, F(-1.0), F(1.5))),
    "Div": Sample((X, F([1.5, -0.75, 2.0]))),
    "Mod": Sample((X, F([1.5, -0.75, 2.0]))),
    "Pow": Sample((POSITIVE, F([0.5, 1.0, 0.75]))),
    "PRelu": Sample((X, F([0.25, 0.5, 1.0]))),
    **dict.fromkeys(
        ("RandomWord", "Uniform", "Normal", "Exponential"), Sample((_WORDS, _WORDS + np.uint64(9)))
    ),
    "BitShift": Sample((X, F([0.25, 0.5, 1.0])), {"direction": "LEFT"}),
    "Where": Sample((TRUTH, X, F(0.5))),
    "MatMul": Sample((X, _ramp(3, 4))),
    "Gemm": Sample((X, _ramp(4, 3), _ramp(4)), {"transB": 1, "alpha": 0.5, "beta": 2.0}),
    "Einsum": Sample((X, _ramp(3, 4)), {"equation": "ij,jk->ki"}),
    "Det": Sample((_ramp(2, 3, 3, low=-1.2, high=3.3),)),
    "CumSum": Sample((X, np.array(1))),
    "Concat": Sample((X, X), {"axis": 1}),
    "Split": Sample((X, I(1, 2)), {"axis": 1}, 2),
    "Slice": Sample((X, I(0), I(2), I(1))),
    "Gather": Sample((X, I(1, 0)), {"axis": 1}),
    "GatherElements": Sample((X, np.array([[0, 1, 0]]))),
    "GatherND": Sample((X, np.array([[0, 1], [1, 2]]))),
    "ScatterElements": Sample((X, np.array([[0, 1, 0]]), _ramp(1, 3)), {"reduction": "add"}),
    "ScatterND": Sample((X, np.array([[0, 1], [1, 2]]), _ramp(2)), {"reduction": "add"}),
    "Compress": Sample((X, np.array([True, False, True])), {"axis": 1}),
    "Reshape": Sample((X, I(3, 2))),
    "Expand": Sample((X, I(2, 2, 3))),
    "Tile": Sample((X, I(2, 1))),
    "Unsqueeze": Sample((X, I(0))),
    "Squeeze": Sample((_ramp(1, 3), I(0))),
    "Pad": Sample((X, I(0, 1, 1, 0), F(0.5))),
    "ReverseSequence": Sample((X, I(1, 2, 2))),
    "Range": Sample((F(0.0), F(2.0), F(0.5))),
    "TopK": Sample((X, I(2)), {}, 2),
    "Unique": Sample((F([1.0, 2.0, 1.0]),), {}, 4),
    "OneHot": Sample((F([0.25, 0.5, -0.25]), I(3), F([0.5, 1.0]))),
    "ConstantOfShape": Sample((I(2, 3),), {"value": np.array([1.5])}),
    "Constant": Sample((), {"value": np.array([1.5, 2.0])}),
    "Cast": Sample((X,), {"to": 7}),
    "CastLike": Sample((X, np.zeros(1, np.int64))),
    "DepthToSpace": Sample((_ramp(1, 4, 2, 3),), {"blocksize": 2}),
    "SpaceToDepth": Sample((_ramp(1, 1, 4, 6),), {"blocksize": 2}),
    "Conv": Sample((IMAGE, _ramp(3, 2, 3, 2), _ramp(3)), {"pads": (1, 0, 1, 1)}),
    "ConvTranspose": Sample((IMAGE, _ramp(2, 3, 3, 2), _ramp(3)), {"strides": (2, 1)}),
    "AveragePool": Sample((IMAGE,), {"kernel_shape": (3, 2), "pads": (1, 0, 1, 1)}),
    "MaxPool": Sample((IMAGE,), {"kernel_shape": (3, 2), "pads": (1, 0, 1, 1)}),
    "LpPool": Sample((IMAGE,), {"kernel_shape": (3, 2)}),
    "GlobalAveragePool": Sample((IMAGE,)),
    "GlobalMaxPool": Sample((IMAGE,)),
    "GlobalLpPool": Sample((IMAGE,)),
    "BatchNormalization": Sample((IMAGE, *(_ramp(2, low=0.5, high=1.5) for _ in range(4)))),
    "InstanceNormalization": Sample((IMAGE, _ramp(2), _ramp(2))),
    "LayerNormalization": Sample((X, _ramp(3), _ramp(3))),
    "MeanVarianceNormalization": Sample((IMAGE,)),
    "LRN": Sample((IMAGE,), {"size": 3}),
    "RNN": Sample((_ramp(3, 2, 4), _ramp(1, 5, 4), _ramp(1, 5, 5)), {"hidden_size": 5}, 2),
    "GRU": Sample((_ramp(3, 2, 4), _ramp(1, 15, 4), _ramp(1, 15, 5)), {"hidden_size": 5}, 2),
    "LSTM": Sample((_ramp(3, 2, 4), _ramp(1, 20, 4), _ramp(1, 20, 5)), {"hidden_size": 5}, 3),
    "GridSample": Sample((IMAGE, _ramp(1, 3, 3, 2, low=-0.9, high=0.8))),
    "Resize": Sample((IMAGE, None, np.array([1, 1, 2, 2], np.float32))),
    "RoiAlign": Sample((IMAGE, F([[0.0, 0.0, 3.0, 3.0]]), I(0))),
    "MaxRoiPool": Sample((IMAGE, F([[0.0, 0.0, 0.0, 3.0, 3.0]])), {"pooled_shape": (2, 2)}),
    "MaxUnpool": Sample(
        (_ramp(1, 1, 1, 2), np.array([[[[1, 6]]]])), {"kernel_shape": (2, 2), "strides": (2, 2)}
    ),
    "NegativeLogLikelihoodLoss": Sample((X, I(0, 2))),
    "SoftmaxCrossEntropyLoss": Sample((X, I(0, 2)), {}, 2),
    "NonMaxSuppression": Sample((np.ones((1, 2, 4), np.float32), np.ones((1, 1, 2), np.float32))),
    "Bernoulli": Sample((_ramp(2, 3, low=0.1, high=0.9),)),
    "Multinomial": Sample((_ramp(2, 3),)),
    "Dropout": Sample((X, F(0.5), np.array(True))),
    "RandomNormalLike": Sample((X,)),
    "RandomUniformLike": Sample((X,)),
    "RandomNormal": Sample((), {"shape": (2, 3)}),
    "RandomUniform": Sample((), {"shape": (2, 3)}),
    "DFT": Sample((_ramp(1, 4, 1),)),
    "STFT": Sample((_ramp(1, 8, 1), np.array(2), F([0.5, 1.0, 1.0, 0.5]))),
    "HannWindow": Sample((np.array(8),)),
    "HammingWindow": Sample((np.array(8),)),
    "BlackmanWindow": Sample((np.array(8),)),
    "MelWeightMatrix": Sample((np.array(4), np.array(16), np.array(8000), F(0.0), F(1000.0))),
    "QuantizeLinear": Sample((X, F(0.5))),
    "DequantizeLinear": Sample((np.array([1, 2], np.int8), np.array(0.5, np.float32))),
    "DynamicQuantizeLinear": Sample((np.ones((2, 3), np.float32),), {}, 3),
    "ConvInteger": Sample((np.ones((1, 1, 3, 3), np.uint8), np.ones((1, 1, 2, 2), np.uint8))),
    "MatMulInteger": Sample((np.ones((2, 3), np.uint8), np.ones((3, 2), np.uint8))),
    "QLinearMatMul": Sample(
        (
            *(np.ones((2, 2), np.uint8), np.float32(0.5), np.uint8(0)),
            *(np.ones((2, 2), np.uint8), np.float32(0.5), np.uint8(0)),
            *(np.float32(0.5), np.uint8(0)),
        )
    ),
    "QLinearConv": Sample(
        (
            *(np.ones((1, 1, 3, 3), np.uint8), np.float32(0.5), np.uint8(0)),
            *(np.ones((1, 1, 2, 2), np.uint8), np.float32(0.5), np.uint8(0)),
            *(np.float32(0.5), np.uint8(0)),
        )
    ),
    "TfIdfVectorizer": Sample(
        (I(1, 2, 1),),
        {
            **{"mode": "TF", "min_gram_length": 1, "max_gram_length": 1, "max_skip_count": 0},
            **{"ngram_counts": (0,), "ngram_indexes": (0, 1), "pool_int64s": (1, 2)},
        },
    ),
    **{
        name: Sample((np.array([[5, -7, 0]]), np.array([3, 12, -1])))
        for name in ("BitwiseAnd", "BitwiseOr", "BitwiseXor")
    },
    "BitwiseNot": Sample((np.array([5, -7, 0]),)),
    "BitCast": Sample((np.array([1.5, -0.0]),), {"to": 7}),
    "Gelu": Sample((X,)),
    "Mish": Sample((X,)),
    "CenterCropPad": Sample((X, I(3, 2))),
    "GroupNormalization": Sample((IMAGE, _ramp(2), _ramp(2)), {"num_groups": 2}),
    "AffineGrid": Sample((_ramp(1, 2, 3), I(1, 1, 2, 3))),
    "Col2Im": Sample((_ramp(1, 4, 4), I(3, 3), I(2, 2))),
    "DeformConv": Sample((_ramp(1, 1, 3, 3), _ramp(1, 1, 2, 2), _ramp(1, 8, 2, 2))),
    "StringConcat": Sample((np.array(["a", "B"]), np.array(["c"]))),
    "StringSplit": Sample((np.array(["a b", "c"]),), {}, 2),
    "RegexFullMatch": Sample((np.array(["a", "B"]),), {"pattern": "[a-z]"}),
    "StringNormalizer": Sample((np.array(["a", "B"]),)),
}

NOT_TENSORS = frozenset(
    (
        *("ConcatFromSequence", "If", "ImageDecoder", "Loop", "Optional", "OptionalGetElement"),
        *("OptionalHasElement", "Scan", "SequenceAt", "SequenceConstruct", "SequenceEmpty"),
        *("SequenceErase", "SequenceInsert", "SequenceLength", "SequenceMap", "SplitToSequence"),
    )
)
"""Operators of sequences, optional values, graphs and images, which have no sample."""

WHOLE = {"Gemm": {"transB": 1}}
"""Attributes for integers, where those of the sample are fractions."""
