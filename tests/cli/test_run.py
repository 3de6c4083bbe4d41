"""`mdf-loop run`."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

SHARED = Path(__file__).parents[3] / "shared" / "models"


def test_text_shows_outputs_loops_and_device(cli, sample):
    outcome = cli("run", sample)
    assert outcome.code == 0
    assert outcome.err == ""
    lines = outcome.out.splitlines()
    assert lines[:8] == [
        "loop_node.b_final: int64[]",
        "  6",
        "loop_node.user_defined_vals: int64[2]",
        "  [12, -6]",
        "loop_node.keepgoing_out: bool[]",
        "  False",
        "loop loop_node.loop_1: 2 iterations; its condition became false",
        lines[7],
    ]
    assert lines[7].startswith("device: cpu (") or lines[7].startswith("device: cuda (")
    assert lines[7].endswith(", precision: float64")


def test_one_iteration_is_singular(cli, endless):
    assert "loop grow.f: 1 iteration;" in cli("run", endless, "--max-iterations", 1).out


def test_json_is_one_object_of_the_documented_shape(cli, sample):
    outcome = cli("run", sample, "--device", "cpu", "--json")
    assert outcome.code == 0
    assert outcome.err == ""
    assert outcome.out.count("\n") == 1
    assert outcome.json == {
        "outputs": {
            "loop_node.b_final": {"dtype": "int64", "shape": [], "data": 6},
            "loop_node.user_defined_vals": {"dtype": "int64", "shape": [2], "data": [12, -6]},
            "loop_node.keepgoing_out": {"dtype": "bool", "shape": [], "data": False},
        },
        "loops": {"loop_node.loop_1": {"iterations": 2, "stopped_by": "condition"}},
        "device": "cpu",
        "native": {"loop_node.loop_1": "standard: there is little to do"},
        "precision": "float64",
    }


@pytest.mark.skipif(not SHARED.is_dir(), reason="needs the reference models beside the checkout")
@pytest.mark.parametrize(("count", "expected"), [(5, 0.002), (0, 200.0)])
def test_the_shipped_imported_loop(cli, count, expected):
    outcome = cli(
        *("run", SHARED / "ONNX" / "abc.yaml", "--input", "input=[[1,1,1],[1,1,1]]"),
        *("--input", f"B_loop_count={count}", "--json"),
    )
    assert outcome.code == 0
    (output,) = outcome.json["outputs"].values()
    assert output["shape"] == [2, 3]
    np.testing.assert_allclose(output["data"], expected, rtol=1e-12)
    (loop,) = outcome.json["loops"].values()
    assert loop == {"iterations": count, "stopped_by": "trip_count"}


@pytest.mark.skipif(not SHARED.is_dir(), reason="needs the reference models beside the checkout")
def test_the_shipped_document_sample(cli):
    content = cli("run", SHARED / "doc_sample.yaml", "--json").json
    assert [output["data"] for output in content["outputs"].values()] == [6, [12, -6]]
    assert list(content["loops"].values()) == [{"iterations": 2, "stopped_by": "condition"}]


# --- options ----------------------------------------------------------------------------------


def test_input_changes_the_result(cli, double):
    outcome = cli("run", double, "--input", "x=[1, 2.5]", "--json")
    assert outcome.json["outputs"]["twice.y"] == {
        "dtype": "float64",
        "shape": [2],
        "data": [2.0, 5.0],
    }


def test_record_adds_parameters_and_functions(cli, double, sample):
    outputs = cli("run", double, "--record", "twice.half", "--json").json["outputs"]
    assert outputs["twice.half"]["data"] == 0.5
    recorded_names = cli(
        "run", sample, "--record", "constants.a", "--record", "loop_node.keepgoing"
    )
    assert "constants.a: int64[]\n  3\n" in recorded_names.out
    assert "loop_node.keepgoing: bool[]\n  True\n" in recorded_names.out


def test_record_of_an_unknown_name(cli, double):
    outcome = cli("run", double, "--record", "twice.yy")
    assert (outcome.code, outcome.out) == (2, "")
    assert "UnknownNameError: the model has no output 'twice.yy'" in outcome.err
    assert "did you mean 'twice.y'?" in outcome.err


def test_precision_float32(cli, double):
    content = cli("run", double, "--input", "x=2.5", "--precision", "float32", "--json").json
    assert content["precision"] == "float32"
    assert content["outputs"]["twice.y"]["dtype"] == "float32"


def test_the_device_has_a_reason(cli, double):
    assert "device: cpu (asked for)" in cli("run", double, "--device", "cpu").out


def test_max_iterations_bounds_an_endless_loop(cli, endless):
    content = cli("run", endless, "--max-iterations", 7, "--json").json
    assert content["outputs"]["grow.x_final"]["data"] == 8
    assert content["loops"]["grow.f"] == {"iterations": 7, "stopped_by": "max_iterations"}


def test_an_endless_loop_without_bound_is_refused(cli, endless):
    outcome = cli("run", endless)
    assert (outcome.code, outcome.out) == (2, "")
    assert "EndlessLoopError: the loop 'f' has neither a trip count (M) nor a condition" in (
        outcome.err
    )
    assert "--max-iterations" in outcome.err


def test_shapes_dynamic_lets_carried_values_grow(cli, endless):
    text = endless.read_text().replace("{value: x + 1}", "{value: 'numpy.concatenate((x, x))'}")
    endless.write_text(text.replace("x < 100", "True").replace("default_value: 1", "shape: [1]"))
    arguments = ("run", endless, "--input", "x=[1]", "--max-iterations", 3)
    outcome_without_bound = cli(*arguments)
    assert outcome_without_bound.code == 2
    assert "CarryShapeError" in outcome_without_bound.err
    assert "--shapes dynamic" in outcome_without_bound.err
    content = cli(*arguments, "--shapes", "dynamic", "--json").json
    assert content["outputs"]["grow.x_final"]["data"] == [1] * 8


@pytest.mark.parametrize(
    ("option", "sentence"),
    [
        (("--device", "gpu"), "device cannot be 'gpu'"),
        (("--precision", "float16"), "precision cannot be 'float16'"),
        (("--shapes", "any"), "shapes cannot be 'any'"),
        (("--max-iterations", -1), "max_iterations must not be negative, but is -1"),
        (("--max-iterations", "many"), "'many' is not a valid integer"),
    ],
)
def test_unknown_words_are_refused(cli, sample, option, sentence):
    outcome = cli("run", sample, *option)
    assert (outcome.code, outcome.out) == (2, "")
    assert sentence in outcome.err


# --- saving -----------------------------------------------------------------------------------


def test_output_npz(cli, sample, tmp_path):
    target = tmp_path / "out.npz"
    assert cli("run", sample, "--output", target).code == 0
    with np.load(target) as archive:
        assert archive["loop_node.user_defined_vals"].tolist() == [12, -6]


def test_output_json_equals_printed_json(cli, sample, tmp_path):
    target = tmp_path / "out.json"
    outcome = cli("run", sample, "--output", target, "--json")
    assert json.loads(target.read_text()) == outcome.json


def test_saved_inputs_can_be_read_again(cli, double, tmp_path):
    """Check that an output of `--output a.json` can be a value in an input file."""
    target = tmp_path / "out.json"
    first = cli("run", double, "--input", "x=0.0", "--output", target, "--json").json
    assert first["outputs"]["twice.inverse"]["data"] == "inf"
    path = tmp_path / "in.json"
    path.write_text(json.dumps({"x": first["outputs"]["twice.inverse"]}))
    second = cli("run", double, "--inputs", path, "--json").json
    assert second["outputs"]["twice.inverse"]["data"] == 0.0


@pytest.mark.parametrize(
    ("name", "sentence"),
    [("out.txt", "cannot save results as '.txt'"), ("no/folder/out.json", "out.json")],
)
def test_invalid_outputs_are_refused(cli, sample, tmp_path, name, sentence):
    outcome = cli("run", sample, "--output", tmp_path / name)
    assert (outcome.code, outcome.out) == (2, "")
    assert sentence in outcome.err


# --- numbers in text --------------------------------------------------------------------------


def test_nan_and_infinity_are_strings_in_json(cli, double):
    content = cli("run", double, "--input", "x=[0.0, -0.0, nan]", "--json").json
    assert content["outputs"]["twice.inverse"]["data"] == ["inf", "-inf", "nan"]
    assert content["outputs"]["twice.y"]["data"] == [0.0, -0.0, "nan"]


def test_only_text_shortens_long_arrays(cli, double):
    numbers = list(range(1, 101))
    outcome = cli("run", double, "--input", f"x={numbers}")
    assert "twice.y: int64[100]\n  [  2,   4,   6, ..., 196, 198, 200]" in outcome.out
    assert len(cli("run", double, "--input", f"x={numbers}", "--json").json["outputs"]) == 2


STATEFUL = """
m:
    graphs:
        g:
            nodes:
                A:
                    parameters:
                        x:
                            default_initial_value: 1.0
                            time_derivative: -x
                    output_ports:
                        x:
                            value: x
