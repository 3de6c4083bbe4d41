"""Commands refuse an invalid output file before they do anything slow."""

from __future__ import annotations

import pytest

COMMANDS = {
    "run --output": ("model.yaml", ".npz"),
    "run --plot": ("model.yaml", ".png"),
    "run --steps 2 --final-state": ("model.yaml", ".npz"),
    "draw -o": ("model.yaml", ".svg"),
    "compile -o": ("model.yaml", ".onnx"),
    "gradient --of n.v:sum --wrt n.v --save": ("model.yaml", ".onnx"),
    "import -o": ("model.onnx", ".yaml"),
    "fit no.csv --free n.v=0..1 --output": ("model.yaml", ".json"),
    "fit no.csv --free n.v=0..1 --plot": ("model.yaml", ".png"),
    "fit no.csv --free n.v=0..1 --write": ("model.yaml", ".yaml"),
}
"""Commands that write a file, with the suffixes of their input file and of their output file."""


@pytest.mark.parametrize("place", ["no folder", "a folder"])
@pytest.mark.parametrize("arguments", COMMANDS)
def test_invalid_outputs_are_refused_before_reading_the_model(
    cli, tmp_path, arguments: str, place: str
) -> None:
    command, *options = arguments.split()
    model, suffix = COMMANDS[arguments]
    folder = tmp_path / f"taken{suffix}"
    folder.mkdir()
    target, sentence = {
        "no folder": (tmp_path / "no" / f"file{suffix}", "there is no folder"),
        "a folder": (folder, "it is no file"),
    }[place]
    outcome = cli(command, tmp_path / model, *options, target)
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.startswith(f"InputError: cannot write '{target}': ")
    assert sentence in outcome.err


def test_a_failed_drawing_preserves_the_old_picture(cli, double, tmp_path, monkeypatch) -> None:
    target = tmp_path / "old.svg"
    target.write_text("old")
    monkeypatch.setattr("mdf_loop.drawing.picture.render", _fail)
    assert cli("draw", double, "-o", target).code == 2
    assert target.read_text() == "old"


def _fail(dot: str, form: str) -> bytes:
    from mdf_loop.errors import UnsupportedError

    raise UnsupportedError("no ink")
