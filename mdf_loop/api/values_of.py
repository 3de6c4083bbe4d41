"""Parameter values in the document, which are the default point for derivatives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mdf_loop.api.prepared import PreparedModel
from mdf_loop.api.specified_run import run_specified
from mdf_loop.errors import InputError
from mdf_loop.lower.syntax import parse_number
from mdf_loop.reading.settings import is_state, written_value
from mdf_loop.specification import RunSpecification, Selection


def values_of(prepared: PreparedModel, names: Sequence[str]) -> dict[str, Any]:
    """Return the values of parameters in the document, by `node.parameter`.

    Raises:
        InputError: The model has no parameter of this name, or the initial value of a state is an expression.
    """
    parameter_values: dict[str, Any] = {}
    computed_names = []
    for name in names:
        model_value = written_value(prepared.document, name)
        if isinstance(model_value, str) and parse_number(model_value) is None:
            computed_names.append(name)
        else:
            parameter_values[name] = (
                parse_number(model_value) if isinstance(model_value, str) else model_value
            )
    return (
        {**parameter_values, **_evaluate_parameters(prepared, computed_names)}
        if computed_names
        else parameter_values
    )


def _evaluate_parameters(prepared: PreparedModel, names: Sequence[str]) -> dict[str, Any]:
    """Return the values of computed parameters, by running the first evaluation.

    Raises:
        InputError: A name is a state, whose initial value is no result of an evaluation.
    """
    for name in names:
        if is_state(prepared.document, name):
            raise InputError(
                f"what '{name}' begins with is an expression",
                prepared.document.where,
                f"say where it is differentiated: set={{'{name}': ...}}",
            )
    spec = RunSpecification(selection=Selection(only=tuple(names)))
    results = run_specified(prepared, spec)
    return {name: np.asarray(results[name]) for name in names}
