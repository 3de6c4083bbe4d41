"""Checks that a model's outputs suit a least-squares fit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mdf_loop.api.differentiation import DifferentiatedNames
from mdf_loop.api.members import with_member
from mdf_loop.errors import InputError
from mdf_loop.ir import Program
from mdf_loop.passes.dependence import dependent_outputs, piecewise_constant_outputs
from mdf_loop.reading.draws import KEYS_INPUT
from mdf_loop.specification import Values
from mdf_loop.user_warnings import warn_user


def read_program(
    differentiated_names: DifferentiatedNames, values: Values, free: Mapping[str, Any]
) -> Program:
    """Return the program of a run with the free parameters of a fit as inputs."""
    values_of_member = with_member(differentiated_names.prepared.document, values, free)
    spec = differentiated_names.specification(values_of_member.set, values_of_member.inputs)
    return differentiated_names.program(spec, differentiated_names.prepared.bind(spec))


def refuse_draws(program: Program) -> None:
    """Raise an error for a least-squares fit of outputs that depend on random numbers.

    Raises:
        InputError: An output depends on random numbers.
    """
    random_outputs = sorted(dependent_outputs(program, [KEYS_INPUT]))
    if random_outputs:
        raise InputError(
            f"'{random_outputs[0]}' is drawn with random numbers: the squares between one draw and the data tell "
            "little of the parameters",
            hint="give likelihood={'rt': ..., 'choice': ...} with trials, or an objective= of many trials; "
            'method="least_squares" fits one draw all the same',
        )


def warn_of_steps(differentiated_names: DifferentiatedNames, program: Program) -> None:
    """Warn if outputs are piecewise constant in the free parameters of a fit."""
    jumping_output_names = sorted(
        piecewise_constant_outputs(program, differentiated_names.inputs.values())
    )
    if jumping_output_names:
        quoted_names = ", ".join(f"'{name}'" for name in jumping_output_names)
        warn_user(
            f"{quoted_names} jumps: free parameters change it only through comparisons, whole numbers or "
            'iteration counts, where derivatives are 0.0; use method="differential_evolution"'
        )
