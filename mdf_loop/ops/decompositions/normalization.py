"""Decompositions of normalizations into mean, variance and scale."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from mdf_loop.ir import Op, Value
from mdf_loop.ops.build_helpers import cast, ints, mean_of
from mdf_loop.ops.decompositions.build_helpers import (
    attribute,
    constant_like,
    operand,
    optional_operand,
    rank,
    scale,
    shift,
    spatial_axes,
)
from mdf_loop.ops.decompositions.windows import pad_axes, window_slices

if TYPE_CHECKING:
    from mdf_loop.build import Builder


def _build_moments(b: Builder, x: Value, axes: Sequence[int]) -> tuple[Value, Value, Value]:
    """Build the mean along axes, `x - mean`, and the variance. The axes are kept with extent 1."""
    mean = _build_mean(b, x, axes)
    centred_x = b.op("Sub", x, mean)
    return mean, centred_x, _build_mean(b, b.op("Mul", centred_x, centred_x), axes)


def _build_mean(b: Builder, x: Value, axes: Sequence[int]) -> Value:
    """Build the mean along axes, keeping these axes with extent 1.

    For float32, the common dtype of networks, the runtime's faster kernel computes the mean.
    """
    if x.dtype == "float64":
        return mean_of(b, x, axes, keepdims=True)
    return b.op("ReduceMean", x, axes=tuple(axes), keepdims=1)


def _reshape_to_channels(b: Builder, value: Value, x: Value) -> Value:
    """Reshape channel parameters `[c]` to `[c, 1, ...]`, which broadcast with `[n, c, ...]`."""
    return b.op("Reshape", value, ints(b, -1, *[1] * (rank(x, "a normalization") - 2)))


def batch_normalization(b: Builder, op: Op) -> tuple[Value, ...]:
    """Build operations that compute `(x - mean) / sqrt(var + epsilon) * scale + bias` for each channel.

    In training the moments are those of the batch. The second and third outputs are then
    `momentum * running + (1 - momentum) * batch`.
    """
    x = operand(op)
    gain, bias, mean, variance = (_reshape_to_channels(b, operand(op, k), x) for k in range(1, 5))
    running_moments: tuple[Value, ...] = ()
    if attribute(op, "training_mode"):
        axes = [k for k in range(rank(x, "onnx::BatchNormalization")) if k != 1]
        mean, _, variance = _build_moments(b, x, axes)
        batch_moments = [b.op("Reshape", moment, ints(b, -1)) for moment in (mean, variance)]
        running_moments = tuple(
            _blend_moments(b, attribute(op, "momentum"), operand(op, 3 + k), batch_moments[k])
            for k in range(len(op.outputs) - 1)
        )
    deviation = b.op("Sqrt", shift(b, variance, attribute(op, "epsilon")))
    normalized_x = b.op("Div", b.op("Sub", x, mean), deviation)
    return b.op("Add", b.op("Mul", normalized_x, gain), bias), *running_moments


def _blend_moments(b: Builder, weight: float, running_moment: Value, batch_moment: Value) -> Value:
    return b.op("Add", scale(b, running_moment, weight), scale(b, batch_moment, 1 - weight))


def instance_normalization(b: Builder, op: Op) -> Value:
    """Build operations that normalize each channel of each instance to mean 0 and variance 1.

    The formula is `(x - mean) / sqrt(var + epsilon) * scale + bias`.
    """
    x = operand(op)
    axes = spatial_axes(op)
    _, centred_x, variance = _build_moments(b, x, axes)
    normalized_x = b.op(
        "Div", centred_x, b.op("Sqrt", shift(b, variance, attribute(op, "epsilon")))
    )
    gain, bias = (_reshape_to_channels(b, operand(op, k), x) for k in (1, 2))
    return b.op("Add", b.op("Mul", normalized_x, gain), bias)


def layer_normalization(b: Builder, op: Op) -> tuple[Value, ...]:
    """Build operations that normalize along the axes from `axis` to the last.

    The formula is `(x - mean) / sqrt(var + epsilon) * scale + bias`.
    """
    x, axis = operand(op), attribute(op, "axis")
    normalized_axes = (
        range(axis, 0) if axis < 0 else range(axis, rank(x, "onnx::LayerNormalization"))
    )
    mean, centred_x, variance = _build_moments(b, x, normalized_axes)
    deviation = b.op("Sqrt", shift(b, variance, attribute(op, "epsilon")))
    scaled_x = b.op("Mul", b.op("Div", centred_x, deviation), operand(op, 1))
    bias = optional_operand(op, 2)
    if bias is not None:
        scaled_x = b.op("Add", scaled_x, bias)
    output_values = (scaled_x, mean, b.op("Reciprocal", deviation))
    return tuple(
        cast(b, value, output.dtype)
        for value, output in zip(output_values, op.outputs, strict=False)
    )


def mean_variance_normalization(b: Builder, op: Op) -> Value:
    """Build operations for `(x - mean) / (sqrt(var) + 1e-9)` along the axes of the attribute `axes`."""
    _, centred_x, variance = _build_moments(b, operand(op), attribute(op, "axes") or (0, 2, 3))
    return b.op("Div", centred_x, shift(b, b.op("Sqrt", variance), 1e-9))


def local_response_normalization(b: Builder, op: Op) -> Value:
    """Build operations that compute ONNX's LRN over `size` adjacent channels.

    The formula is `x / (bias + alpha / size * s) ** beta`, where `s` is the sum of the channels' squares.
    """
    x, window_size = operand(op), attribute(op, "size")
    padded_squares = pad_axes(
        b, b.op("Mul", x, x), [(window_size - 1) // 2], [window_size // 2], first=1
    )
    channel_slices = window_slices(b, padded_squares, (window_size,), (1,), (1,), first=1)
    scaled_sum = scale(b, b.op("Sum", *channel_slices), attribute(op, "alpha") / window_size)
    power_base = shift(b, scaled_sum, attribute(op, "bias"))
    power = constant_like(b, attribute(op, "beta"), x)
    return b.op("Div", x, b.op("Pow", power_base, power))
