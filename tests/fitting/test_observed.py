"""Data of several forms, matched to steps; what is refused of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mdf_loop.errors import InputError
from mdf_loop.fitting.observed import Observations, column_of, observations, read_table

TABLE = {"time": np.array([0.0, 0.21, 0.39]), "V": np.array([1.0, np.nan, 3.0])}


def of(table: object, steps: int | None = None, dt: float | None = 0.2) -> Observations:
    made = read_table(table)
    return observations(made, {"cell.V": column_of(made, ("V",), "cell.V")}, steps, dt)


def test_rows_belong_to_the_nearest_step() -> None:
    made = of(TABLE)
    assert made.parts[0].steps.tolist() == [0, 1, 2]
    assert made.steps == 3


def test_nan_is_not_counted() -> None:
    assert of(TABLE).count == 2


def test_without_dt_times_are_steps() -> None:
    made = of({"time": [0, 5, 5], "V": [1.0, 2.0, 2.5]}, dt=None)
    assert made.parts[0].steps.tolist() == [0, 5, 5]
    assert made.steps == 6


def test_without_time_rows_are_steps_or_elements() -> None:
    assert of({"V": [1.0, 2.0]}, steps=2).steps == 2
    assert of({"V": [1.0, 2.0]}, dt=None).steps is None


@pytest.mark.parametrize(
    ("column", "factors", "exact"),
    [("weight", [1.0, 0.0, 2.0], False), ("sd", [1.0, 2.0, 0.5], True)],
)
def test_weights_and_deviations(column: str, factors: list[float], exact: bool) -> None:
    given = {"weight": [1.0, 0.0, 4.0], "sd": [1.0, 0.5, 2.0]}[column]
    made = of({**TABLE, "V": [1.0, 2.0, 3.0], column: given})
    assert made.parts[0].factors.tolist() == factors
    assert made.exact is exact
    assert made.count == (2 if column == "weight" else 3)


def test_files_frames_and_arrays_alike(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    (tmp_path / "data.csv").write_text("time,V\n0.0,1.0\n0.21,\n0.39,3.0\n")
    np.savez(tmp_path / "data.npz", **TABLE)
    for data in (tmp_path / "data.csv", str(tmp_path / "data.npz"), pandas.DataFrame(TABLE)):
        np.testing.assert_array_equal(of(data).parts[0].values, TABLE["V"])


def test_elements_of_vectors(tmp_path: Path) -> None:
    (tmp_path / "data.csv").write_text("time,V[0],V[1]\n0.0,1.0,2\n0.2,3,4\n")
    assert of(tmp_path / "data.csv").parts[0].values.tolist() == [[1.0, 2.0], [3.0, 4.0]]


@pytest.mark.parametrize(
    ("table", "said"),
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
def test_what_does_not_fit(table: object, said: str) -> None:
    with pytest.raises(InputError, match=said):
        of(table)


def test_data_beyond_the_run() -> None:
    with pytest.raises(InputError, match=r"row 3 .* ends at 0.2: 1 of 3 rows match no step"):
        of(TABLE, steps=2)
