"""Conversion of OpenVINO's activation layers to ONNX operators.

Source: OpenVINO operation sets, group "Activation".
"""

from __future__ import annotations

import math

from mdf_loop.importing.openvino.call import (
    TRANSLATORS,
    LayerCall,
    Result,
    int64_array,
    layer,
    unary,
)
from mdf_loop.importing.openvino.place import OnnxOp, Term, op

TRANSLATORS.update(
    {
        "Tanh": unary("Tanh"),
        "Sigmoid": unary("Sigmoid"),
        "ReLU": unary("Relu"),
        "Relu": unary("Relu"),
        "SoftSign": unary("Softsign"),
    }
)


@layer("Elu")
def _elu(call: LayerCall) -> Result:
    """Convert Elu: `x` where x > 0, else `alpha (exp(x) - 1)`."""
    x = call.input(0)
    negative_part = op("Min", x, call.number(0))
    negative_branch = op(
        "Mul",
        call.number(call.read_float("alpha")),
        op("Sub", op("Exp", negative_part), call.number(1)),
    )
    return op("Where", op("Greater", x, call.number(0)), x, negative_branch)


@layer("PReLU", "PRelu")
def _prelu(call: LayerCall) -> Result:
    """Convert PReLU: `x` where x > 0, else `slope x`.

    A slope with one axis lies along axis 1.
    """
    slope: Term = call.input(1)
    if call.rank(1) == 1 and call.rank(0) > 2 and call.shape(1) != (1,):
        slope = op("Reshape", slope, int64_array(-1, *(1,) * (call.rank(0) - 2)))
    return op("PRelu", call.input(0), slope)


@layer("Softplus", "SoftPlus")
def _softplus(call: LayerCall) -> Result:
    return op("Softplus", call.input(0))


@layer("SoftMax", "Softmax")
def _softmax(call: LayerCall) -> Result:
    return op("Softmax", call.input(0), axis=call.read_integer("axis", 1))


@layer("LogSoftmax")
def _log_softmax(call: LayerCall) -> Result:
    return op("LogSoftmax", call.input(0), axis=call.read_integer("axis", 1))


@layer("HardSigmoid")
def _hard_sigmoid(call: LayerCall) -> Result:
    """Convert HardSigmoid: `max(0, min(1, alpha x + beta))`."""
    linear_part = op("Add", op("Mul", call.input(1), call.input(0)), call.input(2))
    return op("Clip", linear_part, call.number(0), call.number(1))


def _relu6(call: LayerCall, shift: float) -> OnnxOp:
    shifted_input = op("Add", call.input(0), call.number(shift))
    return op("Clip", shifted_input, call.number(0), call.number(6))


@layer("HSigmoid")
def _hsigmoid(call: LayerCall) -> Result:
    return op("Div", _relu6(call, 3), call.number(6))


@layer("HSwish")
def _hswish(call: LayerCall) -> Result:
    return op("Mul", call.input(0), op("Div", _relu6(call, 3), call.number(6)))


@layer("Swish")
def _swish(call: LayerCall) -> Result:
    """Convert Swish: `x sigmoid(beta x)`."""
    beta = call.optional(1)
    x: Term = call.input(0)
    scaled_input = x if beta is None else op("Mul", x, beta)
    return op("Mul", x, op("Sigmoid", scaled_input))


@layer("Mish")
def _mish(call: LayerCall) -> Result:
    return op("Mul", call.input(0), op("Tanh", op("Softplus", call.input(0))))


@layer("Selu")
def _selu(call: LayerCall) -> Result:
    """Convert Selu: `lambda x` where x > 0, else `lambda alpha (exp(x) - 1)`."""
    x, alpha, scale = call.required_inputs(3)
    negative_part = op("Min", x, call.number(0))
    negative_branch = op("Mul", alpha, op("Sub", op("Exp", negative_part), call.number(1)))
    return op("Mul", scale, op("Where", op("Greater", x, call.number(0)), x, negative_branch))


@layer("Gelu")
def _gelu(call: LayerCall) -> Result:
    """Convert Gelu: `x Phi(x)` as `0.5 x (1 + erf(x / sqrt(2)))`, or as its approximation with tanh."""
    x = call.input(0)
    half = op("Mul", call.number(0.5), x)
    if call.choice("approximation_mode", {"erf": True, "tanh": False}, "erf"):
        erf_or_tanh = op("Erf", op("Div", x, call.number(math.sqrt(2))))
    else:
        cube = op("Mul", op("Mul", x, x), x)
        polynomial = op("Add", x, op("Mul", call.number(0.044715), cube))
        erf_or_tanh = op("Tanh", op("Mul", call.number(math.sqrt(2 / math.pi)), polynomial))
    return op("Mul", half, op("Add", call.number(1), erf_or_tanh))


@layer("MVN")
def _mvn(call: LayerCall) -> Result:
    """Convert MVN: `(x - mean) / sqrt(variance + eps)`, or `(x - mean) / (sqrt(variance) + eps)`.

    Source: OpenVINO operation sets, MVN-6.
    """
    if call.count < 2:
        raise call.unsupported("of opset 5 and before, without axes, cannot be read")
    axes = [int(axis) for axis in call.require_constant(1, "axes").reshape(-1)]
    x = call.input(0)
    centered_input = op("Sub", x, op("ReduceMean", x, axes=axes, keepdims=1))
    if not call.read_bool("normalize_variance"):
        return centered_input
    variance = op("ReduceMean", op("Mul", centered_input, centered_input), axes=axes, keepdims=1)
    epsilon = call.number(call.read_float("eps"))
    if call.choice("eps_mode", {"inside_sqrt": True, "outside_sqrt": False}):
        return op("Div", centered_input, op("Sqrt", op("Add", variance, epsilon)))
    return op("Div", centered_input, op("Add", op("Sqrt", variance), epsilon))
