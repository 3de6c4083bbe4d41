"""`mdf-loop run` over time: settings, sweeps, inputs, states and the execution order."""

from __future__ import annotations

import copy
import re
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
import yaml

import mdf_loop
from tests.models.timed import ARRAYS, NEURON, SCHEDULED


def saved(folder: Path, name: str, model: dict) -> Path:
    path = folder / f"{name}.yaml"
    content = {name: {"format": "ModECI MDF v0.4", "graphs": model}}
    path.write_text(yaml.safe_dump(content, sort_keys=False))
    return path


@pytest.fixture
def neuron(tmp_path):
    return saved(tmp_path, "neuron", NEURON)


@pytest.fixture
def arrays(tmp_path):
    return saved(tmp_path, "arrays", ARRAYS)


@pytest.fixture
def scheduled(tmp_path):
    return saved(tmp_path, "scheduled", SCHEDULED)


@pytest.fixture
def compiled():
    return mdf_loop.compile(NEURON, device="cpu")


TIME = ("--steps", 6, "--dt", 0.5)


def data(outcome, name="fn.v"):
    assert (outcome.code, outcome.err) == (0, "")
    return outcome.json["outputs"][name]["data"]


# --- options reach the run ----------------------------------------------------------------------


def test_set(cli, neuron, compiled):
    voltages = data(cli("run", neuron, *TIME, "--set", "fn.a=0.1", "--set", "fn.v=2", "--json"))
    expected = compiled.run(set={"fn.a": 0.1, "fn.v": 2}, steps=6, dt=0.5)["v"]
    assert voltages == expected.tolist()
    once = data(cli("run", neuron, "--set", "fn.start=0.25", "--json"))
    assert once == 0.25


def test_every(cli, neuron, compiled):
    outcome = cli("run", neuron, *TIME, "--every", 4, "--json")
    every_row = compiled.run(steps=6, dt=0.5)
    assert data(outcome) == every_row["v"][::4].tolist()
    assert outcome.json["axes"] == {"time": [0.0, 2.0]}


def test_sweep(cli, neuron, compiled):
    outcome = cli(
        *("run", neuron, *TIME, "--sweep", "fn.a=0:1:3", "--sweep", "I=[1, 2, 3]", "--json")
    )
    expected = compiled.run(sweep={"fn.a": [0, 0.5, 1], "I": [1, 2, 3]}, steps=6, dt=0.5)["v"]
    assert data(outcome) == expected.tolist()
    assert outcome.json["axes"] == {
        "fn.a": [0, 0.5, 1],
        "I": [1, 2, 3],
        "time": [0, 0.5, 1, 1.5, 2, 2.5],
    }


def test_engine(cli, neuron):
    arguments = ("run", neuron, *TIME, "--set", "fn.a=0.25")
    compiled_outcome, engine_outcome = (
        cli(*arguments, "--json"),
        cli(*arguments, "--engine", "modeci", "--json"),
    )
    assert data(compiled_outcome) == data(engine_outcome)
    assert "device: cpu (modeci_mdf's engine)" in cli(*arguments, "--engine", "modeci").out


def test_the_engine_runs_models_that_cannot_be_compiled(cli, tmp_path):
    node = {"output_ports": {"y": {"value": "ord('a')"}}}
    path = saved(tmp_path, "m", {"g": {"nodes": {"n": node}}})
    refusal = cli("run", path)
    assert (refusal.code, refusal.out) == (2, "")
    assert data(cli("run", path, "--engine", "modeci", "--json"), "n.y") == 97
    assert "modeci_mdf's engine" in cli("run", path, "--engine", "modeci").out


def test_inputs_over_time(cli, neuron, compiled, tmp_path):
    rows = [0.0, 1.0, -1.0, 0.5, 0.25, 2.0]
    (tmp_path / "stimulus.csv").write_text("time,I,other\n" + "".join(f"0,{x},1\n" for x in rows))
    (tmp_path / "only.csv").write_text("step,I\n" + "".join(f"0,{x}\n" for x in rows))
    np.savez(tmp_path / "file.npz", I=rows, name=rows)
    expected = compiled.run({"I": rows}, steps=6, dt=0.5)["v"].tolist()
    for options in (
        ("--input", f"I={tmp_path}/stimulus.csv:I"),
        ("--input", f"I={tmp_path}/file.npz:name"),
        ("--input", f"I={rows}"),
        ("--inputs", tmp_path / "only.csv"),
    ):
        assert data(cli("run", neuron, *TIME, *options, "--json")) == expected
        assert cli("verify", neuron, *TIME, *options).code == 0


