"""The type inference of onnx for whole models runs in a separate process, which can be ended."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import onnx
import pytest

from mdf_loop.errors import ModelError
from mdf_loop.importing import inference_process, inference_worker
from mdf_loop.importing.inference_process import infer_shapes

HEAD = '<ir_version: 8, opset_import: ["" : 17]>'
ENDLESS = """
    a = Neg (x)
    b = Einsum <equation = "...a...->a"> (a)
    y = Exp (b)"""
"""Nodes from whose inference onnx 1.23 does not return."""


def _model(nodes: str) -> onnx.ModelProto:
    return onnx.parser.parse_model(f"{HEAD} f (float[3, 3] x) => (y) {{ {nodes} }}")


def _types(model: onnx.ModelProto | None) -> list[str]:
    assert model is not None
    return [str(value) for value in (*model.graph.value_info, *model.graph.output)]


@pytest.fixture(autouse=True)
def _own_process() -> Iterator[None]:
    """End the inference process after each test."""
    yield
    inference_process._PROCESS.end()


@pytest.fixture
def short_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inference_worker, "TIME_LIMIT_SECONDS", 1.5)
    monkeypatch.setattr(inference_process, "PROBE_SECONDS", 1.0)


def test_types_are_those_of_onnx() -> None:
    for nodes in ("a = Neg (x) y = Exp (a)", "y = Transpose (x)"):
        model = _model(nodes)
        expected = onnx.shape_inference.infer_shapes(model, data_prop=True)
        assert _types(infer_shapes(model)) == _types(expected)


def test_an_error_of_onnx_gives_no_model() -> None:
    model = _model("y = Exp (x)")
    model.ClearField("opset_import")
    assert infer_shapes(model) is None


@pytest.mark.usefixtures("short_limits")
def test_inference_without_end_is_an_error_that_names_the_operation() -> None:
    with pytest.raises(
        ModelError, match=r"'Einsum' does not end within 1.5 seconds\n  at \$\.graph"
    ):
        infer_shapes(_model(ENDLESS))
    assert infer_shapes(_model("y = Exp (x)")) is not None


@pytest.mark.usefixtures("short_limits")
def test_a_crash_is_an_error_that_names_the_operation() -> None:
    model = _model(ENDLESS)
    infer_shapes(_model("y = Exp (x)"))
    process: Any = inference_process._PROCESS._process
    threading.Timer(0.5, process.kill).start()
    with pytest.raises(ModelError, match="'Einsum' crashes"):
        infer_shapes(model)


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
def test_ctrl_c_ends_the_inference() -> None:
    infer_shapes(_model("y = Exp (x)"))
    threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        infer_shapes(_model(ENDLESS))
    assert infer_shapes(_model("y = Exp (x)")) is not None


def test_a_system_without_new_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError

    monkeypatch.setattr(subprocess, "Popen", refuse)
    model = _model("y = Exp (x)")
    assert _types(infer_shapes(model)) == _types(
        onnx.shape_inference.infer_shapes(model, data_prop=True)
    )


FORKED = f"""
import os, onnx
from mdf_loop.importing.inference_process import infer_shapes
model = onnx.parser.parse_model('{HEAD} f (float[3] x) => (y) {{ y = Exp (x) }}')
assert infer_shapes(model) is not None
child = os.fork()
assert infer_shapes(model) is not None
if child:
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert infer_shapes(model) is not None
"""


@pytest.mark.skipif(sys.platform == "win32", reason="forks of POSIX")
def test_the_child_of_a_fork_has_a_process_of_its_own() -> None:

    process = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FORKED], capture_output=True, text=True, timeout=60
    )
    assert (process.returncode, process.stderr) == (0, "")
