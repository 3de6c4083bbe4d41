"""Computation of gradients, Jacobians and Hessians of a compiled model.

The derivatives hold discrete decisions fixed: iteration counts of loops, selected branches, times of
spikes and random numbers.
"""

from __future__ import annotations

from collections.abc import Sequence

from mdf_loop import arguments
from mdf_loop.api import jacobian as second_order
from mdf_loop.api.differentiated import Differentiated
from mdf_loop.api.differentiation import DifferentiatedNames
from mdf_loop.api.prepared import PreparedModel
from mdf_loop.losses import Loss, checked_names, checked_truncation, parse_losses
from mdf_loop.request.derivative_options import (
    DifferentiationOptions,
    GradientOptions,
    HessianOptions,
    JacobianOptions,
)
from mdf_loop.request.run_options import RunOptions
from mdf_loop.results.derivatives import Derivatives
from mdf_loop.results.gradient import Gradient
from mdf_loop.specification import specify


def differentiate(prepared: PreparedModel, options: DifferentiationOptions) -> Differentiated:
    """Return a function that computes a scalar objective and its derivatives.

    Raises:
        InputError: An argument is invalid, or two arguments exclude each other.
    """
    spec = specify(
        RunOptions(
            steps=options.steps,
            dt=prepared.time_step(options.dt),
            seed=options.seed,
            trials=options.trials,
        )
    )
    loss_terms = parse_losses(prepared.model_units.convert_losses(options.of))
    differentiated_names = DifferentiatedNames(
        prepared,
        _outputs_of(loss_terms),
        checked_names(options.wrt),
        spec,
        arguments.names(options.stop, "stop"),
    )
    return Differentiated(loss_terms, differentiated_names, checked_truncation(options.truncate))


def gradient(prepared: PreparedModel, options: GradientOptions) -> Gradient:
    """Compute a scalar objective of the model and its derivatives.

    Raises:
        GradientError: A derivative differs from the central differences.
        LoopError: A value does not fit, or an operation has no derivative.
    """
    return differentiate(prepared, options).run(
        options.set,
        options.inputs,
        sweep=options.sweep,
        check=options.check,
        on_interrupt=options.on_interrupt,
    )


def jacobian(prepared: PreparedModel, options: JacobianOptions) -> Derivatives:
    """Compute the Jacobian of outputs, as one array for each pair of output and parameter.

    Raises:
        LoopError: A value does not fit, or an operation has no derivative.
    """
    names = _differentiated_names(prepared, arguments.names(options.of, "of"), options)
    return second_order.jacobian(names, names.specification(options.set, options.inputs))


def hessian(prepared: PreparedModel, options: HessianOptions) -> Derivatives:
    """Compute the second derivatives of a scalar objective of the model.

    Raises:
        LoopError: A value does not fit, or an operation has no derivative.
    """
    loss_terms = parse_losses(prepared.model_units.convert_losses(options.of))
    names = _differentiated_names(prepared, _outputs_of(loss_terms), options)
    spec = names.specification(options.set, options.inputs)
    return second_order.hessian(names, loss_terms, spec)


def _differentiated_names(
    prepared: PreparedModel,
    output_names: tuple[str, ...],
    options: JacobianOptions | HessianOptions,
) -> DifferentiatedNames:
    """Return the outputs and the names with respect to which they are differentiated."""
    dt = prepared.time_step(options.dt)
    spec = specify(RunOptions(steps=options.steps, dt=dt, seed=options.seed))
    return DifferentiatedNames(prepared, output_names, checked_names(options.wrt), spec)


def _outputs_of(terms: Sequence[Loss]) -> tuple[str, ...]:
    """Return the output names in the terms of an objective, each name once."""
    return tuple(dict.fromkeys(term.output for term in terms))