"""


def test_a_model_over_time(cli, tmp_path):
    model = tmp_path / "decay.yaml"
    model.write_text(STATEFUL)
    checkpoint_path = tmp_path / "decay.npz"
    outcome = cli(
        "run", model, "--steps", "3", "--dt", "0.5", "--output", checkpoint_path, "--json"
    )
    assert outcome.json["outputs"]["A.x"] == {
        "dtype": "float64",
        "shape": [3],
        "data": [1.0, 0.5, 0.25],
    }
    with np.load(checkpoint_path) as archive:
        assert archive["time"].tolist() == [0, 0.5, 1]
    assert cli("verify", model, "--steps", "20", "--dt", "0.01").code == 0


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("--dt", "0.1"), "dt needs steps"),
        (("--steps", "0"), "steps must be a whole number above 0"),
        (("--steps", "3", "--dt", "nan"), "dt must be a length of time"),
    ],
)
def test_steps_and_dt_are_checked(cli, tmp_path, options, sentence):
    model = tmp_path / "decay.yaml"
    model.write_text(STATEFUL)
    outcome = cli("run", model, *options)
    assert outcome.code == 2
    assert sentence in outcome.err


@pytest.mark.slow
@pytest.mark.parametrize("suffix", ["npz", "json", "csv", "h5", "nc", "zarr"])
def test_a_sweep_of_arrays_and_of_inputs_over_time(cli, tmp_path, suffix):
    v = {"default_initial_value": [0.0, 0.0], "time_derivative": "w * I - v"}
    cell = {
        "input_ports": {"I": {"default_value": 0.0}},
        "parameters": {"w": {"value": [1.0, 2.0]}, "v": v},
        "output_ports": {"v": {"value": "v"}},
    }
    model = {"format": "ModECI MDF v0.4", "graphs": {"g": {"nodes": {"cell": cell}}}}
    (tmp_path / "m.json").write_text(json.dumps({"m": model}))
    np.savez(tmp_path / "drives.npz", I=np.zeros((3, 4)))
    outcome = cli(
        *("run", tmp_path / "m.json", "--steps", 4, "--sweep", "cell.w=[[1, 2], [3, 4], [5, 6]]"),
        *("--sweep", f"I={tmp_path / 'drives.npz'}:I"),
        *("--output", tmp_path / f"x.{suffix}", "--plot", tmp_path / "x.png"),
    )
    assert outcome.code == 0, outcome.err
    assert outcome.out.startswith("batch: int64[batch=3]\n  [0, 1, 2]\n")
    assert "\ncell.w: int64[batch=3, 2]\n" in outcome.out
    assert "\nI: float64[batch=3, 4]\n" in outcome.out


def test_rows_of_different_lengths_have_lengths(cli, tmp_path):
    body = {
        "metadata": {"inputs": ["i", "go_in", "x"], "outputs": ["go", "y", "y"]},
        "nodes": {
            "step": {
                "input_ports": {"x": {}},
                "output_ports": {"y": {"value": "x + 1"}, "go": {"value": True}},
            }
        },
    }
    args = {"M": "M", "v_initial": "(0.0,)", "body": {"b": body}}
    node = {
        "input_ports": {"M": {"default_value": 1}},
        "functions": {"loop": {"function": "onnx::Loop", "args": args}},
        "output_ports": {"path": {"value": "loop[1]"}},
    }
    model = {"format": "ModECI MDF v0.4", "graphs": {"g": {"nodes": {"A": node}}}}
    (tmp_path / "m.json").write_text(json.dumps({"m": model}))
    (tmp_path / "M.csv").write_text("M\n1\n2\n")
    outcome = cli("run", tmp_path / "m.json", "--steps", 2, "--inputs", tmp_path / "M.csv")
    assert outcome.out.splitlines()[2:-1] == [
        "A.path: float64[time=2, 2]",
        "  [[ 1., nan],",
        "   [ 1.,  2.]]",
        "A.path.length: int64[time=2]",
        "  [1, 2]",
    ]
