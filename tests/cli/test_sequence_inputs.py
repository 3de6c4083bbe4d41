"""Sequences and optional values on the command line: JSON files in, JSON and text out."""

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
GIVEN = {
    "s": SEQUENCE,
    "o": None,
    "w": {"dtype": "string", "shape": [2], "data": ["a", "b c"]},
    "h": {"dtype": "bfloat16", "shape": [], "data": [0.5]},
}


@pytest.fixture
def files(tmp_path):
    model, inputs = tmp_path / "model.yaml", tmp_path / "inputs.json"
    model.write_text(MODEL)
    inputs.write_text(json.dumps(GIVEN))
    return model, inputs


def test_a_file_of_typed_values_is_read(files):
    given = read_inputs((), [str(files[1])])
    assert [member.tolist() for member in given["s"]] == [[1.0, 2.0], 3.0]
    assert {member.dtype for member in given["s"]} == {np.dtype("float32")}
    assert given["o"] is None
    assert given["w"].tolist() == ["a", "b c"]
    assert str(given["h"].dtype) == "bfloat16"


def test_run_takes_and_prints_them(cli, files):
    model, inputs = files
    done = cli("run", model, "--inputs", inputs, "--device", "cpu", "--json")
    assert (done.code, done.err) == (0, "")
    outputs = done.json["outputs"]
    first, second = outputs["n.s"]["data"]
    assert outputs["n.s"]["dtype"] == "sequence(float32)"
    assert first == SEQUENCE["sequence"][0]
    assert second == {"dtype": "float32", "shape": [], "data": 3.0}
    assert outputs["n.o"] is None
    assert outputs["n.w"] == {"dtype": "string", "shape": [2], "data": ["a", "b c"]}
    assert outputs["n.h"] == {"dtype": "bfloat16", "shape": [], "data": 0.5}


def test_run_shows_them_as_text(cli, files):
    model, inputs = files
    shown = cli("run", model, "--inputs", inputs, "--device", "cpu").out
    assert "n.s: sequence(float32) of 2 members" in shown
    assert "n.o: optional(sequence(float32)), absent" in shown


def test_a_sequence_may_be_written_as_lists(cli, files):
    """Where all rows have one length or not: `--input` reads nested lists."""
    model, _ = files
    done = cli("run", model, "--input", "s=[[1, 2], [3]]", "--json")
    assert [member["data"] for member in done.json["outputs"]["n.s"]["data"]] == [[1, 2], [3]]


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
def test_what_is_no_value_is_refused(tmp_path, value):
    path = tmp_path / "inputs.json"
    path.write_text(json.dumps({"s": value}))
    with pytest.raises(InputError) as caught:
        read_inputs((), [str(path)])
    assert "the input 's' in 'inputs.json' is not {dtype, shape, data}" in str(caught.value)
    assert "a sequence is written {sequence: [...]}" in str(caught.value)
