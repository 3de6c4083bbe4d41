"""Calls of differentiable operations, one for each case that a rule distinguishes.

Operands of floats are differentiated. Other operands are constants, except at the positions in `when_run`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mdf_loop.ir import Program
from tests.ops.op_running import program_of


@dataclass(frozen=True)
class Case:
    op_type: str
    arrays: tuple[Any, ...]
    attributes: dict[str, Any] = field(default_factory=dict)
    output_count: int = 1
    shapes: Sequence[Any] | None = None
    when_run: tuple[int, ...] = ()

    def __str__(self) -> str:
        words = [str(np.shape(a)).replace(" ", "") for a in self.arrays if a is not None]
        words += [f"{k}={v}".replace(" ", "") for k, v in self.attributes.items()]
        named = ["named"] if self.shapes else []
        return "-".join([self.op_type, *words, *named, *(f"{k}run" for k in self.when_run)])


def call(case: Case, variable: str = "float64") -> tuple[Program, dict[str, np.ndarray]]:
    """Return the program of a case with its float operands of one dtype as inputs, and their arrays."""
    arrays = [None if a is None else np.asarray(a) for a in case.arrays]
    known = [
        k
        for k, a in enumerate(arrays)
        if a is not None and a.dtype != variable and k not in case.when_run
    ]
    program = program_of(
        case.op_type,
        arrays,
        case.output_count,
        shapes=case.shapes,
        constant=known,
        **case.attributes,
    )
    names = {entry.value.name for entry in program.inputs}
    feeds = {f"x{k}": a for k, a in enumerate(arrays) if a is not None}
    return program, {name: a for name, a in feeds.items() if name in names}


def F(*shape: int, low: float = -1.5, high: float = 1.5) -> np.ndarray:
    """Return different numbers in random order, none close to integers or halves."""
    size = int(np.prod(shape))
    rng = np.random.default_rng(size + 7 * len(shape))
    return (rng.permutation(size) * (high - low) / max(size, 1) + low + 0.0137).reshape(shape)


def I(*values: int) -> np.ndarray:  # noqa: E743
    return np.array(values, np.int64)


def P(*shape: int) -> np.ndarray:
    """Return numbers above 0."""
    return F(*shape, low=0.2, high=2.0)


X = F(2, 3)

_ANY = (
    *(
        "Abs",
        "Atan",
        "Asinh",
        "Celu",
        "Cos",
        "Cosh",
        "Elu",
        "Erf",
        "Exp",
        "HardSigmoid",
        "HardSwish",
    ),
    *("Identity", "LeakyRelu", "Mish", "Neg", "Relu", "Selu", "Shrink", "Sigmoid", "Sign", "Sin"),
    *("Sinh", "Softplus", "Softsign", "Tan", "Tanh", "ThresholdedRelu", "Ceil", "Floor", "Round"),
    *("Hardmax", "EyeLike", "Gelu"),
)
_POSITIVE = ("Log", "Sqrt", "Reciprocal")
_BROADCAST = ("Add", "Sub", "Mul", "Max", "Min", "Mean", "Sum", "Div")


def _elementwise() -> list[Case]:
    return [
        *(Case(name, (F(2, 3),)) for name in _ANY),
        *(Case(name, (P(2, 3),)) for name in _POSITIVE),
        *(Case(name, (0.6 * F(2, 3),)) for name in ("Asin", "Acos", "Atanh")),
        Case("Acosh", (1 + P(2, 3),)),
        *(Case(name, (F(2, 3), P(3))) for name in _BROADCAST),
        *(Case(name, (F(0, 3), P(3))) for name in _BROADCAST),
        *(Case(name, (F(3), P(2, 1))) for name in _BROADCAST if name not in ("Mean", "Sum")),
        *(Case(name, (F(2, 3), P(3), F(1))) for name in ("Max", "Min", "Mean", "Sum")),
        Case("Mod", (F(2, 3), np.array([0.7, -0.9, 1.1]))),
        Case("Mod", (F(2, 3), np.array([0.7, -0.9, 1.1])), {"fmod": 1}),
        Case("Pow", (P(2, 3), F(3))),
        Case("Pow", (F(2, 3), np.array(3))),
        Case("Where", (X > 0, X, F(3))),
        Case("Cast", (X,), {"to": 11}),
        Case("CastLike", (X, np.zeros(1))),
        Case("Clip", (X, np.array(-1.0), np.array(0.5))),
        Case("Clip", (X, None, np.array(0.5))),
        Case("PRelu", (X, P(3))),
        Case("Gelu", (X,), {"approximate": "tanh"}),
        Case("LeakyRelu", (X,), {"alpha": 0.3}),
        Case("Shrink", (X,), {"bias": 0.2, "lambd": 0.4}),
    ]


def _reductions() -> list[Case]:
    axes: list[dict[str, Any]] = [{}, {"axes": (1,)}, {"axes": (0, -1), "keepdims": 0}]
    names = ("Prod", "L1", "L2", "SumSquare", "LogSumExp", "Mean", "Max", "Min")
    return [
        *(Case(f"Reduce{name}", (F(2, 3, 2),), more) for name in names for more in axes),
        *(Case(f"Reduce{name}", (F(2, 3),), {"axes": (0,)}, shapes=[("n", 3)]) for name in names),
        *(
            Case(f"Reduce{name}", (np.array(0.7),))
            for name in (*names, "Sum", "LogSum")
            if name != "LogSumExp"
        ),
        *(Case("ReduceLogSum", (P(2, 3, 2),), more) for more in axes),
        Case("ReduceSum", (F(2, 3, 2),)),
        Case("ReduceSum", (F(2, 3, 2), I(0, -1)), {"keepdims": 0}),
        Case("ReduceSum", (F(2, 3, 2), I(0, -1)), {"keepdims": 0}, when_run=(1,)),
        Case("ReduceSum", (F(2, 3, 2), I(1)), shapes=[("n", 3, "m"), (1,)]),
        Case("ReduceSum", (F(2, 3), np.zeros(0, np.int64)), {"noop_with_empty_axes": 1}),
        Case("ReduceMax", (F(2, 3), I(1)), {"keepdims": 0}),
        Case("ReduceProd", (F(2, 9),), {"axes": (1,)}),
        Case("ReduceProd", (np.array([[0.5, 0.0, 2.0], [0.0, 0.0, 1.5]]),), {"axes": (1,)}),
        Case("ReduceProd", (np.array([[0.5, 0.0, 2.0]]),), shapes=[("n", "m")]),
        *(
            Case(name, (F(2, 3),), {"axis": axis})
            for name in ("Softmax", "LogSoftmax", "LpNormalization")
            for axis in (0, -1)
        ),
        Case("LpNormalization", (F(2, 3),), {"p": 1}),
        Case("Softmax", (F(2, 3),), shapes=[("n", 3)]),
        *(
            Case("CumSum", (F(2, 4), np.array(axis)), {"exclusive": exclusive, "reverse": reverse})
            for axis in (0, -1)
            for exclusive in (0, 1)
            for reverse in (0, 1)
        ),
    ]


def _movement() -> list[Case]:
    return [
        Case("Reshape", (X, I(3, -1))),
        Case("Reshape", (X, I(3, 2)), when_run=(1,)),
        Case("Reshape", (X, I(-1)), shapes=[("n", 3), (1,)]),
        Case("Flatten", (F(2, 3, 2),), {"axis": 2}),
        Case("Squeeze", (F(1, 3, 1), I(0, -1))),
        Case("Squeeze", (F(1, 3, 1),)),
        Case("Unsqueeze", (X, I(0, -1))),
        Case("Transpose", (F(2, 3, 4),)),
        Case("Transpose", (F(2, 3, 4),), {"perm": (1, 2, 0)}),
        Case("Concat", (F(2, 3), F(2, 1), F(2, 2)), {"axis": -1}),
        Case("Concat", (F(2, 3), F(2, 0)), {"axis": 1}),
        Case("Concat", (F(2, 3), F(1, 3)), {"axis": 0}, shapes=[("n", 3), ("m", 3)]),
        Case("Split", (F(2, 5), I(1, 3, 1)), {"axis": 1}, 3),
        Case("Split", (F(4, 2),), {"axis": 0}, 2),
        Case("Slice", (F(4, 5), I(1), I(3))),
        Case("Slice", (F(4, 5), I(1, -3), I(3, 2**62), I(0, -1))),
        Case("Slice", (F(4, 5), I(-1, 1), I(-9, 5), I(1, 0), I(-1, 2))),
        Case(
            "Slice",
            (
                F(
                    7,
                ),
                I(5),
                I(0),
                I(0),
                I(-2),
            ),
        ),
        Case(
            "Slice",
            (
                F(
                    5,
                ),
                I(4),
                I(2),
                I(0),
            ),
        ),
        Case("Slice", (F(4, 5), I(1, -3), I(3, 9), I(0, 1)), when_run=(1, 2)),
        Case(
            "Slice",
            (
                F(
                    7,
                ),
                I(5),
                I(0),
                I(0),
                I(-2),
            ),
            when_run=(1, 2, 4),
        ),
        Case("Slice", (F(4, 5), I(-3), I(9), I(0)), shapes=[("n", 5), (1,), (1,), (1,)]),
        Case("Slice", (F(4, 5), I(0), I(9), I(0), I(2)), shapes=[("n", 5), *[(1,)] * 4]),
        Case("Expand", (F(3, 1), I(2, 3, 4))),
        Case("Expand", (F(3, 1), I(2, 1, 4)), when_run=(1,)),
        Case("Expand", (F(3, 1), I(2, 1, 4)), shapes=[("n", "m"), (3,)]),
        Case("Tile", (X, I(2, 3))),
        Case("Tile", (X, I(2, 3)), when_run=(1,)),
        Case("Tile", (X, I(2, 3)), shapes=[("n", 3), (2,)]),
        Case("Pad", (X, I(1, 0, 2, 1))),
        Case("Pad", (X, I(1, -1, 0, 2), np.array(0.7))),
        Case("Pad", (X, I(1, -1, 0, 2), np.array(0.7)), when_run=(1,)),
        Case("Pad", (X, I(1, 2, 0, 1), np.array(0.7)), shapes=[("n", 3), (4,), ()]),
        Case("Pad", (X, I(1, 2), np.array(0.7), I(1))),
        *(
            Case("Pad", (F(3, 4), I(0, 2, 0, 1)), {"mode": mode}, shapes=shapes)
            for mode in ("edge", "reflect")
            for shapes in (None, [("n", "m"), (4,)])
        ),
        Case("Pad", (F(3, 4), I(1, -1, 1, 2)), {"mode": "edge"}),
        Case("CenterCropPad", (F(4, 3), I(1, 6))),
        Case("CenterCropPad", (F(4, 3), I(6)), {"axes": (1,)}),
        Case("Trilu", (F(3, 3),)),
        Case("Trilu", (F(2, 3, 4), np.array(1)), {"upper": 0}),
        Case("ReverseSequence", (F(4, 2), I(3, 2)), {"time_axis": 0, "batch_axis": 1}),
        Case("DepthToSpace", (F(1, 8, 2, 3),), {"blocksize": 2}),
        Case("DepthToSpace", (F(1, 8, 2, 3),), {"blocksize": 2, "mode": "CRD"}),
        Case("SpaceToDepth", (F(1, 1, 4, 6),), {"blocksize": 2}),
        Case("Range", (np.array(0.3), np.array(2.0), np.array(0.4))),
        Case("OneHot", (I(0, 2, -1), np.array(3), F(2))),
        Case("OneHot", (I(0, 2, -1), np.array(3), F(2)), {"axis": 0}),
    ]


def _selection() -> list[Case]:
    return [
        Case("Gather", (F(4, 3), np.array(1))),
        Case("Gather", (F(4, 3), np.array(-1)), {"axis": 1}),
        Case("Gather", (F(4, 3), np.array(2)), when_run=(1,)),
        Case("Gather", (F(4, 3), I(2, 1)), {"axis": 0}),
        Case("Gather", (F(4, 3), I()), {"axis": 1}),
        Case("Gather", (F(0, 3), I(2, 1)), {"axis": 1}),
        Case("Gather", (F(4, 3), I(2, 0, -1, 2)), {"axis": 1}),
        Case("Gather", (F(3, 4, 2), np.array([[1, 3, -3], [0, 1, 1]])), {"axis": -2}),
        Case("Gather", (F(3, 4, 2), np.array([[1, 3], [0, 1]])), {"axis": 1}, when_run=(1,)),
        Case("Gather", (F(3, 4), np.array(1)), {"axis": 0}, shapes=[("n", 4), ()]),
        Case("Gather", (F(3, 4), np.array([[1, -1]])), {"axis": 1}, shapes=[("n", "m"), (1, 2)]),
        Case("GatherElements", (F(3, 3), np.array([[0, 1, -1], [0, 1, 0]]))),
        Case("GatherElements", (F(2, 3), np.array([[0, -1], [1, 1]])), {"axis": 1}, when_run=(1,)),
        Case("GatherND", (F(3, 4), np.array([[0, 1], [-1, 2], [0, 1]]))),
        Case("GatherND", (F(3, 4), np.array([[0], [-1]]))),
        Case("GatherND", (F(2, 3, 4, 2), np.array([[[1, 0]], [[1, -1]]])), {"batch_dims": 1}),
        Case("GatherND", (F(3, 4), np.array([[0, 1]])), shapes=[("n", 4), (1, 2)], when_run=(1,)),
        Case("ScatterElements", (F(3, 3), np.array([[0, 1, -1]]), F(1, 3))),
        Case("ScatterElements", (F(3, 3), np.array([[0, 2], [0, 1]]), F(2, 2)), {"axis": 1}),
        Case(
            "ScatterElements", (F(3, 2), np.array([[0, 1], [0, 1]]), F(2, 2)), {"reduction": "add"}
        ),
        Case("ScatterND", (F(3, 2), np.array([[2], [0]]), F(2, 2))),
        Case("ScatterND", (F(3, 2), np.array([[2, 1], [2, 1]]), F(2)), {"reduction": "add"}),
        Case("Compress", (X, np.array([True, False, True])), {"axis": 1}),
        Case("Compress", (X, np.array([False, True, True, False])), {}),
        Case("Compress", (X, np.array([True, False])), {"axis": -1}, when_run=(1,)),
        Case("TopK", (F(2, 5), I(2)), {}, 2),
        Case("TopK", (F(4, 2), I(3)), {"axis": 0, "largest": 0}, 2),
    ]


def _products() -> list[Case]:
    pairs = [
        *(((3,), (3,)), ((2, 3), (3,)), ((2,), (2, 3)), ((2, 3), (3, 4))),
        *(((2, 2, 3), (3,)), ((2,), (3, 2, 4)), ((2, 2, 3), (3, 4)), ((2, 3), (4, 3, 2))),
        *(((2, 1, 2, 3), (3, 3, 1)), ((1, 2, 3), (2, 3, 2)), ((2, 0), (0, 3)), ((0, 2), (2,))),
    ]
    gemm = (
        (F(2, 3), F(3, 4), F(4)),
        (F(3, 2), F(3, 4), F(2, 1)),
        (F(2, 3), F(4, 3), F(1)),
        (F(3, 2), F(4, 3)),
    )
    turned: list[dict[str, Any]] = [{}, {"transA": 1}, {"transB": 1}, {"transA": 1, "transB": 1}]
    einsum = [
        ("ij,jk->ik", (F(2, 3), F(3, 2))),
        ("ij,jk", (F(2, 3), F(3, 2))),
        ("ij->", (F(2, 3),)),
        ("ij->i", (F(2, 3),)),
        ("i,j->ij", (F(2), F(3))),
        ("i,i->", (F(3), F(3))),
        ("ij,ij,j->i", (F(2, 3), F(2, 3), F(3))),
        ("...ij,jk->...ik", (F(2, 2, 3), F(3, 2))),
        ("...ij,...jk->...ik", (F(2, 1, 2, 3), F(1, 3, 3, 2))),
        ("ij,k->i", (F(2, 3), F(2))),
        ("ii->i", (F(3, 3),)),
        ("ii->", (F(3, 3),)),
        ("iij,jk->ik", (F(2, 2, 3), F(3, 2))),
    ]
    return [
        *(Case("MatMul", (F(*a), F(*c) + 0.1)) for a, c in pairs),
        Case("MatMul", (F(2, 3), F(3, 2)), shapes=[("n", 3), (3, 2)]),
        Case("MatMul", (F(2, 3), F(3)), shapes=[("n", "m"), ("m",)]),
        Case("MatMul", (F(1, 2, 3), F(2, 3, 2)), shapes=[("n", 2, 3), ("m", 3, 2)]),
        *(
            Case("Gemm", operands, {**more, **numbers})
            for operands, more in zip(gemm, turned, strict=True)
            for numbers in ({}, {"alpha": 0.5, "beta": 2.0})
        ),
        *(Case("Einsum", operands, {"equation": equation}) for equation, operands in einsum),
        Case("Einsum", (F(2, 2), F(2, 3)), {"equation": "ii,ij->j"}, shapes=[("n", "n"), ("n", 3)]),
        *(Case("Det", (F(*shape),)) for shape in ((1, 1), (2, 2), (3, 3), (2, 4, 4))),
        Case("Det", (np.array([[0.0, 1.0, 2.0], [0.0, 3.0, 1.0], [0.0, 1.0, 1.0]]),)),
    ]


def _networks() -> list[Case]:
    image, line, box = F(2, 2, 5, 4), F(1, 2, 6), F(1, 1, 3, 3, 3)
    channels = tuple(F(2, low=0.5, high=1.5) for _ in range(4))
    return [
        Case("Conv", (image, F(3, 2, 3, 2), F(3)), {"pads": (1, 0, 1, 1), "strides": (2, 1)}),
        Case("Conv", (F(1, 4, 5, 4), F(6, 2, 2, 2)), {"group": 2, "dilations": (2, 1)}),
        Case("Conv", (line, F(2, 2, 3)), {"auto_pad": "SAME_UPPER", "strides": (2,)}),
        Case("Conv", (box, F(2, 1, 2, 2, 2), F(2)), {"pads": (1, 0, 0, 0, 1, 0)}),
        Case("Conv", (line, F(2, 2, 3)), {"pads": (1, 1)}, shapes=[("n", 2, "m"), (2, 2, 3)]),
        Case(
            "ConvTranspose",
            (F(1, 2, 3, 2), F(2, 3, 3, 2), F(3)),
            {"strides": (2, 1), "pads": (1, 0, 0, 1)},
        ),
        Case("ConvTranspose", (F(1, 4, 3), F(4, 1, 3)), {"group": 2, "dilations": (2,)}),
        Case("MaxPool", (image,), {"kernel_shape": (3, 2), "pads": (1, 0, 1, 1)}),
        Case("MaxPool", (line,), {"kernel_shape": (3,), "strides": (2,), "ceil_mode": 1}),
        Case("AveragePool", (image,), {"kernel_shape": (3, 2), "pads": (1, 0, 1, 1)}),
        Case(
            "AveragePool",
            (image,),
            {
                "kernel_shape": (2, 2),
                "strides": (2, 2),
                "count_include_pad": 1,
                "pads": (1, 1, 1, 1),
            },
        ),
        *(Case("LpPool", (image,), {"kernel_shape": (3, 2), "p": p}) for p in (1, 2, 3)),
        *(Case("GlobalLpPool", (F(1, 2, 3, 2),), {"p": p}) for p in (1, 2, 3)),
        Case("GlobalAveragePool", (image,)),
        Case("GlobalMaxPool", (image,)),
        Case("BatchNormalization", (F(2, 2, 3), *channels)),
        Case("BatchNormalization", (F(2, 2, 3), *channels), {"training_mode": 1}, 3),
        Case("InstanceNormalization", (F(2, 2, 3), F(2), F(2))),
        Case("LayerNormalization", (X, F(3), F(3))),
        Case("LayerNormalization", (F(2, 3, 2), F(3, 2)), {"axis": 1}),
        Case("GroupNormalization", (F(2, 4, 3), F(4), F(4)), {"num_groups": 2}),
        Case("MeanVarianceNormalization", (F(2, 2, 3, 2),)),
        Case("LRN", (F(1, 4, 3, 1),), {"size": 3, "alpha": 0.5}),
        Case("Col2Im", (F(1, 4, 4), I(3, 3), I(2, 2))),
        Case(
            "MaxUnpool",
            (F(1, 1, 1, 2), np.array([[[[1, 6]]]])),
            {"kernel_shape": (2, 2), "strides": (2, 2)},
        ),
        *(
            Case(name, (F(2, 3, 2), np.array([[0, 2], [1, 2]]), P(3)), more)
            for name in ("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss")
            for more in ({}, {"ignore_index": 2}, {"reduction": "sum"}, {"reduction": "none"})
        ),
        Case("SoftmaxCrossEntropyLoss", (X, I(0, 2)), {}, 2),
        *(
            Case("Resize", (F(1, 1, 3, 4), None, None, I(1, 1, 6, 6)), {"mode": mode})
            for mode in ("nearest", "linear", "cubic")
        ),
    ]


CASES = (
    *_elementwise(),
    *_reductions(),
    *_movement(),
    *_selection(),
    *_products(),
    *_networks(),
)
