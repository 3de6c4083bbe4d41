"""Data, bounds, start values and noise of fits as Quantities."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import pint
import pytest

import mdf_loop
from mdf_loop.errors import InputError, LoopError
from tests.conftest import document_of
from tests.models.with_units import CELL

REGISTRY = pint.UnitRegistry()
Q = REGISTRY.Quantity
STEPS, DT = 12, 5.0
FAST: dict[str, Any] = {"points": 8, "polish": 1}
FREE = {"cell.tau": (2.0, 50.0)}
FREE_SECONDS = {"cell.tau": (Q(2.0, "ms"), Q(0.05, "s"))}


@pytest.fixture(scope="module")
def cell() -> mdf_loop.CompiledModel:
    return mdf_loop.compile(document_of(CELL), device="cpu")


@pytest.fixture(autouse=True)
def _no_unit_is_stripped() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("error", pint.UnitStrippedWarning)
        yield


@pytest.fixture(scope="module")
def data(cell: mdf_loop.CompiledModel) -> dict[str, Any]:
    rows = cell.run(set={"cell.tau": 20.0}, steps=STEPS, dt=DT)["cell.V"]
    return {"time": np.arange(STEPS) * DT, "cell.V": rows}


@pytest.fixture(scope="module")
def measured(data: Any) -> dict[str, Any]:
    return {"time": Q(data["time"] / 1e3, "s"), "cell.V": Q(data["cell.V"] / 1e3, "V")}


def tau(fit: Any) -> float:
    return float(fit.estimates["cell.tau"])


def table(columns: dict[str, Any]) -> pd.DataFrame:
    frame = pd.DataFrame(index=range(STEPS))
    for name, values in columns.items():
        objects = np.empty(STEPS, object)
        for k, value in enumerate(values):
            objects[k] = value
        frame[name] = objects if hasattr(values, "units") else values
    return frame


@pytest.mark.parametrize(
    "change",
    [
        lambda d: d,
        lambda d: {**d, "cell.V": list(d["cell.V"])},
        lambda d: {"V" if name == "cell.V" else name: each for name, each in d.items()},
        lambda d: {**d, "sd": Q(np.full(STEPS, 1e-4), "V")},
        lambda d: {**d, "weight": Q(np.ones(STEPS), "")},
        lambda d: {"step": np.arange(STEPS), "cell.V": d["cell.V"]},
        table,
    ],
)
def test_columns_are_converted(cell: mdf_loop.CompiledModel, measured: Any, change: Any) -> None:
    fit = cell.fit(change(measured), FREE, dt=Q(DT, "ms"), **FAST)
    assert tau(fit) == pytest.approx(20.0, rel=1e-5)


def test_standard_deviations_are_converted(
    cell: mdf_loop.CompiledModel, data: Any, measured: Any
) -> None:
    converted_fit = cell.fit({**data, "sd": np.full(STEPS, 0.1)}, FREE, dt=DT, **FAST)
    fit = cell.fit({**measured, "sd": Q(np.full(STEPS, 1e-4), "V")}, FREE, dt=DT, **FAST)
    assert fit.standard_errors["cell.tau"] == pytest.approx(
        converted_fit.standard_errors["cell.tau"], rel=1e-5
    )


@pytest.mark.parametrize("against", ["cell.V", ["V"], {"cell.V": "mine"}])
def test_a_column_that_is_not_read_may_have_any_unit(
    cell: mdf_loop.CompiledModel, measured: Any, against: Any
) -> None:
    values = {**measured, "other": Q(np.ones(STEPS), "kg")}
    if isinstance(against, dict):
        values["mine"] = values.pop("cell.V")
    assert tau(cell.fit(values, FREE, against, dt=DT, **FAST)) == pytest.approx(20.0, rel=1e-5)
    values["gain"] = Q(np.ones(STEPS), "")
    with pytest.raises(InputError, match="the column 'gain' of the data has the name of an input"):
        cell.fit(values, FREE, against, dt=DT, **FAST)


def test_subjects_may_have_data_of_their_own_units(
    cell: mdf_loop.CompiledModel, data: Any, measured: Any
) -> None:
    fits = cell.fit({"a": data, "b": measured, "c": table(measured)}, FREE, dt=DT, **FAST)
    assert [tau(fits[name]) for name in "abc"] == pytest.approx([20.0] * 3, rel=1e-5)
    with pytest.raises(InputError, match=r"subject 'b': the column 'cell\.V' is given in ampere"):
        cell.fit({"a": data, "b": {**data, "cell.V": Q(data["cell.V"], "A")}}, FREE, dt=DT)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"cell.V": Q(np.ones(STEPS), "A")}, r"the column 'cell\.V' is given in ampere, but its unit is 'mV'"),
        ({"cell.V": Q(np.ones(STEPS), "A"), "cell.D": np.ones(STEPS)}, r"the column 'cell\.V'"),
        ({"cell.G": Q(np.ones(STEPS), "A")}, r"the column 'cell\.G' is given in ampere, but has no unit"),
        ({"cell.none": Q(np.ones(STEPS), "A")}, r"the model has no output 'cell\.none'"),
        ({"cell.V": np.ones(STEPS), "time": Q(np.ones(STEPS), "A")}, "the column 'time' is given in ampere"),
        ({"cell.V": np.ones(STEPS), "step": Q(np.ones(STEPS), "s")}, "the column 'step' is given in second, but has"),
        ({"cell.V": np.ones(STEPS), "weight": Q(np.ones(STEPS), "s")}, "the column 'weight' is given in second"),
        ({"cell.V": np.ones(STEPS), "sd": Q(np.ones(STEPS), "s")}, "the column 'sd' is given in second"),
        (
            {"cell.V": np.ones(STEPS), "cell.J": np.ones(STEPS), "sd": Q(np.ones(STEPS), "mV")},
            r"the column 'sd' has a unit, but is for outputs of different units: 'cell\.V' has mV, 'cell\.J' has pA",
        ),
        ({"cell.T": np.ones(STEPS), "sd": Q(np.ones(STEPS), "degC")}, "zero of its own"),
    ],
)  # fmt: skip
def test_columns_that_do_not_fit_are_refused(
    cell: mdf_loop.CompiledModel, columns: Any, message: str
) -> None:
    with pytest.raises(LoopError, match=message):
        cell.fit(columns, FREE, dt=DT, **FAST)


def test_times_without_a_step_are_no_times(cell: mdf_loop.CompiledModel, measured: Any) -> None:
    with pytest.raises(
        InputError, match=r"(?s)the column 'time' has a unit, but without dt.*give dt"
    ):
        cell.fit(measured, FREE, **FAST)


def test_one_column_of_two_outputs_needs_one_unit(
    cell: mdf_loop.CompiledModel, measured: Any
) -> None:
    against = {"cell.V": "both", "cell.J": "both"}
    with pytest.raises(
        InputError, match="the column 'both' has a unit, but is for outputs of diff"
    ):
        cell.fit({"both": measured["cell.V"]}, FREE, against, dt=DT, **FAST)


@pytest.mark.parametrize(
    "free", [FREE_SECONDS, {"cell.tau": Q([2.0, 50.0], "ms")}, {"cell.tau": (2.0, Q(0.05, "s"))}]
)
def test_bounds_and_starts_are_converted(
    cell: mdf_loop.CompiledModel, data: Any, free: Any
) -> None:
    start = {"cell.tau": Q(0.03, "s")}
    assert tau(cell.fit(data, free, dt=DT, start=start, **FAST)) == pytest.approx(20.0, rel=1e-5)


def test_bounds_of_an_input_and_given_values_are_converted(
    cell: mdf_loop.CompiledModel, data: Any
) -> None:
    fit = cell.fit(
        data,
        {"I": (Q(0.1, "nA"), Q(1.0, "nA"))},
        dt=DT,
        set={"cell.tau": Q(0.02, "s")},
        inputs={"heat": Q(300.0, "kelvin"), "gain": Q(1.0, "")},
        **FAST,
    )
    assert float(fit.estimates["I"]) == pytest.approx(500.0, rel=1e-5)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"free": {"cell.tau": (Q(1.0, "mV"), Q(2.0, "mV"))}}, r"a bound of 'cell\.tau' is given in millivolt"),
        ({"free": {"cell.none": (Q(1.0, "mV"), 2.0)}}, r"the model has no parameter 'cell\.none'"),
        ({"start": {"cell.tau": Q(1.0, "mV")}}, r"the start of 'cell\.tau' is given in millivolt"),
        ({"set": {"cell.R": Q(1.0, "mV")}}, r"the value of 'cell\.R' is given in millivolt"),
        ({"inputs": {"I": Q(1.0, "mV")}}, "the input 'I' is given in millivolt"),
        ({"dt": Q(1.0, "mV")}, "dt is given in millivolt"),
    ],
)  # fmt: skip
def test_words_of_a_fit_that_do_not_fit_are_refused(
    cell: mdf_loop.CompiledModel, data: Any, words: Any, message: str
) -> None:
    with pytest.raises(InputError, match=message):
        cell.fit(data, **{"free": FREE, "dt": DT, **words})


def test_an_objective_in_words_is_converted(cell: mdf_loop.CompiledModel, measured: Any) -> None:
    words = {"cell.V": {"sse": measured["cell.V"]}}
    fit = cell.fit(None, FREE, objective=words, steps=STEPS, dt=Q(DT, "ms"), **FAST)
    assert tau(fit) == pytest.approx(20.0, rel=1e-3)
    with pytest.raises(InputError, match=r"the array for sse of 'cell\.V' is given in ampere"):
        cell.fit(None, FREE, objective={"cell.V": {"sse": Q(1.0, "A")}}, steps=STEPS, dt=DT)


DECISION = """
metadata: {time_unit: ms}
nodes:
  ddm:
    parameters:
      late: {value: 300.0, metadata: {units: ms}}
    functions:
      x: {value: late + 100.0*numpy.abs(numpy.random.normal()), metadata: {units: ms}}
    output_ports:
      rt: {value: x}
      choice: {value: x > 0.0}
