"""Tests of reading observed data and of matching rows to the steps of a run."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mdf_loop.errors import InputError
from mdf_loop.fitting.observed import Observations, find_column, match_to_steps, read_table

TABLE = {"time": np.array([0.0, 0.21, 0.39]), "V": np.array([1.0, np.nan, 3.0])}


def observe(table: object, steps: int | None = None, dt: float | None = 0.2) -> Observations:
    columns = read_table(table)
    return match_to_steps(columns, {"cell.V": find_column(columns, ("V",), "cell.V")}, steps, dt)


def test_rows_are_matched_to_the_nearest_step() -> None:
    observed = observe(TABLE)
    assert observed.output_series[0].row_steps.tolist() == [0, 1, 2]
    assert observed.steps == 3


def test_nan_is_not_counted() -> None:
    assert observe(TABLE).count == 2


def test_times_without_dt_are_steps() -> None:
    observed = observe({"time": [0, 5, 5], "V": [1.0, 2.0, 2.5]}, dt=None)
    assert observed.output_series[0].row_steps.tolist() == [0, 5, 5]
    assert observed.steps == 6


def test_rows_without_a_time_column() -> None:
    assert observe({"V": [1.0, 2.0]}, steps=2).steps == 2
    assert observe({"V": [1.0, 2.0]}, dt=None).steps is None


@pytest.mark.parametrize(
    ("column", "factors", "exact"),
    [("weight", [1.0, 0.0, 2.0], False), ("sd", [1.0, 2.0, 0.5], True)],
)
def test_weights_and_standard_deviations(column: str, factors: list[float], exact: bool) -> None:
    column_values = {"weight": [1.0, 0.0, 4.0], "sd": [1.0, 0.5, 2.0]}[column]
    observed = observe({**TABLE, "V": [1.0, 2.0, 3.0], column: column_values})
    assert observed.output_series[0].residual_factors.tolist() == factors
    assert observed.has_known_deviations is exact
    assert observed.count == (2 if column == "weight" else 3)


def test_files_and_frames_give_equal_data(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    (tmp_path / "data.csv").write_text("time,V\n0.0,1.0\n0.21,\n0.39,3.0\n")
    np.savez(tmp_path / "data.npz", **TABLE)
    for data in (tmp_path / "data.csv", str(tmp_path / "data.npz"), pandas.DataFrame(TABLE)):
        np.testing.assert_array_equal(observe(data).output_series[0].observed_values, TABLE["V"])


def test_columns_of_elements_form_a_vector(tmp_path: Path) -> None:
    (tmp_path / "data.csv").write_text("time,V[0],V[1]\n0.0,1.0,2\n0.2,3,4\n")
    assert observe(tmp_path / "data.csv").output_series[0].observed_values.tolist() == [
        [1.0, 2.0],
        [3.0, 4.0],
    ]


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"time": [0.0, 0.2], "V": [1.0]}, "not equally long: 'time' 2, 'V' 1"),
        ({"time": [0.0, np.nan], "V": [1.0, 2.0]}, "'time' is no column of finite numbers"),
        ({"time": [0.0, -0.2], "V": [1.0, 2.0]}, "row 2 of the data is at time -0.2"),
        ({"time": [0.0], "V": [np.nan]}, "no number for 'cell.V'"),
        ({"time": [0.0], "U": [1.0]}, "no column 'V' for cell.V"),
        ({"time": [0.0], "V": [1.0], "sd": [0.0]}, "'sd' must hold finite numbers above 0"),
        ({"time": [0.0], "V": [1.0], "weight": [-1]}, "'weight' must hold finite numbers from 0"),
        ({"time": [0.0], "V": [1.0], "sd": [1], "weight": [1]}, "both 'weight' and 'sd'"),
        ({"time": [0.0], "V": ["a"]}, "'V' of the data is no column of numbers"),
        ({"time": [0.0], "V": [[1.0], [1.0, 2.0]]}, "rows of different lengths"),
        ("data.txt", "'data.txt' is no data"),
        ("none.csv", "there is no file 'none.csv'"),
        (3.0, "the data cannot be float"),
    ],
)
def test_malformed_data_are_refused(table: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        observe(table)


def test_data_beyond_the_run_are_refused() -> None:
    with pytest.raises(InputError, match=r"row 3 .* ends at 0.2: 1 of 3 rows match no step"):
        observe(TABLE, steps=2)
