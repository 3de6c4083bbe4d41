"""Methods of a compiled model for derivatives: `differentiate`, `gradient`, `jacobian` and `hessian`.

The derivatives hold discrete decisions fixed: iteration counts of loops, selected branches, times of
spikes and random numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from mdf_loop import arguments
from mdf_loop.api.prepared import PreparedModel
from mdf_loop.losses import Loss, checked_names, checked_truncation, parse_losses
from mdf_loop.public_call import public_calls
from mdf_loop.request.run_options import RunOptions
from mdf_loop.specification import specify

if TYPE_CHECKING:
    from mdf_loop.api.differentiated import Differentiated
    from mdf_loop.results.derivatives import Derivatives
    from mdf_loop.results.gradient import Gradient


@public_calls
class Derivable:
    """Compiled model with the methods `differentiate`, `gradient`, `jacobian` and `hessian`."""

    prepared: PreparedModel

    def differentiate(
        self,
        of: Mapping[str, Any],
        wrt: Sequence[str],
        *,
        steps: int | None = None,
        dt: float | str | None = None,
        seed: int | str = 0,
        trials: int | Sequence[int] | None = None,
        truncate: int | None = None,
        stop: Sequence[str] = (),
    ) -> Differentiated:
        """Return a function that computes a scalar objective and its derivatives.

        The derivatives hold discrete decisions fixed: iteration counts of loops, selected branches, times
        of spikes and random numbers.

        Args:
            of: Terms of the scalar by output: `sum`, `mean`, `last` (the sum of the last row),
                `{"sse": data}` (the sum of squared differences from the data),
                `{"weighted": weights}`, or a list of terms. All terms are added. Data may be Quantities,
                as all values; see `run`.
            wrt: Names with respect to which the scalar is differentiated: parameters by
                `node.parameter` (of a state, the initial value), or inputs by port id (over time, each
                row of the input).
            steps: Number of evaluations of the model.
            dt: Time between two evaluations; see `run`.
            seed: Seed of the model's random numbers.
            trials: Number of runs with different random numbers. A `mean` is also the mean over trials.
            truncate: Largest number of steps, or iterations of outermost loops, through which
                derivatives are propagated backward. The values before these steps count as constants.
            stop: Output ports (`node.port`) that count as constants, also of nodes inside of loops.

        Raises:
            InputError: An argument is invalid, or two arguments exclude each other.
        """
        from mdf_loop.api.differentiated import Differentiated
        from mdf_loop.api.differentiation import DifferentiatedNames

        spec = specify(
            RunOptions(steps=steps, dt=self.prepared.time_step(dt), seed=seed, trials=trials)
        )
        loss_terms = parse_losses(self.prepared.model_units.convert_losses(of))
        constant_ports = arguments.names(stop, "stop")
        differentiated_names = DifferentiatedNames(
            self.prepared, _outputs_of(loss_terms), checked_names(wrt), spec, constant_ports
        )
        return Differentiated(loss_terms, differentiated_names, checked_truncation(truncate))

    def gradient(
        self,
        of: Mapping[str, Any],
        wrt: Sequence[str],
        *,
        set: Mapping[str, Any] | None = None,
        inputs: Mapping[str, Any] | None = None,
        sweep: Mapping[str, Any] | None = None,
        steps: int | None = None,
        dt: float | str | None = None,
        seed: int | str = 0,
        trials: int | Sequence[int] | None = None,
        truncate: int | None = None,
        stop: Sequence[str] = (),
        check: bool = False,
        on_interrupt: str | None = None,
    ) -> Gradient:
        """Compute a scalar objective of the model and its derivatives.

        A `UserWarning` names derivatives that are nan or infinite although the scalar is finite.

        Args:
            of: Terms of the scalar, by output.
            wrt: Names with respect to which the scalar is differentiated.
            set: Parameter values by `node.parameter`.
            inputs: Input values by port id.
            sweep: Lists of values for parameters or inputs. Each member has its own derivatives.
            steps: Number of evaluations of the model.
            dt: Time between two evaluations; see `run`.
            seed: Seed of the model's random numbers.
            trials: Number of runs with different random numbers.
            truncate: Largest number of steps, or iterations, of backward propagation.
            stop: Output ports that count as constants.
            check: True compares the derivatives with central differences between runs.
            on_interrupt: Effect of Ctrl-C during the check: `raise`, or `return` the unchecked derivatives.

        Raises:
            GradientError: A derivative differs from the central differences. The message names the element.
            LoopError: A value does not fit, or an operation has no derivative. The message names the place.
            KeyboardInterrupt: Ctrl-C was pressed. `.results` holds the unchecked derivatives, or None.
        """
        gradient_function = self.differentiate(
            of,
            wrt,
            steps=steps,
            dt=dt,
            seed=seed,
            trials=trials,
            truncate=truncate,
            stop=stop,
        )
        return gradient_function.run(
            set, inputs, sweep=sweep, check=check, on_interrupt=on_interrupt
        )

    def jacobian(
        self,
        of: Sequence[str],
        wrt: Sequence[str],
        *,
        set: Mapping[str, Any] | None = None,
        inputs: Mapping[str, Any] | None = None,
        steps: int | None = None,
        dt: float | str | None = None,
        seed: int | str = 0,
    ) -> Derivatives:
        """Compute the Jacobian of outputs, as one array for each pair of output and parameter.

        The block `jacobian["cell.V", "cell.a"]` has the axes of the output (over time with an axis of rows), followed by the axes of the
        parameter. Forward mode is used if the parameters have no more elements than the outputs, else
        reverse mode. A `UserWarning` names derivatives that are nan or infinite although the output is
        finite.

        Args:
            of: Outputs by `node.port`.
            wrt: Names with respect to which the outputs are differentiated; see `differentiate`.
            set: Parameter values by `node.parameter`.
            inputs: Input values by port id.
            steps: Number of evaluations of the model.
            dt: Time between two evaluations; see `run`.
            seed: Seed of the model's random numbers.

        Raises:
            LoopError: A value does not fit, or an operation has no derivative. The message names the place.
        """
        from mdf_loop.api.differentiation import DifferentiatedNames
        from mdf_loop.api.jacobian import jacobian

        spec = specify(RunOptions(steps=steps, dt=self.prepared.time_step(dt), seed=seed))
        differentiated_names = DifferentiatedNames(
            self.prepared, arguments.names(of, "of"), checked_names(wrt), spec
        )
        return jacobian(differentiated_names, differentiated_names.specification(set, inputs))

    def hessian(
        self,
        of: Mapping[str, Any],
        wrt: Sequence[str],
        *,
        set: Mapping[str, Any] | None = None,
        inputs: Mapping[str, Any] | None = None,
        steps: int | None = None,
        dt: float | str | None = None,
        seed: int | str = 0,
    ) -> Derivatives:
        """Compute the second derivatives of a scalar objective of the model.

        The block `hessian["cell.a", "cell.b"]` has the axes of a, followed by the axes of b. A `UserWarning` names second derivatives that are nan or infinite although the scalar is finite.

        Args:
            of: Terms of the scalar, by output; see `differentiate`.
            wrt: Names with respect to which the scalar is differentiated twice.
            set: Parameter values by `node.parameter`.
            inputs: Input values by port id.
            steps: Number of evaluations of the model.
            dt: Time between two evaluations; see `run`.
            seed: Seed of the model's random numbers.

        Raises:
            LoopError: A value does not fit, or an operation has no derivative. The message names the place.
        """
        from mdf_loop.api.differentiation import DifferentiatedNames
        from mdf_loop.api.jacobian import hessian

        loss_terms = parse_losses(self.prepared.model_units.convert_losses(of))
        spec = specify(RunOptions(steps=steps, dt=self.prepared.time_step(dt), seed=seed))
        differentiated_names = DifferentiatedNames(
            self.prepared, _outputs_of(loss_terms), checked_names(wrt), spec
        )
        return hessian(
            differentiated_names, loss_terms, differentiated_names.specification(set, inputs)
        )


def _outputs_of(terms: Sequence[Loss]) -> tuple[str, ...]:
    """Return the output names in the terms of an objective, each name once."""
    return tuple(dict.fromkeys(term.output for term in terms))
