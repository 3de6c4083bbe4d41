"""`--input` and `--inputs`: syntax of values, and refusals."""

from __future__ import annotations

import json

import numpy as np
import pytest

from mdf_loop.cli.inputs import parse_value, read_inputs, read_settings, read_sweep
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
def test_invalid_values_are_refused(text):
    with pytest.raises(InputError, match="the input 'x' is not a number or a list of numbers"):
        parse_value(text, "the input 'x'")


def test_numbers_beyond_64_bits_are_refused():
    with pytest.raises(InputError, match="the input 'x' does not fit into 64 bits"):
        parse_value(str(2**63), "the input 'x'")


def test_deep_nesting_is_refused():
    with pytest.raises(InputError):
        parse_value("[" * 100_000, "the input 'x'")


@pytest.mark.parametrize("pair", ["x", "=3", ""])
def test_pairs_without_name_or_value_are_refused(pair):
    with pytest.raises(InputError, match="is not NAME=VALUE"):
        read_inputs((pair,), ())


def test_blanks_around_names_and_equals_signs_in_values():
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


def test_later_files_and_single_values_override(tmp_path):
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


def test_an_npy_file_called_npz_is_refused(tmp_path):
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


def test_a_port_with_an_edge_is_no_input(cli, sample):
    outcome = cli("run", sample, "--input", "a=1")
    assert outcome.code == 2
    assert "'a' is fed by the edge 'a_edge'" in outcome.err


# --- csv --------------------------------------------------------------------------------------


def csv_file(folder, text):
    path = folder / "stimulus.csv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_csv_file(tmp_path):
    path = csv_file(
        tmp_path, "time, I,n,on,x[0],x[1],step\n0.0,1.5,1,true,1,2,0\n0.1,-2,2,False,3,4.5,1\n"
    )
    inputs = read_inputs((), (str(path),))
    assert list(inputs) == ["I", "n", "on", "x"]
    assert (inputs["I"].dtype, inputs["I"].tolist()) == (np.float64, [1.5, -2.0])
    assert (inputs["n"].dtype, inputs["n"].tolist()) == (np.int64, [1, 2])
    assert (inputs["on"].dtype, inputs["on"].tolist()) == (np.bool_, [True, False])
    assert inputs["x"].tolist() == [[1, 2], [3, 4.5]]


def test_csv_of_matrices_with_byte_order_mark_and_windows_lines(tmp_path):
    path = csv_file(
        tmp_path,
        b'\xef\xbb\xbf"W[1,0]","W[0,0]","W[0,1]","W[1,1]"\r\n10,0,1,11\r\n\r\n-10,0,nan,inf\r\n',
    )
    (values,) = read_inputs((), (str(path),)).values()
    np.testing.assert_array_equal(values, [[[0, 1], [10, 11]], [[0, NAN], [-10, INF]]])


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "'stimulus.csv' has no rows"),
        ("I\n", "'stimulus.csv' has no rows"),
        ("I,I\n1,2\n", "'stimulus.csv' has the column 'I' twice"),
        ("I\n1\nx\n", "row 2 of the column 'I' in 'stimulus.csv' is no number: 'x'"),
        ("I,J\n1,\n", "row 1 of the column 'J' in 'stimulus.csv' is no number: ''"),
        ("I\ntrue\n1\n", "row 1 of the column 'I' in 'stimulus.csv' is no number: 'true'"),
        ("I,J\n1\n", "row 1 of 'stimulus.csv' has 1 values, but there are 2 columns"),
        ("I\n1\n1,2\n", "row 2 of 'stimulus.csv' has 2 values, but there are 1 columns"),
        ("x[0],x[2]\n1,2\n", "the columns 'x[...]' in 'stimulus.csv' are no array: x[0], x[2]"),
        ("x[1]\n1\n", "the columns 'x[...]' in 'stimulus.csv' are no array: x[1]"),
        ('x[0],"x[0,1]"\n1,2\n', "the columns 'x[...]' in 'stimulus.csv' are no array"),
        ("x,x[0]\n1,2\n", "the columns 'x[...]' in 'stimulus.csv' are no array"),
        (f"I\n{2**63}\n", "a number of the column 'I' in 'stimulus.csv' does not fit into 64 bits"),
        (b"\xff\xfe\x00", "'stimulus.csv' is not a csv file"),
    ],
)
def test_bad_csv_files(tmp_path, text, sentence):
    with pytest.raises(InputError) as caught:
        read_inputs((), (str(csv_file(tmp_path, text)),))
    assert sentence in str(caught.value)


def test_rows_and_steps(tmp_path):
    path = str(csv_file(tmp_path, "I\n1\n2\n3\n"))
    assert read_inputs((), (path,), 3)["I"].tolist() == [1, 2, 3]
    for steps in (1, 2, 4):
        with pytest.raises(InputError, match=rf"has 3 rows, but the run has {steps} steps"):
            read_inputs((), (path,), steps)
        with pytest.raises(InputError, match=rf"has 3 rows, but the run has {steps} steps"):
            read_inputs((f"J={path}:I",), (), steps)


# --- one column or array of a file --------------------------------------------------------------


