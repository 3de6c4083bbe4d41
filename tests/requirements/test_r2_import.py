"""Models in the file format of OpenVINO, imported to MDF, written as YAML and run (R2.17)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mdf_loop
from mdf_loop.importing import read_foreign
from mdf_loop.importing.opening import open_document
from mdf_loop.importing.writing import write_model
from mdf_loop.reading.inputs import open_ports

MODELS = Path(__file__).parents[1] / "importing" / "openvino_models"


def array(tensor: dict[str, Any]) -> np.ndarray:
    return np.array(tensor["data"], tensor["dtype"]).reshape(tensor["shape"])


@pytest.mark.parametrize("path", sorted(MODELS.glob("*.xml")), ids=lambda p: p.stem)
def test_r2_17_an_imported_ir_equals_openvino(path: Path, tmp_path: Path) -> None:
    model, *_ = write_model(read_foreign(path), tmp_path / "model.yaml")
    names = [port.name for port in open_ports(open_document(model))]
    compiled = mdf_loop.compile(model, device="cpu")
    for run in json.loads(path.with_suffix(".json").read_text())["runs"]:
        inputs = dict(zip(names, map(array, run["inputs"]), strict=True))
        results = list(compiled.run(inputs).values())
        for result, expected in zip(results, map(array, run["expected"]), strict=True):
            assert (result.dtype, result.shape) == (expected.dtype, expected.shape)
            np.testing.assert_allclose(result, expected, rtol=2e-5, atol=1e-6)


def test_r2_17_loops_of_an_ir_become_loop_nodes() -> None:
    document = open_document(MODELS / "slices_backwards.xml")
    functions = [function for node in document.graph.nodes for function in node.functions]
    (loop,) = (function for function in functions if function.function == "onnx::Loop")
    assert loop.args["slices"]
    (body,) = loop.args["body"].values()
    assert body["metadata"]["strict"] is True
