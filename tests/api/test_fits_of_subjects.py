"""Fits of several subjects, with separate parameters or with shared parameters."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import mdf_loop
from mdf_loop.errors import LoopError
from tests.models.fitted import CELL, DT, FREE, compiled, trace

GAINS = (2.0, 2.5, 3.5)


@pytest.fixture(scope="module")
def cell() -> mdf_loop.CompiledModel:
    return compiled(CELL)


@pytest.fixture(scope="module")
def subjects(cell: mdf_loop.CompiledModel) -> dict[str, dict[str, np.ndarray]]:
    return {f"s{k}": trace(cell, seed=k, tau=1.5, gain=gain) for k, gain in enumerate(GAINS)}


def test_eight_subjects_equal_eight_single_fits(cell: mdf_loop.CompiledModel) -> None:
    data = {f"s{k}": trace(cell, seed=k, tau=1.0 + 0.1 * k) for k in range(8)}
    joint_fit = cell.fit(data, FREE, "cell.V", dt=DT)
    assert list(joint_fit) == list(data)
    for name, rows in data.items():
        single_run = cell.fit(rows, FREE, "cell.V", dt=DT)
        assert joint_fit[name].estimates == single_run.estimates
        assert joint_fit[name].standard_errors == single_run.standard_errors
        assert joint_fit[name].evaluations == single_run.evaluations
    table = joint_fit.table()
    assert len(table) == 16
    assert table.index.names == ["subject", "parameter"]


def test_a_shared_parameter_has_one_value(
    cell: mdf_loop.CompiledModel, subjects: dict[str, dict[str, np.ndarray]]
) -> None:
    fits = cell.fit(subjects, FREE, "cell.V", dt=DT, shared=["cell.tau"])
    single_run = cell.fit(subjects, FREE, "cell.V", dt=DT)
    taus = {fit.estimates["cell.tau"] for fit in fits.values()}
    assert len(taus) == 1
    assert taus.pop() == pytest.approx(1.5, rel=0.02)
    for fit, gain in zip(fits.values(), GAINS, strict=True):
        assert fit.estimates["cell.gain"] == pytest.approx(gain, rel=0.02)
    assert sum(f.sse for f in fits.values()) >= sum(f.sse for f in single_run.values())
    errors = [fit.standard_errors["cell.tau"] for fit in single_run.values()]
    assert fits["s0"].standard_errors["cell.tau"] < min(errors)
    assert fits.shared == ("cell.tau",)
    assert fits["s0"].cost == pytest.approx(sum(fit.sse for fit in fits.values()))


def test_sharing_all_parameters_equals_one_fit_of_all_rows(
    cell: mdf_loop.CompiledModel, subjects: dict[str, dict[str, np.ndarray]]
) -> None:
    shared = cell.fit(subjects, FREE, "cell.V", dt=DT, shared=list(FREE))
    rows = {name: np.concatenate([s[name] for s in subjects.values()]) for name in subjects["s0"]}
    one = cell.fit(rows, FREE, "cell.V", dt=DT)
    assert shared["s1"].estimates == pytest.approx(one.estimates, rel=1e-6)
    assert shared["s1"].standard_errors == pytest.approx(one.standard_errors, rel=1e-6)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"start": {"cell.tau": 1.0, "cell.gain": 2.0}}, "takes neither start nor method"),
        ({"method": "differential_evolution"}, "takes neither start nor method"),
    ],
)
def test_invalid_shared_parameters_are_refused(
    cell: mdf_loop.CompiledModel,
    subjects: dict[str, dict[str, np.ndarray]],
    words: dict[str, object],
    message: str,
) -> None:
    with pytest.raises(LoopError, match=message):
        cell.fit(subjects, FREE, "cell.V", dt=DT, shared=["cell.tau"], **words)


def test_an_error_names_the_subject(
    cell: mdf_loop.CompiledModel, subjects: dict[str, dict[str, np.ndarray]]
) -> None:
    with pytest.raises(LoopError, match=r"subject 'late': the data have no column"):
        cell.fit({**subjects, "late": {"time": [0.0]}}, FREE, "cell.V", dt=DT)


def test_an_error_of_shared_fits_names_the_subject(
    cell: mdf_loop.CompiledModel, subjects: dict[str, dict[str, np.ndarray]]
) -> None:
    late = {**subjects, "late": {"time": [0.0]}}
    with pytest.raises(LoopError, match=r"subject 'late': the data have no column"):
        cell.fit(late, FREE, "cell.V", dt=DT, shared=["cell.tau"])


def test_what_ends_one_subjects_search_ends_the_shared_fit(
    cell: mdf_loop.CompiledModel, subjects: dict[str, dict[str, np.ndarray]]
) -> None:
    evaluation_counts: list[int] = []

    def told(progress: mdf_loop.FitProgress) -> bool:
        evaluation_counts.append(progress.evaluations)
        return len(evaluation_counts) != 3

    fits = cell.fit(subjects, FREE, "cell.V", dt=DT, shared=["cell.tau"], progress=told)
    assert len(evaluation_counts) == 3
    assert list(fits) == list(subjects)
    for fit in fits.values():
        assert not fit.converged
        assert fit.stopped_by is mdf_loop.StopReason.INTERRUPTED
        assert fit.estimates["cell.tau"] == fits["s0"].estimates["cell.tau"]
        assert np.isfinite(fit.cost)


def test_a_time_limit_is_that_of_all_subjects(
    cell: mdf_loop.CompiledModel, subjects: dict[str, dict[str, np.ndarray]]
) -> None:
    clock = itertools.count()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("mdf_loop.api.fits.perf_counter", lambda: 100.0 * next(clock))
        fits = cell.fit(subjects, FREE, "cell.V", dt=DT, time_limit=150)
    assert [fit.stopped_by.is_asked for fit in fits.values()] == [False, False]
    assert list(fits) == ["s0", "s1"]
    assert [fit.converged for fit in fits.values()] == [True, False]
