"""Text of a fit: a table of the estimates, the quality of the fit, and remarks."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import combinations

import numpy as np

from mdf_loop.ir import StopReason
from mdf_loop.results.fit_data import Distribution, FitData
from mdf_loop.text_escaping import escape_to_one_line

MAX_FULL_PARAMETER_SIZE = 12
"""Number of elements above which a parameter shows only its first and last elements."""

ELEMENTS_SHOWN_AT_EACH_END = 3
"""Number of elements that are shown at each end of a long parameter."""

STRONG_CORRELATION = 0.95
"""Absolute correlation above which a pair of estimates is reported."""

MAX_LISTED_NAMES = 6
"""Number of names, or of pairs of names, that are written out."""


def format_fit(fit: FitData) -> str:
    """Return a fit as text: the table of estimates, the quality and the remarks."""
    fit_lines = [*_format_table(fit), "", *_format_quality(fit), "", *_format_remarks(fit)]
    return "\n".join(map(escape_to_one_line, fit_lines))


# --- estimates ------------------------------------------------------------------------------------


def _format_table(fit: FitData) -> Iterator[str]:
    """Yield the lines of a table with the name, estimate and uncertainty of each parameter element."""
    estimates_table = fit.table()
    header_cells, table_rows = ["parameter", "estimate"], []
    if fit.standard_errors:
        header_cells += ["standard error", "95 % interval"]
    for row_index in _shown_rows(fit):
        if row_index is None:
            table_rows.append(["...", *[""] * (len(header_cells) - 1)])
            continue
        estimate, *uncertainty = map(float, estimates_table.iloc[row_index])
        table_rows.append([fit.parameters[row_index], *_format_row(estimate, uncertainty)])
    column_widths = [
        max(map(len, column)) for column in zip(header_cells, *table_rows, strict=True)
    ]
    for name, *number_cells in [header_cells, *table_rows]:
        aligned_cells = [
            f"{cell:>{width}}" for cell, width in zip(number_cells, column_widths[1:], strict=True)
        ]
        yield "  ".join([f"{name:{column_widths[0]}}", *aligned_cells]).rstrip()


def _shown_rows(fit: FitData) -> Iterator[int | None]:
    """Yield the indices of the table rows to show, with None in place of omitted rows."""
    first_row_index = 0
    for estimate in fit.estimates.values():
        element_count = np.size(estimate)
        row_indices = range(first_row_index, first_row_index + element_count)
        if element_count > MAX_FULL_PARAMETER_SIZE:
            yield from (
                *row_indices[:ELEMENTS_SHOWN_AT_EACH_END],
                None,
                *row_indices[-ELEMENTS_SHOWN_AT_EACH_END:],
            )
        else:
            yield from row_indices
        first_row_index += element_count


def _format_row(estimate: float, uncertainty: Sequence[float]) -> list[str]:
    """Return the table cells of an estimate: the number, its standard error and its interval."""
    if not uncertainty:
        return [f"{estimate:.6g}"]
    standard_error, lower_limit, upper_limit = uncertainty
    if not math.isfinite(standard_error):
        return [f"{estimate:.6g}", "unknown", "unknown"]
    lower_text, upper_text = (
        _format_number(limit, standard_error) for limit in (lower_limit, upper_limit)
    )
    return [
        _format_number(estimate, standard_error),
        f"{standard_error:.3g}",
        f"{lower_text} to {upper_text}",
    ]


def _format_number(number: float, error: float) -> str:
    """Format a number with six digits, or with more digits if its standard error is small."""
    digit_count = 6
    if number and error:
        digit_count = math.floor(math.log10(abs(number))) - math.floor(math.log10(error)) + 3
    return f"{number:.{min(max(digit_count, 6), 15)}g}"


# --- quality of the fit -------------------------------------------------------------------------


def _format_quality(fit: FitData) -> Iterator[str]:
    """Yield lines about the agreement of a fitted model with the data, such as AIC and BIC."""
    quality_measures: dict[str, float | None] = {
        "sum of squared residuals": fit.sse,
        "log likelihood": fit.log_likelihood if fit.sse is None else None,
        "residual sd": fit.residual_sd,
        "AIC": fit.aic,
        "BIC": fit.bic,
    }
    if fit.sse is None and fit.log_likelihood is None:
        quality_measures = {"objective": fit.cost}
    texts_by_name = {
        name: f"{measure:.6g}" for name, measure in quality_measures.items() if measure is not None
    }
    if fit.count:
        texts_by_name["data"] = _count_text(fit.count, "number")
    if fit.dropped:
        texts_by_name["dropped"] = f"{_count_text(fit.dropped, 'row')} with nan or infinite values"
    texts_by_name |= _run_lines(fit)
    name_width = max(map(len, texts_by_name))
    return (f"{name:{name_width}}  {text}" for name, text in texts_by_name.items())


def _run_lines(fit: FitData) -> dict[str, str]:
    """Return the known settings of a fit's runs as texts: bins, trials, steps and dt."""
    texts_by_name = {}
    if fit.distributions:
        texts_by_name["bins"] = _list_text(
            [_bins_text(distribution) for distribution in fit.distributions]
        )
    if fit.trials is not None:
        texts_by_name["trials"] = str(fit.trials)
    if fit.steps is not None:
        texts_by_name["steps"] = str(fit.steps)
    if fit.dt is not None:
        texts_by_name["dt"] = f"{fit.dt:.6g}"
    return texts_by_name


