"""Lowering of ONNX operators that draw random numbers.

The attribute `seed` is part of the site's name, so that another seed gives other numbers. Two sites with
the same seed still draw different numbers, because exporters write the seed -1 at all operators.

Source: ONNX operators, Bernoulli-15, Dropout-13, Multinomial-7, RandomNormal-1, RandomUniform-1.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

from mdf_loop.errors import OperandError
from mdf_loop.integer_variates import choose_index
from mdf_loop.ir import Value
from mdf_loop.ir.types import dtype_of
from mdf_loop.lower.builder import ModelBuilder
from mdf_loop.lower.draws import shape_of_sample
from mdf_loop.lower.guards import check_value
from mdf_loop.lower.site import DrawSite, draw_numbers
from mdf_loop.ops.build_helpers import cast, scalar
from mdf_loop.ops.symbolic import Symbolic
from mdf_loop.variates import ONNX_FORMULAS, bernoulli

Attributes = Mapping[str, Any]


def onnx_draw(
    b: ModelBuilder, op_type: str, inputs: Sequence[Value | None], attributes: Attributes
) -> tuple[Value, ...]:
    """Lower an ONNX operator that draws random numbers, and return its results."""
    operands = [value for value in inputs if value is not None]
    if not operands and "shape" not in attributes:
        raise OperandError(f"onnx::{op_type} needs the argument 'shape'")
    with _seed_part(b, attributes):
        return RANDOM_OPERATORS[op_type](b, operands, attributes)


def _lower_formula(
    formula: Callable[..., Any],
) -> Callable[[ModelBuilder, Sequence[Value], Attributes], tuple[Value, ...]]:
    """Return the lowering of an operator whose attributes are the parameters of a formula."""
    defaults = {
        name: parameter.default
        for name, parameter in inspect.signature(formula).parameters.items()
        if parameter.default is not parameter.empty
    }

    def lower(
        b: ModelBuilder, inputs: Sequence[Value], attributes: Attributes
    ) -> tuple[Value, ...]:
        sample_shape = (
            shape_of_sample(b, None, *inputs) if inputs else tuple(map(int, attributes["shape"]))
        )
        parameters = (
            Symbolic(b, scalar(b, float(attributes.get(name, default)), "float64"))
            for name, default in defaults.items()
        )
        numbers: Value = formula(DrawSite(b), sample_shape, *parameters).value
        default_dtype = inputs[0].dtype if inputs else "float32"
        return (cast(b, numbers, _dtype_attribute(attributes, default_dtype)),)

    return lower


def _draw_bernoulli(
    b: ModelBuilder, inputs: Sequence[Value], attributes: Attributes
) -> tuple[Value, ...]:
    """Draw 1 or 0 for each element of the input, with the element as probability of 1."""
    (success_probability,) = inputs
    sample_shape = shape_of_sample(b, None, success_probability)
    probability = Symbolic(b, cast(b, success_probability, "float64"))
    is_success: Value = bernoulli(DrawSite(b), sample_shape, probability).value
    return (cast(b, is_success, _dtype_attribute(attributes, success_probability.dtype)),)


def _draw_multinomial(
    b: ModelBuilder, inputs: Sequence[Value], attributes: Attributes
) -> tuple[Value, ...]:
    """Draw `sample_size` class indices for each row of unnormalized log probabilities."""
    (logits,) = inputs
    logits_shape = shape_of_sample(b, None, logits)
    if len(logits_shape) != 2:
        raise OperandError(
            f"onnx::Multinomial needs logits of two axes, rows and classes, not {logits.type}"
        )
    row_count, class_count = logits_shape
    class_probabilities = Symbolic(b, b.op("Softmax", cast(b, logits, "float64"), axis=1))
    error_message = "the logits of onnx::Multinomial must not be nan, and no row only -inf"
    site = DrawSite(b)
    class_weights = site.ensured(class_probabilities, class_probabilities >= 0.0, error_message)
    uniform_samples = site.numbers("Uniform", (row_count, int(attributes.get("sample_size", 1))))
    indices: Value = choose_index(class_weights, uniform_samples, class_count).value
    return (cast(b, indices, _dtype_attribute(attributes, "int32")),)


def drop_elements(
    b: ModelBuilder,
    data: Value,
    ratio: Value | None,
    attributes: Attributes,
    training: Value | None = None,
) -> tuple[Value, Value]:
    """Apply dropout to an array, and return the scaled data and the mask of kept elements.

    A `ratio` outside of [0, 1) is an error if `training` is true or None.
    """
    with _seed_part(b, attributes):
        uniform_samples = draw_numbers(b, "Uniform", shape_of_sample(b, None, data))
    drop_rate = scalar(b, 0.5, "float64") if ratio is None else cast(b, ratio, "float64")
    zero, one = (scalar(b, number, "float64") for number in (0.0, 1.0))
    is_valid_rate = b.op(
        "And", b.op("GreaterOrEqual", drop_rate, zero), b.op("Less", drop_rate, one)
    )
    if training is not None:
        is_valid_rate = b.op("Or", is_valid_rate, b.op("Not", training))
    error_message = "the ratio of onnx::Dropout must be from 0 to below 1"
    drop_rate = check_value(b, drop_rate, is_valid_rate, OperandError(error_message))
    kept_mask = b.op("GreaterOrEqual", uniform_samples, drop_rate)
    kept_fraction = cast(b, b.op("Sub", scalar(b, 1.0, "float64"), drop_rate), data.dtype)
    return b.op(
        "Where", kept_mask, b.op("Div", data, kept_fraction), scalar(b, 0.0, data.dtype)
    ), kept_mask


def _seed_part(b: ModelBuilder, attributes: Attributes) -> AbstractContextManager[None]:
    """Return a context manager that adds an operator's seed to the name of its random stream."""
    seed = attributes.get("seed")
    return b.part("" if seed is None else f"seed {seed}")


def _dtype_attribute(attributes: Attributes, default: str) -> str:
    dtype_number = attributes.get("dtype")
    return default if dtype_number is None else dtype_of(int(dtype_number))


RANDOM_OPERATORS: Mapping[
    str, Callable[[ModelBuilder, Sequence[Value], Attributes], tuple[Value, ...]]
] = {
    "Bernoulli": _draw_bernoulli,
    "Multinomial": _draw_multinomial,
    **{name: _lower_formula(formula) for name, formula in ONNX_FORMULAS.items()},
    **{f"{name}Like": _lower_formula(formula) for name, formula in ONNX_FORMULAS.items()},
}
"""Operators that always draw random numbers. Dropout draws only in training (see `lower.dropout`)."""