def test_vectors_over_time(cli, arrays, tmp_path):
    rows = np.arange(12.0).reshape(4, 3)
    lines = ["I[0],I[1],I[2]", *(",".join(map(str, row)) for row in rows)]
    (tmp_path / "in.csv").write_text("\n".join(lines))
    outcome = cli(
        "run", arrays, "--steps", 4, "--dt", 0.5, "--inputs", tmp_path / "in.csv", "--json"
    )
    expected = mdf_loop.compile(ARRAYS, device="cpu").run({"I": rows}, steps=4, dt=0.5)["net.r"]
    assert data(outcome, "net.r") == expected.tolist()


def test_a_saved_csv_can_be_an_input(cli, neuron, tmp_path):
    cli("run", neuron, *TIME, "--output", tmp_path / "out.csv")
    outcome = cli("run", neuron, *TIME, "--input", f"I={tmp_path}/out.csv:fn.w", "--json")
    assert outcome.code == 0


def test_a_run_continues_from_a_state(cli, neuron, compiled, tmp_path):
    state = tmp_path / "state.npz"
    first = data(cli("run", neuron, "--steps", 4, "--dt", 0.5, "--final-state", state, "--json"))
    second = cli("run", neuron, "--steps", 5, "--dt", 0.5, "--initial-state", state, "--json")
    unbroken = compiled.run(steps=9, dt=0.5)
    assert first + data(second) == unbroken["v"].tolist()
    assert second.json["axes"]["time"] == unbroken.time[4:].tolist()
    cli(
        *(
            "run",
            neuron,
            "--steps",
            5,
            "--dt",
            0.5,
            "--initial-state",
            state,
            "--final-state",
            state,
        )
    )
    with np.load(state) as archive:
        assert sorted(archive) == sorted(unbroken.state)
        for name, array in unbroken.state.items():
            np.testing.assert_array_equal(archive[name], array)


def test_execution_list(cli, scheduled):
    outcome = cli("run", scheduled, "--steps", 5, "--execution-list", "--json")
    assert outcome.json["execution_list"] == [[["fast"]]] * 3 + [[["fast"], ["slow"]]] * 2
    text = cli("run", scheduled, "--steps", 5, "--execution-list").out
    assert "order of execution:\n  0 to 2: fast\n  3 to 4: fast | slow\ndevice: " in text
    engine = cli("run", scheduled, "--steps", 5, "--execution-list", "--engine", "modeci", "--json")
    assert engine.json["execution_list"] == outcome.json["execution_list"]
    assert "execution_list" not in cli("run", scheduled, "--steps", 5, "--json").json
    assert "order" not in cli("run", scheduled, "--steps", 5).out


def test_verify_takes_settings(cli, neuron):
    outcome = cli("verify", neuron, *TIME, "--set", "fn.a=0.1", "--json")
    assert outcome.json["bit_for_bit"] is True
    assert cli("verify", neuron, "--set", "fn.x=0.1").code == 2


# --- text -----------------------------------------------------------------------------------------


def test_text_names_the_axes_and_shows_first_and_last_rows(cli, arrays):
    out = cli("run", arrays, "--steps", 2000, "--dt", 0.001, "--device", "cpu").out
    assert out.splitlines()[:5] == [
        "time: float64[time=2000] s",
        "  [0.000e+00, 1.000e-03, 2.000e-03, ..., 1.997e+00, 1.998e+00, 1.999e+00]",
        "net.r: float64[time=2000, 3]",
        "  [[ 1.00000000e+00,  0.00000000e+00, -1.00000000e+00],",
        "   [ 9.99875000e-01,  2.50000000e-04, -9.96875000e-01],",
    ]
    assert len(out.splitlines()) < 15


def test_text_of_a_sweep(cli, arrays):
    out = cli(
        *("run", arrays, "--steps", 50, "--dt", 0.1, "--sweep", "net.leak=0:1:30"),
    ).out
    heads = [line for line in out.splitlines() if not line.startswith(" ")]
    assert heads[:-1] == [
        "net.leak: float64[batch=30]",
        "time: float64[time=50] s",
        "net.r: float64[batch=30, time=50, 3]",
        "net.total: float64[batch=30, time=50]",
    ]
    assert len(out.splitlines()) < 30


def test_many_short_rows_are_few_lines(cli, neuron):
    out = cli("run", neuron, "--steps", 20, "--dt", 0.1, "--set", "fn.v=[0.0]").out
    assert "fn.v: float64[time=20, 1]\n  [[" in out
    assert len(out.splitlines()) < 25