def _bins_text(distribution: Distribution) -> str:
    """Return a text with the number of bins of a reaction-time distribution, and its choice."""
    choice_suffix = "" if distribution.choice is None else f" of choice {distribution.choice:.6g}"
    return f"{len(distribution.observed)}{choice_suffix}"


# --- remarks ------------------------------------------------------------------------------------


def _format_remarks(fit: FitData) -> Iterator[str]:
    """Yield one line for each warning about a fit, and one line about the search."""
    if fit.stopped_by is not StopReason.COMPLETED:
        yield f"stopped: {fit.reason}"
    elif not fit.converged:
        yield f"not converged: {fit.reason}"
    if len(fit.starts) > 1:
        yield f"{fit.agreeing} of {len(fit.starts)} starts agree"
    if tied_start_count := sum(start.ties for start in fit.starts):
        tied_starts_text = (
            "1 start does" if tied_start_count == 1 else f"{tied_start_count} starts do"
        )
        yield f"{tied_starts_text} as well at other values: there is more than one best fit"
    if fit.at_bounds:
        has_one_name = len(fit.at_bounds) == 1
        yield f"{_list_text(fit.at_bounds)} {'is at its bound' if has_one_name else 'are at their bounds'}"
    if exceeding_names := [name for name in fit.beyond_bounds if name not in fit.at_bounds]:
        interval_phrase = "interval reaches" if len(exceeding_names) == 1 else "intervals reach"
        yield f"{_list_text(exceeding_names)}: the {interval_phrase} beyond a bound"
    for group in fit.unidentifiable:
        yield f"{_list_text(group)} cannot be told apart"
    if parameter_names := fit.nonfinite_derivatives:
        yield f"derivatives by {_list_text(parameter_names)} were nan or infinite at points of the search"
    yield from _describe_correlations(fit)
    evaluation_text = _count_text(fit.evaluations, "evaluation")
    yield f"{fit.method}: {evaluation_text} in {fit.seconds:.3g} s, seed {fit.seed}"


def _describe_correlations(fit: FitData) -> Iterator[str]:
    """Yield one line for each pair of strongly correlated estimates, the strongest first."""
    correlations = fit.correlations
    index_pairs = combinations(range(len(fit.parameters)), 2)
    correlated_pairs = [
        (a, b) for a, b in index_pairs if abs(correlations[a, b]) > STRONG_CORRELATION
    ]
    correlated_pairs.sort(key=lambda pair: -abs(correlations[pair]))
    for i, j in correlated_pairs[:MAX_LISTED_NAMES]:
        pair_text = f"{fit.parameters[i]} and {fit.parameters[j]}"
        correlation_phrase = "rise together" if correlations[i, j] > 0 else "make up for each other"
        yield f"the estimates of {pair_text} {correlation_phrase}: correlation {correlations[i, j]:.3f}"
    if len(correlated_pairs) > MAX_LISTED_NAMES:
        omitted_pairs_text = _count_text(len(correlated_pairs) - MAX_LISTED_NAMES, "more pair")
        yield f"{omitted_pairs_text} of correlations above {STRONG_CORRELATION} or below -{STRONG_CORRELATION}"


def _list_text(names: Sequence[str]) -> str:
    """Join names to a text such as `a, b and c`, with a count in place of many names."""
    if len(names) > MAX_LISTED_NAMES:
        return f"{', '.join(names[: MAX_LISTED_NAMES - 1])} and {len(names) - MAX_LISTED_NAMES + 1} more"
    *leading_names, last_name = names
    return f"{', '.join(leading_names)} and {last_name}" if leading_names else last_name


def _count_text(count: int, noun: str) -> str:
    """Format a count with a noun, in the plural unless the count is 1."""
    return f"{count} {noun}" + ("" if count == 1 else "s")
