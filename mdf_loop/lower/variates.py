"""Distributions of `mdf_loop.variates` in expressions: each formula computes with values."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from mdf_loop.ir import Value
from mdf_loop.lower.builder import ModelBuilder
from mdf_loop.lower.draws import size_of
from mdf_loop.lower.functions import names
from mdf_loop.lower.site import DrawSite
from mdf_loop.lower.terms import as_float, literal
from mdf_loop.ops.symbolic import Symbolic
from mdf_loop.ops.words import cast
from mdf_loop.variates import VARIATES, Variate


def _lowered(variate: Variate) -> Callable[..., Value]:
    """A function of expressions: the formula in float64, and then in the compilation's precision."""

    def draw(b: ModelBuilder, /, *given: Any, **named: Any) -> Value:
        parameters, size = variate.read(*given, **named)
        wide = [None if each is None else _wide(b, each) for each in parameters]
        values = [each.value for each in wide if each is not None]
        shape = size_of(None, *values) if size is None or variate.rows else ()
        shape = shape if size is None else (*size_of(size), *shape)
        made: Value = variate.formula(DrawSite(b), shape, *wide).value
        return cast(b, made, b.float_dtype) if made.dtype == "float64" else made

    builder = inspect.Parameter("builder", inspect.Parameter.POSITIONAL_ONLY)
    parameters = (each.replace(annotation=_kind(each)) for each in variate.parameters)
    draw.__signature__ = inspect.Signature([builder, *parameters])  # type: ignore[attr-defined]
    return draw


def _kind(parameter: inspect.Parameter) -> str:
    """How expressions read it (see `lower.arguments`)."""
    if parameter.name == "size":
        return "Axes"
    return "Value | None" if parameter.default is None else "Value"


def _wide(b: ModelBuilder, parameter: Value | float) -> Symbolic:
    value = parameter if isinstance(parameter, Value) else literal(b, parameter)
    return Symbolic(b, cast(b, as_float(b, value), "float64"))


for _name, _variate in VARIATES.items():
    names(_name)(_lowered(_variate))
