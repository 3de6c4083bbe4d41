"""Lowering of the random functions of `numpy.random.` and `random.`.

Each call is a site with its own stream (see `mdf_loop.streams`). Each element takes a fixed number of
random words from the stream, because no distribution uses rejection sampling.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from mdf_loop import distributions, parameter_rules
from mdf_loop.errors import OperandError
from mdf_loop.integer_variates import choose_weighted, integers
from mdf_loop.ir import Array, Value, is_fixed
from mdf_loop.lower.arguments import Axes
from mdf_loop.lower.builder import ModelBuilder
from mdf_loop.lower.functions import register_as
from mdf_loop.lower.site import DrawSite, ExpressionArray, SampleShape, draw_numbers
from mdf_loop.lower.terms import as_float, literal
from mdf_loop.ops.build_helpers import cast
from mdf_loop.ops.symbolic import Symbolic
from mdf_loop.variates import VARIATES, Variate, call_signature, correlated_normals


def check_not_negative(b: ModelBuilder, scale: Value, description: str) -> Value:
    """Check that the scale of a distribution is not negative, and return the scale."""
    checked_scale: Value = parameter_rules.check_not_negative(
        DrawSite(b), Symbolic(b, scale), description
    ).value
    return checked_scale


def draw_floats(b: ModelBuilder, kind: str, shape: SampleShape) -> Value:
    """Draw random numbers at the current call site, and cast them to the compilation's precision."""
    return cast(b, draw_numbers(b, kind, shape), b.float_dtype)


def shape_of_sample(b: ModelBuilder, size: Axes, *parameters: Value) -> SampleShape:
    """Return the shape of a random sample: `size` if given, else the parameters' broadcast shape."""
    if size is not None:
        sample_extents = (size,) if isinstance(size, int) else size
        if min(sample_extents, default=0) < 0:
            raise OperandError(f"a size has no extent below 0: {list(sample_extents)}")
        return sample_extents
    for parameter in parameters:
        b.record_shape_query(parameter)
    parameter_shapes = [value.shape for value in parameters if is_fixed(value.shape)]
    if len(parameter_shapes) < len(parameters):
        raise OperandError(
            "how many numbers are drawn must be known when the model is compiled",
            hint="give the size, e.g. numpy.random.normal(mean, 1.0, 10)",
        )
    return np.broadcast_shapes(*parameter_shapes)


# --- the table of distributions -------------------------------------------------------------------


def _lower_variate(variate: Variate) -> Callable[..., Value]:
    """Return the function that lowers calls of a random distribution."""
    is_float64_arithmetic, is_expression_arithmetic = (
        variate.arithmetic == arithmetic for arithmetic in ("float64", "expression")
    )
    convert = _as_integer if variate.arithmetic == "integer" else as_float

    def draw(b: ModelBuilder, /, *arguments: Any, **keywords: Any) -> Value:
        def operand(parameter: Value | float) -> Symbolic:
            value = parameter if isinstance(parameter, Value) else literal(b, parameter)
            number = convert(b, value)
            if is_expression_arithmetic:
                return ExpressionArray(b, number)
            return Symbolic(b, cast(b, number, "float64") if is_float64_arithmetic else number)

        def shape_of(size: Axes, *parameters: Symbolic) -> SampleShape:
            return shape_of_sample(b, size, *(parameter.value for parameter in parameters))

        shape, *parameters = variate.read(arguments, keywords, operand, shape_of)
        site = DrawSite(b, in_expression=is_expression_arithmetic)
        samples: Value = variate.formula(site, shape, *parameters).value
        has_float64_samples = samples.dtype == "float64" and is_float64_arithmetic
        return cast(b, samples, b.float_dtype) if has_float64_samples else samples

    builder_parameter = inspect.Parameter("builder", inspect.Parameter.POSITIONAL_ONLY)
    parameters = (
        parameter.replace(annotation=_parameter_annotation(parameter))
        for parameter in call_signature(variate).parameters.values()
    )
    draw.__signature__ = inspect.Signature([builder_parameter, *parameters])  # type: ignore[attr-defined]
    return draw


