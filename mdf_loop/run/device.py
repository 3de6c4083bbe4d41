"""Which device a model runs on, and whether it really does.

ONNX Runtime falls back to the CPU without a word; here that is an error that says why.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import onnx

from mdf_loop.emit.scans import with_scans
from mdf_loop.errors import DeviceError

DEVICES = ("auto", "cpu", "cuda")
INEXACT_FUSIONS = ("MatMulScaleFusion", "DivMulFusion", "MatmulTransposeFusion")
"""Optimisations of ONNX Runtime that change numbers: `0.1 * (a @ b)` gets its 0.1 in float32,
`1 / x * y` is rounded once instead of twice, `a.T @ v` with a vector becomes `a @ v`."""

_CUDA = "CUDAExecutionProvider"
_CPU = "CPUExecutionProvider"


@dataclass(frozen=True, slots=True)
class Device:
    """A device that was taken, and why."""

    name: str
    reason: str


def runtime_package() -> str:
    """The package that provides onnxruntime here: `onnxruntime` or `onnxruntime-gpu`."""
    import onnxruntime

    name = getattr(onnxruntime, "package_name", None)
    if name:
        return str(name)
    from onnxruntime.capi import build_and_package_info

    return str(getattr(build_and_package_info, "package_name", "onnxruntime"))


def cuda_problem() -> str | None:
    """Why CUDA cannot be asked for at all; None if it can."""
    import onnxruntime

    if _CUDA in onnxruntime.get_available_providers():
        return None
    return f"the package '{runtime_package()}' {onnxruntime.__version__} has none"


def open_session(model: onnx.ModelProto, device: str, options: Any) -> tuple[Any, Device]:
    """An InferenceSession on the device asked for.

    Raises:
        DeviceError: CUDA was asked for and is not really used; the sentence says why.
    """
    if device not in DEVICES:
        raise DeviceError(f"there is no device '{device}'", hint="use auto, cpu or cuda")
    if device == "cpu":
        return _cpu_session(model, options), Device("cpu", "asked for")
    problem = cuda_problem()
    if problem is None:
        try:
            session = _cuda_session(model, options)
            return session, _cuda_device(session)
        except DeviceError as error:
            problem = error.findings[0].what
    if device == "cuda":
        raise DeviceError(
            f"CUDA was asked for, but {problem}",
            hint="use device='cpu' or 'auto', or install onnxruntime-gpu (see docs/gpu.md)",
        )
    return _cpu_session(model, options), Device("cpu", f"no CUDA: {problem}")


def _cpu_session(model: onnx.ModelProto, options: Any) -> Any:
    import onnxruntime

    return onnxruntime.InferenceSession(
        with_scans(model).SerializeToString(),
        options,
        providers=[_CPU],
        disabled_optimizers=list(INEXACT_FUSIONS),
    )


def _cuda_session(model: onnx.ModelProto, options: Any) -> Any:
    """A session whose first provider is CUDA, without the runtime's silent fallback."""
    import onnxruntime

    options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    try:
        session = onnxruntime.InferenceSession(
            model.SerializeToString(),
            options,
            providers=[_CUDA, _CPU],
            disabled_optimizers=list(INEXACT_FUSIONS),
            enable_fallback=0,
        )
    except Exception as error:  # noqa: BLE001 - the runtime has errors of its own
        raise DeviceError(f"it could not be started: {str(error).splitlines()[0]}") from None
    if session.get_providers()[0] != _CUDA:
        raise DeviceError("its libraries could not be loaded (driver, CUDA or cuDNN missing)")
    return session


def _cuda_device(session: Any) -> Device:
    """CUDA, with the operators that the runtime nevertheless put on the CPU."""
    placed = placement(session)
    on_cpu = placed.get(_CPU, ())
    if on_cpu and _CUDA not in placed:
        raise DeviceError(f"the runtime put all operations on the CPU ({', '.join(on_cpu)})")
    return Device("cuda", f"on the CPU: {', '.join(on_cpu)}" if on_cpu else "CUDA is available")


def placement(session: Any) -> dict[str, tuple[str, ...]]:
    """Operators, those of bodies too, by the provider that runs them, where the runtime can tell."""
    if not hasattr(session, "get_provider_graph_assignment_info"):
        return {}
    placed: dict[str, dict[str, None]] = {}
    for part in session.get_provider_graph_assignment_info():
        placed.setdefault(part.ep_name, {}).update(
            (node.op_type, None) for node in part.get_nodes()
        )
    return {provider: tuple(op_types) for provider, op_types in placed.items()}
