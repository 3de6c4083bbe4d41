"""Activation functions.

Source: OpenVINO operation sets, group "Activation".
"""

from __future__ import annotations

import math

from mdf_loop.importing.openvino.call import LAYERS, Call, Result, layer, unary, whole_list
from mdf_loop.importing.openvino.place import OnnxOp, Term, op

LAYERS.update(
    {
        "Tanh": unary("Tanh"),
        "Sigmoid": unary("Sigmoid"),
        "ReLU": unary("Relu"),
        "Relu": unary("Relu"),
        "SoftSign": unary("Softsign"),
    }
)


@layer("Elu")
def _elu(call: Call) -> Result:
    """X where x > 0, else alpha (exp(x) - 1)."""
    x = call.input(0)
    low = op("Min", x, call.number(0))
    grown = op("Mul", call.number(call.real("alpha")), op("Sub", op("Exp", low), call.number(1)))
    return op("Where", op("Greater", x, call.number(0)), x, grown)


@layer("PReLU", "PRelu")
def _prelu(call: Call) -> Result:
    """X where x > 0, else slope x; a slope with one axis belongs to axis 1."""
    slope: Term = call.input(1)
    if call.rank(1) == 1 and call.rank(0) > 2 and call.shape(1) != (1,):
        slope = op("Reshape", slope, whole_list(-1, *(1,) * (call.rank(0) - 2)))
    return op("PRelu", call.input(0), slope)


@layer("Softplus", "SoftPlus")
def _softplus(call: Call) -> Result:
    return op("Softplus", call.input(0))


@layer("SoftMax", "Softmax")
def _softmax(call: Call) -> Result:
    return op("Softmax", call.input(0), axis=call.whole("axis", 1))


@layer("LogSoftmax")
def _log_softmax(call: Call) -> Result:
    return op("LogSoftmax", call.input(0), axis=call.whole("axis", 1))


@layer("HardSigmoid")
def _hard_sigmoid(call: Call) -> Result:
    """`max(0, min(1, alpha x + beta))`."""
    line = op("Add", op("Mul", call.input(1), call.input(0)), call.input(2))
    return op("Clip", line, call.number(0), call.number(1))


def _relu6_of(call: Call, shift: float) -> OnnxOp:
    moved = op("Add", call.input(0), call.number(shift))
    return op("Clip", moved, call.number(0), call.number(6))


@layer("HSigmoid")
def _hsigmoid(call: Call) -> Result:
    return op("Div", _relu6_of(call, 3), call.number(6))


@layer("HSwish")
def _hswish(call: Call) -> Result:
    return op("Mul", call.input(0), op("Div", _relu6_of(call, 3), call.number(6)))


@layer("Swish")
def _swish(call: Call) -> Result:
    """`x sigmoid(beta x)`."""
    beta = call.optional(1)
    x: Term = call.input(0)
    inside = x if beta is None else op("Mul", x, beta)
    return op("Mul", x, op("Sigmoid", inside))


@layer("Mish")
def _mish(call: Call) -> Result:
    return op("Mul", call.input(0), op("Tanh", op("Softplus", call.input(0))))


@layer("Selu")
def _selu(call: Call) -> Result:
    """`lambda x` where x > 0, else `lambda alpha (exp(x) - 1)`."""
    x, alpha, scale = call.first(3)
    low = op("Min", x, call.number(0))
    grown = op("Mul", alpha, op("Sub", op("Exp", low), call.number(1)))
    return op("Mul", scale, op("Where", op("Greater", x, call.number(0)), x, grown))


@layer("Gelu")
def _gelu(call: Call) -> Result:
    """X Phi(x): 0.5 x (1 + erf(x / sqrt(2))), or its approximation with tanh."""
    x = call.input(0)
    half = op("Mul", call.number(0.5), x)
    if call.choice("approximation_mode", {"erf": True, "tanh": False}, "erf"):
        inside = op("Erf", op("Div", x, call.number(math.sqrt(2))))
    else:
        cube = op("Mul", op("Mul", x, x), x)
        curved = op("Add", x, op("Mul", call.number(0.044715), cube))
        inside = op("Tanh", op("Mul", call.number(math.sqrt(2 / math.pi)), curved))
    return op("Mul", half, op("Add", call.number(1), inside))


@layer("MVN")
def _mvn(call: Call) -> Result:
    """`(x - mean) / sqrt(variance + eps)` along axes; eps may stand outside of the root.

    Source: OpenVINO operation sets, MVN-6.
    """
    if call.count < 2:
        raise call.refused("of opset 5 and before, without axes, cannot be read")
    axes = [int(axis) for axis in call.fixed(1, "axes").reshape(-1)]
    x = call.input(0)
    apart = op("Sub", x, op("ReduceMean", x, axes=axes, keepdims=1))
    if not call.truth("normalize_variance"):
        return apart
    variance = op("ReduceMean", op("Mul", apart, apart), axes=axes, keepdims=1)
    eps = call.number(call.real("eps"))
    if call.choice("eps_mode", {"inside_sqrt": True, "outside_sqrt": False}):
        return op("Div", apart, op("Sqrt", op("Add", variance, eps)))
    return op("Div", apart, op("Add", op("Sqrt", variance), eps))
