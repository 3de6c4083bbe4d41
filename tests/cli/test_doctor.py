"""`mdf-loop doctor`."""

from __future__ import annotations

import importlib.metadata

import mdf_loop
from mdf_loop.run.onnxruntime import device


def lines(outcome) -> dict[str, str]:
    assert (outcome.code, outcome.err) == (0, "")
    return dict(line.split(maxsplit=1) for line in outcome.out.splitlines())


def test_each_part_has_a_line(cli):
    report = lines(cli("doctor"))
    assert report["mdf-loop"] == mdf_loop.__version__
    assert report["onnx"] == importlib.metadata.version("onnx")
    assert report["cpu"] == "works (sample loop gives 6)"
    assert report["drawing"].startswith("works (")
    assert report["modeci_mdf"] == "onnx::Loop is registered"
    assert report["python"].startswith("3.")


def test_missing_packages_have_an_install_command(cli, monkeypatch):
    def absent(name: str) -> str:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", absent)
    assert lines(cli("doctor"))["onnx-ir"] == "missing: pip install onnx-ir"


def test_missing_cuda_has_a_reason(cli, monkeypatch):
    monkeypatch.setattr(device, "cuda_problem", lambda: "there is none")
    assert lines(cli("doctor"))["cuda"] == "not usable: there is none"


def test_an_unregistered_plugin_is_reported(cli):
    mdf_loop.unregister()
    try:
        assert lines(cli("doctor"))["modeci_mdf"] == "onnx::Loop is not registered"
    finally:
        mdf_loop.register()


def test_failures_are_reported(cli, monkeypatch):
    from mdf_loop import drawing
    from mdf_loop.api import compiled
    from mdf_loop.errors import DeviceError

    def no_session(*_, **__):
        raise DeviceError("the runtime is broken")

    def no_renderer():
        raise OSError("Graphviz is broken")

    monkeypatch.setattr(compiled, "compile", no_session)
    monkeypatch.setattr(drawing, "renderer", no_renderer)
    report = lines(cli("doctor"))
    assert report["cpu"] == "not usable: the runtime is broken"
    assert report["drawing"] == "not usable: Graphviz is broken"
