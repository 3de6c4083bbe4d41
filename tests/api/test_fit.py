"""Fits of curves: stored numbers of SciPy and JAX, options, refusals, end conditions and fitted models."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import mdf_loop
from mdf_loop.errors import LoopError
from tests.models.fitted import CELL, DT, FREE, STEPS, compiled, trace

TRUE = {"tau": 1.5, "gain": 2.5}


@pytest.fixture(scope="module")
def cell() -> mdf_loop.CompiledModel:
    return compiled(CELL)


@pytest.fixture(scope="module")
def data(cell: mdf_loop.CompiledModel) -> dict[str, np.ndarray]:
    return trace(cell, seed=1, **TRUE)


@pytest.mark.parametrize("from_near", [True, False])
def test_stored_estimates_and_standard_errors(shared: Path, from_near: bool) -> None:
    folder = shared / "gradient_cases"
    for path in folder.glob("*.json"):
        case = json.loads(path.read_text())
        if case.get("kind") != "fit":
            continue
        start = case["start"] if from_near else None
        words = {"steps": case["steps"], "dt": case["dt"], "start": start}
        model = mdf_loop.compile(folder / case["model"])
        fit = model.fit(folder / case["data"], case["free"], case["against"], **words)
        assert fit.estimates == pytest.approx(case["expected"], rel=case["tolerance"])
        assert fit.standard_errors == pytest.approx(case["standard_errors"], rel=1e-3)
        np.testing.assert_allclose(fit.covariance, case["covariance"], rtol=1e-3)
        assert fit.sse <= case["sse"] * (1 + 1e-8)
        assert fit.residual_sd == pytest.approx(case["residual_sd"])
        assert fit.agreeing == len(fit.starts) == (1 if from_near else 4)


def test_fit_report_has_estimates_and_statistics(
    cell: mdf_loop.CompiledModel, data: dict[str, np.ndarray]
) -> None:
    fit = cell.fit(data, FREE, "cell.V", dt=DT)
    assert fit.parameters == ("cell.tau", "cell.gain")
    for name, true in TRUE.items():
        lower, upper = fit.intervals[f"cell.{name}"]
        assert lower < true < upper
    assert fit.converged
    assert fit.count == STEPS
    assert fit.residual_sd == pytest.approx(0.02, rel=0.2)
    assert fit.aic == pytest.approx(2 * 3 - 2 * fit.log_likelihood)
    assert fit.bic == pytest.approx(3 * np.log(STEPS) - 2 * fit.log_likelihood)
    assert abs(fit.correlations[0, 1]) < 1
    assert fit.at_bounds == fit.unidentifiable == ()
    (curve,) = fit.curves
    np.testing.assert_allclose(curve.residuals, curve.fitted - data["cell.V"])
    assert float(curve.residuals @ curve.residuals) == pytest.approx(fit.sse)
    assert list(fit.table().columns) == ["estimate", "standard error", "lower", "upper"]
    assert json.loads(fit.to_json()) == fit.to_dict()
    assert (fit.steps, fit.dt, fit.trials, fit.beyond_bounds) == (STEPS, DT, None, ())


def test_linear_regression(cell: mdf_loop.CompiledModel, data: dict[str, np.ndarray]) -> None:
    """Check that the estimate and standard error of a fitted offset are those of a mean."""
    fit = cell.fit(
        data, {"cell.offset": (-2.0, 2.0)}, set={"cell.tau": 1.5, "cell.gain": 2.5}, dt=DT
    )
    model = trace(cell, 0.0, **TRUE)["cell.V"] - 0.5
    deviation = data["cell.V"] - model
    assert fit.estimates["cell.offset"] == pytest.approx(deviation.mean(), abs=1e-9)
    error = deviation.std(ddof=1) / np.sqrt(STEPS)
    assert fit.standard_errors["cell.offset"] == pytest.approx(error)


def test_given_standard_deviations_weight_the_residuals(
    cell: mdf_loop.CompiledModel, data: dict[str, np.ndarray]
) -> None:
    exact = cell.fit({**data, "sd": np.full(STEPS, 0.04)}, {"cell.offset": (-2.0, 2.0)}, dt=DT)
    assert exact.standard_errors["cell.offset"] == pytest.approx(0.04 / np.sqrt(STEPS))
    weighted = cell.fit({**data, "weight": np.full(STEPS, 7.0)}, {"cell.offset": (-2, 2)}, dt=DT)
    unweighted_fit = cell.fit(data, {"cell.offset": (-2.0, 2.0)}, dt=DT)
    assert weighted.standard_errors == pytest.approx(unweighted_fit.standard_errors)
    assert weighted.log_likelihood == pytest.approx(unweighted_fit.log_likelihood)


def test_rows_left_out_and_repeated(
    cell: mdf_loop.CompiledModel, data: dict[str, np.ndarray]
) -> None:
    some = {name: np.tile(column[::3], 2) for name, column in data.items()}
    some["trial"] = np.repeat([0, 1], STEPS // 3)
    some["cell.V"][4] = np.nan
    fit = cell.fit(some, FREE, dt=DT)
    assert fit.count == 2 * STEPS // 3 - 1
    assert fit.estimates["cell.tau"] == pytest.approx(1.5, rel=0.1)


def test_vectors_inputs_and_initial_values(cell: mdf_loop.CompiledModel) -> None:
    results = cell.run(
        set={"cell.w": [0.7, -1.2], "cell.v": 0.4},
        inputs={"drive": 0.8},
        steps=STEPS,
        dt=DT,
        progress=False,
    )
    free = {"cell.w": (-2.0, 2.0), "cell.v": (-1.0, 1.0), "drive": (0.1, 2.0)}
    columns = {
        "cell.V": np.asarray(results["cell.V"]),
        "cell.both": np.asarray(results["cell.both"]),
    }
    fit = cell.fit(columns, free, ["cell.V", "both"], steps=STEPS, dt=DT)
    np.testing.assert_allclose(fit.estimates["cell.w"], [0.7, -1.2], rtol=1e-7)
    assert fit.estimates["cell.v"] == pytest.approx(0.4)
    assert fit.estimates["drive"] == pytest.approx(0.8)
    assert fit.parameters == ("cell.w[0]", "cell.w[1]", "cell.v", "drive")
    repeated = fit.model.run(steps=STEPS, dt=DT, progress=False)
    np.testing.assert_allclose(repeated["cell.both"], results["cell.both"], rtol=1e-7)


def test_unidentifiable_parameters_have_infinite_errors(
    cell: mdf_loop.CompiledModel, data: dict[str, np.ndarray]
) -> None:
    fit = cell.fit(data, {"cell.gain": (1.0, 6.0), "drive": (0.5, 2.0)}, "cell.V", dt=DT)
    assert fit.unidentifiable == (("cell.gain", "drive"),)
    assert np.isinf(list(fit.standard_errors.values())).all()
    assert fit.estimates["cell.gain"] * fit.estimates["drive"] == pytest.approx(2.5, rel=0.3)


def test_at_a_bound(cell: mdf_loop.CompiledModel, data: dict[str, np.ndarray]) -> None:
    fit = cell.fit(data, {**FREE, "cell.tau": (2.0, 5.0)}, "cell.V", dt=DT)
    assert fit.estimates["cell.tau"] == 2.0
    assert fit.at_bounds == ("cell.tau",)


def test_evolution_finds_the_least_squares_estimates(
    cell: mdf_loop.CompiledModel, data: dict[str, np.ndarray]
) -> None:
    words = {"dt": DT, "method": "differential_evolution"}
    assert cell.fit(data, FREE, "cell.V", **words).estimates == pytest.approx(
        cell.fit(data, FREE, "cell.V", dt=DT).estimates, rel=1e-6
    )


def test_a_fit_can_be_made_again(cell: mdf_loop.CompiledModel, data: dict[str, np.ndarray]) -> None:
    first, second = (cell.fit(data, FREE, "cell.V", dt=DT, seed=3) for _ in range(2))
    assert first.estimates == second.estimates
    assert first.evaluations == second.evaluations
    assert first.seed == 3


def test_the_fitted_model_is_written(
    cell: mdf_loop.CompiledModel, data: dict[str, np.ndarray], tmp_path: Path
) -> None:
    fit = cell.fit(data, FREE, "cell.V", dt=DT)
    fit.model.write(tmp_path / "fitted.yaml")
    results = mdf_loop.compile(tmp_path / "fitted.yaml").run(steps=STEPS, dt=DT, progress=False)
    np.testing.assert_array_equal(results["cell.V"], fit.curves[0].fitted)


def test_files(cell: mdf_loop.CompiledModel, data: dict[str, np.ndarray], tmp_path: Path) -> None:
    fit = cell.fit(data, FREE, "cell.V", dt=DT)
    fit.save(tmp_path / "fit.json")
    fit.save(tmp_path / "fit.csv")
    assert json.loads((tmp_path / "fit.json").read_text())["estimates"] == fit.estimates
    assert (tmp_path / "fit.csv").read_text().startswith("parameter,estimate,standard error,")
    with pytest.raises(LoopError, match=r"cannot save a fit as '.txt'"):
        fit.save(tmp_path / "fit.txt")


# --- what ends it ---------------------------------------------------------------------------------


def test_a_callback_is_told_the_best_and_may_end_it(
    cell: mdf_loop.CompiledModel, data: dict[str, np.ndarray]
) -> None:
    reports = []

    def tell(progress: mdf_loop.FitProgress) -> bool:
        reports.append(progress)
        return progress.evaluations < 270

    fit = cell.fit(data, FREE, "cell.V", dt=DT, progress=tell)
    assert fit.stopped_by is mdf_loop.StopReason.INTERRUPTED
    assert not fit.converged
    assert fit.cost == reports[-1].best == min(each.best for each in reports)
    assert fit.evaluations == reports[-1].evaluations >= 270


def test_a_time_limit_gives_the_best_so_far(
    cell: mdf_loop.CompiledModel, data: dict[str, np.ndarray]
) -> None:
    fit = cell.fit(data, FREE, "cell.V", dt=DT, time_limit=1e-9)
    assert fit.stopped_by is mdf_loop.StopReason.TIME_LIMIT
    assert np.isfinite(fit.cost)
    assert set(fit.estimates) == set(FREE)


def test_ctrl_c_gives_the_best_so_far(
    cell: mdf_loop.CompiledModel, data: dict[str, np.ndarray]
) -> None:
    def press(progress: mdf_loop.FitProgress) -> None:
        if progress.evaluations > 260:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as caught:
        cell.fit(data, FREE, "cell.V", dt=DT, progress=press)
    fit = caught.value.results  # type: ignore[attr-defined]
    assert fit.stopped_by is mdf_loop.StopReason.INTERRUPTED
    assert np.isfinite(fit.cost)


# --- refusals -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"free": {"cell.unread": (0.0, 1.0)}}, "'cell.unread' changes nothing"),
        ({"free": {"cell.tau": (1.0, 1.0)}}, "leave nothing between them"),
        ({"free": {"cell.tauu": (1.0, 2.0)}}, "no parameter 'cell.tauu'"),
        ({"free": {}}, "nothing is free"),
        ({"steps": 10}, "row 11 of the data is at time 1, .* 50 of 60 rows"),
        ({"against": "V2"}, "no output 'V2'"),
        ({"against": {"cell.V": "volt"}}, "no column 'volt' for 'cell.V'"),
        ({"against": []}, "no column of an output"),
        ({"start": {"cell.tau": 9.0, "cell.gain": 2.0}}, "9.0 is not within its bounds"),
        ({"trials": 10}, "trials are for a likelihood"),
        ({"method": "newton"}, "method cannot be 'newton'"),
        ({"method": "gradient"}, "curves cannot be fitted by gradient"),
        ({"shared": ["cell.tau"]}, "the data are of one"),
        ({"shared": ["cell.w"]}, "shared names 'cell.w', which is not free"),
        ({"points": 0}, "points must be a whole number above 0"),
        ({"data": None}, "a fit needs data, or an objective"),
        ({"objective": {"cell.V": "mean"}}, "against and objective are different fits"),
        ({"seed": -1}, "seed"),
    ],
)
def test_invalid_options_are_refused(
    cell: mdf_loop.CompiledModel,
    data: dict[str, np.ndarray],
    words: dict[str, object],
    message: str,
) -> None:
    options = {"data": data, "free": FREE, "against": "cell.V", "dt": DT, **words}
    with pytest.raises(LoopError, match=message):
        cell.fit(options.pop("data"), options.pop("free"), **options)


@pytest.mark.parametrize(
    ("data", "words", "message"),
    [
        (
            {"cell.V": np.ones(9)},
            {},
            "'cell.V' is one number in an evaluation, but the data have 9",
        ),
        ({"cell.both": np.ones(9)}, {}, r"'cell.both' has rows \[2\], but the data \[9\]"),
        (
            {"cell.both": np.ones(9)},
            {"steps": 9, "dt": DT},
            r"'cell.both' has rows \[9, 2\], but the data \[9\]",
        ),
    ],
)
def test_rows_that_an_output_does_not_have(
    cell: mdf_loop.CompiledModel,
    data: dict[str, np.ndarray],
    words: dict[str, object],
    message: str,
) -> None:
    with pytest.raises(LoopError, match=message):
        cell.fit(data, FREE, **words)


def test_elements_of_one_evaluation(cell: mdf_loop.CompiledModel) -> None:
    fit = cell.fit({"both": [0.5, 1.5]}, {"cell.v": (-1.0, 2.0)}, set={"cell.w": [1.0, 1.0]})
    assert fit.estimates["cell.v"] == pytest.approx(1.0)


def test_more_parameters_than_data(cell: mdf_loop.CompiledModel) -> None:
    with pytest.raises(LoopError, match="2 numbers are free, but there are only 1 data"):
        cell.fit({"time": [0.0], "cell.V": [1.0]}, FREE, dt=DT)


def test_as_many_parameters_as_data(cell: mdf_loop.CompiledModel) -> None:
    fit = cell.fit({"time": [1.0, 3.0], "cell.V": [1.6, 2.7]}, FREE, dt=DT)
    assert fit.sse == pytest.approx(0.0, abs=1e-18)
    assert not np.isfinite(list(fit.standard_errors.values())).any()


def test_starts_with_other_estimates_do_not_agree() -> None:
    square = compiled(CELL.replace("gain*drive", "gain*gain*drive"))
    data = trace(square, tau=1.5, gain=2.0)
    fit = square.fit(data, {"cell.gain": (-4.0, 4.0)}, "cell.V", dt=DT, set={"cell.tau": 1.5})
    ends = np.array([start.ended["cell.gain"] for start in fit.starts])
    assert abs(ends) == pytest.approx(2.0, rel=0.02)
    assert {start.agrees for start in fit.starts} == {True, False}
    assert [start.ties for start in fit.starts] == [not start.agrees for start in fit.starts]
    assert fit.agreeing == np.sum(ends * fit.estimates["cell.gain"] > 0) < len(fit.starts)
