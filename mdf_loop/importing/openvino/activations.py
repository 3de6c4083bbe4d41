"""Conversion of OpenVINO's activation layers to ONNX operators.

Source: OpenVINO operation sets, group "Activation".
"""

from __future__ import annotations

import math

from mdf_loop.importing.openvino.call import (
    TRANSLATORS,
    LayerCall,
    LayerOutputs,
    int64_array,
    layer,
    unary,
)
from mdf_loop.importing.openvino.network_writer import OnnxOp, Term, op

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
def _elu(layer_call: LayerCall) -> LayerOutputs:
    """Convert Elu: `x` where x > 0, else `alpha (exp(x) - 1)`."""
    x = layer_call.input(0)
    negative_part = op("Min", x, layer_call.scalar(0))
    negative_branch = op(
        "Mul",
        layer_call.scalar(layer_call.read_float("alpha")),
        op("Sub", op("Exp", negative_part), layer_call.scalar(1)),
    )
    return op("Where", op("Greater", x, layer_call.scalar(0)), x, negative_branch)


@layer("PReLU", "PRelu")
def _prelu(layer_call: LayerCall) -> LayerOutputs:
    """Convert PReLU: `x` where x > 0, else `slope x`.

    A slope with one axis lies along axis 1.
    """
    slope: Term = layer_call.input(1)
    if layer_call.rank(1) == 1 and layer_call.rank(0) > 2 and layer_call.shape(1) != (1,):
        slope = op("Reshape", slope, int64_array(-1, *(1,) * (layer_call.rank(0) - 2)))
    return op("PRelu", layer_call.input(0), slope)


@layer("Softplus", "SoftPlus")
def _softplus(layer_call: LayerCall) -> LayerOutputs:
    return op("Softplus", layer_call.input(0))


@layer("SoftMax", "Softmax")
def _softmax(layer_call: LayerCall) -> LayerOutputs:
    return op("Softmax", layer_call.input(0), axis=layer_call.read_integer("axis", 1))


@layer("LogSoftmax")
def _log_softmax(layer_call: LayerCall) -> LayerOutputs:
    return op("LogSoftmax", layer_call.input(0), axis=layer_call.read_integer("axis", 1))


@layer("HardSigmoid")
def _hard_sigmoid(layer_call: LayerCall) -> LayerOutputs:
    """Convert HardSigmoid: `max(0, min(1, alpha x + beta))`."""
    linear_part = op(
        "Add", op("Mul", layer_call.input(1), layer_call.input(0)), layer_call.input(2)
    )
    return op("Clip", linear_part, layer_call.scalar(0), layer_call.scalar(1))


def _relu6(layer_call: LayerCall, shift: float) -> OnnxOp:
    shifted_input = op("Add", layer_call.input(0), layer_call.scalar(shift))
    return op("Clip", shifted_input, layer_call.scalar(0), layer_call.scalar(6))


@layer("HSigmoid")
def _hsigmoid(layer_call: LayerCall) -> LayerOutputs:
    return op("Div", _relu6(layer_call, 3), layer_call.scalar(6))


@layer("HSwish")
def _hswish(layer_call: LayerCall) -> LayerOutputs:
    return op("Mul", layer_call.input(0), op("Div", _relu6(layer_call, 3), layer_call.scalar(6)))


@layer("Swish")
def _swish(layer_call: LayerCall) -> LayerOutputs:
    """Convert Swish: `x sigmoid(beta x)`."""
    beta_input = layer_call.optional_input(1)
    x: Term = layer_call.input(0)
    scaled_input = x if beta_input is None else op("Mul", x, beta_input)
    return op("Mul", x, op("Sigmoid", scaled_input))


@layer("Mish")
def _mish(layer_call: LayerCall) -> LayerOutputs:
    return op("Mul", layer_call.input(0), op("Tanh", op("Softplus", layer_call.input(0))))


@layer("Selu")
def _selu(layer_call: LayerCall) -> LayerOutputs:
    """Convert Selu: `lambda x` where x > 0, else `lambda alpha (exp(x) - 1)`."""
    x, alpha, scale = layer_call.required_inputs(3)
    negative_part = op("Min", x, layer_call.scalar(0))
    negative_branch = op("Mul", alpha, op("Sub", op("Exp", negative_part), layer_call.scalar(1)))
    return op("Mul", scale, op("Where", op("Greater", x, layer_call.scalar(0)), x, negative_branch))


@layer("Gelu")
def _gelu(layer_call: LayerCall) -> LayerOutputs:
    """Convert Gelu: `x Phi(x)` as `0.5 x (1 + erf(x / sqrt(2)))`, or as its approximation with tanh."""
    x = layer_call.input(0)
    half_of_x = op("Mul", layer_call.scalar(0.5), x)
    if layer_call.read_choice("approximation_mode", {"erf": True, "tanh": False}, "erf"):
        erf_or_tanh = op("Erf", op("Div", x, layer_call.scalar(math.sqrt(2))))
    else:
        x_cubed = op("Mul", op("Mul", x, x), x)
        polynomial = op("Add", x, op("Mul", layer_call.scalar(0.044715), x_cubed))
        erf_or_tanh = op("Tanh", op("Mul", layer_call.scalar(math.sqrt(2 / math.pi)), polynomial))
    return op("Mul", half_of_x, op("Add", layer_call.scalar(1), erf_or_tanh))


@layer("MVN")
def _mvn(layer_call: LayerCall) -> LayerOutputs:
    """Convert MVN: `(x - mean) / sqrt(variance + eps)`, or `(x - mean) / (sqrt(variance) + eps)`.

    Source: OpenVINO operation sets, MVN-6.
    """
    if layer_call.input_count < 2:
        raise layer_call.unsupported_error("of opset 5 and before, without axes, cannot be read")
    axes = [int(axis) for axis in layer_call.require_constant(1, "axes").reshape(-1)]
    x = layer_call.input(0)
    centered_input = op("Sub", x, op("ReduceMean", x, axes=axes, keepdims=1))
    if not layer_call.read_bool("normalize_variance"):
        return centered_input
    variance = op("ReduceMean", op("Mul", centered_input, centered_input), axes=axes, keepdims=1)
    epsilon = layer_call.scalar(layer_call.read_float("eps"))
    if layer_call.read_choice("eps_mode", {"inside_sqrt": True, "outside_sqrt": False}):
        return op("Div", centered_input, op("Sqrt", op("Add", variance, epsilon)))
    return op("Div", centered_input, op("Add", op("Sqrt", variance), epsilon))
