"""Sequences and optional values on the command line: JSON input files, and output as JSON and text."""

import json

import numpy as np
import pytest

from mdf_loop.cli.inputs import read_inputs
from mdf_loop.errors import InputError

MODEL = """
passing:
  format: ModECI MDF v0.4
  graphs:
    g:
      nodes:
        n:
          input_ports:
            s: {type: sequence(float32)}
            o: {type: optional(sequence(float32))}
            w: {type: string, shape: [2]}
            h: {type: bfloat16}
          output_ports: {s: {value: s}, o: {value: o}, w: {value: w}, h: {value: h}}
"""
SEQUENCE = {
    "sequence": [
        {"dtype": "float32", "shape": [2], "data": [1.0, 2.0]},
        {"dtype": "float32", "shape": [], "data": [3.0]},
    ]
}
INPUT_FILE = {
    "s": SEQUENCE,
    "o": None,
    "w": {"dtype": "string", "shape": [2], "data": ["a", "b c"]},
    "h": {"dtype": "bfloat16", "shape": [], "data": [0.5]},
}


@pytest.fixture
def files(tmp_path):
    model, inputs = tmp_path / "model.yaml", tmp_path / "inputs.json"
    model.write_text(MODEL)
    inputs.write_text(json.dumps(INPUT_FILE))
    return model, inputs


def test_a_file_of_typed_values_is_read(files):
    inputs = read_inputs((), [str(files[1])])
    assert [member.tolist() for member in inputs["s"]] == [[1.0, 2.0], 3.0]
    assert {member.dtype for member in inputs["s"]} == {np.dtype("float32")}
    assert inputs["o"] is None
    assert inputs["w"].tolist() == ["a", "b c"]
    assert str(inputs["h"].dtype) == "bfloat16"


def test_run_with_sequences_and_optional_values(cli, files):
    model, inputs = files
    outcome = cli("run", model, "--inputs", inputs, "--device", "cpu", "--json")
    assert (outcome.code, outcome.err) == (0, "")
    outputs = outcome.json["outputs"]
    first, second = outputs["n.s"]["data"]
    assert outputs["n.s"]["dtype"] == "sequence(float32)"
    assert first == SEQUENCE["sequence"][0]
    assert second == {"dtype": "float32", "shape": [], "data": 3.0}
    assert outputs["n.o"] is None
    assert outputs["n.w"] == {"dtype": "string", "shape": [2], "data": ["a", "b c"]}
    assert outputs["n.h"] == {"dtype": "bfloat16", "shape": [], "data": 0.5}


def test_text_of_sequences_and_optional_values(cli, files):
    model, inputs = files
    text = cli("run", model, "--inputs", inputs, "--device", "cpu").out
    assert "n.s: sequence(float32) of 2 members" in text
    assert "n.o: optional(sequence(float32)), absent" in text


def test_a_sequence_may_be_written_as_lists(cli, files):
    """Check that `--input` reads nested lists with rows of equal or different lengths."""
    model, _ = files
    outcome = cli("run", model, "--input", "s=[[1, 2], [3]]", "--json")
    assert [member["data"] for member in outcome.json["outputs"]["n.s"]["data"]] == [[1, 2], [3]]


@pytest.mark.parametrize(
    "value",
    [
        {"sequence": 3},
        {"sequence": [{"dtype": "what", "data": [1]}]},
        {"sequence": [{"dtype": "sequence(float32)", "data": []}]},
        {"dtype": "float32"},
        {"dtype": "float32", "shape": [3], "data": [1]},
        {"sequence": [], "dtype": "float32"},
    ],
)
def test_invalid_values_are_refused(tmp_path, value):
    path = tmp_path / "inputs.json"
    path.write_text(json.dumps({"s": value}))
    with pytest.raises(InputError) as caught:
        read_inputs((), [str(path)])
    assert "the input 's' in 'inputs.json' is not {dtype, shape, data}" in str(caught.value)
    assert "a sequence is written {sequence: [...]}" in str(caught.value)
