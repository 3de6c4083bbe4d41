"""Native loops as custom operators of ONNX Runtime, one operator for each loop.

ONNX Runtime loads operators only from a shared library (`trampolines/`), which reads the operators from
ctypes structures. The structures must live as long as the session that uses them.
"""

from __future__ import annotations

import ctypes
import functools
import platform
import sys
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from mdf_loop.ir import Shape, Value
from mdf_loop.ir.types import element_type
from mdf_loop.locks import LockHeldOverForks
from mdf_loop.native.kernel import Kernel
from mdf_loop.native.loop_text import extent_code
from mdf_loop.ops.native.code import Failure

DOMAIN = "mdf_loop"
"""Name of the domain of all operators of native loops."""

_DOMAIN_NAME = ctypes.create_string_buffer(DOMAIN.encode())
"""Domain name as a C string, which ONNX Runtime refers to."""

_REGISTRATION_LOCK = LockHeldOverForks()
"""Lock for all calls of the shared library."""
_RELEASED_DOMAINS: list[Any] = []
"""Domains and operators of sessions that were deleted. The next registration frees them."""


class _Operator(ctypes.Structure):
    """C structure `Operator` of trampoline.c, which describes an ONNX Runtime custom operator."""

    _fields_ = (
        ("version", ctypes.c_uint32),
        ("functions", ctypes.c_void_p * 25),
        ("name", ctypes.c_char_p),
        ("loop", ctypes.c_void_p),
        ("count", ctypes.c_void_p),
        ("shares", ctypes.c_void_p),
        ("runtime", ctypes.c_void_p),
        ("inputs", ctypes.c_int64),
        ("outputs", ctypes.c_int64),
        ("extents", ctypes.c_int64),
        ("late", ctypes.c_int64),
        ("rooms", ctypes.c_int64),
        ("input_types", ctypes.POINTER(ctypes.c_int32)),
        ("output_types", ctypes.POINTER(ctypes.c_int32)),
        ("where", ctypes.POINTER(ctypes.c_int64)),
        ("given", ctypes.POINTER(ctypes.c_int64)),
        ("shapes", ctypes.POINTER(ctypes.c_int64)),
        ("scratch", ctypes.c_int64),
    )


class NativeLoop(Struct, frozen=True, eq=False):
    """ONNX Runtime custom operator that runs a loop, with the objects that it needs alive.

    Attributes:
        name: Name of the operator.
        kernel: Kernel of the loop.
        c_operator: Structure for the shared library.
        c_arrays: Arrays that the structure points to.
    """

    name: str
    kernel: Kernel
    c_operator: _Operator
    c_arrays: tuple[Any, ...]

    @property
    def failures(self) -> Sequence[Failure]:
        """Errors that the loop may report, in the order of the return codes 1, 2, ..."""
        return self.kernel.loop_text.failures


def make_operator(kernel: Kernel, name: str) -> NativeLoop:
    """Return the ONNX Runtime custom operator of a compiled loop."""
    signature, loop_text, extent_names = kernel.signature, kernel.loop_text, kernel.runtime_extents
    loop_inputs = signature.inputs
    loop_outputs = signature.outputs
    extent_positions = [
        position for name in extent_names for position in _find_extent(name, loop_inputs)
    ]
    input_types = [
        element_type(dtype) for dtype in ("int64", *(value.dtype for value in loop_inputs))
    ]
    element_types = [element_type(value.dtype) for value, _ in loop_outputs]
    memory_types = [element_type("uint8")]  # memory
    c_arrays = (
        _c_array(ctypes.c_int32, input_types),
        _c_array(ctypes.c_int32, element_types + memory_types),
        _c_array(ctypes.c_int64, extent_positions),
        _c_array(
            ctypes.c_int64,
            [
                encoded_extent
                for value in loop_inputs
                for encoded_extent in _encode_shape(value.shape, extent_names)
            ],
        ),
        _c_array(
            ctypes.c_int64,
            [
                encoded_extent
                for shape in loop_text.output_shapes
                for encoded_extent in (len(shape), *shape)
            ],
        ),
    )
    custom_operator_struct = _Operator(
        name=name.encode(),
        loop=kernel.loop_address,
        count=kernel.count_address,
        shares=kernel.share_count_address,
        inputs=len(input_types),
        outputs=len(element_types) + len(memory_types),
        extents=len(extent_names),
        late=loop_text.computed_extent_count,
        rooms=loop_text.growable_buffer_count,
        input_types=c_arrays[0],
        output_types=c_arrays[1],
        where=c_arrays[2],
        given=c_arrays[3],
        shapes=c_arrays[4],
        scratch=loop_text.scratch_bytes,
    )
    return NativeLoop(name, kernel, custom_operator_struct, c_arrays)