"""


def test_reaction_times_are_converted() -> None:
    model = mdf_loop.compile(document_of(DECISION))
    times = np.linspace(0.31, 0.6, 40)
    fit_options: dict[str, Any] = {"likelihood": {"rt": "ddm.rt"}, "trials": 200, "points": 8}
    free = {"ddm.late": (Q(0.1, "s"), Q(0.5, "s"))}
    fit = model.fit({"rt": Q(times, "s"), "other": Q(times, "kg")}, free, **fit_options)
    converted_fit = model.fit(
        {"rt": Q(times, "s").to("ms").magnitude}, {"ddm.late": (100.0, 500.0)}, **fit_options
    )
    assert fit.estimates["ddm.late"] == pytest.approx(converted_fit.estimates["ddm.late"], rel=1e-9)
    with pytest.raises(InputError, match="the column 'rt' is given in volt, but its unit is 'ms'"):
        model.fit({"rt": Q(times, "V")}, free, **fit_options)


def test_a_recovery_takes_quantities(cell: mdf_loop.CompiledModel) -> None:
    fit_options: dict[str, Any] = {"steps": STEPS, "times": 1, **FAST}
    recovery = mdf_loop.recover(
        cell,
        FREE_SECONDS,
        against="cell.V",
        dt=Q(DT, "ms"),
        noise=Q(1e-5, "V"),
        inputs={"I": Q(600, "pA")},
        set={"cell.rest": Q(-65, "mV")},
        **fit_options,
    )
    plain = mdf_loop.recover(
        cell,
        FREE,
        against="cell.V",
        dt=DT,
        noise=1e-2,
        inputs={"I": 600},
        set={"cell.rest": -65},
        **fit_options,
    )
    assert recovery.fits[0].estimates["cell.tau"] == pytest.approx(
        plain.fits[0].estimates["cell.tau"], rel=1e-6
    )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"noise": Q(1.0, "A")}, "the noise is given in ampere, but its unit is 'mV'"),
        ({"noise": Q(1.0, "A"), "against": None}, "the noise has a unit, but is for outputs of different"),
        ({"free": {"cell.tau": (Q(1.0, "V"), 2.0)}}, r"a bound of 'cell\.tau'"),
        ({"dt": Q(1.0, "V")}, "dt is given in volt"),
        ({"set": {"cell.R": Q(1.0, "V")}}, r"the value of 'cell\.R'"),
        ({"inputs": {"I": Q(1.0, "V")}}, "the input 'I'"),
    ],
)  # fmt: skip
def test_a_recovery_refuses_what_does_not_fit(
    cell: mdf_loop.CompiledModel, words: Any, message: str
) -> None:
    usual = {"free": FREE, "against": "cell.V", "dt": DT, "noise": 0.1, "steps": STEPS}
    with pytest.raises(InputError, match=message):
        mdf_loop.recover(cell, **{**usual, **words})
