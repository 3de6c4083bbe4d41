"""What a fit has found, for a reader: a table of the estimates, then a line for each thing to know."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import combinations

import numpy as np

from mdf_loop.ir import StoppedBy
from mdf_loop.results.fit_data import Distribution, FitData
from mdf_loop.visible import on_one_line

LONG = 12
"""A parameter of more numbers is shown at its ends."""

ENDS = 3
"""How many numbers are shown at each end."""

STRONG = 0.95
"""Estimates of a larger correlation, either way, are named."""

MOST = 6
"""Of more names, or pairs of them, only so many are written out."""


def text(fit: FitData) -> str:
    """What a reader wants to know of a fit, line by line."""
    lines = [*_table(fit), "", *_quality(fit), "", *_remarks(fit)]
    return "\n".join(map(on_one_line, lines))


# --- estimates ------------------------------------------------------------------------------------


def _table(fit: FitData) -> Iterator[str]:
    """The name of each number, its estimate, and how sure that is where this is known."""
    told = fit.table()
    head, rows = ["parameter", "estimate"], []
    if fit.standard_errors:
        head += ["standard error", "95 % interval"]
    for place in _shown(fit):
        if place is None:
            rows.append(["...", *[""] * (len(head) - 1)])
            continue
        estimate, *rest = map(float, told.iloc[place])
        rows.append([fit.parameters[place], *_row(estimate, rest)])
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    for first, *others in [head, *rows]:
        cells = [f"{cell:>{width}}" for cell, width in zip(others, widths[1:], strict=True)]
        yield "  ".join([f"{first:{widths[0]}}", *cells]).rstrip()


def _shown(fit: FitData) -> Iterator[int | None]:
    """The rows of the table that are shown; None for all that are left out between two of them."""
    begin = 0
    for value in fit.estimates.values():
        size = np.size(value)
        rows = range(begin, begin + size)
        if size > LONG:
            yield from (*rows[:ENDS], None, *rows[-ENDS:])
        else:
            yield from rows
        begin += size


def _row(estimate: float, rest: Sequence[float]) -> list[str]:
    """An estimate, its standard error and its interval, to a hundredth of that error at least."""
    if not rest:
        return [f"{estimate:.6g}"]
    error, lower, upper = rest
    if not math.isfinite(error):
        return [f"{estimate:.6g}", "unknown", "unknown"]
    low, high = (_to(end, error) for end in (lower, upper))
    return [_to(estimate, error), f"{error:.3g}", f"{low} to {high}"]


def _to(number: float, error: float) -> str:
    """Six digits of a number, or more if its error is small beside it."""
    digits = 6
    if number and error:
        digits = math.floor(math.log10(abs(number))) - math.floor(math.log10(error)) + 3
    return f"{number:.{min(max(digits, 6), 15)}g}"


# --- how well it fits -----------------------------------------------------------------------------


def _quality(fit: FitData) -> Iterator[str]:
    """The numbers that tell how well the model does; those that there are."""
    told: dict[str, float | None] = {
        "sum of squared residuals": fit.sse,
        "log likelihood": fit.log_likelihood if fit.sse is None else None,
        "residual sd": fit.residual_sd,
        "AIC": fit.aic,
        "BIC": fit.bic,
    }
    if fit.sse is None and fit.log_likelihood is None:
        told = {"objective": fit.cost}
    lines = {name: f"{number:.6g}" for name, number in told.items() if number is not None}
    if fit.count:
        lines["data"] = _counted(fit.count, "number")
    if fit.dropped:
        lines["dropped"] = f"{_counted(fit.dropped, 'row')} with nan or infinite values"
    lines |= _run(fit)
    width = max(map(len, lines))
    return (f"{name:{width}}  {said}" for name, said in lines.items())


def _run(fit: FitData) -> dict[str, str]:
    """What a run of the model was, as far as it was said."""
    lines = {}
    if fit.distributions:
        lines["bins"] = _listed([_bins(each) for each in fit.distributions])
    if fit.trials is not None:
        lines["trials"] = str(fit.trials)
    if fit.steps is not None:
        lines["steps"] = str(fit.steps)
    if fit.dt is not None:
        lines["dt"] = f"{fit.dt:.6g}"
    return lines


def _bins(times: Distribution) -> str:
    of = "" if times.choice is None else f" of choice {times.choice:.6g}"
    return f"{len(times.observed)}{of}"


# --- what to know ---------------------------------------------------------------------------------


def _remarks(fit: FitData) -> Iterator[str]:
    """What to be careful about, and how it was found."""
    if fit.stopped_by is not StoppedBy.COMPLETED:
        yield f"stopped: {fit.reason}"
    elif not fit.converged:
        yield f"not converged: {fit.reason}"
    if len(fit.starts) > 1:
        yield f"{fit.agreeing} of {len(fit.starts)} starts agree"
    if ties := sum(start.ties for start in fit.starts):
        those = "1 start does" if ties == 1 else f"{ties} starts do"
        yield f"{those} as well at other values: there is more than one best fit"
    if fit.at_bounds:
        one = len(fit.at_bounds) == 1
        yield f"{_listed(fit.at_bounds)} {'is at its bound' if one else 'are at their bounds'}"
    if beyond := [name for name in fit.beyond_bounds if name not in fit.at_bounds]:
        ends = "interval reaches" if len(beyond) == 1 else "intervals reach"
        yield f"{_listed(beyond)}: the {ends} beyond a bound"
    for group in fit.together:
        yield f"{_listed(group)} cannot be told apart"
    if names := fit.nonfinite_derivatives:
        yield f"derivatives by {_listed(names)} were nan or infinite at points of the search"
    yield from _correlated(fit)
    runs = _counted(fit.evaluations, "evaluation")
    yield f"{fit.method}: {runs} in {fit.seconds:.3g} s, seed {fit.seed}"


def _correlated(fit: FitData) -> Iterator[str]:
    """The pairs of the strongest correlations."""
    told = fit.correlations
    pairs = combinations(range(len(fit.parameters)), 2)
    strong = [(a, b) for a, b in pairs if abs(told[a, b]) > STRONG]
    strong.sort(key=lambda pair: -abs(told[pair]))
    for a, b in strong[:MOST]:
        both = f"{fit.parameters[a]} and {fit.parameters[b]}"
        way = "rise together" if told[a, b] > 0 else "make up for each other"
        yield f"the estimates of {both} {way}: correlation {told[a, b]:.3f}"
    if len(strong) > MOST:
        pairs_more = _counted(len(strong) - MOST, "more pair")
        yield f"{pairs_more} of correlations above {STRONG} or below -{STRONG}"


def _listed(names: Sequence[str]) -> str:
    """`a, b and c`; of many the first, and how many there are more."""
    if len(names) > MOST:
        return f"{', '.join(names[: MOST - 1])} and {len(names) - MOST + 1} more"
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last


def _counted(count: int, what: str) -> str:
    return f"{count} {what}" + ("" if count == 1 else "s")
