"""Method `fit` of compiled models, which estimates parameters from data."""

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
    """Compiled model whose parameters can be fitted to data."""

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
        """Estimate free parameters from data.

        Data are a csv or npz file, a pandas DataFrame, or arrays by name. They have a column `time` (or
        `step`), and a column for each output: `cell.V`, or `V` if no other port has this name. Each row
        belongs to the nearest step, and nan values are skipped. A column `trial` numbers repeated
        measurements. A column `weight` has the weight of each row, a column `sd` its standard
        deviation. Columns, bounds and other values may be pint Quantities, which are converted to the
        units of the model.

        A `UserWarning` names parameters whose derivatives were nan or infinite in the search although the
        outputs were finite.

        Args:
            data: Observed data, or a mapping from subjects to data for one fit of each subject. None with
                an objective.
            free: Bounds of the free parameters by `node.parameter`, or of inputs by port id: the least and
                the largest value. For a state, bounds of its initial value.
            against: Outputs to which the data are compared: a name, a list of names, or the column of
                each output. By default all columns with the name of an output.
            steps: Number of evaluations of the model. By default the run is as long as the data.
            dt: Time between two evaluations (see `run`). Without `dt` times are step numbers.
            set: Values of other parameters by `node.parameter`.
            inputs: Input values by port id.
            likelihood: Outputs of a fit to reaction times, in place of curves: `{"rt": output}`, or with
                choices `{"rt": output, "choice": output}`. The data have the columns `rt` and `choice`.
                Choices in the data have the same codes as in the output.
            trials: Number of runs with different random numbers that estimate a likelihood.
            objective: Other objective to minimize: a function that receives the outputs of one run by
                name, or the terms of `differentiate`, such as `{"cell.V": "mean"}`.
            shared: Free parameters that have one value for all subjects (or conditions).
            start: Initial values of the search, in place of many points within the bounds.
            method: `least_squares`, `gradient` (for an objective given as terms), or
                `differential_evolution`.
            points: Number of points of a Sobol sequence that are evaluated first.
            polish: Number of the best points from which local searches start.
            seed: Seed of the search and of the model's random numbers.
            progress: None shows a progress line on stderr if stderr is a terminal, True always, False
                never. A function receives a `FitProgress` and may return False to end the fit.
            time_limit: Time after which the fit of all subjects ends with the best point so far: seconds,
                or text such as `"10min"`.
            cluster: Workers (see `run`). They compute one subject each. Of a single fit, or a fit with
                `shared`, they compute the points of each generation.
            on_interrupt: Effect of Ctrl-C: `raise`, or `return` the best point so far; see `run`.

        Raises:
            InputError: A name, a bound or a row of the data does not fit. The message names it.
            LoopError: The model fails at all points.
            KeyboardInterrupt: Ctrl-C was pressed. `.results` holds the best fit so far, or None.
        """
        from mdf_loop.api.data_units import convert_data
        from mdf_loop.api.fits import describe_progress, fit
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
        fit_or_fits = interruptible(lambda: fit(self, request), on_interrupt, describe_progress)
        warn_of_fits([fit_or_fits] if isinstance(fit_or_fits, Fit) else fit_or_fits.values())
        return fit_or_fits
