"""MDF functions: those of its registry by their formula, `onnx::` ones by their schema.

Source: modeci_mdf.functions.standard (0.4.15), whose registry is the truth; formulas are lowered
as expressions, so a function registered there by someone else works here too.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Mapping
from typing import Any

from mdf_loop import onnx_ops
from mdf_loop.build import Builder
from mdf_loop.errors import OperandError, UnknownFunctionError, UnsupportedError
from mdf_loop.lower.expression import lower_expression
from mdf_loop.lower.onnx_functions import lower_onnx
from mdf_loop.lower.operators import Term
from mdf_loop.lower.scope import Scope, suggestion
from mdf_loop.lower.syntax import names_in


@functools.cache
def _registry() -> dict[str, dict[str, Any]]:
    """MDF's own table of functions."""
    import modeci_mdf.functions.actr
    import modeci_mdf.functions.ddm  # noqa: F401 - registers its functions
    from modeci_mdf.functions.standard import mdf_functions

    registry: dict[str, dict[str, Any]] = mdf_functions
    return registry


def formula(name: str) -> str:
    """The expression that an MDF function stands for.

    Raises:
        UnsupportedError: the function is Python code of MDF's engine (ACT-R, DDM).
        UnknownFunctionError: MDF has no such function.
    """
    from modeci_mdf.functions.standard import create_python_expression

    entry = _registry().get(name)
    if entry is None:
        known = [*(k for k in _registry() if "::" not in k), "onnx::Loop", "case_of"]
        known += [f"onnx::{op}" for op in onnx_ops.operator_names()]
        raise UnknownFunctionError(f"unknown function '{name}'", hint=_did_you_mean(name, known))
    text: str = entry["expression_string"]
    if text.startswith(("actr.", "ddm.")):
        raise UnsupportedError(
            f"the function '{name}' is Python code of MDF's engine and cannot be compiled",
            hint="run this model with modeci_mdf.execution_engine",
        )
    expression: str = create_python_expression(text)
    return expression


def _did_you_mean(name: str, known: list[str]) -> str:
    hint = suggestion(name, known)
    if hint:
        return hint
    bare = [k for k in known if k.split("::")[-1].lower() == name.lower()]
    return f"did you mean '{bare[0]}'?" if bare else ""


def lower_function(b: Builder, name: str, args: Mapping[str, Any], scope: Scope) -> Term:
    """`name(args)`: arguments in order, later ones see earlier ones, missing ones come from scope."""
    if name.startswith("onnx::"):
        return lower_onnx(b, name.removeprefix("onnx::"), args, scope)
    text = formula(name)
    arguments = _registry()[name]["arguments"]
    _refuse_unread(name, args, (*arguments, *_CARRIED.get(name, ())))
    inner = scope.inner()
    for key, expression in args.items():
        inner.define(key, lower_expression(b, expression, inner))
    variables = Scope()
    for variable in arguments:
        term = inner.find_in_node(variable)
        if term is None:
            raise OperandError(
                f"the function '{name}' needs the argument '{variable}'",
                hint=f"add '{variable}' to the args of the function",
            )
        variables.define(variable, term)
    return lower_expression(b, text, variables)


_CARRIED = {"logistic": ("x_0", "scale")}
"""Arguments that PsyNeuLink writes for its function of that name, and MDF's one does not have."""


def _refuse_unread(name: str, args: Mapping[str, Any], known: Collection[str]) -> None:
    """An argument that neither the function nor another argument reads."""
    read = {word for expression in args.values() for word in names_in(expression)}
    for key in args:
        if key not in known and key not in read:
            raise OperandError(
                f"the function '{name}' has no argument '{key}'", hint=suggestion(key, known)
            )
