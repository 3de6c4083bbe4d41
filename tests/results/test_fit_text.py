"""Text of a fit: the table of estimates, the quality of the fit, and one line per remark."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from mdf_loop.ir import StopReason
from mdf_loop.results.fit import Fit, Fits
from mdf_loop.results.fit_data import Distribution, FitStart

FIT = Fit(
    estimates={"cell.a": 0.5, "cell.gain": -12.0},
    standard_errors={"cell.a": 0.00125, "cell.gain": 2.0},
    intervals={"cell.a": (0.4975, 0.5025), "cell.gain": (-16.0, -8.0)},
    parameters=("cell.a", "cell.gain"),
    covariance=np.diag([0.00125**2, 4.0]),
    cost=3.5,
    converged=True,
    reason="done",
    starts=(FitStart({}, {}, 3.5, True), FitStart({}, {}, 4.5, False)),
    evaluations=300,
    seconds=0.25,
    seed=7,
    method="least squares",
    model=None,
    sse=3.5,
    residual_sd=0.1,
    log_likelihood=20.0,
    aic=-34.0,
    bic=-30.5,
    count=50,
)

FIT_TEXT = """\
parameter  estimate  standard error     95 % interval
cell.a          0.5         0.00125  0.4975 to 0.5025
cell.gain       -12               2         -16 to -8

sum of squared residuals  3.5
residual sd               0.1
AIC                       -34
BIC                       -30.5
data                      50 numbers

