"""MDF functions: those of its registry by their formula, `onnx::` ones by their schema.

A name that the registry does not have may be one of PsyNeuLink's (see `mdf_loop.lower.psyneulink`).

Source: modeci_mdf.functions.standard (0.4.15), whose registry is the truth; formulas are lowered
as expressions, so a function registered there by someone else works here too.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

from mdf_loop.build import located
from mdf_loop.document.graph_functions import BODIES
from mdf_loop.errors import LoopError, OperandError, UnknownFunctionError, UnsupportedError
from mdf_loop.lower.builder import ModelBuilder
from mdf_loop.lower.decisions import DECISIONS
from mdf_loop.lower.expression import lower_expression
from mdf_loop.lower.onnx_draws import DRAWN
from mdf_loop.lower.onnx_functions import lower_onnx
from mdf_loop.lower.operators import Term
from mdf_loop.lower.psyneulink import UNREAD, Formula, is_foreign, known_formula, origin_hint
from mdf_loop.lower.scope import Scope
from mdf_loop.lower.syntax import names_in
from mdf_loop.ops import onnx_schema
from mdf_loop.ops.registry import own_names, title
from mdf_loop.suggestion import suggestion


@functools.cache
def _registry() -> dict[str, dict[str, Any]]:
    """MDF's own table of functions."""
    import modeci_mdf.functions.actr
    import modeci_mdf.functions.ddm  # noqa: F401 - registers its functions
    from modeci_mdf.functions.standard import mdf_functions

    registry: dict[str, dict[str, Any]] = mdf_functions
    return registry


def _formula(name: str, metadata: Mapping[str, Any]) -> Formula:
    """What a function stands for.

    Raises:
        UnsupportedError: the function is Python code of MDF's engine (ACT-R, DDM).
        UnknownFunctionError: neither MDF nor PsyNeuLink has a formula for it.
    """
    from modeci_mdf.functions.standard import create_python_expression

    entry = _registry().get(name)
    if entry is None:
        foreign = known_formula(name, metadata)
        if foreign is not None:
            return foreign
        known = [*(k for k in _registry() if "::" not in k), *BODIES]
        known += [title(op) for op in (*onnx_schema.operator_names(), *own_names())]
        hint = origin_hint(name, metadata) or _did_you_mean(name, known)
        raise UnknownFunctionError(f"unknown function '{name}'", hint=hint)
    text: str = entry["expression_string"]
    if text.startswith(("actr.", "ddm.")):
        raise UnsupportedError(
            f"the function '{name}' is Python code of MDF's engine and cannot be compiled",
            hint="run this model with modeci_mdf.execution_engine",
        )
    return Formula(name, tuple(entry["arguments"]), create_python_expression(text))


def _did_you_mean(name: str, known: list[str]) -> str:
    hint = suggestion(name, known)
    if hint:
        return hint
    bare = [k for k in known if k.split("::")[-1].lower() == name.lower()]
    return f"did you mean '{bare[0]}'?" if bare else ""


def lower_function(
    b: ModelBuilder,
    name: str,
    args: Mapping[str, Any],
    scope: Scope,
    metadata: Mapping[str, Any] | None = None,
) -> Term:
    """`name(args)`: arguments in order, later ones see earlier ones, missing ones come from scope.

    The metadata of a function holds the options of those that are PsyNeuLink's.
    """
    op_type = name.rpartition("::")[2]
    if name == title(op_type) and (op_type in own_names() or "onnx::" in name):
        if is_foreign(metadata or {}) and op_type in DRAWN:
            args = {key: value for key, value in args.items() if key != UNREAD}
        return lower_onnx(b, op_type, args, scope)
    if name in DECISIONS:
        return _decision(b, name, args, scope)
    formula = _formula(name, metadata or {})
    unread = _unread(args, (*formula.arguments, *_CARRIED.get(name, ())))
    if unread and is_foreign(metadata or {}):
        b.note(
            f"PsyNeuLink wrote arguments that the function '{name}' does not have, and that nothing "
            f"reads: {', '.join(unread)}",
            b.where,
        )
    elif unread:
        raise OperandError(
            f"the function '{name}' has no argument '{unread[0]}'",
            hint=suggestion(unread[0], formula.arguments),
        )
    variables = Scope()
    with with_arguments(b, args, scope) as inner:
        for variable in formula.arguments:
            term = inner.find_in_node(variable)
            if term is None:
                raise OperandError(
                    f"the function '{name}' needs the argument '{variable}'",
                    hint=f"add '{variable}' to the args of the function",
                )
            variables.define(variable, term)
    for part, text in formula.parts.items():
        variables.define(part, lower_expression(b, text, variables, part))
    return lower_expression(b, formula.text, variables)


def _decision(b: ModelBuilder, name: str, args: Mapping[str, Any], scope: Scope) -> Term:
    """A function that is a loop of its own."""
    arguments, decide = DECISIONS[name]
    unread = _unread(args, tuple(arguments))
    if unread:
        raise OperandError(
            f"the function '{name}' has no argument '{unread[0]}'",
            hint=suggestion(unread[0], arguments),
        )
    with with_arguments(b, args, scope) as inner:
        found = {key: inner.find_in_node(key) for key in arguments}
        return decide(b, {key: term for key, term in found.items() if term is not None})


_CARRIED = {"logistic": ("x_0", "scale")}
"""Arguments that PsyNeuLink writes for its function of that name, and MDF's one does not have."""


def _unread(args: Mapping[str, Any], known: Collection[str]) -> list[str]:
    """The arguments that neither the function nor another argument reads."""
    read = {word for expression in args.values() for word in names_in(expression)}
    return [key for key in args if key not in known and key not in read]


def function_draws(name: str | None) -> bool:
    """Whether a function draws random numbers by itself."""
    return name in DECISIONS or (name or "").removeprefix("onnx::") in DRAWN


@contextmanager
def with_arguments(b: ModelBuilder, args: Mapping[str, Any], scope: Scope) -> Iterator[Scope]:
    """The scope of a function's formula: arguments in order, later ones see earlier ones.

    What is wrong with an argument is an error where it is read; of one that nothing reads it is
    noted.
    """
    inner = scope.inner()
    broken: dict[str, LoopError] = {}
    for key, expression in args.items():
        try:
            inner.define(key, lower_expression(b, expression, inner, key))
        except LoopError as error:
            broken[key] = located(error, b.where)
            inner.define(key, partial(_read_broken, broken, key))
    yield inner
    for key, unread in broken.items():
        for finding in unread.findings:
            what = f"nothing reads the argument '{key}', which has no value: {finding.what}"
            b.note(what, finding.where)


def _read_broken(broken: Mapping[str, LoopError], key: str) -> Term:
    raise broken[key]
