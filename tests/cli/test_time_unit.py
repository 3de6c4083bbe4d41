"""`--dt` with a unit: the conversion is printed on stderr."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

MS = {"time_unit": "ms"}


def decay(metadata: dict[str, Any] | None = None) -> dict[str, Any]:
    v = {"default_initial_value": 1.0, "time_derivative": "-v / 10"}
    cell = {"parameters": {"v": v}, "output_ports": {"o": {"value": "v"}}}
    return {"g": {"nodes": {"cell": cell}, **({"metadata": metadata} if metadata else {})}}


def test_conversions_are_printed(cli: Any, tmp_path: Path) -> None:
    model = tmp_path / "decay.json"
    model.write_text(json.dumps({"m": {"format": "ModECI MDF v0.4", "graphs": decay(MS)}}))
    path_without_unit = tmp_path / "plain.json"
    path_without_unit.write_text(
        json.dumps({"m": {"format": "ModECI MDF v0.4", "graphs": decay()}})
    )
    messages = {
        (model, "0.5"): "",
        (model, "0.5ms"): "",
        (model, "500us"): "dt: 500us is 0.5 ms\n",
        (path_without_unit, "0.5"): "",
        (path_without_unit, "1e-4 s"): "",
        (path_without_unit, "0.5ms"): "dt: 0.5ms is 0.0005 s (the model states no unit of time)\n",
    }
    for (path, dt), text in messages.items():
        assert cli("run", path, "--steps", 3, "--dt", dt).err == text
    outcome = cli("run", model, "--steps", 3, "--dt", "500us").out
    assert outcome.startswith("time: float64[time=3] ms\n  [0. , 0.5, 1. ]\n")
    assert cli("verify", model, "--steps", 3, "--dt", "500us").err == "dt: 500us is 0.5 ms\n"
    output_terms = ("--of", "cell.o:last", "--wrt", "cell.v")
    assert (
        cli("gradient", model, *output_terms, "--steps", 3, "--dt", "500us").err
        == "dt: 500us is 0.5 ms\n"
    )


@pytest.mark.parametrize("command", ["run", "verify"])
def test_a_unit_of_something_else_is_refused(cli: Any, tmp_path: Path, command: str) -> None:
    model = tmp_path / "decay.json"
    model.write_text(json.dumps({"m": {"format": "ModECI MDF v0.4", "graphs": decay(MS)}}))
    outcome = cli(command, model, "--steps", 3, "--dt", "0.5mV")
    assert outcome.code == 2
    assert outcome.err == (
        "InputError: dt is '0.5mV', but 'mV' is no unit of time\n"
        "  hint: units of time are ns, us, ms, s, min, h, d\n"
    )


def test_check_refuses_a_unit_that_is_no_time(cli: Any, tmp_path: Path) -> None:
    model = tmp_path / "decay.json"
    stated = decay({"time_unit": "mV"})
    model.write_text(json.dumps({"m": {"format": "ModECI MDF v0.4", "graphs": stated}}))
    outcome = cli("check", model)
    assert outcome.code == 2
    assert "'time_unit' of the graph 'g' is text, 'mV', which is no unit of time" in outcome.err