1 of 2 starts agree
least squares: 300 evaluations in 0.25 s, seed 7"""


def fit_lines(**changes: Any) -> list[str]:
    return str(replace(FIT, **changes)).splitlines()


def test_text_of_a_fit():
    assert str(FIT) == FIT_TEXT


def test_table_without_standard_errors():
    lines = fit_lines(standard_errors={}, intervals={}, covariance=np.full((2, 2), np.nan))
    assert lines[:3] == ["parameter  estimate", "cell.a          0.5", "cell.gain       -12"]


def test_infinite_errors_are_unknown():
    errors = {"cell.a": np.inf, "cell.gain": 2.0}
    ends = {"cell.a": (-np.inf, np.inf), "cell.gain": (-16.0, -8.0)}
    lines = fit_lines(standard_errors=errors, intervals=ends)
    assert lines[1].split() == ["cell.a", "0.5", "unknown", "unknown"]


def test_a_small_error_shows_more_digits():
    values = {"cell.a": 1234567.891, "cell.gain": 1.0}
    errors = {"cell.a": 0.01, "cell.gain": 1.0}
    ends = {"cell.a": (1234567.871, 1234567.911), "cell.gain": (0.0, 2.0)}
    row = fit_lines(estimates=values, standard_errors=errors, intervals=ends)[1]
    assert row.split() == ["cell.a", "1234567.891", "0.01", "1234567.871", "to", "1234567.911"]


@pytest.mark.parametrize(("size", "rows"), [(12, 12), (13, 7)])
def test_a_long_parameter_shows_its_first_and_last_elements(size: int, rows: int):
    lines = fit_lines(
        estimates={"n.W": np.arange(float(size)), "n.b": 0.5},
        standard_errors={},
        intervals={},
        parameters=(*(f"n.W[{k}]" for k in range(size)), "n.b"),
        covariance=np.full((size + 1, size + 1), np.nan),
    )
    table = lines[1 : lines.index("")]
    assert len(table) == rows + 1
    assert table[-1].split() == ["n.b", "0.5"]
    assert table[-2].split() == [f"n.W[{size - 1}]", str(size - 1)]
    assert ("..." in table) == (size > 12)


def test_log_likelihood_replaces_squared_residuals():
    lines = fit_lines(sse=None, residual_sd=None)
    assert "log likelihood  20" in lines
    assert not any("squared" in line or "sd" in line for line in lines)


def test_bins_trials_and_steps():
    bins = [
        Distribution(k, np.zeros(n - 1), np.ones(n), np.ones(n)) for k, n in ((0.0, 4), (1.0, 10))
    ]
    lines = fit_lines(
        sse=None, residual_sd=None, trials=500, steps=40, dt=0.01, distributions=tuple(bins)
    )
    begin = lines.index("data            50 numbers")
    assert lines[begin + 1 : begin + 5] == [
        "bins            4 of choice 0 and 10 of choice 1",
        "trials          500",
        "steps           40",
        "dt              0.01",
    ]
    single = replace(bins[0], choice=None)
    assert "bins            4" in fit_lines(sse=None, residual_sd=None, distributions=(single,))


def test_a_single_start_has_no_remark():
    assert not any("start" in line for line in fit_lines(starts=FIT.starts[:1]))


def test_objective_without_likelihood():
    lines = fit_lines(sse=None, residual_sd=None, log_likelihood=None, aic=None, bic=None, count=0)
    assert lines[4:6] == ["objective  3.5", ""]


def correlated(r: float) -> Any:
    return np.array([[1.0, r], [r, 1.0]])


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"at_bounds": ("cell.a",)}, "cell.a is at its bound"),
        ({"at_bounds": ("a", "b", "c")}, "a, b and c are at their bounds"),
        (
            {"at_bounds": tuple(f"W[{k}]" for k in range(20))},
            "W[0], W[1], W[2], W[3], W[4] and 15 more are at their bounds",
        ),
        (
            {"unidentifiable": (("cell.a", "cell.gain"),)},
            "cell.a and cell.gain cannot be told apart",
        ),
        (
            {"covariance": correlated(0.99)},
            "the estimates of cell.a and cell.gain rise together: correlation 0.990",
        ),
        (
            {"covariance": correlated(-0.96)},
            "the estimates of cell.a and cell.gain make up for each other: correlation -0.960",
        ),
        ({"converged": False, "reason": "200 steps"}, "not converged: 200 steps"),
        (
            {
                "converged": False,
                "stopped_by": StopReason.TIME_LIMIT,
                "reason": StopReason.TIME_LIMIT.value,
            },
            "stopped: the time limit of the run was over",
        ),
        (
            {"starts": (*FIT.starts, FitStart({}, {}, 3.5, False, ties=True))},
            "1 start does as well at other values: there is more than one best fit",
        ),
        ({"beyond_bounds": ("cell.a",)}, "cell.a: the interval reaches beyond a bound"),
        ({"beyond_bounds": ("a", "b")}, "a and b: the intervals reach beyond a bound"),
        (
            {"beyond_bounds": ("a", "b"), "at_bounds": ("b",)},
            "a: the interval reaches beyond a bound",
        ),
    ],
)
def test_each_remark_is_one_line(changes: dict[str, Any], line: str):
    assert line in fit_lines(**changes)
    assert line not in fit_lines()


@pytest.mark.parametrize("r", [0.94, -0.94, np.nan])
def test_weak_and_unknown_correlations_have_no_remark(r: float):
    assert not any("correlation" in line for line in fit_lines(covariance=correlated(r)))


def test_further_correlations_are_counted():
    names = tuple("abcde")
    lines = fit_lines(
        estimates=dict.fromkeys(names, 1.0),
        standard_errors={},
        intervals={},
        parameters=names,
        covariance=np.full((5, 5), 0.99) + 0.01 * np.eye(5),
    )
    assert sum("rise together" in line for line in lines) == 6
    assert "4 more pairs of correlations above 0.95 or below -0.95" in lines


def test_line_breaks_in_names_are_escaped():
    assert r"a\nb is at its bound" in fit_lines(at_bounds=("a\nb",))


def test_fits_of_subjects_are_listed_below_their_names():
    text = str(Fits({"anna": FIT, "ben": FIT}))
    assert text == f"anna\n{FIT_TEXT}\n\nben\n{FIT_TEXT}"
