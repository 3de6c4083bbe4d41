"""Derivatives of neural network operators by decompositions that only derivatives use.

Equal maxima of a window share the derivative equally. The derivative of a norm of zeros is 0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mdf_loop.errors import UnsupportedError
from mdf_loop.ir import Op, Value
from mdf_loop.ops.build_helpers import (
    cast,
    ints,
    mean_of,
    scalar,
    shape_between,
    size_between,
    sum_of,
)
from mdf_loop.ops.decompositions import pooling
from mdf_loop.ops.decompositions.build_helpers import (
    attribute,
    constant_like,
    operand,
    optional_operand,
    rank,
    shift,
)
from mdf_loop.ops.derivatives.rule import DecomposedDerivative, refusing_derivative
from mdf_loop.ops.derivatives.shapes import shape_of
from mdf_loop.ops.registry import Decomposition, qualified_name

if TYPE_CHECKING:
    from mdf_loop.build import Builder

# --- pools ------------------------------------------------------------------------------------


def _decompose_max_pool(b: Builder, op: Op) -> Value:
    if len(op.outputs) > 1:
        raise UnsupportedError(
            f"{qualified_name(op.op_type)} with indices has no derivative here",
            op.where,
            "leave out what reads its indices",
        )
    return pooling.max_pool(b, op)


def _norm_derivative(power_sum: Decomposition) -> DecomposedDerivative:
    """Return the derivative of the p-norm `power_sum ** (1 / p)`, which is 0 at a sum of 0.

    The derivative is 0 at a mass of 0.
    """

    def build_root(b: Builder, op: Op) -> Value:
        power_total, norm_order = power_sum(b, op), attribute(op, "p")
        assert isinstance(power_total, Value)
        if norm_order == 1:
            return power_total
        is_zero = b.op("Equal", power_total, constant_like(b, 0, power_total))
        nonzero_total = b.op("Where", is_zero, constant_like(b, 1, power_total), power_total)
        exponent = () if norm_order == 2 else (constant_like(b, 1 / norm_order, power_total),)
        norm = b.op("Pow" if exponent else "Sqrt", nonzero_total, *exponent)
        return b.op("Where", is_zero, constant_like(b, 0, power_total), norm)

    return DecomposedDerivative(build_root)


MAX_POOL_DERIVATIVE = DecomposedDerivative(_decompose_max_pool)
LP_POOL_DERIVATIVE = _norm_derivative(pooling.lp_power_sum)
GLOBAL_LP_POOL_DERIVATIVE = _norm_derivative(pooling.global_lp_power_sum)


# --- normalizations ---------------------------------------------------------------------------


def _decompose_mean_variance(b: Builder, op: Op) -> Value:
    """Decompose MeanVarianceNormalization into `(x - mean) / (norm(x - mean) / sqrt(n) + 1e-9)`.

    The derivative of the norm is 0 where all elements are equal.
    """
    x = operand(op)
    axes = [
        axis % rank(x, qualified_name(op.op_type)) for axis in attribute(op, "axes") or (0, 2, 3)
    ]
    centred_x = b.op("Sub", x, mean_of(b, x, axes, keepdims=True))
    reduced_extents = b.op("Gather", shape_of(b, x), ints(b, *axes), axis=0)
    element_count = cast(b, b.op("ReduceProd", reduced_extents, keepdims=0), x.dtype)
    norm = b.op("ReduceL2", centred_x, axes=tuple(axes), keepdims=1)
    deviation = b.op("Div", norm, b.op("Sqrt", element_count))
    return b.op("Div", centred_x, shift(b, deviation, 1e-9))


def _decompose_group_normalization(b: Builder, op: Op) -> Value:
    """Decompose GroupNormalization: normalize each group of channels, then apply scale and bias.

    Scale and bias have one element for each channel.
    """
    x, x_shape = operand(op), shape_of(b, operand(op))
    group_count = ints(b, attribute(op, "num_groups"))
    group_size = b.op("Div", size_between(b, x, 1), group_count)
    grouped_x = b.op("Concat", shape_between(b, x, 0, 1), group_count, group_size, axis=0)
    grouped_x = b.op("Reshape", x, grouped_x, allowzero=1)
    centred_x = b.op("Sub", grouped_x, mean_of(b, grouped_x, (2,), keepdims=True))
    variance = mean_of(b, b.op("Mul", centred_x, centred_x), (2,), keepdims=True)
    deviation = b.op("Sqrt", shift(b, variance, attribute(op, "epsilon")))
    normalized_x = b.op("Reshape", b.op("Div", centred_x, deviation), x_shape, allowzero=1)
    unit_extents = (1,) * (rank(x, qualified_name(op.op_type)) - 2)
    gain, bias = (b.op("Reshape", operand(op, k), ints(b, -1, *unit_extents)) for k in (1, 2))
    return b.op("Add", b.op("Mul", normalized_x, gain), bias)


MEAN_VARIANCE_DERIVATIVE = DecomposedDerivative(_decompose_mean_variance)
GROUP_NORMALIZATION_DERIVATIVE = DecomposedDerivative(_decompose_group_normalization)


# --- losses -----------------------------------------------------------------------------------


def _build_loss(b: Builder, op: Op, log_likelihoods: Value) -> Value:
    """Build the negative log-likelihood loss of each target, or the loss's sum or weighted mean.

    The loss is `-weight[target] * likelihood[:, target]`.
    """
    target, class_weights, ignored_target = (
        operand(op, 1),
        optional_operand(op, 2),
        attribute(op, "ignore_index"),
    )
    one, zero = (constant_like(b, k, log_likelihoods) for k in (1, 0))
    is_ignored_target = None
    if ignored_target is not None:
        is_ignored_target = b.op("Equal", target, scalar(b, ignored_target, target.dtype))
        target = b.op("Where", is_ignored_target, scalar(b, 0, target.dtype), target)
    target_weight = one if class_weights is None else b.op("Gather", class_weights, target, axis=0)
    target_log_likelihood = b.op(
        "GatherElements", log_likelihoods, b.op("Unsqueeze", target, ints(b, 1)), axis=1
    )
    loss = b.op(
        "Neg", b.op("Mul", target_weight, b.op("Squeeze", target_log_likelihood, ints(b, 1)))
    )
    target_weight = b.op("Expand", target_weight, shape_of(b, loss))
    if is_ignored_target is not None:
        loss, target_weight = (
            b.op("Where", is_ignored_target, zero, loss_or_weight)
            for loss_or_weight in (loss, target_weight)
        )
    reduction = attribute(op, "reduction")
    if reduction == "none":
        return loss
    total_loss = sum_of(b, loss)
    if reduction == "sum":
        return total_loss
    return b.op("Div", total_loss, sum_of(b, target_weight))


def _decompose_likelihood_loss(b: Builder, op: Op) -> Value:
    return _build_loss(b, op, operand(op))


def _decompose_cross_entropy(b: Builder, op: Op) -> tuple[Value, ...]:
    log_likelihoods = b.op("LogSoftmax", operand(op), axis=1)
    return (_build_loss(b, op, log_likelihoods), log_likelihoods)[: len(op.outputs)]


LIKELIHOOD_LOSS_DERIVATIVE = DecomposedDerivative(_decompose_likelihood_loss)
CROSS_ENTROPY_DERIVATIVE = DecomposedDerivative(_decompose_cross_entropy)


# --- images -----------------------------------------------------------------------------------

GRID_SAMPLE_DERIVATIVE = refusing_derivative(
    "onnx::GridSample", "there is no rule for it yet", "sample by numpy.interp, or by Gather"
)
