"""Arrays in documents survive writing and reading, and invalid arrays are refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from mdf_loop.document.tensors import array_parameter, with_arrays
from mdf_loop.errors import ModelError
from mdf_loop.importing.opening import open_document
from mdf_loop.importing.writing import MAX_INLINE_ELEMENTS, to_plain_content, write_model

ARRAYS = {
    "float32": np.array([[1.5, -0.0], [np.inf, 1e-45]], np.float32),
    "float16": np.array([0.1, 65504], np.float16),
    "bfloat16": np.array([1.5, -3e38], ml_dtypes.bfloat16),
    "int64": np.array([-(2**63), 2**63 - 1]),
    "uint64": np.array([2**64 - 1], np.uint64),
    "int8": np.array(-128, np.int8),
    "bool": np.array([True, False]),
    "string": np.array(["a", "é: [x]", ""], object),
    "no elements": np.zeros((0, 3), np.float32),
    "no elements inside": np.zeros((2, 0), np.int32),
}


def parameter(entry: dict[str, Any]) -> dict[str, Any]:
    return {"m": {"graphs": {"g": {"nodes": {"A": {
        "parameters": {"w": entry}, "output_ports": {"y": {"value": "w"}}}}}}}}  # fmt: skip


def array_of(document: Any) -> Any:
    return document.graph.nodes[0].parameters[0].value


def check_identical(ours: Any, theirs: Any) -> None:
    assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
    assert ours.tolist() == theirs.tolist()


@pytest.mark.parametrize("suffix", [".yaml", ".json"])
@pytest.mark.parametrize("name", ARRAYS)
def test_arrays_survive_writing_and_reading(name: str, suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"model{suffix}"
    assert write_model(parameter(array_parameter(ARRAYS[name])), path) == [path]
    check_identical(array_of(open_document(path)), ARRAYS[name])


@pytest.mark.parametrize("name", [n for n, array in ARRAYS.items() if array.size])
def test_large_arrays_go_to_a_side_file(name: str, tmp_path: Path) -> None:
    array = np.resize(ARRAYS[name], (MAX_INLINE_ELEMENTS, 2))
    path = tmp_path / "model.yaml"
    assert write_model(parameter(array_parameter(array)), path) == [path, tmp_path / "model.npz"]
    assert "npz: model.npz" in path.read_text()
    check_identical(array_of(open_document(path)), array)


def test_complex_numbers_go_to_a_side_file(tmp_path: Path) -> None:
    array = np.array(1 - 2j, np.complex64)
    path = tmp_path / "model.yaml"
    assert write_model(parameter(array_parameter(array)), path) == [path, tmp_path / "model.npz"]
    check_identical(array_of(open_document(path)), array)


NANS = {
    "float64": np.array([0x7FF8000000000001, 0xFFF8000000000000], np.uint64).view(np.float64),
    "float32": np.array([0x7FC00000, 0x7FC00001, 0xFFC00000], np.uint32).view(np.float32),
    "float16": np.array([0x7E01], np.uint16).view(np.float16),
    "bfloat16": np.array([0x7FC1], np.uint16).view(ml_dtypes.bfloat16),
}


@pytest.mark.parametrize("name", NANS)
def test_bits_of_nans_go_to_a_side_file(name: str, tmp_path: Path) -> None:
    path = tmp_path / "model.yaml"
    assert write_model(parameter(array_parameter(NANS[name])), path) == [
        path,
        tmp_path / "model.npz",
    ]
    assert array_of(open_document(path)).tobytes() == NANS[name].tobytes()
    one_nan = np.array([np.nan, 1.0], NANS[name].dtype)
    assert write_model(parameter(array_parameter(one_nan)), path) == [path]
    assert str(array_of(open_document(path))) == str(one_nan)


def test_texts_that_end_in_zeros_stay_in_the_document(tmp_path: Path) -> None:
    array = np.array(["a\0", "b"] * MAX_INLINE_ELEMENTS, object)
    path = tmp_path / "model.yaml"
    assert write_model(parameter(array_parameter(array)), path) == [path]
    check_identical(array_of(open_document(path)), array)


def test_an_array_is_collected_once() -> None:
    arrays: dict[str, Any] = {}
    entry = array_parameter(np.arange(100.0))
    plain_content = to_plain_content(
        parameter({**entry, "default_initial_value": np.arange(99.0)}), "s", arrays
    )
    parameter_content = plain_content["m"]["graphs"]["g"]["nodes"]["A"]["parameters"]["w"]
    assert list(parameter_content) == ["value", "metadata", "default_initial_value"]
    assert {name: array.size for name, array in arrays.items()} == {
        "m.g.A.w": 100,
        "m.g.A.w.default_initial_value": 99,
    }


def test_arrays_in_args_keep_their_dtype() -> None:
    content = {"function": "f", "args": {"value": np.array([0], np.float32), "axis": 1}}
    plain_content = to_plain_content(content, "side.npz", {})
    assert plain_content["args"] == {"value": {"value": [0.0], "dtype": "float32"}, "axis": 1}
    check_identical(with_arrays(plain_content, None)["args"]["value"], content["args"]["value"])


def test_the_caller_s_content_is_not_changed() -> None:
    entry = {"value": [1, 2], "metadata": {"dtype": "float32"}}
    content = parameter(entry)
    check_identical(array_of(open_document(content)), np.array([1, 2], np.float32))
    assert entry == {"value": [1, 2], "metadata": {"dtype": "float32"}}


@pytest.mark.parametrize(
    ("value", "about", "match"),
    [
        ([1.5], {"dtype": "int64"}, r"is not int64: \[1.5\]"),
        ([300], {"dtype": "int8"}, "int8"),
        ([2], {"dtype": "bool"}, "is not bool"),
        (["a"], {"dtype": "float32"}, "not an array of float32"),
        ([[1, 2], [3]], {"dtype": "float32"}, "not an array of float32"),
        ([1, 2], {"dtype": "float33"}, "'float33' is not a dtype"),
        ([1, 2], {"dtype": ["float32"]}, "is not a dtype"),
        ([1, 2], {"dtype": "float32", "shape": [3]}, r"has shape \[2\], not \[3\]"),
        ([], {"dtype": "float32", "shape": [10**9, 10**9]}, r"has shape \[0\], not"),
        ([1], {"dtype": "float32", "shape": "x"}, "a shape is a list of whole numbers"),
        ({"npz": "m.npz", "array": "w"}, {"dtype": "float32"}, "lie beside a document"),
        ({"npz": "m.npz"}, {"dtype": "float32"}, "is written {npz: FILE, array: NAME}"),
        ({"npz": 3, "array": "w"}, {"dtype": "float32"}, "is written {npz: FILE, array: NAME}"),
    ],
)
def test_inconsistent_arrays_are_refused(value: Any, about: dict[str, Any], match: str) -> None:
    with pytest.raises(ModelError, match=match) as caught:
        open_document(parameter({"value": value, "metadata": about}))
    assert "nodes['A'].parameters['w']" in str(caught.value)


def side(folder: Path, file: str = "side.npz", array: str = "w", dtype: str = "float32") -> Any:
    value = {"npz": file, "array": array}
    path = folder / "model.yaml"
    write_model(parameter({"value": value, "metadata": {"dtype": dtype}}), path)
    return open_document(path)


def test_invalid_side_files_are_refused(tmp_path: Path) -> None:
    folder = tmp_path / "inside"
    folder.mkdir()
    with pytest.raises(ModelError, match=r"there is no file 'side.npz' beside the document"):
        side(folder)
    np.savez(folder / "side.npz", w=np.ones(3, np.float32), o=np.array([{}]))
    check_identical(array_of(side(folder)), np.ones(3, np.float32))
    with pytest.raises(ModelError, match=r"'side.npz' holds no array 'v'"):
        side(folder, array="v")
    with pytest.raises(ModelError, match="the array is float32, but int64 is stated"):
        side(folder, dtype="int64")
    with pytest.raises(ModelError, match="is not an npz file"):
        side(folder, array="o")
    (folder / "text.npz").write_text("no zip")
    with pytest.raises(ModelError, match=r"'text.npz' is not an npz file"):
        side(folder, file="text.npz")
    (tmp_path / "outside.npz").write_bytes((folder / "side.npz").read_bytes())
    for outside in ("../outside.npz", str(tmp_path / "outside.npz")):
        with pytest.raises(ModelError, match="is not in the folder of the document"):
            side(folder, file=outside)
