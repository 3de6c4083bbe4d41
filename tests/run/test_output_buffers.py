"""Rows written into their final arrays equal copied rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import mdf_loop
from mdf_loop.run.onnxruntime import session
from mdf_loop.run.output_buffers import NO_BUFFERS, shares_memory
from mdf_loop.run.recording.recorder import Recorder
from mdf_loop.run.recording.rows import Rows

CELLS = 40
STEPS = 2000


def model() -> dict[str, Any]:
    """Return a model with leaking cells, their signs, one single cell and a state with an integer start."""
    start = np.linspace(-1.0, 1.0, CELLS).tolist()
    nodes = {
        "a": {
            "parameters": {
                "start": {"value": start},
                "x": {"default_initial_value": "start", "time_derivative": "0.1 - x"},
            },
            "output_ports": {
                "x": {"value": "x"},
                "above": {"value": "x > 0"},
                "first": {"value": "x[0]"},
            },
        },
        "b": {
            "parameters": {"y": {"default_initial_value": 0, "time_derivative": "0.1 - y"}},
            "output_ports": {"y": {"value": "y"}},
        },
    }
    return {"m": {"format": "ModECI MDF v0.4", "graphs": {"g": {"nodes": nodes}}}}


def rows(compiled: mdf_loop.CompiledModel, **options: Any) -> dict[str, Any]:
    """Return copies of all rows of a run."""
    results = compiled.run(steps=STEPS, dt=0.01, progress=False, **options)
    return {name: np.array(results[name]) for name in results}


@pytest.mark.parametrize("native", ["auto", "off"])
@pytest.mark.parametrize("every", [1, 3, 500])
@pytest.mark.parametrize("sweep", [None, {"a.start": np.zeros((3, CELLS))}])
def test_rows_are_the_same_whether_copied_or_not(
    native: str, every: int, sweep: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled = mdf_loop.compile(model(), device="cpu", native=native)
    options = {"every": every} | ({} if sweep is None else {"sweep": sweep})
    monkeypatch.setattr(session, "MIN_DIRECT_BYTES", 0)
    other_rows = rows(compiled, **options)
    monkeypatch.setattr(Recorder, "get_buffers", lambda self, numbers: NO_BUFFERS)
    copied = rows(compiled, **options)
    for name, array in copied.items():
        np.testing.assert_array_equal(other_rows[name], array)
        assert other_rows[name].dtype == array.dtype


@pytest.mark.native
def test_rows_are_written_where_they_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    is_in_buffer = []
    add = Rows.add

    def spied(self: Rows, coordinate: Any, added: Any) -> None:
        buffers = self.next_buffers(len(coordinate))
        is_in_buffer.append(
            all(shares_memory(part, buffers.get(name)) for name, part in added.items())
        )
        add(self, coordinate, added)

    monkeypatch.setattr(Rows, "add", spied)
    monkeypatch.setattr(
        session, "MIN_DIRECT_BYTES", 0
    )  # the last chunk may be short, depending on timing
    rows(mdf_loop.compile(model(), device="cpu", native="require"))
    assert not is_in_buffer[0]
    assert all(is_in_buffer[1:])


@pytest.mark.parametrize(("steps", "dtype"), [(1, "int64"), (2, "float64")])
def test_the_first_row_has_the_dtype_of_all(steps: int, dtype: str) -> None:
    results = mdf_loop.compile(model()).run(steps=steps, dt=0.01)
    assert results["b.y"].dtype == dtype


def test_there_are_buffers_only_for_rows_like_the_last_ones() -> None:
    rows = Rows(expected=4)
    assert rows.next_buffers(1) == {}
    rows.add(range(1), {"a": np.zeros((1, 2)), "b": np.zeros((1, 2))})
    assert {name: buffer.shape for name, buffer in rows.next_buffers(3).items()} == {
        "a": (3, 2),
        "b": (3, 2),
    }
    assert rows.next_buffers(4) == {}
    rows.next_buffers(1)["a"][...] = 7.0
    rows.add(range(1), {"a": rows.next_buffers(1)["a"], "b": np.ones((1, 3))})
    np.testing.assert_array_equal(rows.arrays()["a"], [[0, 0], [7, 7]])
    np.testing.assert_array_equal(rows.arrays()["b"], [[0, 0, np.nan], [1, 1, 1]])
    assert rows.next_buffers(1)["b"].shape == (1, 3)


def test_rows_of_members_lie_behind_each_other() -> None:
    rows = Rows(axis=1, expected=3)
    rows.add(range(1), {"a": np.zeros((2, 1, 5))})
    buffer = rows.next_buffers(2)["a"]
    assert buffer.shape == (2, 2, 5)
    assert np.moveaxis(buffer, 1, 0).flags.c_contiguous
