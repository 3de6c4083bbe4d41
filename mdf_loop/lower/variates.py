"""Lowering of the random distributions in `mdf_loop.variates`."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from mdf_loop.ir import Value
from mdf_loop.lower.builder import ModelBuilder
from mdf_loop.lower.draws import shape_of_sample
from mdf_loop.lower.functions import register_as
from mdf_loop.lower.site import DrawSite
from mdf_loop.lower.terms import as_float, literal
from mdf_loop.ops.build_helpers import cast
from mdf_loop.ops.symbolic import Symbolic
from mdf_loop.variates import VARIATES, Variate


def _lower_variate(variate: Variate) -> Callable[..., Value]:
    """Return the function that lowers a random distribution, with samples computed in float64."""

    def draw(b: ModelBuilder, /, *arguments: Any, **keywords: Any) -> Value:
        parameters, size = variate.read(*arguments, **keywords)
        float64_parameters = [
            None if parameter is None else _to_float64(b, parameter) for parameter in parameters
        ]
        parameter_values = [
            parameter.value for parameter in float64_parameters if parameter is not None
        ]
        sample_shape = (
            shape_of_sample(b, None, *parameter_values)
            if size is None or variate.draws_rows
            else ()
        )
        sample_shape = sample_shape if size is None else (*shape_of_sample(b, size), *sample_shape)
        samples: Value = variate.formula(DrawSite(b), sample_shape, *float64_parameters).value
        return cast(b, samples, b.float_dtype) if samples.dtype == "float64" else samples

    builder_parameter = inspect.Parameter("builder", inspect.Parameter.POSITIONAL_ONLY)
    parameters = (
        parameter.replace(annotation=_parameter_annotation(parameter))
        for parameter in variate.parameters
    )
    draw.__signature__ = inspect.Signature([builder_parameter, *parameters])  # type: ignore[attr-defined]
    return draw


def _parameter_annotation(parameter: inspect.Parameter) -> str:
    """Return the type annotation of a distribution's parameter, for the conversion of arguments.

    See `lower.arguments`.
    """
    if parameter.name == "size":
        return "Axes"
    return "Value | None" if parameter.default is None else "Value"


def _to_float64(b: ModelBuilder, parameter: Value | float) -> Symbolic:
    parameter_value = parameter if isinstance(parameter, Value) else literal(b, parameter)
    return Symbolic(b, cast(b, as_float(b, parameter_value), "float64"))


for _name, _variate in VARIATES.items():
    register_as(_name)(_lower_variate(_variate))
