"""A model with larger arrays than a file can hold is refused before the model is built."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mdf_loop
from mdf_loop.document.tensors import array_parameter
from mdf_loop.emit import onnx_model
from mdf_loop.errors import UnsupportedError


def model(n: int) -> dict[str, Any]:
    parameters = {"small": array_parameter(np.ones(3)), "w": array_parameter(np.arange(float(n)))}
    node = {"parameters": parameters, "output_ports": {"y": {"value": "sum(small) + w"}}}
    return {"g": {"nodes": {"A": node}}}


def test_arrays_larger_than_a_file_are_refused(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(onnx_model, "_MAX_CONSTANT_BYTES", 1000)
    assert mdf_loop.compile(model(100), device="cpu").run()["A.y"].shape == (100,)
    compiled = mdf_loop.compile(model(200), device="cpu")
    sentence = r"the arrays of the model have 16\d\d bytes; one ONNX model holds 2 GB at most"
    for compute in (compiled.run, lambda: compiled.save(tmp_path / "m.onnx")):
        with pytest.raises(UnsupportedError, match=sentence) as caught:
            compute()
        assert "at $.graphs[0].nodes['A']" in str(caught.value)
        assert "make the largest ones inputs" in str(caught.value)
    assert not list(tmp_path.iterdir())
