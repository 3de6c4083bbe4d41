"""`--input` and `--inputs`: how values are written, and what is refused."""

from __future__ import annotations

import json

import numpy as np
import pytest

from mdf_loop.cli.inputs import parse_value, read_inputs
from mdf_loop.errors import InputError

NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("3", 3),
        (" -3 ", -3),
        ("2.5", 2.5),
        ("1e-3", 0.001),
        (".5", 0.5),
        ("1_000", 1000),
        ("true", True),
        ("True", True),
        ("false", False),
        ("nan", NAN),
        ("NaN", NAN),
        ("inf", INF),
        ("Infinity", INF),
        ("-inf", -INF),
        ("[1, 2, 3]", [1, 2, 3]),
        ("[1, 2.5,]", [1, 2.5]),
        ("[[1, 2], [3, 4]]", [[1, 2], [3, 4]]),
        ("(1, 2)", (1, 2)),
        ("[]", []),
        ("[true, False]", [True, False]),
        ("[1, nan, -inf, NaN, Infinity]", [1, NAN, -INF, NAN, INF]),
        ("9223372036854775807", 2**63 - 1),
    ],
)
def test_values(text, value):
    parsed = parse_value(text, "the input 'x'")
    assert type(parsed) is type(value)
    np.testing.assert_array_equal(parsed, value)


@pytest.mark.parametrize(
    "text",
    ["", "abc", "nano", "1 2", "[1, 2", "{'a': 1}", "null", "1j", "'3'", "__import__('os')", "x+1"],
)
def test_what_is_no_value(text):
    with pytest.raises(InputError, match="the input 'x' is not a number or a list of numbers"):
        parse_value(text, "the input 'x'")


def test_a_number_too_large_for_64_bits():
    with pytest.raises(InputError, match="the input 'x' does not fit into 64 bits"):
        parse_value(str(2**63), "the input 'x'")


def test_deep_nesting_is_refused_and_not_a_crash():
    with pytest.raises(InputError):
        parse_value("[" * 100_000, "the input 'x'")


@pytest.mark.parametrize("pair", ["x", "=3", ""])
def test_a_pair_without_name_or_value(pair):
    with pytest.raises(InputError, match="is not NAME=VALUE"):
        read_inputs((pair,), ())


def test_a_name_may_stand_between_blanks_and_a_value_hold_equals_signs():
    assert read_inputs((" x =1",), ()) == {"x": 1}
    with pytest.raises(InputError, match="not a number"):
        read_inputs(("x=y=1",), ())


# --- files ------------------------------------------------------------------------------------


def test_json_file(tmp_path):
    path = tmp_path / "inputs.json"
    path.write_text(
        json.dumps(
            {
                "a": 1.5,
                "b": [1, 2],
                "c": {"dtype": "int32", "shape": [2, 2], "data": [1, 2, 3, 4]},
                "d": {"dtype": "float64", "data": ["nan", "inf", 0.5]},
            }
        )
    )
    inputs = read_inputs((), (str(path),))
    assert inputs["a"] == 1.5
    assert inputs["b"] == [1, 2]
    assert inputs["c"].dtype == np.int32
    assert inputs["c"].tolist() == [[1, 2], [3, 4]]
    np.testing.assert_array_equal(inputs["d"], [NAN, INF, 0.5])


def test_npz_file(tmp_path):
    path = tmp_path / "inputs.npz"
    np.savez(path, a=np.float32(2), b=np.arange(3))
    inputs = read_inputs((), (str(path),))
    assert inputs["a"].dtype == np.float32
    assert inputs["b"].tolist() == [0, 1, 2]


def test_later_files_and_single_values_win(tmp_path):
    for name, value in (("first", 1), ("second", 2)):
        (tmp_path / f"{name}.json").write_text(json.dumps({"a": value, "b": value}))
    files = (str(tmp_path / "first.json"), str(tmp_path / "second.json"))
    assert read_inputs(("b=3",), files) == {"a": 2, "b": 3}


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("a.json", b"{", "'a.json' is not JSON"),
        ("a.json", b"\xff\xfe", "'a.json' is not JSON"),
        ("a.json", b"[1]", "'a.json' must hold one object"),
        (
            "a.json",
            b'{"x": {"data": [1]}}',
            "the input 'x' in 'a.json' is not {dtype, shape, data}",
        ),
        ("a.json", b'{"x": {"dtype": "int64", "data": [1], "shape": [2]}}', "not {dtype, shape"),
        ("a.json", b'{"x": {"dtype": "number", "data": [1]}}', "not {dtype, shape, data}"),
        ("a.npz", b"no archive", "'a.npz' is not an npz file"),
        ("a.npz", b"PK\x03\x04 cut off", "'a.npz' is not an npz file"),
        ("a.npz", b"", "'a.npz' is not an npz file"),
        ("a.txt", b"1,2", "'a.txt' is neither .csv, .json nor .npz"),
    ],
)
def test_bad_files(tmp_path, name, content, sentence):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(InputError) as caught:
        read_inputs((), (str(path),))
    assert sentence in str(caught.value)


def test_an_array_file_under_the_wrong_name(tmp_path):
    np.save(tmp_path / "a.npy", np.arange(3))
    (tmp_path / "a.npy").rename(tmp_path / "a.npz")
    with pytest.raises(InputError, match=r"'a\.npz' is not an npz file"):
        read_inputs((), (str(tmp_path / "a.npz"),))


def test_pickled_objects_are_not_opened(tmp_path):
    np.savez(tmp_path / "a.npz", x=np.array([{}], dtype=object))
    with pytest.raises(InputError, match=r"'a\.npz' is not an npz file"):
        read_inputs((), (str(tmp_path / "a.npz"),))


def test_a_missing_file(tmp_path):
    with pytest.raises(InputError, match="there is no file"):
        read_inputs((), (str(tmp_path / "a.json"),))


# --- through a command ------------------------------------------------------------------------


def test_files_reach_the_model(cli, double, tmp_path):
    np.savez(tmp_path / "in.npz", x=np.array([3.0, 4.0]))
    content = cli("run", double, "--inputs", tmp_path / "in.npz", "--json").json
    assert content["outputs"]["twice.y"]["data"] == [6.0, 8.0]


@pytest.mark.parametrize(
    ("pair", "sentence"),
    [
        ("z=1", "the model has no input 'z'"),
        ("x=[[1], [2, 3]]", "the input 'x' is ragged"),
        ("x=abc", "the input 'x' is not a number"),
        ("nothing", "--input 'nothing' is not NAME=VALUE"),
    ],
)
def test_bad_inputs_are_one_clear_error(cli, double, pair, sentence):
    outcome = cli("run", double, "--input", pair, "--json")
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.startswith("InputError: ")
    assert sentence in outcome.err


def test_a_port_fed_by_an_edge_cannot_be_given(cli, sample):
    outcome = cli("run", sample, "--input", "a=1")
    assert outcome.code == 2
    assert "'a' is fed by the edge 'a_edge'" in outcome.err