def test_a_long_execution_order_is_shortened(cli, tmp_path):
    model = copy.deepcopy(SCHEDULED)
    model["g"]["nodes"]["fast"]["parameters"]["n"] = {"default_initial_value": 5, "value": "-n"}
    out = cli("run", saved(tmp_path, "m", model), "--steps", 100, "--execution-list").out
    lines = out.splitlines()
    assert "  0: fast" in lines
    assert "  1: fast | slow" in lines
    assert "  ..." in lines
    assert "  99: fast | slow" in lines
    assert len(lines) < 30


# --- wrong usage ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("--every", 2), "every needs steps"),
        (("--steps", 3, "--every", 0), "every must be a whole number above 0"),
        (("--steps", 3, "--every", "x"), "--every 'x' is not a whole number of rows"),
        (("--execution-list",), "execution_list needs steps"),
        (("--set", "fn.q=1"), "the model has no parameter 'fn.q'"),
        (("--set", "fn.I=1"), "'fn.I' is an input: give it as"),
        (("--set", "fn.a=x"), "the value of 'fn.a' is not a number"),
        (("--set", "fn.a"), "--set 'fn.a' is not NAME=VALUE"),
        (("--sweep", "fn.a=1"), "the sweep of 'fn.a' is no list of numbers: 1"),
        (("--sweep", "fn.q=[1]"), "the model has no parameter 'fn.q'"),
        (("--sweep", "fn.a=[1, 2]", "--sweep", "I=[1]"), "must be equally many"),
        (("--sweep", "fn.a=[1, 2]", "--set", "fn.a=1"), "'fn.a' is swept, so it cannot"),
        (("--sweep", "fn.a=[1]", "--engine", "modeci"), "modeci_mdf's engine takes no sweep"),
        (("--engine", "numpy"), "engine cannot be 'numpy'"),
        (("--engine", "modeci", "--precision", "float32"), "computes on the CPU, in float64"),
        (("--initial-state", "none.npz"), "there is no file 'none.npz'"),
        (("--steps", 2, "--initial-state", "wrong.npz"), "'wrong.npz' holds no state"),
        (("--steps", 2, "--initial-state", "text.npz"), "'text.npz' is not an npz file"),
        (("--initial-state", "state.npz"), "state needs steps"),
        (("--steps", 2, "--dt", 1, "--initial-state", "state.npz"), "it has no 'parameter fn.v'"),
        (("--final-state", "state.csv"), "cannot save a state as '.csv'"),
        (("--final-state", "state.npz"), "only a compiled model run over time ends in a state"),
        (
            ("--steps", 2, "--engine", "modeci", "--final-state", "new.npz"),
            "only a compiled model run over time ends in a state",
        ),
        (("--input", "I=stimulus.csv:J"), "'stimulus.csv' has no 'J'"),
        (("--input", "I=none.csv:I"), "there is no file 'none.csv'"),
        (("--steps", 4, "--inputs", "stimulus.csv"), "has 3 rows, but the run has 4 steps"),
        (("--steps", 4, "--input", "I=[1, 2, 3]"), "has 3 rows over time, but the run has 4 steps"),
        (("--steps", 2, "--inputs", "words.csv"), "row 2 of the column 'I' in 'words.csv'"),
        (("--steps", 3, "--inputs", "other.csv"), "the model has no input 'J'"),
    ],
)
@pytest.mark.parametrize("as_json", [(), ("--json",)])
def test_wrong_usage_is_one_clear_error(
    cli, neuron, tmp_path, monkeypatch, options, sentence, as_json
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "stimulus.csv").write_text("I\n1\n2\n3\n")
    (tmp_path / "other.csv").write_text("J\n1\n2\n3\n")
    (tmp_path / "words.csv").write_text("I\n1\nmuch\n")
    (tmp_path / "text.npz").write_text("text")
    np.savez(tmp_path / "wrong.npz", x=1)
    np.savez(tmp_path / "state.npz", step=1, time=0.0)
    bytes_before = (tmp_path / "state.npz").read_bytes()
    outcome = cli("run", neuron, *options, *as_json)
    assert (outcome.code, outcome.out) == (2, "")
    assert sentence in outcome.err
    assert (tmp_path / "state.npz").read_bytes() == bytes_before
    assert not (tmp_path / "new.npz").exists()


