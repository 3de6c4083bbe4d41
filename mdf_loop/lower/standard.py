"""Lowering of MDF functions by their formulas, or by the schemas of ONNX operators.

A name that the registry lacks may be a function of PsyNeuLink (see `mdf_loop.lower.psyneulink`).

Source: the registry in modeci_mdf.functions.standard (0.4.15). Its formulas are lowered as expressions, so
functions that other packages register there are supported, too.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

from mdf_loop.build import add_place
from mdf_loop.document.graph_functions import GRAPH_ARGUMENTS
from mdf_loop.errors import LoopError, OperandError, UnknownFunctionError, UnsupportedError
from mdf_loop.lower.builder import ModelBuilder
from mdf_loop.lower.drift_diffusion import DECISION_FUNCTIONS
from mdf_loop.lower.expression import lower_expression
from mdf_loop.lower.onnx_draws import RANDOM_OPERATORS
from mdf_loop.lower.onnx_functions import lower_onnx
from mdf_loop.lower.operators import Term
from mdf_loop.lower.psyneulink import (
    UNREAD_ARGUMENT,
    Formula,
    is_from_psyneulink,
    known_formula,
    origin_hint,
)
from mdf_loop.lower.scope import Scope
from mdf_loop.lower.syntax import names_in
from mdf_loop.name_suggestions import suggest
from mdf_loop.ops import onnx_schema
from mdf_loop.ops.registry import domain_operation_names, qualified_name


@functools.cache
def _mdf_registry() -> dict[str, dict[str, Any]]:
    """Return MDF's table of its standard functions."""
    import modeci_mdf.functions.actr
    import modeci_mdf.functions.ddm  # noqa: F401 - registers its functions
    from modeci_mdf.functions.standard import mdf_functions

    registry: dict[str, dict[str, Any]] = mdf_functions
    return registry


def _find_formula(name: str, metadata: Mapping[str, Any]) -> Formula:
    """Return the formula of a standard function of MDF or of PsyNeuLink.

    Raises:
        UnsupportedError: The function is Python code of MDF's engine (ACT-R, DDM).
        UnknownFunctionError: Neither MDF nor PsyNeuLink has a formula for the function.
    """
    from modeci_mdf.functions.standard import create_python_expression

    registry_entry = _mdf_registry().get(name)
    if registry_entry is None:
        psyneulink_formula = known_formula(name, metadata)
        if psyneulink_formula is not None:
            return psyneulink_formula
        known_names = [
            *(function_name for function_name in _mdf_registry() if "::" not in function_name),
            *GRAPH_ARGUMENTS,
        ]
        known_names += [
            qualified_name(op_type)
            for op_type in (*onnx_schema.operator_names(), *domain_operation_names())
        ]
        hint = origin_hint(name, metadata) or _suggest_function(name, known_names)
        raise UnknownFunctionError(f"unknown function '{name}'", hint=hint)
    expression: str = registry_entry["expression_string"]
    if expression.startswith(("actr.", "ddm.")):
        raise UnsupportedError(
            f"the function '{name}' is Python code of MDF's engine and cannot be compiled",
            hint="run this model with modeci_mdf.execution_engine",
        )
    return Formula(name, tuple(registry_entry["arguments"]), create_python_expression(expression))


def _suggest_function(name: str, known_names: list[str]) -> str:
    hint = suggest(name, known_names)
    if hint:
        return hint
    names_without_domain = [
        known_name
        for known_name in known_names
        if known_name.split("::")[-1].lower() == name.lower()
    ]
    return f"did you mean '{names_without_domain[0]}'?" if names_without_domain else ""


