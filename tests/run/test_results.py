"""Results: names, JSON, files."""

from __future__ import annotations

import json

import numpy as np
import pytest

from mdf_loop.errors import InputError
from mdf_loop.ir import StoppedBy
from mdf_loop.run.results import LoopReport, Results


@pytest.fixture
def results() -> Results:
    arrays = {
        "A.x": np.array([1.5, np.nan, np.inf]),
        "A.n": np.array(3),
        "B.n": np.array([[True], [False]]),
        "B.word": np.array(["a", "b"], dtype=object),
        "B.none": np.zeros((0, 2), np.float32),
    }
    loops = {"A.f": LoopReport(3, StoppedBy.CONDITION)}
    return Results(arrays, loops, "cpu", "float64")


def test_a_port_id_alone_will_do_where_it_is_the_only_one(results: Results) -> None:
    assert results["x"] is results["A.x"]
    with pytest.raises(KeyError, match=r"no output 'n'; there are A\.x"):
        results["n"]
    assert list(results) == ["A.x", "A.n", "B.n", "B.word", "B.none"]
    assert len(results) == 5


def test_json_is_one_object_with_nan_and_infinities_as_text(results: Results) -> None:
    content = json.loads(results.to_json())
    assert content["outputs"]["A.x"] == {
        "dtype": "float64",
        "shape": [3],
        "data": [1.5, "nan", "inf"],
    }
    assert content["outputs"]["A.n"] == {"dtype": "int64", "shape": [], "data": 3}
    assert content["outputs"]["B.n"] == {
        "dtype": "bool",
        "shape": [2, 1],
        "data": [[True], [False]],
    }
    assert content["outputs"]["B.word"] == {"dtype": "string", "shape": [2], "data": ["a", "b"]}
    assert content["outputs"]["B.none"] == {"dtype": "float32", "shape": [0, 2], "data": []}
    assert content["loops"] == {"A.f": {"iterations": 3, "stopped_by": "condition"}}
    assert (content["device"], content["precision"]) == ("cpu", "float64")


def test_save_as_json_and_npz(tmp_path, results: Results) -> None:
    results.save(tmp_path / "r.json")
    assert json.loads((tmp_path / "r.json").read_text()) == json.loads(results.to_json())
    plain = Results({"A.x": results["A.x"]}, {}, "cpu", "float64")
    plain.save(tmp_path / "r.npz")
    with np.load(tmp_path / "r.npz") as archive:
        np.testing.assert_array_equal(archive["A.x"], results["A.x"])


@pytest.mark.parametrize("name", ["r.txt", "r"])
def test_other_files_are_refused(tmp_path, results: Results, name: str) -> None:
    with pytest.raises(InputError, match=r"use \.npz or \.json"):
        results.save(tmp_path / name)


def test_a_file_that_cannot_be_written_is_one_error(tmp_path, results: Results) -> None:
    with pytest.raises(InputError, match="cannot write"):
        results.save(tmp_path / "missing" / "r.json")


def test_repr_shows_types(results: Results) -> None:
    assert "A.x: float64[3]" in repr(results)


def test_the_reasons_are_sentences() -> None:
    assert [r.word for r in StoppedBy] == ["trip_count", "condition", "max_iterations"]
    assert [r.code for r in StoppedBy] == [0, 1, 2]
    assert all(len(r.value.split()) > 3 for r in StoppedBy)
