"""Method `fit` of compiled models."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from mdf_loop.api.derivable import Derivable
from mdf_loop.interruption import interruptible
from mdf_loop.public_call import public_calls

if TYPE_CHECKING:
    from mdf_loop.fitting.watch import FitProgress
    from mdf_loop.results.fit import Fit, Fits


@public_calls
class Fittable(Derivable):
    """Model that can be fitted to data."""

    def fit(
        self,
        data: Any,
        free: Mapping[str, Any],
        against: str | Sequence[str] | Mapping[str, str] | None = None,
        *,
        steps: int | None = None,
        dt: float | str | None = None,
        set: Mapping[str, Any] | None = None,
        inputs: Mapping[str, Any] | None = None,
        likelihood: Mapping[str, str] | None = None,
        trials: int | None = None,
        objective: Callable[[Mapping[str, Any]], float] | Mapping[str, Any] | None = None,
        shared: Sequence[str] = (),
        start: Mapping[str, Any] | None = None,
        method: str | None = None,
        points: int = 256,
        polish: int = 4,
        seed: int = 0,
        progress: bool | Callable[[FitProgress], object] | None = None,
        time_limit: float | str | None = None,
        cluster: Any = None,
        on_interrupt: str | None = None,
    ) -> Fit | Fits:
        """Estimate parameters from data.

        Data are a csv or npz file, a DataFrame of pandas, or arrays by name: a column `time` (or
        `step`), and one for each output, `cell.V`, or `V` where no other port is called so. Rows
        belong to the nearest step; nan is skipped; rows of a `trial` are repeats. A column `weight`
        says how much a row counts, `sd` how exact it is. Columns, bounds and other values may be
        Quantities of pint: they are converted to the units of the model.

        A `UserWarning` names parameters by which derivatives were nan or infinite in the search although
        the outputs are finite.

        Args:
            data: what was observed; by the name of a subject for a fit of each; None with an objective.
            free: parameters by `node.parameter`, or inputs by port id, with the least and the largest
                value; of one that keeps a state it is what it starts from.
            against: outputs that data are of: a name, a list, or the column of each output; without
                it all columns that are called as outputs are.
            steps: how often the model is evaluated; by default as long as there are data.
            dt: the time between one evaluation and the next (see `run`); without it times are steps.
            set: values of other parameters.
            inputs: values by port id.
            likelihood: reaction times instead of curves: `{"rt": output}`, or with choices `{"rt":
                output, "choice": output}`: what the columns are called, and the outputs they are of, which
                choices are coded as.
            trials: how many runs with random numbers of their own tell a likelihood.
            objective: another number that shall be least: a function of the outputs of one run, by
                name, or the words of `differentiate`, `{"cell.V": "mean"}`.
            shared: free parameters that have one value for all subjects (or conditions).
            start: values from which to search, instead of many points within the bounds.
            method: `least_squares`, `gradient` (of an objective in words), or `differential_evolution`.
            points: how many points of a Sobol sequence are tried first.
            polish: how many of the best of them are improved.
            seed: of the search, and of the random numbers that the model draws.
            progress: None for a line on stderr if that is a terminal, True for one always, False for
                none; or a function that is called with a `FitProgress`, and may return False to end.
            time_limit: the fit, of all subjects, is ended after so many seconds, with the best that
                was found.
            cluster: who computes (see `run`): subjects are shared out; of one fit, or one of
                subjects that share parameters, the points of each generation.
            on_interrupt: what Ctrl-C does: `raise` or `return` the best that was found; see `run`.

        Raises:
            InputError: a name, a bound or a row of the data does not fit; the sentence names it.
            LoopError: the model fails wherever it is run.
            KeyboardInterrupt: Ctrl-C came: `.results` are the best that was found, or None.
        """
        from mdf_loop.api.data_units import convert_data
        from mdf_loop.api.fits import fit, progress_of
        from mdf_loop.api.fitting_to_data import FitRequest
        from mdf_loop.api.nonfinite_derivatives import warn_of_fits
        from mdf_loop.results.fit import Fit

        units = self.prepared.model_units
        request = FitRequest.of(
            convert_data(self.prepared, data, against, likelihood, has_dt=dt is not None),
            units.convert_bounds(free),
            against,
            steps=steps,
            dt=units.convert_time_step(dt),
            set=units.convert_settings(set),
            inputs=units.convert_inputs(inputs),
            likelihood=likelihood,
            trials=trials,
            objective=units.convert_losses(objective),
            shared=shared,
            start=units.convert_start(start),
            method=method,
            points=points,
            polish=polish,
            seed=seed,
            progress=progress,
            time_limit=time_limit,
            cluster=cluster,
        )
        result = interruptible(lambda: fit(self, request), on_interrupt, progress_of)
        warn_of_fits([result] if isinstance(result, Fit) else result.values())
        return result
