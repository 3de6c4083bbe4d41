"""`mdf-loop doctor`."""

from __future__ import annotations

import importlib.metadata

import mdf_loop
from mdf_loop.run.onnxruntime import device


def lines(outcome) -> dict[str, str]:
    assert (outcome.code, outcome.err) == (0, "")
    return dict(line.split(maxsplit=1) for line in outcome.out.splitlines())


def test_everything_that_matters_has_a_line(cli):
    said = lines(cli("doctor"))
    assert said["mdf-loop"] == mdf_loop.__version__
    assert said["onnx"] == importlib.metadata.version("onnx")
    assert said["cpu"] == "works (sample loop gives 6)"
    assert said["drawing"].startswith("works (")
    assert said["modeci_mdf"] == "onnx::Loop is registered"
    assert said["python"].startswith("3.")


def test_missing_packages_say_what_to_install(cli, monkeypatch):
    def absent(name: str) -> str:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", absent)
    assert lines(cli("doctor"))["onnx-ir"] == "missing: pip install onnx-ir"


def test_without_cuda_the_reason_is_said(cli, monkeypatch):
    monkeypatch.setattr(device, "cuda_problem", lambda: "there is none")
    assert lines(cli("doctor"))["cuda"] == "not usable: there is none"


def test_a_plugin_that_was_taken_out_is_noticed(cli):
    mdf_loop.unregister()
    try:
        assert lines(cli("doctor"))["modeci_mdf"] == "onnx::Loop is not registered"
    finally:
        mdf_loop.register()


def test_what_fails_is_said_and_not_raised(cli, monkeypatch):
    from mdf_loop import drawing
    from mdf_loop.api import compiled
    from mdf_loop.errors import DeviceError

    def no_session(*_, **__):
        raise DeviceError("the runtime is broken")

    def no_renderer():
        raise OSError("Graphviz is broken")

    monkeypatch.setattr(compiled, "compile", no_session)
    monkeypatch.setattr(drawing, "renderer", no_renderer)
    said = lines(cli("doctor"))
    assert said["cpu"] == "not usable: the runtime is broken"
    assert said["drawing"] == "not usable: Graphviz is broken"