def test_a_single_column_of_a_file(tmp_path):
    path = csv_file(tmp_path, "time,a,x[0],x[1]\n0.5,1,2,3\n1.5,4,5,6\n")
    np.savez(tmp_path / "arrays.npz", w=np.eye(2), **{"a:b": np.arange(3)})
    (tmp_path / "values.json").write_text('{"k": 7}')
    inputs = read_inputs(
        (
            f"I={path}:a",
            f"J= {path}:x ",
            f"t={path}:time",
            f"w={tmp_path}/arrays.npz:w",
            f"c={tmp_path}/arrays.npz:a:b",
            f"k={tmp_path}/values.json:k",
        ),
        (),
    )
    assert {name: np.asarray(value).tolist() for name, value in inputs.items()} == {
        "I": [1, 4],
        "J": [[2, 3], [5, 6]],
        "t": [0.5, 1.5],
        "w": [[1, 0], [0, 1]],
        "c": [0, 1, 2],
        "k": 7,
    }


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("stimulus.csv:b", "'stimulus.csv' has no 'b'"),
        ("stimulus.csv:", "'stimulus.csv' has no ''"),
        ("stimulus.csv:x[0]", "'stimulus.csv' has no 'x[0]'"),
        ("none.csv:a", "there is no file"),
        ("none.npz:a", "there is no file"),
        ("stimulus.csv", "the input 'I' is not a number or a list of numbers"),
        ("stimulus.txt:a", "the input 'I' is not a number or a list of numbers"),
    ],
)
def test_missing_columns_are_refused(tmp_path, monkeypatch, text, sentence):
    monkeypatch.chdir(tmp_path)
    csv_file(tmp_path, "a,x[0],x[1]\n1,2,3\n")
    with pytest.raises(InputError) as caught:
        read_inputs((f"I={text}",), ())
    assert sentence in str(caught.value)


# --- settings and sweeps ------------------------------------------------------------------------


def test_settings(tmp_path):
    np.savez(tmp_path / "weights.npz", W=np.eye(2))
    values = read_settings(("a.b=1", "a.c = [-1.0]", f"a.W={tmp_path}/weights.npz:W"))
    assert (values["a.b"], values["a.c"], values["a.W"].tolist()) == (1, [-1.0], [[1, 0], [0, 1]])


@pytest.mark.parametrize(
    ("pairs", "sentence"),
    [
        (("a.b",), "--set 'a.b' is not NAME=VALUE"),
        (("=1",), "--set '=1' is not NAME=VALUE"),
        (("a.b=x",), "the value of 'a.b' is not a number or a list of numbers: 'x'"),
        (("a.b=0:1:3",), "the value of 'a.b' is not a number"),
        (("a.b=1", "a.b=2"), "--set has 'a.b' twice"),
    ],
)
def test_bad_settings(pairs, sentence):
    with pytest.raises(InputError) as caught:
        read_settings(pairs)
    assert sentence in str(caught.value)


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("[0.1, 0.2]", [0.1, 0.2]),
        ("[[1, 2], [3, 4]]", [[1, 2], [3, 4]]),
        ("0:1:5", [0.0, 0.25, 0.5, 0.75, 1.0]),
        (" 1 : -1 : 3 ", [1.0, 0.0, -1.0]),
        ("1e-3:2e-3:2", [0.001, 0.002]),
        ("5:9:1", [5.0]),
    ],
)
def test_sweeps(text, values):
    np.testing.assert_array_equal(read_sweep((f"a.b={text}",))["a.b"], values)


def test_a_range_is_linspace():
    values = read_sweep(("a.b=-0.3:1.7:1000",))["a.b"]
    np.testing.assert_array_equal(values, np.linspace(-0.3, 1.7, 1000), strict=True)


def test_a_sweep_of_a_file(tmp_path):
    path = csv_file(tmp_path, "g\n0.5\n1.5\n")
    assert read_sweep((f"a.b={path}:g",))["a.b"].tolist() == [0.5, 1.5]


@pytest.mark.parametrize(
    ("pairs", "sentence"),
    [
        (("a.b",), "--sweep 'a.b' is not NAME=VALUE"),
        (("a.b=x",), "the sweep of 'a.b' is not a number or a list"),
        (("a.b=0:1",), "the sweep of 'a.b' is not a number or a list"),
        (("a.b=0:1:2:3",), "the sweep of 'a.b' is not a number or a list"),
        (("a.b=0:x:3",), "the sweep of 'a.b' is not a number or a list"),
        (("a.b=0:1:0",), "the sweep of 'a.b' is no range: '0:1:0'"),
        (("a.b=0:1:2.5",), "the sweep of 'a.b' is no range"),
        (("a.b=0:inf:3",), "the sweep of 'a.b' is no range"),
        (("a.b=[0]:1:3",), "the sweep of 'a.b' is no range"),
        (("a.b=0:1:9000000000000000000",), "the sweep of 'a.b' has too many values"),
        (("a.b=[1]", "a.b=[2]"), "--sweep has 'a.b' twice"),
    ],
)
def test_bad_sweeps(pairs, sentence):
    with pytest.raises(InputError) as caught:
        read_sweep(pairs)
    assert sentence in str(caught.value)
