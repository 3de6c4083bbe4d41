"""Normalizations: mean, variance about the mean, scale."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from mdf_loop.ir import Op, Value
from mdf_loop.ops.compositions.windows import padded, window_slices
from mdf_loop.ops.compositions.words import (
    attribute,
    number,
    operand,
    optional,
    rank,
    scaled,
    shifted,
    spatial_axes,
)
from mdf_loop.ops.words import cast, ints, mean_of

if TYPE_CHECKING:
    from mdf_loop.build import Builder


def _moments(b: Builder, x: Value, axes: Sequence[int]) -> tuple[Value, Value, Value]:
    """(mean, x - mean, mean of its square) along axes that are kept with extent 1."""
    mean = _mean(b, x, axes)
    centred = b.op("Sub", x, mean)
    return mean, centred, _mean(b, b.op("Mul", centred, centred), axes)


def _mean(b: Builder, x: Value, axes: Sequence[int]) -> Value:
    """Return the mean: of float32, as networks have it, by the runtime's kernel, which is faster."""
    if x.dtype == "float64":
        return mean_of(b, x, axes, keepdims=True)
    return b.op("ReduceMean", x, axes=tuple(axes), keepdims=1)


def _by_channel(b: Builder, value: Value, x: Value) -> Value:
    """`[c]` as `[c, 1, ...]`, to meet `[n, c, ...]`."""
    return b.op("Reshape", value, ints(b, -1, *[1] * (rank(x, "a normalization") - 2)))


def batch_normalization(b: Builder, op: Op) -> tuple[Value, ...]:
    """`(x - mean) / sqrt(var + epsilon) * scale + bias`, channel by channel.

    In training the moments are the batch's, and the second and third outputs are
    `momentum * running + (1 - momentum) * batch`.
    """
    x = operand(op)
    scale, bias, mean, variance = (_by_channel(b, operand(op, k), x) for k in range(1, 5))
    running: tuple[Value, ...] = ()
    if attribute(op, "training_mode"):
        axes = [k for k in range(rank(x, "onnx::BatchNormalization")) if k != 1]
        mean, _, variance = _moments(b, x, axes)
        fresh = [b.op("Reshape", value, ints(b, -1)) for value in (mean, variance)]
        running = tuple(
            _blend(b, attribute(op, "momentum"), operand(op, 3 + k), fresh[k])
            for k in range(len(op.outputs) - 1)
        )
    deviation = b.op("Sqrt", shifted(b, variance, attribute(op, "epsilon")))
    ratio = b.op("Div", b.op("Sub", x, mean), deviation)
    return b.op("Add", b.op("Mul", ratio, scale), bias), *running


def _blend(b: Builder, weight: float, old: Value, new: Value) -> Value:
    return b.op("Add", scaled(b, old, weight), scaled(b, new, 1 - weight))


def instance_normalization(b: Builder, op: Op) -> Value:
    """`(x - mean) / sqrt(var + epsilon) * scale + bias` of every channel of every instance."""
    x = operand(op)
    axes = spatial_axes(op)
    _, centred, variance = _moments(b, x, axes)
    ratio = b.op("Div", centred, b.op("Sqrt", shifted(b, variance, attribute(op, "epsilon"))))
    scale, bias = (_by_channel(b, operand(op, k), x) for k in (1, 2))
    return b.op("Add", b.op("Mul", ratio, scale), bias)


def layer_normalization(b: Builder, op: Op) -> tuple[Value, ...]:
    """`(x - mean) / sqrt(var + epsilon) * scale + bias` along the last axes."""
    x, axis = operand(op), attribute(op, "axis")
    last = range(axis, 0) if axis < 0 else range(axis, rank(x, "onnx::LayerNormalization"))
    mean, centred, variance = _moments(b, x, last)
    deviation = b.op("Sqrt", shifted(b, variance, attribute(op, "epsilon")))
    result = b.op("Mul", b.op("Div", centred, deviation), operand(op, 1))
    bias = optional(op, 2)
    if bias is not None:
        result = b.op("Add", result, bias)
    made = (result, mean, b.op("Reciprocal", deviation))
    return tuple(cast(b, new, old.dtype) for new, old in zip(made, op.outputs, strict=False))


def mean_variance_normalization(b: Builder, op: Op) -> Value:
    """`(x - mean) / (sqrt(var) + 1e-9)`."""
    _, centred, variance = _moments(b, operand(op), attribute(op, "axes") or (0, 2, 3))
    return b.op("Div", centred, shifted(b, b.op("Sqrt", variance), 1e-9))


def local_response_normalization(b: Builder, op: Op) -> Value:
    """`x / (bias + alpha / size * sum of squares of size channels) ** beta`."""
    x, size = operand(op), attribute(op, "size")
    square = padded(b, b.op("Mul", x, x), [(size - 1) // 2], [size // 2], first=1)
    parts = window_slices(b, square, (size,), (1,), (1,), first=1)
    mass = scaled(b, b.op("Sum", *parts), attribute(op, "alpha") / size)
    base = shifted(b, mass, attribute(op, "bias"))
    power = number(b, attribute(op, "beta"), x)
    return b.op("Div", x, b.op("Pow", base, power))
