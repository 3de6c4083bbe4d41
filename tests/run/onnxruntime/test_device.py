"""Devices: no silent fallback to the CPU."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

import mdf_loop
from mdf_loop.errors import DeviceError, InputError
from mdf_loop.run.onnxruntime import device as devices

GRAPH = {"g": {"nodes": {"A": {"output_ports": {"y": {"value": "2.0 + 1"}}}}, "edges": {}}}

HAS_CUDA = "CUDAExecutionProvider" in onnxruntime.get_available_providers()


@pytest.mark.skipif(HAS_CUDA, reason="CUDA is available here")
def test_cuda_without_cuda_is_an_error_that_says_why() -> None:
    with pytest.raises(
        DeviceError, match=r"CUDA was asked for, but the package 'onnxruntime' .* has none"
    ):
        mdf_loop.compile(GRAPH, device="cuda").run()


def test_auto_reports_the_selected_device() -> None:
    compiled = mdf_loop.compile(GRAPH)
    assert compiled.run().device == compiled.device
    assert compiled.device_reason


def test_cpu_is_used_on_request() -> None:
    compiled = mdf_loop.compile(GRAPH, device="cpu")
    assert compiled.run()["y"] == 3.0
    assert (compiled.device, compiled.device_reason) == ("cpu", "asked for")


def test_an_unknown_device_is_refused() -> None:
    with pytest.raises(InputError, match="device cannot be 'gpu'"):
        mdf_loop.compile(GRAPH, device="gpu")


class _FallbackSession:
    """Session that silently uses the CPU."""

    def get_providers(self) -> list[str]:
        return ["CPUExecutionProvider"]


@pytest.mark.parametrize("outcome", ["fell back", "failed"])
def test_a_silent_fallback_to_the_cpu_is_an_error(monkeypatch, outcome: str) -> None:
    session_class = onnxruntime.InferenceSession

    def session(model, options, providers, **settings):
        if providers == ["CPUExecutionProvider"]:
            return session_class(model, options, providers=providers, **settings)
        assert settings["enable_fallback"] == 0
        if outcome == "failed":
            raise RuntimeError("libcudart.so: cannot open shared object file")
        return _FallbackSession()

    available = ["CUDAExecutionProvider", "CPUExecutionProvider"]
    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: available)
    monkeypatch.setattr(onnxruntime, "InferenceSession", session)
    sentence = "libcudart" if outcome == "failed" else "its libraries could not be loaded"
    with pytest.raises(DeviceError, match=sentence):
        mdf_loop.compile(GRAPH, device="cuda").run()
    compiled = mdf_loop.compile(GRAPH, device="auto")
    assert compiled.run()["y"] == 3.0
    assert compiled.device == "cpu"
    assert sentence in compiled.device_reason


def part(provider: str, *op_types: str) -> SimpleNamespace:
    nodes = [SimpleNamespace(op_type=op_type) for op_type in op_types]
    return SimpleNamespace(ep_name=f"{provider}ExecutionProvider", get_nodes=lambda: nodes)


def claiming_cuda(monkeypatch, *parts: SimpleNamespace) -> None:
    """Let the runtime report CUDA as available with this placement of the operations."""
    session_class = onnxruntime.InferenceSession

    def session(model, options, providers, **settings):
        if providers == ["CPUExecutionProvider"]:
            return session_class(model, options, providers=providers, **settings)
        key = "session.record_ep_graph_assignment_info"
        assert options.get_session_config_entry(key) == "1"
        cpu_session = session_class(model, options, providers=["CPUExecutionProvider"])
        return SimpleNamespace(
            run=cpu_session.run,
            get_providers=lambda: [providers[0][0], *providers[1:]],
            get_provider_graph_assignment_info=lambda: parts,
        )

    available = ["CUDAExecutionProvider", "CPUExecutionProvider"]
    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: available)
    monkeypatch.setattr(onnxruntime, "InferenceSession", session)


def test_operators_of_a_cuda_model_that_run_on_the_cpu_are_named(monkeypatch) -> None:
    claiming_cuda(monkeypatch, part("CPU", "Atan", "Atan"), part("CUDA", "Add"))
    compiled = mdf_loop.compile(GRAPH, device="cuda")
    assert compiled.run().device == "cuda"
    assert compiled.device_reason == "on the CPU: Atan"
    claiming_cuda(monkeypatch, part("CUDA", "Add"))
    assert mdf_loop.compile(GRAPH, device="cuda").device_reason == "CUDA is available"


def test_cuda_that_runs_nothing_is_not_used(monkeypatch) -> None:
    claiming_cuda(monkeypatch, part("CPU", "Atan", "Tan"))
    sentence = r"the runtime put all operations on the CPU \(Atan, Tan\)"
    with pytest.raises(DeviceError, match=sentence):
        mdf_loop.compile(GRAPH, device="cuda").run()
    assert mdf_loop.compile(GRAPH, device="auto").device == "cpu"


LOOPS = {
    "texts": "string[1]",
    "values that are no arrays": "seq(double[1])",
}


@pytest.mark.parametrize("kind", LOOPS)
def test_loops_of_cuda_are_of_arrays_of_numbers(monkeypatch, kind: str) -> None:
    claiming_cuda(monkeypatch, part("CUDA", "Loop"))
    text = f"""
        <ir_version: 8, opset_import: ["": 17]>
        g ({LOOPS[kind]} x) => ({LOOPS[kind]} y) <int64 most = {{3}}> {{
            y = Loop (most, , x) <body = step (int64 i, bool go, {LOOPS[kind]} v)
                => (bool goes, {LOOPS[kind]} w) {{ goes = Identity(go)  w = Identity(v) }}>
        }}"""
    document = mdf_loop.from_onnx(onnx.parser.parse_model(text))
    inputs: dict[str, Any] = {"x": ["a"] if kind == "texts" else [np.array([1.0])]}
    with pytest.raises(DeviceError, match=f"{kind} go into"):
        mdf_loop.compile(document, device="cuda").run(inputs)
    compiled = mdf_loop.compile(document)
    assert compiled.run(inputs).device == "cpu"
    assert f"no CUDA: {kind} go into" in compiled.device_reason


def test_the_runtime_tells_where_operators_run() -> None:
    options = onnxruntime.SessionOptions()
    options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    graph = {
        "g": {"nodes": {"A": {"input_ports": {"x": {}}, "output_ports": {"y": {"value": "x + 1"}}}}}
    }
    model = mdf_loop.compile(graph).to_onnx().SerializeToString()
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    assert devices.operators_by_provider(session) == {"CPUExecutionProvider": ("Add",)}
    assert devices.operators_by_provider(SimpleNamespace()) == {}