def _c_array(kind: Any, numbers: Sequence[int]) -> Any:
    return (kind * max(1, len(numbers)))(*numbers)


def _find_extent(name: str, inputs: Sequence[Value]) -> tuple[int, int]:
    """Return the input number and the axis where a named extent first occurs.

    Input 0 is the trip count.
    """
    for input_number, value in enumerate(inputs, start=1):
        if value.shape is not None and name in value.shape:
            return input_number, value.shape.index(name)
    raise AssertionError(name)


def _encode_shape(shape: Shape, names: Sequence[str]) -> list[int]:
    """Return a shape as integers for trampoline.c: the rank, then the encoded extents.

    `LoopText.output_shapes` has the encoding of extents.
    """
    assert shape is not None
    encoded_extents = (
        extent if isinstance(extent, int) else extent_code(names.index(extent)) for extent in shape
    )
    return [len(shape), *encoded_extents]


# --- registering ----------------------------------------------------------------------------------


def trampoline_path() -> Path | None:
    """Return the path of the shared library of custom operators, or None if there is none."""
    system_name = {"linux": "linux", "darwin": "macos", "win32": "windows"}.get(sys.platform)
    processor_name = platform.machine().lower()
    processor_name = {"amd64": "x86_64", "aarch64": "arm64"}.get(processor_name, processor_name)
    library_suffix = {"linux": "so", "macos": "dylib", "windows": "dll"}.get(system_name or "", "")
    library_path = (
        Path(__file__).parent / "trampolines" / f"{system_name}-{processor_name}.{library_suffix}"
    )
    return library_path if library_path.exists() else None


@functools.cache
def _load_library() -> tuple[str, Any]:
    library_path = trampoline_path()
    assert library_path is not None
    return str(library_path), ctypes.CDLL(str(library_path))


def register(options: Any, operators: Sequence[NativeLoop]) -> int | None:
    """Register custom operators with ONNX Runtime session options.

    Returns:
        Address of the domain of the operators, or None if there are no operators.
    """
    if not operators:
        return None
    library_path, library = _load_library()
    with _REGISTRATION_LOCK:
        while _RELEASED_DOMAINS:
            library.mdf_loop_release(ctypes.c_void_p(_RELEASED_DOMAINS.pop()[0]))
        operator_pointers = (ctypes.c_void_p * len(operators))(
            *(ctypes.addressof(operator.c_operator) for operator in operators)
        )
        ctypes.c_void_p.in_dll(library, "mdf_loop_operators").value = ctypes.addressof(
            operator_pointers
        )
        ctypes.c_int64.in_dll(library, "mdf_loop_count").value = len(operators)
        ctypes.c_void_p.in_dll(library, "mdf_loop_name").value = ctypes.addressof(_DOMAIN_NAME)
        options.register_custom_ops_library(library_path)
        domain_address: int = ctypes.c_void_p.in_dll(library, "mdf_loop_domain").value or 0
        return domain_address


def keep_alive(options: Any, domain: int | None, operators: Sequence[NativeLoop]) -> None:
    """Keep custom operators and their domain alive as long as the session options."""
    if domain is not None:
        weakref.finalize(
            options, _RELEASED_DOMAINS.append, (domain, tuple(operators))
        ).atexit = False