def lower_function(
    b: ModelBuilder,
    name: str,
    args: Mapping[str, Any],
    scope: Scope,
    metadata: Mapping[str, Any] | None = None,
) -> Term:
    """Lower a call `name(args)` of a standard function of MDF, ONNX or PsyNeuLink.

    Arguments can read earlier arguments. Omitted arguments are names of the scope.

    The metadata contain the options of PsyNeuLink functions.
    """
    op_type = name.rpartition("::")[2]
    if name == qualified_name(op_type) and (
        op_type in domain_operation_names() or "onnx::" in name
    ):
        if is_from_psyneulink(metadata or {}) and op_type in RANDOM_OPERATORS:
            args = {
                argument_name: expression
                for argument_name, expression in args.items()
                if argument_name != UNREAD_ARGUMENT
            }
        return lower_onnx(b, op_type, args, scope)
    if name in DECISION_FUNCTIONS:
        return _lower_decision(b, name, args, scope)
    formula = _find_formula(name, metadata or {})
    unused_arguments = _unused_arguments(
        args, (*formula.arguments, *_PSYNEULINK_ARGUMENTS.get(name, ()))
    )
    if unused_arguments and is_from_psyneulink(metadata or {}):
        b.note(
            f"PsyNeuLink wrote arguments that the function '{name}' does not have, and that nothing "
            f"reads: {', '.join(unused_arguments)}",
            b.where,
        )
    elif unused_arguments:
        raise OperandError(
            f"the function '{name}' has no argument '{unused_arguments[0]}'",
            hint=suggest(unused_arguments[0], formula.arguments),
        )
    formula_scope = Scope()
    with with_arguments(b, args, scope) as inner_scope:
        for argument_name in formula.arguments:
            term = inner_scope.find_in_node(argument_name)
            if term is None:
                raise OperandError(
                    f"the function '{name}' needs the argument '{argument_name}'",
                    hint=f"add '{argument_name}' to the args of the function",
                )
            formula_scope.define(argument_name, term)
    for expression_name, expression in formula.subexpressions.items():
        formula_scope.define(
            expression_name, lower_expression(b, expression, formula_scope, expression_name)
        )
    return lower_expression(b, formula.expression, formula_scope)


def _lower_decision(b: ModelBuilder, name: str, args: Mapping[str, Any], scope: Scope) -> Term:
    """Build the loop of an MDF function that simulates a decision, such as drift diffusion."""
    argument_defaults, lower_decision = DECISION_FUNCTIONS[name]
    unused_arguments = _unused_arguments(args, tuple(argument_defaults))
    if unused_arguments:
        raise OperandError(
            f"the function '{name}' has no argument '{unused_arguments[0]}'",
            hint=suggest(unused_arguments[0], argument_defaults),
        )
    with with_arguments(b, args, scope) as inner_scope:
        argument_terms = {
            argument_name: inner_scope.find_in_node(argument_name)
            for argument_name in argument_defaults
        }
        return lower_decision(
            b,
            {
                argument_name: term
                for argument_name, term in argument_terms.items()
                if term is not None
            },
        )


_PSYNEULINK_ARGUMENTS = {"logistic": ("x_0", "scale")}
"""Arguments that a PsyNeuLink function has in addition to the MDF function of the same name."""


def _unused_arguments(args: Mapping[str, Any], known_arguments: Collection[str]) -> list[str]:
    """Return the arguments that neither an MDF function nor another argument reads."""
    read_names = {name for expression in args.values() for name in names_in(expression)}
    return [
        argument_name
        for argument_name in args
        if argument_name not in known_arguments and argument_name not in read_names
    ]


def function_draws(name: str | None) -> bool:
    """Return True if an MDF function itself draws random numbers."""
    return name in DECISION_FUNCTIONS or (name or "").removeprefix("onnx::") in RANDOM_OPERATORS


@contextmanager
def with_arguments(b: ModelBuilder, args: Mapping[str, Any], scope: Scope) -> Iterator[Scope]:
    """Yield a scope that defines a function's arguments, each of which may read earlier ones.

    An error in an argument is raised where the argument is read. The error in an unused argument becomes a
    note.
    """
    inner_scope = scope.inner()
    errors_by_argument: dict[str, LoopError] = {}
    for argument_name, expression in args.items():
        try:
            inner_scope.define(
                argument_name, lower_expression(b, expression, inner_scope, argument_name)
            )
        except LoopError as error:
            errors_by_argument[argument_name] = add_place(error, b.where)
            inner_scope.define(
                argument_name, partial(_raise_argument_error, errors_by_argument, argument_name)
            )
    yield inner_scope
    for argument_name, argument_error in errors_by_argument.items():
        for finding in argument_error.findings:
            remark = (
                f"nothing reads the argument '{argument_name}', which has no value: {finding.what}"
            )
            b.note(remark, finding.where)


def _raise_argument_error(errors_by_argument: Mapping[str, LoopError], argument_name: str) -> Term:
    raise errors_by_argument[argument_name]
