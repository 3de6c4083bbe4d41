"""Parameter recovery: fits of data that the model itself has simulated."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from msgspec.structs import replace

from mdf_loop import arguments
from mdf_loop.api.compiled import CompiledModel
from mdf_loop.api.data_units import convert_deviation
from mdf_loop.api.fits import fit
from mdf_loop.api.fitted_report import convert_scalars
from mdf_loop.api.fitting_to_data import (
    FitRequest,
    ModelBuilder,
    build_fitted_model,
    build_parameter_space,
)
from mdf_loop.api.nonfinite_derivatives import warn_of_fits
from mdf_loop.api.prepared import PreparedModel
from mdf_loop.arguments import is_whole
from mdf_loop.errors import InputError
from mdf_loop.interruption import InterruptReaction
from mdf_loop.ir import Array
from mdf_loop.public_call import public_call
from mdf_loop.quantities import has_unit
from mdf_loop.reading.names import find_item, named_items
from mdf_loop.request.fit_options import FitOptions
from mdf_loop.results.fit import Fit
from mdf_loop.results.recovery import Recovery
from mdf_loop.signals import count_interrupt, interrupt_count
from mdf_loop.specification import Selection

MIN_BOUND_DISTANCE = 0.1
"""Least distance of a true value from its bounds, as a fraction of the difference of the bounds."""


@public_call
def recover(
    model: CompiledModel,
    free: Mapping[str, Any],
    *,
    against: str | Sequence[str] | None = None,
    steps: int | None = None,
    dt: float | str | None = None,
    noise: float | None = None,
    likelihood: Mapping[str, str] | None = None,
    trials: int | None = None,
    data_trials: int = 1000,
    times: int = 20,
    set: Mapping[str, Any] | None = None,
    inputs: Mapping[str, Any] | None = None,
    seed: int = 0,
    points: int = 256,
    polish: int = 4,
    on_interrupt: str | None = None,
) -> Recovery:
    """Repeatedly simulate data with random true parameters, and fit the model to these data.

    Args:
        model: Compiled model.
        free: Free parameters with their bounds. True values are drawn uniformly between the bounds,
            without a margin at each bound.
        against: Observed outputs. By default all outputs of the model.
        steps: Number of evaluations of the model.
        dt: Time between two evaluations; see `CompiledModel.run`.
        noise: Standard deviation of the normal noise that is added to each observed number. A Quantity is
            converted to the unit of the outputs.
        likelihood: Outputs of a fit to reaction times, in place of curves; see `CompiledModel.fit`.
        trials: Number of runs that estimate a likelihood.
        data_trials: Number of observed reaction times in each data set.
        times: Number of data sets.
        set: Values of other parameters by `node.parameter`.
        inputs: Input values by port id.
        seed: Seed of the true values, of the noise, and of the fits.
        points: Number of points of a Sobol sequence that each fit evaluates first.
        polish: Number of the best points from which local searches of each fit start.
        on_interrupt: Effect of Ctrl-C: `raise`, or `return` the finished fits; see `CompiledModel.run`.

    Raises:
        InputError: An argument is invalid, or two arguments exclude each other.
        LoopError: A fit fails. The message states the reason.
        KeyboardInterrupt: Ctrl-C was pressed. `.results` holds the finished fits, or None.
    """
    if not is_whole(times) or times < 1:
        raise InputError(f"times must be a whole number above 0, not {times!r}"[:200])
    prepared_model = model.prepared
    model_units = prepared_model.model_units
    noise = _convert_noise(prepared_model, noise, against)
    if (noise is None) == (likelihood is None):
        raise InputError(
            "a recovery needs noise for curves, or a likelihood for reaction times",
            hint="e.g. noise=0.05",
        )
    if noise is not None and not (np.isfinite(noise) and noise > 0):
        raise InputError(f"noise is a standard deviation above 0, not {noise!r}")
    fit_options = FitOptions(
        {},
        model_units.convert_bounds(free),
        _select_observed(prepared_model, against) if likelihood is None else against,
        steps=steps,
        dt=model_units.convert_time_step(dt),
        set=model_units.convert_settings(set),
        inputs=model_units.convert_inputs(inputs),
        likelihood=likelihood,
        trials=trials,
        points=points,
        polish=polish,
        seed=seed,
        progress=False,
    )
    simulated_data = _SimulatedData(prepared_model, fit_options, type(model), noise, data_trials)
    with InterruptReaction[Recovery](
        on_interrupt, lambda recovery: f"{len(recovery.fits)} of {times} data sets"
    ) as call:
        call.results = simulated_data.recovery(times)
    recovery = call.results
    warn_of_fits(recovery.fits)
    return recovery


def _select_observed(model: PreparedModel, against: Any) -> Any:
    """Return the names of the outputs for which data are simulated, by default all outputs."""
    if against is not None:
        return against
    return [model_item.name for model_item in named_items(model.document, Selection()).values()]


def _convert_noise(model: PreparedModel, noise: Any, against: Any) -> Any:
    """Return the standard deviation of the noise in the unit of the observed outputs."""
    if not has_unit(noise):
        return noise
    output_names = arguments.names(_select_observed(model, against), "against")
    return convert_deviation(model, noise, output_names, "the noise")


class _SimulatedData:
    """Generator of simulated data sets, which also fits the model to each of them."""

    def __init__(
        self,
        model: PreparedModel,
        fit_options: FitOptions,
        build_model: ModelBuilder,
        noise: float | None,
        count: int,
    ) -> None:
        self._model, self._fit_options, self._build_model = model, fit_options, build_model
        self._noise, self._data_count = noise, count
        self._request = request = FitRequest.of(fit_options, build_model)
        self._space = build_parameter_space(model, request)
        self._rng = np.random.default_rng(fit_options.seed)
        document = model.document
        outputs_by_column = request.likelihood_outputs or {
            name: name for name in arguments.names(request.fitted_outputs, "against")
        }
        self._columns_by_output = {
            find_item(document, output).name: name for name, output in outputs_by_column.items()
        }

    def data_sets(self, times: int) -> Iterator[tuple[dict[str, Any], dict[str, Array]]]:
        """Yield randomly drawn true parameters, each with a data set simulated from them."""
        for _ in range(times):
            random_point = self._rng.uniform(
                MIN_BOUND_DISTANCE, 1 - MIN_BOUND_DISTANCE, len(self._space.elements)
            )
            true_values = self._space.values(random_point)
            yield convert_scalars(true_values), self._simulate_columns(true_values)

    def _simulate_columns(self, true_values: Mapping[str, Array]) -> dict[str, Array]:
        """Simulate data columns by running the model with the true parameters."""
        request = self._request
        model = build_fitted_model(
            self._model, request, request.steps, list(self._columns_by_output)
        )
        member_values = {
            name: np.asarray(true_value)[None] for name, true_value in true_values.items()
        }
        if self._noise is None:
            run_seeds = self._rng.integers(0, 2**62, -(-self._data_count // self._trials))
            member_values = {
                name: np.repeat(values, len(run_seeds), axis=0)
                for name, values in member_values.items()
            }
            outputs = model.outputs({**member_values, "seed": run_seeds})
            return {
                column: outputs[name].reshape(-1)[: self._data_count].astype(float)
                for name, column in self._columns_by_output.items()
            }
        outputs = model.outputs(member_values)
        noiseless_columns = {
            column: outputs[name][0] for name, column in self._columns_by_output.items()
        }
        return {
            name: array + self._noise * self._rng.standard_normal(array.shape)
            for name, array in noiseless_columns.items()
        }

    @property
    def _trials(self) -> int:
        """Number of trials in each simulation."""
        trial_numbers = self._request.spec.values.draws.trials
        return 1 if trial_numbers is None else len(trial_numbers)

    def recovery(self, times: int) -> Recovery:
        """Return the fits of `times` simulated data sets, or only the completed fits after Ctrl-C.

        Raises:
            KeyboardInterrupt: Ctrl-C was pressed before the first fit was finished.
        """
        true_value_sets: list[Mapping[str, Any]] = []
        fits: list[Fit] = []
        interrupts_before = interrupt_count()
        try:
            for true_values, simulated_columns in self.data_sets(times):
                dataset_fit = self.fit(simulated_columns, len(fits))
                if interrupt_count() != interrupts_before:
                    break
                true_value_sets.append(true_values)
                fits.append(dataset_fit)
        except KeyboardInterrupt:
            if not fits:
                raise
            count_interrupt()
        if not fits:
            raise KeyboardInterrupt
        return Recovery(tuple(true_value_sets), tuple(fits))

    def fit(self, data: Mapping[str, Array], k: int) -> Fit:
        """Fit the simulated data set `k`, with a seed that depends on the index `k`."""
        fit_options = replace(self._fit_options, data=data, seed=self._request.seed + k)
        dataset_fit = fit(self._model, FitRequest.of(fit_options, self._build_model))
        assert isinstance(dataset_fit, Fit)
        return dataset_fit
