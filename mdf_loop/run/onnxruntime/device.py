"""ONNX Runtime sessions on the CPU or CUDA, without silent fallback to the CPU.

ONNX Runtime silently falls back to the CPU. This module raises an error with the reason instead.
"""

from __future__ import annotations

import contextlib
import functools
import io
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from msgspec import Struct

from mdf_loop.emit import SessionModel
from mdf_loop.errors import DeviceError
from mdf_loop.ir import If, Loop, Program, reads, results, walk
from mdf_loop.ir.types import is_tensor
from mdf_loop.onnx_session import CPU, inference_session
from mdf_loop.run.device import Device
from mdf_loop.run.output_buffers import NO_BUFFERS, OutputBuffers, address

DEVICES = ("auto", "cpu", "cuda")
INEXACT_FUSIONS = ("MatMulScaleFusion", "DivMulFusion", "EliminateIdentity")
"""Optimisations of ONNX Runtime that change numbers: `0.1 * (a @ b)` converts 0.1 to float32, and
`1 / x * y` is rounded once instead of twice. The last one removes copies of rows (see `emit.scan_node`)."""

INEXACT_ON_CUDA = (*INEXACT_FUSIONS, "MatmulTransposeFusion")
"""Optimisations to disable on CUDA, where `a.T @ v` with a vector must not become `a @ v` either. For the
CPU, see `emit.transposed_products`."""

_CUDA_PROVIDER = "CUDAExecutionProvider"

_CUDA_OPTIONS = {"use_tf32": "0"}
"""Provider options for float32 products with full precision instead of 10 bits."""


class PlacedModel(Struct, frozen=True, eq=False):
    """Model that ONNX Runtime has loaded on a device (CPU or CUDA)."""

    session: Any
    device: Device

    def run(
        self,
        output_names: Sequence[str],
        feeds: Mapping[str, Any],
        options: Any,
        buffers: OutputBuffers = NO_BUFFERS,
    ) -> list[Any]:
        """Compute the named outputs, and write outputs that have a buffer into their buffer."""
        if not buffers:
            arrays: list[Any] = self.session.run(output_names, feeds, options)
            if feeds.keys().isdisjoint(output_names):
                return arrays
            # CUDA returns zeros for a tensor that is an input and an output
            return [
                _copy_if_array(feeds[name]) if name in feeds else array
                for name, array in zip(output_names, arrays, strict=True)
            ]
        binding = self.session.io_binding()  # for runs over time, whose inputs are no outputs
        for name, array in feeds.items():
            binding.bind_cpu_input(name, array)
        for name in output_names:
            array = buffers.get(name)
            if array is None:
                binding.bind_output(name)
            else:
                binding.bind_output(name, "cpu", 0, array.dtype, array.shape, address(array))
        self.session.run_with_iobinding(binding, options)
        outputs = zip(output_names, binding.get_outputs(), strict=True)
        return [buffers[name] if name in buffers else output.numpy() for name, output in outputs]


def _copy_if_array(data: Any) -> Any:
    """Return a copy of a NumPy array, or any other value unchanged."""
    return data.copy() if isinstance(data, np.ndarray) else data


def runtime_package() -> str:
    """Return the name of the installed package: `onnxruntime` or `onnxruntime-gpu`."""
    import onnxruntime

    package_name = getattr(onnxruntime, "package_name", None)
    if package_name:
        return str(package_name)
    from onnxruntime.capi import build_and_package_info

    return str(getattr(build_and_package_info, "package_name", "onnxruntime"))


def cuda_problem() -> str | None:
    """Return the reason why ONNX Runtime cannot use CUDA, or None if it can."""
    import onnxruntime

    if _CUDA_PROVIDER in onnxruntime.get_available_providers():
        return None
    return f"the package '{runtime_package()}' {onnxruntime.__version__} has none"


