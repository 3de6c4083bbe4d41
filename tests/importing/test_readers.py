"""Readers of other file formats: the requirements of a reader, and its place among the fuzzed readers."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest

import mdf_loop
from mdf_loop.errors import InputError, ModelError
from mdf_loop.importing import READERS, from_onnx, read_foreign
from mdf_loop.importing.graph_writer import Content
from tests.fuzz.mutations import STRUCTURES
from tests.fuzz.seeds import READERS as FUZZED


def toy(path: Path) -> Content:
    """Return a model that doubles the number in the file."""
    node = {"output_ports": {"y": {"value": f"2 * {float(path.read_text())}"}}}
    return {"toy": {"graphs": {"g": {"nodes": {"n": node}}}}}


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Register a reader that knows only its format and write a file for it."""
    monkeypatch.setitem(READERS, ".xml", toy)
    path = tmp_path / "model.xml"
    path.write_text("1.5")
    return path


def test_a_registered_reader_opens_files(model: Path) -> None:
    assert mdf_loop.compile(model).run()["n.y"] == 3.0


def test_files_opened_by_a_reader_are_not_overwritten(model: Path) -> None:
    link, rows = model.with_name("out.onnx"), model.with_name("out.npz")
    link.symlink_to(model)
    rows.symlink_to(model)
    compiled = mdf_loop.compile(model)
    for write in (lambda: compiled.save(link), lambda: compiled.run().save(rows)):
        with pytest.raises(InputError, match="the model or what it is given is read from there"):
            write()
    assert model.read_text() == "1.5"


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"\xff\xfe\x00", "'model.xml' cannot be read: it is no text"),
        (b"one", "'model.xml' cannot be read: could not convert string to float: 'one'"),
    ],
)
def test_exceptions_of_a_reader_are_errors_of_the_file(
    model: Path, content: bytes, sentence: str
) -> None:
    model.write_bytes(content)
    with pytest.raises(ModelError, match=sentence) as caught:
        mdf_loop.compile(model)
    assert "is it a .xml file, and was it copied completely?" in caught.value.report


def test_errors_of_an_importer_are_printed_once(tmp_path: Path) -> None:
    cut = tmp_path / "cut.onnx"
    cut.write_bytes(b"\x08\x08\x3a\x90\x01\x0a")
    odd = tmp_path / "odd.onnx"
    head = '<ir_version: 8, opset_import: ["" : 17]> g (float[2] x) => (float[2] y)'
    onnx.save(onnx.parser.parse_model(head + " { y = Relu <alpha = 1.0> (x) }"), odd)
    for path, sentence in (
        (cut, "is not a whole ONNX file"),
        (odd, "Relu has no attribute 'alpha'"),
    ):
        with pytest.raises(ModelError, match=sentence) as caught:
            mdf_loop.compile(path)
        report = caught.value.report
        assert report.count("ModelError") == 1
        assert report.count("was it copied completely?") == (path is cut)


def test_a_file_that_nests_too_deeply(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def endless(path: Path) -> Content:
        return endless(path)

    monkeypatch.setitem(READERS, ".xml", endless)
    with pytest.raises(ModelError, match=r"'model\.xml' is nested too deeply"):
        read_foreign(model)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="there is no file"):
        from_onnx(tmp_path / "none.onnx")


def test_each_reader_is_fuzzed() -> None:
    assert {*READERS} <= {*FUZZED.values()}
    assert STRUCTURES.keys() == FUZZED.keys()
