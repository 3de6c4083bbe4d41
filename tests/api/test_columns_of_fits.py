"""Data columns that a fit does not read, and data rows that a fit leaves out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import mdf_loop
from mdf_loop.errors import InputError
from tests.models.fitted import CELL, DECISION, DT, FREE, compiled, trace

OF = {"rt": "ddm.rt", "choice": "ddm.choice"}
DRIFT = {"ddm.drift": (0.0, 3.0)}
GIVEN = DECISION.replace("  ddm:\n", "  ddm:\n    input_ports: {coherence: {default_value: 0.1}}\n")


@pytest.fixture(scope="module")
def cell() -> mdf_loop.CompiledModel:
    return compiled(CELL)


@pytest.mark.parametrize("name", ["drive", "cell.drive"])
@pytest.mark.parametrize("against", [None, "cell.V", {"cell.V": "mV"}])
def test_a_column_of_an_input_is_refused_by_name(
    cell: mdf_loop.CompiledModel, name: str, against: Any
) -> None:
    data = trace(cell)
    data["mV" if isinstance(against, dict) else "cell.V"] = data.pop("cell.V")
    data[name] = np.ones(len(data["time"]))
    with pytest.raises(InputError, match=f"the column '{name}' .* name of an input"):
        cell.fit(data, FREE, against, dt=DT)


@pytest.mark.parametrize("name", ["coherence", "ddm.coherence"])
def test_a_column_of_an_input_beside_decisions_is_refused(name: str) -> None:
    data = {"rt": np.ones(20), "choice": np.ones(20), name: np.full(20, 0.256)}
    with pytest.raises(InputError, match=f"the column '{name}' .* name of an input"):
        compiled(GIVEN).fit(data, DRIFT, likelihood=OF, trials=20)
    with pytest.raises(InputError, match=f"subject 's': the column '{name}'"):
        compiled(GIVEN).fit({"s": data}, DRIFT, likelihood=OF, trials=20, shared=["ddm.drift"])


def test_a_column_that_is_read_may_have_the_name_of_an_input(cell: mdf_loop.CompiledModel) -> None:
    data = trace(cell)
    data["drive"] = data.pop("cell.V")
    fit = cell.fit(data, FREE, {"cell.V": "drive"}, dt=DT, points=8, polish=1)
    assert fit.dropped == 0
    assert "dropped" not in str(fit)


def test_rows_of_curves_that_are_left_out_are_counted(cell: mdf_loop.CompiledModel) -> None:
    data = trace(cell)
    data["cell.V"][[3, 7]] = np.nan, np.inf
    fit = cell.fit(data, FREE, dt=DT, points=8, polish=1)
    assert (fit.dropped, fit.count) == (2, len(data["time"]) - 2)
    assert fit.to_dict()["dropped"] == 2
    assert "2 rows with nan or infinite values" in str(fit)


def test_rows_of_decisions_that_are_left_out_are_counted() -> None:
    ddm = compiled(DECISION)
    results = ddm.run(trials=60, seed=3)
    data = {"rt": np.asarray(results["rt"]), "choice": np.asarray(results["choice"]).astype(float)}
    data["rt"][[0, 1]] = np.nan, -np.inf
    data["choice"][[1, 2]] = np.nan
    fit = ddm.fit(data, DRIFT, likelihood=OF, trials=60, points=8)
    assert (fit.dropped, fit.count) == (3, 57)


def test_a_likelihood_of_a_run_over_time_is_refused() -> None:
    data = {"rt": np.ones(20), "choice": np.ones(20)}
    with pytest.raises(InputError, match="steps give a row for each step"):
        compiled(DECISION).fit(data, DRIFT, likelihood=OF, trials=20, steps=20)
