"""Methods of a compiled model for derivatives: `differentiate`, `gradient`, `jacobian` and `hessian`.

The derivative is that of what runs: how often loops run, which branches are taken, when a neuron fires
and which random numbers are drawn is held as it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from mdf_loop import arguments
from mdf_loop.api.prepared import Prepared
from mdf_loop.losses import Loss, losses, truncated, wanted
from mdf_loop.public_call import public_calls
from mdf_loop.specification import specify

if TYPE_CHECKING:
    from mdf_loop.api.differentiated import Differentiated
    from mdf_loop.results.derivatives import Derivatives
    from mdf_loop.results.gradient import Gradient


@public_calls
class Derivable:
    """Model with methods for derivatives."""

    prepared: Prepared

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
        """Return a function that computes a number and its derivatives for any values of the model's parameters.

        The derivative is that of what runs: how often loops run, which branches are taken, when a
        neuron fires and which random numbers are drawn is held as it is.

        Args:
            of: the number: by output `sum`, `mean`, `last` (the sum of its last row), `{"sse": data}`
                (the squares of what lies between it and data) or `{"weighted": weights}`, or a list of
                them; several are added up. Data may be Quantities, as other values; see `run`.
            wrt: by what: parameters by `node.parameter`, of one that keeps a state what it starts from;
                inputs by port id, each row of those that are given over time.
            steps: how often the model is evaluated.
            dt: the time between one evaluation and the next; see `run`.
            seed: which random numbers the model draws.
            trials: how many runs with random numbers of their own; a mean is over all of them, too.
            truncate: go back through so many steps, or iterations of outermost loops, at most: what
                these begin with is taken for a constant, and nothing before them is looked at.
            stop: output ports, `node.port`, that are taken for constants; also of nodes inside of loops.

        Raises:
            InputError: a word means nothing, or does not go together with another one.
        """
        from mdf_loop.api.differentiated import Differentiated
        from mdf_loop.api.differentiation import DifferentiatedNames

        spec = specify(steps=steps, dt=self.prepared.time_step(dt), seed=seed, trials=trials)
        terms = losses(self.prepared.model_units.convert_losses(of))
        stops = arguments.names(stop, "stop")
        named = DifferentiatedNames(self.prepared, _outputs_of(terms), wanted(wrt), spec, stops)
        return Differentiated(terms, named, truncated(truncate))

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
        """Compute a number and its derivatives. See `differentiate` for the arguments.

        A `UserWarning` names derivatives that are nan or infinite although the number is finite.

        Args:
            of: the number.
            wrt: by what.
            set: parameters by `node.parameter`.
            inputs: values by port id.
            sweep: lists of values for parameters or inputs: derivatives for each member.
            steps: how often the model is evaluated.
            dt: the time between one evaluation and the next; see `run`.
            seed: which random numbers the model draws.
            trials: how many runs with random numbers of their own.
            truncate: go back through so many steps, or iterations, at most.
            stop: output ports that are taken for constants.
            check: compare the derivatives with central differences between runs.
            on_interrupt: what Ctrl-C does: `raise`, or `return` derivatives whose check it has ended.

        Raises:
            GradientError: a derivative is not what differences are; the sentence names the element.
            LoopError: a value does not fit, or something has no derivative; the sentence names it.
            KeyboardInterrupt: Ctrl-C came: `.results` are derivatives that were not checked, or None.
        """
        differentiated = self.differentiate(
            of,
            wrt,
            steps=steps,
            dt=dt,
            seed=seed,
            trials=trials,
            truncate=truncate,
            stop=stop,
        )
        return differentiated.run(set, inputs, sweep=sweep, check=check, on_interrupt=on_interrupt)

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
        """Compute derivatives of outputs: `jacobian["cell.V", "cell.a"]`.

        An array has the axes of the output (over time its rows), then those of the parameter. It is
        computed forward if there are no more numbers to differentiate by than numbers that are
        differentiated, else in reverse. A `UserWarning` names derivatives that are nan or infinite
        although the output is finite.

        Args:
            of: outputs by `node.port`.
            wrt: by what; see `differentiate`.
            set: parameters by `node.parameter`.
            inputs: values by port id.
            steps: how often the model is evaluated.
            dt: the time between one evaluation and the next; see `run`.
            seed: which random numbers the model draws.

        Raises:
            LoopError: a value does not fit, or something has no derivative; the sentence names it.
        """
        from mdf_loop.api.differentiation import DifferentiatedNames
        from mdf_loop.api.jacobian import jacobian

        spec = specify(steps=steps, dt=self.prepared.time_step(dt), seed=seed)
        named = DifferentiatedNames(self.prepared, arguments.names(of, "of"), wanted(wrt), spec)
        return jacobian(named, named.specification(set, inputs))

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
        """Compute the second derivatives of a number: `hessian["cell.a", "cell.b"]` has the axes of a, then of b.

        A `UserWarning` names second derivatives that are nan or infinite although the number is finite.

        Args:
            of: the number; see `differentiate`.
            wrt: by what.
            set: parameters by `node.parameter`.
            inputs: values by port id.
            steps: how often the model is evaluated.
            dt: the time between one evaluation and the next; see `run`.
            seed: which random numbers the model draws.

        Raises:
            LoopError: a value does not fit, or something has no derivative; the sentence names it.
        """
        from mdf_loop.api.differentiation import DifferentiatedNames
        from mdf_loop.api.jacobian import hessian

        terms = losses(self.prepared.model_units.convert_losses(of))
        spec = specify(steps=steps, dt=self.prepared.time_step(dt), seed=seed)
        named = DifferentiatedNames(self.prepared, _outputs_of(terms), wanted(wrt), spec)
        return hessian(named, terms, named.specification(set, inputs))


def _outputs_of(terms: Sequence[Loss]) -> tuple[str, ...]:
    """Return the outputs of all terms of a sum, without duplicates."""
    return tuple(dict.fromkeys(term.output for term in terms))