def _cuda_type_problem(program: Program) -> str | None:
    """Return the reason why CUDA cannot run the loops and branches of a program, or None.

    The reason is the dtype of a value.

    The runtime's CUDA provider accepts other loops, too, but may abort the process (onnxruntime 1.31).
    """
    for operation in walk(program.ops):
        if isinstance(operation, Loop | If):
            operation_values = (*reads(operation), *results(operation))
            unsupported_value = next(
                (
                    value
                    for value in operation_values
                    if not is_tensor(value.dtype) or value.dtype == "string"
                ),
                None,
            )
            if unsupported_value is not None:
                type_description = (
                    "texts" if "string" in unsupported_value.dtype else "values that are no arrays"
                )
                operation_name = operation.name
                return f"{type_description} go into '{operation_name}' or come out of it: its loops are of arrays of numbers"
    return None


def load_on_cpu(model: SessionModel, options: Any, reason: str) -> PlacedModel:
    """Load a model into an ONNX Runtime session on the CPU.

    `reason` explains the choice of the CPU.
    """
    session = inference_session(
        model.for_cpu.SerializeToString(), options, disabled_optimizers=list(INEXACT_FUSIONS)
    )
    return PlacedModel(session, Device("cpu", reason))


def load_on_cuda(model: SessionModel, options: Any) -> PlacedModel:
    """Load a model into an ONNX Runtime session on CUDA.

    The device reason names the operators that remain on the CPU.

    Raises:
        DeviceError: CUDA would not run the model. The message has the reason.
    """
    problem = cuda_problem() or _cuda_type_problem(model.program)
    if problem is not None:
        raise DeviceError(problem)
    session = _open_cuda_session(model, options)
    op_types_by_provider = operators_by_provider(session)
    cpu_operators = op_types_by_provider.get(CPU, ())
    if cpu_operators and _CUDA_PROVIDER not in op_types_by_provider:
        raise DeviceError(f"the runtime put all operations on the CPU ({', '.join(cpu_operators)})")
    reason = f"on the CPU: {', '.join(cpu_operators)}" if cpu_operators else "CUDA is available"
    return PlacedModel(session, Device("cuda", reason))


@functools.cache
def _load_libraries() -> None:
    """Load the CUDA and cuDNN libraries of NVIDIA's Python packages, if they are installed.

    Messages of the runtime about missing packages are suppressed: the session later reports missing
    libraries.
    """
    import onnxruntime

    if hasattr(onnxruntime, "preload_dlls"):
        with contextlib.redirect_stdout(io.StringIO()):
            onnxruntime.preload_dlls()


def _open_cuda_session(model: SessionModel, options: Any) -> Any:
    """Open an ONNX Runtime session on CUDA, and raise an error instead of a fallback."""
    _load_libraries()
    options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    try:
        session = inference_session(
            model.model_for_cuda().SerializeToString(),
            options,
            [(_CUDA_PROVIDER, _CUDA_OPTIONS), CPU],
            disabled_optimizers=list(INEXACT_ON_CUDA),
            enable_fallback=0,
        )
    except Exception as error:  # noqa: BLE001 - the runtime raises exceptions of its own types
        raise DeviceError(f"it could not be started: {str(error).splitlines()[0]}") from None
    if session.get_providers()[0] != _CUDA_PROVIDER:
        raise DeviceError("its libraries could not be loaded (driver, CUDA or cuDNN missing)")
    return session


def operators_by_provider(session: Any) -> dict[str, tuple[str, ...]]:
    """Return the operator types that each ONNX Runtime execution provider runs.

    The result is empty if the runtime does not report them.
    """
    if not hasattr(session, "get_provider_graph_assignment_info"):
        return {}
    op_types_by_provider: dict[str, dict[str, None]] = {}
    for assignment in session.get_provider_graph_assignment_info():
        op_types_by_provider.setdefault(assignment.ep_name, {}).update(
            (node.op_type, None) for node in assignment.get_nodes()
        )
    return {provider: tuple(op_types) for provider, op_types in op_types_by_provider.items()}
