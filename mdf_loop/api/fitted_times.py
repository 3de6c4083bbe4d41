"""Fits of choices and reaction times by a likelihood that simulated trials estimate."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from mdf_loop.api.fitted_report import Report, compute_criteria
from mdf_loop.api.fitting_to_data import (
    FitRequest,
    build_fitted_model,
    refuse_columns_of_inputs,
    refuse_too_few_data,
)
from mdf_loop.api.prepared import PreparedModel
from mdf_loop.errors import InputError
from mdf_loop.fitting.data_range import check_data_within_model_range
from mdf_loop.fitting.free import ParameterSpace
from mdf_loop.fitting.observed import Table, find_column, read_table
from mdf_loop.fitting.parameter_effects import check_parameters_have_effect
from mdf_loop.fitting.reaction_times import DecisionTerm, LikelihoodObjective, ReactionTimeData
from mdf_loop.fitting.response_surface import refine_noisy_minimum, refined_optimum
from mdf_loop.fitting.search import Optimum, minimize_by_evolution, rank_points, run_search
from mdf_loop.fitting.uncertainty import Uncertainty
from mdf_loop.fitting.watch import FitMonitor
from mdf_loop.ir import Array
from mdf_loop.reading.names import find_item
from mdf_loop.results.fit import Fit
from mdf_loop.results.fit_data import Distribution
from mdf_loop.sweeps import generate_sobol_points

DATA_COLUMNS = ("rt", "choice")
"""Columns of the data of decisions: reaction time and choice."""

MAX_GENERATIONS = 12
"""Largest number of generations of differential evolution, before a refinement with other random numbers."""

MIN_INITIAL_POINTS = 5
"""Least number of initial points of differential evolution."""

REFINEMENT_SEED_COUNT = 8
"""Number of sets of random numbers with which the refinement estimates each likelihood."""


def fit_times(model: PreparedModel, request: FitRequest, space: ParameterSpace) -> Fit:
    """Fit a model to the reaction times and choices of one subject.

    Raises:
        LoopError: An argument does not fit the model or the data. The message names the argument.
    """
    element_count = len(space.elements)
    decision_term = build_decision_term(model, request, space, np.arange(element_count))
    with FitMonitor(request.progress, request.time_limit, model.document.name) as monitor:
        likelihood = LikelihoodObjective([decision_term], element_count, monitor)
        return refine_and_report(
            model, request, likelihood, lambda: evolve(likelihood, request).point
        )[0]


def build_decision_term(
    model: PreparedModel, request: FitRequest, space: ParameterSpace, indices: Array
) -> DecisionTerm:
    """Return one subject's term of the likelihood of the observed reaction times and choices.

    Args:
        model: The model.
        request: The arguments of the fit, with the data of the subject.
        space: The free parameters.
        indices: The indices of the subject's parameters in a point of the search.

    Raises:
        InputError: There are more parameters than data, or a column or an output is missing.
    """
    reaction_times, output_names = read_observed_times(model, request)
    refuse_too_few_data(len(indices), reaction_times.count)
    fitted_model = build_fitted_model(model, request, request.steps, output_names)
    return DecisionTerm(fitted_model, space, indices, reaction_times, output_names)


def read_observed_times(
    model: PreparedModel, request: FitRequest
) -> tuple[ReactionTimeData, tuple[str, ...]]:
    """Return the observed reaction times and choices, with the names of their outputs.

    Raises:
        InputError: A column or an output is missing, or an argument does not suit a likelihood.
    """
    output_by_column = request.likelihood_outputs
    if "rt" not in output_by_column or not set(output_by_column) <= set(DATA_COLUMNS):
        raise InputError(
            f"a likelihood is of 'rt', and of 'choice' if there are any, not {', '.join(output_by_column)}",
            hint="e.g. likelihood={'rt': 'ddm.rt', 'choice': 'ddm.choice'}",
        )
    if request.steps is not None:
        raise InputError(
            "a likelihood compares one time in each trial, but steps give a row for each step",
            hint="leave steps out; let the node compute a whole trial, e.g. by a loop inside of it",
        )
    if request.start_values is None and request.start_point_count < MIN_INITIAL_POINTS:
        raise InputError(
            f"points={request.start_point_count} are too few for a likelihood: the population that it is "
            f"searched with has at least {MIN_INITIAL_POINTS}",
            hint="give more, e.g. points=64, or leave points out",
        )
    if request.method not in (None, "differential_evolution"):
        raise InputError(
            f"a likelihood by trials cannot be fitted by {request.method}: it changes in steps",
            hint="leave method out",
        )
    data_table = read_table(request.observed_data)
    refuse_columns_of_inputs(
        model.document,
        data_table,
        [column for column in DATA_COLUMNS if column in output_by_column],
    )
    output_names = tuple(
        find_item(model.document, output_by_column[column]).name
        for column in DATA_COLUMNS
        if column in output_by_column
    )
    times, *choices = (
        _read_column(data_table, column, output_by_column[column])
        for column in DATA_COLUMNS
        if column in output_by_column
    )
    return ReactionTimeData.of(times, choices[0] if choices else None), output_names


def _read_column(table: Table, word: str, output: str) -> Array:
    """Return the column `word` of the data, or raise an error that suggests this column name."""
    return find_column(table, (word,), f"'{output}'", f"rename the one of '{output}' to '{word}'")


def evolve(likelihood: LikelihoodObjective, request: FitRequest) -> Optimum:
    """Maximize one subject's likelihood by differential evolution with fixed random numbers.

    Raises:
        InputError: The data are outside the range of the model, or a parameter has no effect.
    """
    (decision_term,), element_count = likelihood.objective_terms, likelihood.size
    initial_points = _choose_initial_points(likelihood, request)
    check_data_within_model_range(
        decision_term.reaction_times,
        decision_term.trials,
        initial_points[:2],
        lambda: np.concatenate(
            [
                initial_points,
                generate_sobol_points(request.start_point_count, element_count, request.seed),
            ]
        ),
    )
    check_parameters_have_effect(
        decision_term.parameter_space, initial_points[:2], decision_term.log_shares
    )
    population = initial_points[: max(8 * element_count, MIN_INITIAL_POINTS)]
    return minimize_by_evolution(
        likelihood.costs, element_count, request.seed, MAX_GENERATIONS, population
    )


def _choose_initial_points(likelihood: LikelihoodObjective, request: FitRequest) -> Array:
    """Return initial points of a search, either ranked Sobol points or points around a start."""
    element_count = likelihood.size
    if request.start_values is None:
        return rank_points(
            generate_sobol_points(request.start_point_count, element_count, request.seed),
            likelihood.costs,
        )
    start_offsets = np.random.default_rng(request.seed).normal(
        0, 0.1, (8 * element_count, element_count)
    )
    start_offsets[0] = 0.0
    initial_points: Array = np.clip(
        likelihood.objective_terms[0].parameter_space.normalize(request.start_values)
        + start_offsets,
        0.0,
        1.0,
    )
    return initial_points


def refine_and_report(
    model: PreparedModel,
    request: FitRequest,
    likelihood: LikelihoodObjective,
    start: Callable[[], Array],
) -> list[Fit]:
    """Refine a likelihood's optimum with new random numbers, and return the fits.

    Return the fit of each subject.

    Args:
        model: The model.
        request: The arguments of the fit.
        likelihood: The likelihood of all subjects.
        start: A function that returns the point from which the refinement starts.
    """
    refinement_seeds = np.random.default_rng(request.seed).integers(0, 2**62, REFINEMENT_SEED_COUNT)
    uncertainties: list[Uncertainty] = []

    def run() -> list[Optimum]:
        start_point = start()
        point, uncertainty = refine_noisy_minimum(
            start_point, likelihood.terms(refinement_seeds), request.seed
        )
        uncertainties.append(uncertainty)
        return [
            refined_optimum(
                point, likelihood.pooled_cost(point, refinement_seeds), uncertainty, start_point
            )
        ]

    report = Report(model, request, run_search(run, likelihood.monitor), likelihood.monitor)
    return [
        _build_fit(report, term, uncertainties[0] if uncertainties else None, refinement_seeds)
        for term in likelihood.objective_terms
    ]


def _build_fit(
    report: Report, term: DecisionTerm, uncertainty: Uncertainty | None, seeds: Array
) -> Fit:
    """Return the fit of one subject from a finished likelihood search of all subjects."""
    subject_point = report.search_result.best.point[term.indices]
    bin_shares = term.pooled_shares(subject_point[None], seeds)[0]
    negative_log_likelihood = -float(np.log(bin_shares) @ term.reaction_times.data_counts)
    return report.build_fit(
        term.parameter_space,
        uncertainty and uncertainty.subset(term.indices),
        "differential evolution of a binned likelihood",
        term.indices,
        **compute_criteria(negative_log_likelihood, len(subject_point), term.reaction_times.count),
        dropped=term.reaction_times.dropped_row_count,
        distributions=_build_distributions(term, bin_shares),
    )


def _build_distributions(term: DecisionTerm, bin_shares: Array) -> tuple[Distribution, ...]:
    """Return the observed and predicted counts of reaction times per bin, for each choice."""
    expected_counts = bin_shares * term.reaction_times.count
    distributions, bin_offset = [], 0
    for histogram in term.reaction_times.bins:
        choice_counts = expected_counts[bin_offset : bin_offset + len(histogram.data_counts)]
        distributions.append(
            Distribution(
                histogram.choice, histogram.bin_edges, histogram.data_counts, choice_counts
            )
        )
        bin_offset += len(histogram.data_counts)
    return tuple(distributions)
