"""`mdf-loop doctor`: report the state of the installation, with remedies for problems."""

from __future__ import annotations

import importlib.metadata
import platform
from collections.abc import Iterator

import click

from mdf_loop.cli.show import show

PACKAGES = (
    *("mdf-loop", "modeci-mdf", "onnx", "onnx-ir", "onnxruntime", "onnxruntime-gpu", "llvmlite"),
    "numpy",
)


@click.command("doctor")
def command() -> None:
    """Show versions, devices and the drawing program, with a remedy for each part that does not work."""
    for line in (
        *_version_lines(),
        *_runtime_lines(),
        *_native_lines(),
        *_drawing_lines(),
        *_plugin_lines(),
    ):
        show(line)


def _version_lines() -> Iterator[str]:
    """Yield a line with the version of Python, and one for each package."""
    yield f"python           {platform.python_version()} on {platform.platform()}"
    for package in PACKAGES:
        try:
            version = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            if package != "onnxruntime-gpu":
                yield f"{package:16} missing: pip install {package}"
            continue
        yield f"{package:16} {version}"


def _runtime_lines() -> Iterator[str]:
    """Yield a line about each device of ONNX Runtime, after a test run of a small loop."""
    from mdf_loop.api.compiled import compile
    from mdf_loop.demo import DEMOS
    from mdf_loop.errors import LoopError
    from mdf_loop.run.onnxruntime.device import cuda_problem

    model_path = DEMOS[0].path
    for device, device_problem in (("cpu", None), ("cuda", cuda_problem())):
        if device_problem is None:
            try:
                final_value = compile(model_path, device=device).run()["b_final"]
                yield f"{device:16} works (sample loop gives {final_value})"
                continue
            except LoopError as error:
                device_problem = error.findings[0].what
        yield f"{device:16} not usable: {device_problem}"


def _native_lines() -> Iterator[str]:
    """Yield a line about the compiler that turns loops into machine code."""
    from mdf_loop.native.loop_decisions import reason_unavailable

    compiler_problem = reason_unavailable()
    if compiler_problem is not None:
        yield f"{'native loops':16} off: {compiler_problem}"
        return
    from mdf_loop.native import machine

    fma_word = "with" if machine.has_fma() else "without"
    yield (
        f"{'native loops':16} work on {machine.processor_name()}: {machine.vector_width()} float64 at once, "
        f"{fma_word} FMA (a sample gives what Python gives)"
    )


def _drawing_lines() -> Iterator[str]:
    """Yield a line about the program that draws models."""
    from mdf_loop.drawing import renderer

    try:
        yield f"{'drawing':16} works ({renderer()})"
    except Exception as error:  # noqa: BLE001 - anything may be wrong with an installation
        yield f"{'drawing':16} not usable: {error}"


def _plugin_lines() -> Iterator[str]:
    """Yield a line about the registration of this package's plugin in modeci_mdf."""
    import modeci_mdf.execution_engine  # noqa: F401 - the plugin registers when it is loaded
    from modeci_mdf.functions.standard import mdf_functions

    is_registered = "onnx::Loop" in mdf_functions
    yield f"{'modeci_mdf':16} onnx::Loop is {'registered' if is_registered else 'not registered'}"