def test_a_parameter_that_is_computed_by_a_function_cannot_be_set(cli, tmp_path):
    node = {
        "parameters": {
            "f": {"function": "linear", "args": {"variable0": 1, "slope": 2, "intercept": 0}}
        },
        "output_ports": {"y": {"value": "f"}},
    }
    path = saved(tmp_path, "m", {"g": {"nodes": {"n": node}}})
    outcome = cli("run", path, "--set", "n.f=1")
    assert (outcome.code, outcome.out) == (2, "")
    assert "'n.f' has no value of its own that could be set" in outcome.err


# --- start-up -------------------------------------------------------------------------------------


@pytest.mark.slow
def test_unused_packages_are_not_imported(neuron):
    code = (
        "import sys; from mdf_loop.cli import main\n"
        f"try: main(['run', {str(neuron)!r}, '--steps', '3', '--dt', '0.1'])\n"
        "except SystemExit: pass\n"
        "print([m for m in ('matplotlib', 'xarray', 'pandas', 'h5py', 'h5netcdf', 'networkx', "
        "'pygraphviz', 'torch') if m in sys.modules])"
    )
    process = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert process.stdout.splitlines()[-1] == "[]"


def test_a_node_that_never_runs_has_a_note(cli, tmp_path):
    path = tmp_path / "model.yaml"
    nodes = "{a: {output_ports: {y: {value: '1.0'}}}, b: {output_ports: {z: {value: '2.0'}}}}"
    never = "node_specific: {b: {type: AtPass, kwargs: {n: 7}}}"
    one = "termination: {environment_state_update: {type: AfterNPasses, kwargs: {n: 1}}}"
    graph = f"{{nodes: {nodes}, conditions: {{{never}, {one}}}}}"
    path.write_text(f"m: {{graphs: {{g: {graph}}}}}")
    note = "note: the node 'b' has not run in any step, so b.z has no value of this run"
    assert note in cli("run", path, "--steps", 3).out
    path.write_text(path.read_text().replace("n: 7", "n: 0"))
    assert "note:" not in cli("run", path, "--steps", 3).out


def test_a_different_dt_in_the_model_has_a_warning(cli, tmp_path):
    path = tmp_path / "model.yaml"
    parameters = "{dt: {value: 0.1}, v: {default_initial_value: 1.0, value: v - dt * v}}"
    node = f"{{parameters: {parameters}, output_ports: {{v: {{value: v}}}}}}"
    path.write_text(f"m: {{graphs: {{g: {{nodes: {{cell: {node}}}}}}}}}")
    message = "the parameter 'cell.dt' is 0.1, but the dt of the run is 0.05"
    assert f"warning: {message}" in cli("run", path, "--steps", 3, "--dt", 0.05).err
    for fitting in (["--dt", 0.1], [], ["--dt", 0.05, "--set", "cell.dt=0.05"]):
        assert not cli("run", path, "--steps", 3, *fitting).err
    compiled = mdf_loop.compile(path)
    with pytest.warns(UserWarning, match=re.escape(message)) as caught:
        compiled.run(steps=3, dt=0.05)
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        compiled.run(steps=3, dt=0.1)
        compiled.run(steps=3)
        compiled.run(steps=3, dt=0.05, set={"cell.dt": 0.05})
        compiled.run(steps=3, dt=0.05, sweep={"cell.dt": [0.05, 0.1]})


def test_times_of_a_csv_that_contradict_dt_are_refused(cli, tmp_path):
    model, rows = tmp_path / "model.yaml", tmp_path / "I.csv"
    node = "{input_ports: {I: {default_value: 0.0}}, output_ports: {v: {value: 2.0 * I}}}"
    model.write_text(f"m: {{graphs: {{g: {{nodes: {{cell: {node}}}}}}}}}")
    rows.write_text("time,I\n" + "".join(f"{0.1 * k!r},{k}\n" for k in range(30)))
    arguments = ["run", model, "--steps", 30, "--inputs", rows]
    assert cli(*arguments, "--dt", 0.1).code == 0
    assert cli(*arguments).code == 0, "without dt no time passes"
    for command in (arguments, ["verify", *arguments[1:]]):
        refusal = cli(*command, "--dt", 0.05)
        assert refusal.code == 2
        assert "rows 0 and 1 are 0.1 apart" in refusal.err
        assert "the dt of the run is 0.05" in refusal.err
    rows.write_text("time,I\n0.0,1\n0.1,2\n0.3,4\n")
    refusal = cli(*["run", model, "--steps", 3, "--inputs", rows, "--dt", 0.1])
    assert "rows 1 and 2 are 0.2 apart (time 0.1 and 0.3)" in refusal.err