def _parameter_annotation(parameter: inspect.Parameter) -> str:
    """Return the type annotation of a distribution's parameter, for the conversion of arguments.

    See `lower.arguments`.
    """
    if parameter.name == "size":
        return "Axes"
    if parameter.annotation == "int":
        return "int"
    return "Value" if parameter.default is parameter.empty else "Value | None"


def _as_integer(b: ModelBuilder, value: Value) -> Value:
    if np.dtype(value.dtype).kind not in "iu":
        raise OperandError(f"whole numbers are drawn between whole numbers, not {value.type}")
    return cast(b, value, "int64")


for _name, _variate in VARIATES.items():
    register_as(_name)(_lower_variate(_variate))


# --- choices and vectors --------------------------------------------------------------------------


@register_as("numpy.random.choice")
def choice(
    b: ModelBuilder, a: Value, size: Axes = None, replace: bool = True, p: Value | None = None
) -> Value:
    """Return random elements of `a`, or integers from 0 to `a - 1`, with probabilities `p`."""
    if not replace:
        raise OperandError("what was chosen can be chosen again: replace=False is not supported")
    element_count = _choice_count(b, a)
    if p is None:
        element_count_array = Symbolic(b, literal(b, element_count))
        indices: Value = integers(DrawSite(b), shape_of_sample(b, size), element_count_array).value
    else:
        indices = _draw_weighted(b, as_float(b, p), element_count, shape_of_sample(b, size))
    return indices if a.shape == () else b.op("Gather", a, indices, axis=0)


def _choice_count(b: ModelBuilder, a: Value) -> int:
    """Return the number of elements from which `numpy.random.choice` chooses."""
    constant_elements = b.evaluated(a)
    if (
        a.shape == ()
        and constant_elements is not None
        and constant_elements.dtype.kind in "iu"
        and constant_elements > 0
    ):
        return int(constant_elements)
    if a.shape is None or len(a.shape) != 1 or not isinstance(a.shape[0], int) or a.shape[0] < 1:
        raise OperandError(
            f"one of how many is chosen must be known when the model is compiled, not {a.type}",
            hint="give a list of numbers, or how many there are",
        )
    return a.shape[0]


def _draw_weighted(
    b: ModelBuilder, probabilities: Value, element_count: int, shape: SampleShape
) -> Value:
    """Return random indices, drawn with the given probabilities.

    An index is the number of partial sums that are at most a sample.
    """
    if probabilities.shape != (element_count,):
        raise OperandError(
            f"there are {element_count} elements to choose from, but p is {probabilities.type}"
        )
    site = DrawSite(b, in_expression=True)
    indices: Value = choose_weighted(site, shape, Symbolic(b, probabilities), element_count).value
    return indices


@register_as("numpy.random.multivariate_normal")
def multivariate_normal(b: ModelBuilder, mean: Value, cov: Value, size: Axes = None) -> Value:
    """Return normal random vectors along the last axis.

    `mean` and `cov` must be known at compile time.
    """
    means, cholesky_factor = _means_and_cholesky(b, mean, cov)
    shape = () if size is None else shape_of_sample(b, size)
    vectors = correlated_normals(DrawSite(b), shape, means, cholesky_factor).value
    return cast(b, vectors, b.float_dtype)


def _means_and_cholesky(b: ModelBuilder, mean: Value, cov: Value) -> tuple[Array, Array]:
    """Return the means and the Cholesky factor of the covariances of a normal distribution."""
    means, covariances = b.evaluated(mean), b.evaluated(cov)
    if means is None or covariances is None:
        raise OperandError(
            "means and covariances must be known when the model is compiled",
            hint="write them as lists of numbers",
        )
    if means.ndim != 1 or covariances.shape != 2 * means.shape or not 1 <= len(means) <= 32:
        raise OperandError(
            f"there are covariances of 1 to 32 numbers, each with each: {mean.type}, {cov.type}"
        )
    return means.astype(np.float64), distributions.cholesky(covariances.astype(np.float64))
