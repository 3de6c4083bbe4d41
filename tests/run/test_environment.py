"""Checkpoints and stores record the environment that affects the last bits and refuse another environment."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mdf_loop
from mdf_loop.errors import InputError
from mdf_loop.run import environment as module
from mdf_loop.run.environment import check_environment, environment
from tests.models.timed import graph
from tests.strategies.inline_cluster import compute_inline

NODE = {
    "parameters": {
        "b": {"value": 1.0},
        "x": {"default_initial_value": 0.25, "value": "b * x * (2 - x)"},
    },
    "output_ports": {"x": {"value": "x"}},
}
SWEEP: dict[str, Any] = {
    "sweep": {"n.b": np.linspace(0.2, 1.4, 6)},
    "steps": 6,
    "progress": False,
}


def other(monkeypatch: pytest.MonkeyPatch, word: str, value: str) -> None:
    """Change one part of the environment."""
    monkeypatch.setattr(module, "_ENTRY_READERS", {**module._ENTRY_READERS, word: lambda: value})


def model() -> mdf_loop.CompiledModel:
    return mdf_loop.compile(graph(n=NODE)["g"], device="cpu")


def test_the_environment_lists_the_parts_that_affect_bits() -> None:
    assert set(environment("onnxruntime", {"time": "standard: there is little to do"})) == {
        "number format",
        "onnxruntime",
        "processor",
    }
    assert "llvmlite" in environment("onnxruntime", {"time": "native"})
    assert "llvmlite" in environment("onnxruntime", None)
    assert set(environment("interpreter", {})) == {"number format", "numpy", "processor"}


def test_a_loop_that_is_not_native_without_llvmlite(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "reason_unavailable", lambda: "llvmlite is not installed")
    forms = {"time": "standard: llvmlite is not installed"}
    assert environment("onnxruntime", forms)["llvmlite"] == "off: llvmlite is not installed"


@pytest.mark.parametrize("word", ["number format", "onnxruntime"])
def test_a_checkpoint_of_another_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, word: str
) -> None:
    checkpoint_path = tmp_path / "c"
    model().run(steps=5, checkpoint=checkpoint_path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model().run(steps=9, resume=checkpoint_path)
    other(monkeypatch, word, "0.0")
    bytes_before = checkpoint_path.read_bytes()
    with pytest.raises(InputError, match=rf"'c' was begun with {word} .* \(here: 0.0\)") as error:
        model().run(steps=9, resume=checkpoint_path)
    assert "leave resume (--resume) out" in str(error.value)
    assert checkpoint_path.read_bytes() == bytes_before


def test_another_processor_is_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checkpoint_path = tmp_path / "c"
    model().run(steps=5, checkpoint=checkpoint_path)
    other(monkeypatch, "processor", "another")
    with pytest.warns(UserWarning, match=r"was begun on the processor .* \(here: another\)"):
        model().run(steps=9, resume=checkpoint_path)


def test_a_missing_environment_record_is_a_warning() -> None:
    with pytest.warns(UserWarning, match="the checkpoint does not record the versions"):
        check_environment("the checkpoint", None, "begin anew")


@pytest.mark.parametrize("word", ["number format", "onnxruntime"])
def test_a_store_of_another_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, word: str
) -> None:
    compute_inline(monkeypatch)
    options = {**SWEEP, "cluster": 1, "block": 2, "output": tmp_path / "s.zarr"}
    model().run(**options)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model().run(**options, resume=True)
    other(monkeypatch, word, "0.0")
    with pytest.raises(InputError, match=rf"s.zarr' was begun with {word} .*here: 0.0") as error:
        model().run(**options, resume=True)
    assert "overwrite=True (--overwrite)" in str(error.value)


def test_a_store_of_an_earlier_version_is_continued_with_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocks = compute_inline(monkeypatch)
    options = {**SWEEP, "cluster": 1, "block": 2, "output": tmp_path / "s.zarr"}
    model().run(**options)
    blocks.clear()
    root = tmp_path / "s.zarr" / "zarr.json"
    document = json.loads(root.read_text())
    record = document["attributes"]["sweep"]
    del record["environment"], record["digest"]
    record["run"]["mdf_loop"] = "0.0.9"
    root.write_text(json.dumps(document))
    with pytest.warns(UserWarning, match=r"s.zarr' does not record the versions"):
        model().run(**options, resume=True)
    assert not blocks
