"""What is printed of a fit: the table, and a line for each thing to know."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from mdf_loop.ir import StoppedBy
from mdf_loop.results.fit import Fit, Fits
from mdf_loop.results.fit_data import Distribution, FitStart

FOUND = Fit(
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

ALL = """\
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


def said(**changes: Any) -> list[str]:
    return str(replace(FOUND, **changes)).splitlines()


def test_all_of_it():
    assert str(FOUND) == ALL


def test_without_standard_errors_there_are_no_columns_of_them():
    lines = said(standard_errors={}, intervals={}, covariance=np.full((2, 2), np.nan))
    assert lines[:3] == ["parameter  estimate", "cell.a          0.5", "cell.gain       -12"]


def test_what_is_not_known_is_said_to_be_unknown():
    errors = {"cell.a": np.inf, "cell.gain": 2.0}
    ends = {"cell.a": (-np.inf, np.inf), "cell.gain": (-16.0, -8.0)}
    lines = said(standard_errors=errors, intervals=ends)
    assert lines[1].split() == ["cell.a", "0.5", "unknown", "unknown"]


def test_a_small_error_shows_more_digits():
    values = {"cell.a": 1234567.891, "cell.gain": 1.0}
    errors = {"cell.a": 0.01, "cell.gain": 1.0}
    ends = {"cell.a": (1234567.871, 1234567.911), "cell.gain": (0.0, 2.0)}
    row = said(estimates=values, standard_errors=errors, intervals=ends)[1]
    assert row.split() == ["cell.a", "1234567.891", "0.01", "1234567.871", "to", "1234567.911"]


@pytest.mark.parametrize(("size", "rows"), [(12, 12), (13, 7)])
def test_a_long_parameter_is_shown_at_its_ends(size: int, rows: int):
    lines = said(
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


def test_a_likelihood_instead_of_squares():
    lines = said(sse=None, residual_sd=None)
    assert "log likelihood  20" in lines
    assert not any("squared" in line or "sd" in line for line in lines)


def test_bins_trials_and_steps():
    bins = [
        Distribution(k, np.zeros(n - 1), np.ones(n), np.ones(n)) for k, n in ((0.0, 4), (1.0, 10))
    ]
    lines = said(
        sse=None, residual_sd=None, trials=500, steps=40, dt=0.01, distributions=tuple(bins)
    )
    begin = lines.index("data            50 numbers")
    assert lines[begin + 1 : begin + 5] == [
        "bins            4 of choice 0 and 10 of choice 1",
        "trials          500",
        "steps           40",
        "dt              0.01",
    ]
    without = replace(bins[0], choice=None)
    assert "bins            4" in said(sse=None, residual_sd=None, distributions=(without,))


def test_one_start_is_not_counted():
    assert not any("start" in line for line in said(starts=FOUND.starts[:1]))


def test_an_objective():
    lines = said(sse=None, residual_sd=None, log_likelihood=None, aic=None, bic=None, count=0)
    assert lines[4:6] == ["objective  3.5", ""]


def strongly(r: float) -> Any:
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
        ({"together": (("cell.a", "cell.gain"),)}, "cell.a and cell.gain cannot be told apart"),
        (
            {"covariance": strongly(0.99)},
            "the estimates of cell.a and cell.gain rise together: correlation 0.990",
        ),
        (
            {"covariance": strongly(-0.96)},
            "the estimates of cell.a and cell.gain make up for each other: correlation -0.960",
        ),
        ({"converged": False, "reason": "200 steps"}, "not converged: 200 steps"),
        (
            {
                "converged": False,
                "stopped_by": StoppedBy.TIME_LIMIT,
                "reason": StoppedBy.TIME_LIMIT.value,
            },
            "stopped: the time limit of the run was over",
        ),
        (
            {"starts": (*FOUND.starts, FitStart({}, {}, 3.5, False, ties=True))},
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
def test_what_to_know_is_one_line(changes: dict[str, Any], line: str):
    assert line in said(**changes)
    assert line not in said()


@pytest.mark.parametrize("r", [0.94, -0.94, np.nan])
def test_weak_and_unknown_correlations_are_not_named(r: float):
    assert not any("correlation" in line for line in said(covariance=strongly(r)))


def test_many_correlations_are_counted():
    names = tuple("abcde")
    lines = said(
        estimates=dict.fromkeys(names, 1.0),
        standard_errors={},
        intervals={},
        parameters=names,
        covariance=np.full((5, 5), 0.99) + 0.01 * np.eye(5),
    )
    assert sum("rise together" in line for line in lines) == 6
    assert "4 more pairs of correlations above 0.95 or below -0.95" in lines


def test_a_name_does_not_begin_a_line():
    assert r"a\nb is at its bound" in said(at_bounds=("a\nb",))


def test_subjects_stand_below_each_other():
    both = str(Fits({"anna": FOUND, "ben": FOUND}))
    assert both == f"anna\n{ALL}\n\nben\n{ALL}"
