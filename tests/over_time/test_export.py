"""Runs over time as one standard ONNX file: plain ONNX Runtime gives the results of `run`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from click.testing import CliRunner

import mdf_loop
from mdf_loop.cli import cli
from mdf_loop.errors import InputError
from tests.models.timed import ALL

EXAMPLES = Path(__file__).parents[2] / "examples"
RAMP = np.linspace(0, 1, 12)
GIVEN: dict[str, Mapping[str, Any]] = {
    "neuron": {"I": RAMP},
    "pair": {"drive": 0.3},
    "arrays": {"I": [0.1, 0.2, 0.3]},
    "scheduled": {},
}


def run_plain_session(proto: onnx.ModelProto, inputs: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Return the results of a plain session of ONNX Runtime."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(proto.SerializeToString(), options)
    arrays = {
        name: np.asarray(value, getattr(value, "dtype", float)) for name, value in inputs.items()
    }
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(None, arrays), strict=True))


def assert_same_rows(results: Mapping[str, Any], rows: Mapping[str, np.ndarray]) -> None:
    """Compare rows; rows of nodes that had not run are nan in results, while a file has flags for them."""
    for name, expected in results.items():
        row, flags = rows[name], rows.get(f"has run: {name}")
        if flags is not None:
            row = np.where(flags.reshape(-1, *[1] * (row.ndim - 1)), row, np.nan)
        np.testing.assert_array_equal(row, expected, err_msg=name)


@pytest.mark.parametrize("dt", [None, 0.5])
@pytest.mark.parametrize("name", ALL)
def test_a_file_gives_what_a_run_gives(name, dt):
    model, inputs = mdf_loop.compile(ALL[name], device="cpu", native="off"), GIVEN[name]
    proto = model.to_onnx(inputs, steps=12, dt=dt)
    onnx.checker.check_model(proto, full_check=True)
    assert_same_rows(model.run(inputs, steps=12, dt=dt), run_plain_session(proto, inputs))


def test_steps_and_dt_are_inputs_with_defaults():
    model = mdf_loop.compile(ALL["neuron"], device="cpu", native="off")
    proto = model.to_onnx({"I": 0.5}, steps=12, dt=0.5)
    assert_same_rows(model.run({"I": 0.5}, steps=12, dt=0.5), run_plain_session(proto, {"I": 0.5}))
    other = {"I": 0.25, "steps": np.array(30), "dt": 0.125}
    assert_same_rows(model.run({"I": 0.25}, steps=30, dt=0.125), run_plain_session(proto, other))
    one = {"I": 0.25, "steps": np.array(1)}
    assert_same_rows(model.run({"I": 0.25}, steps=1, dt=0.5), run_plain_session(proto, one))


@pytest.mark.parametrize("rows", [1, 11, 13])
def test_a_wrong_number_of_rows_is_an_error(rows):
    model = mdf_loop.compile(ALL["neuron"], device="cpu", native="off")
    proto = model.to_onnx({"I": RAMP}, steps=12, dt=0.5)
    with pytest.raises(Exception, match="'I' must have a row for each of the steps"):
        run_plain_session(proto, {"I": np.zeros(rows)})
    feeds = {"I": np.ones(rows), "steps": np.array(rows)}
    assert_same_rows(
        model.run({"I": np.ones(rows)}, steps=rows, dt=0.5), run_plain_session(proto, feeds)
    )


def test_a_model_that_draws_has_keys_for_an_input():
    model = mdf_loop.compile(EXAMPLES / "noisy_current" / "model.yaml", device="cpu", native="off")
    assert_same_rows(model.run(steps=20), run_plain_session(model.to_onnx(steps=20), {}))


def test_the_file_is_imported_as_a_loop(tmp_path):
    model = mdf_loop.compile(ALL["neuron"], device="cpu")
    model.save(tmp_path / "run.onnx", {"I": 0.5}, steps=12, dt=0.5)
    repeated = mdf_loop.compile(tmp_path / "run.onnx", device="cpu").run({"I": 0.5})
    results = model.run({"I": 0.5}, steps=12, dt=0.5)
    for name, rows in results.items():
        (imported,) = (
            value for key, value in repeated.items() if key.endswith(name.split(".")[-1])
        )
        np.testing.assert_allclose(imported, rows, rtol=1e-12)


def test_a_step_without_steps_is_refused():
    model = mdf_loop.compile(ALL["neuron"], device="cpu")
    with pytest.raises(InputError, match="dt"):
        model.to_onnx(dt=0.5)


def test_the_command_says_that_one_evaluation_remembers_nothing(tmp_path):
    model, file = EXAMPLES / "parameter_sweep" / "model.yaml", tmp_path / "run.onnx"
    plain = CliRunner().invoke(cli, ["compile", str(model), "-o", str(file)])
    assert "one evaluation from the initial state; --steps writes a run over time" in plain.output
    words = ["--steps", "5", "--dt", "0.1"]
    timed = CliRunner().invoke(cli, ["compile", str(model), "-o", str(file), *words])
    assert timed.exit_code == 0
    assert "one evaluation" not in timed.output
    assert run_plain_session(onnx.load(file), {"current": 0.5})["fn.v"].shape == (5,)
    loop = EXAMPLES / "newton_sqrt" / "model.yaml"
    assert "--steps" not in CliRunner().invoke(cli, ["compile", str(loop), "-o", str(file)]).output
