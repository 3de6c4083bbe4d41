"""Native code is compiled for repeated runs of equal types, even if it does not pay for a single run."""

from __future__ import annotations

import numpy as np
import pytest
from msgspec.structs import replace

from mdf_loop.api.specified_run import run_specified
from mdf_loop.request.run_options import RunOptions
from mdf_loop.specification import specify
from tests.models.fitted import CELL, compiled


@pytest.mark.native
def test_short_runs_are_native_if_there_are_many() -> None:
    prepared = compiled(CELL).prepared
    spec = specify(RunOptions(steps=300, dt=0.1, only=["cell.V"], progress=False))
    one, many = (run_specified(prepared, replace(spec, runs=runs)) for runs in (1, 100))
    assert one.native == {"time": "standard: there is little to do"}
    assert many.native == {"time": "native"}
    assert np.array_equal(one["cell.V"], many["cell.V"])


@pytest.mark.native
def test_short_runs_are_native_when_there_have_been_many() -> None:
    model = compiled(CELL)
    placements, rows = [], []
    for _ in range(300):
        results = model.run(steps=300, dt=0.1, only=["cell.V"], progress=False)
        placements.append(results.native["time"])
        rows.append(results["cell.V"])
    changes = [k for k in range(1, 300) if placements[k] != placements[k - 1]]
    assert (placements[0], placements[-1], len(changes)) == (
        "standard: there is little to do",
        "native",
        1,
    )
    assert changes[0] > 100
    assert all(np.array_equal(each, rows[0]) for each in rows)
