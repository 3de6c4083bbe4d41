"""Compilation of LLVM code to machine code by llvmlite."""

from __future__ import annotations

import functools
import platform
import weakref
from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from mdf_loop.locks import LockHeldOverForks
from mdf_loop.native.executable_memory import executable_memory_problem
from mdf_loop.ops.native.code import NotNative

_LLVM_LOCK = LockHeldOverForks()
"""Lock for all calls of llvmlite, which also prevents a fork during a compilation."""

_RETIRED_ENGINES: list[Any] = []
"""Engines whose machine code is no longer used. The next compilation closes them."""


@functools.cache
def _initialized_llvm() -> Any:
    """Import llvmlite's LLVM binding, and initialize LLVM."""
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm


@functools.cache
def _processor() -> tuple[str, str]:
    """Return LLVM's name of this processor, and a text of the processor's features."""
    with _LLVM_LOCK:
        llvm_binding = _initialized_llvm()
        return llvm_binding.get_host_cpu_name(), llvm_binding.get_host_cpu_features().flatten()


def _new_target_machine() -> Any:
    """Create an LLVM target machine for this processor.

    Each engine owns one, and a target machine that has compiled code is large.
    """
    cpu_name, cpu_features = _processor()
    llvm_target = _initialized_llvm().Target.from_default_triple()
    return llvm_target.create_target_machine(cpu=cpu_name, features=cpu_features, opt=2)


@functools.cache
def _shared_target_machine() -> Any:
    """Return the LLVM target machine that compiles all code.

    The caller holds `_LLVM_LOCK`.
    """
    return _new_target_machine()


@functools.cache
def vector_width() -> int:
    """Return the number of float64 numbers in a vector register of this processor."""
    with _LLVM_LOCK:
        cpu_features = _initialized_llvm().get_host_cpu_features()
    if cpu_features.get("avx512f"):
        return 8
    return 4 if cpu_features.get("avx2") else 2


def divides_quickly(lanes: int) -> bool:
    """Return True if vector division is faster than a corrected product with the reciprocal.

    `lanes` is the number of float64 numbers in a vector.

    Measured, a step of 1000 FitzHugh-Nagumo cells: on AMD Zen 3 (four lanes) 1.2 us with divisions and 1.7 us
    without. On AMD Zen 5 (eight lanes) 0.28 and 0.39 us. With Intel's AVX-512 the products are faster.
    """
    return lanes < 8 or processor_name().startswith("znver")


def processor_name() -> str:
    """Return LLVM's name of this processor."""
    return _processor()[0]


def has_fma() -> bool:
    """Return True if the processor has a fused multiply-add instruction."""
    return "+fma," in f"{_processor()[1]}," or platform.machine().lower() in ("arm64", "aarch64")


SAMPLE_CODE = """
define double @sample(double %x) {
  %y = fmul double %x, %x
  %z = fsub double %y, 0x3FF8000000000000
  ret double %z
}
"""
"""LLVM code of x * x - 1.5, which checks that compilation works on this machine."""


@functools.cache
def compilation_problem() -> str | None:
    """Return the reason why this machine cannot compile machine code, or None if it can."""
    import ctypes

    try:
        machine_code = compile_llvm(SAMPLE_CODE, ("sample",))
    except NotNative as reason:
        return str(reason)
    except Exception as error:  # noqa: BLE001 - llvmlite and the system raise anything
        error_line = (str(error).splitlines() or [type(error).__name__])[0]
        return f"no machine code can be made here: {error_line}"
    sample_number = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)(
        machine_code.function_addresses[0]
    )(2.5)
    return (
        None
        if sample_number == 2.5 * 2.5 - 1.5
        else f"a sample gives {sample_number} instead of 4.75"
    )


class MachineCode(Struct, frozen=True, eq=False, weakref=True):
    """Compiled functions, which are callable as long as this object lives.

    Attributes:
        execution_engine: Engine of llvmlite that owns the code.
        function_addresses: Addresses of the functions.
    """

    execution_engine: Any
    function_addresses: tuple[int, ...]


def compile_llvm(llvm_code: str, names: Sequence[str]) -> MachineCode:
    """Compile LLVM code, and return the machine code of the functions `names`.

    The function is thread-safe.

    Raises:
        NotNative: The system does not let this process execute memory that the process has written.
    """
    memory_problem = executable_memory_problem()
    if memory_problem is not None:  # not cached, since a process may lose the right at any time
        raise NotNative(memory_problem)
    with _LLVM_LOCK:
        while _RETIRED_ENGINES:
            _RETIRED_ENGINES.pop().close()
        execution_engine = _load_engine(_compile_object(llvm_code))
        machine_code = MachineCode(
            execution_engine, tuple(map(execution_engine.get_function_address, names))
        )
    weakref.finalize(machine_code, _RETIRED_ENGINES.append, execution_engine).atexit = False
    return machine_code


def _compile_object(llvm_code: str) -> bytes:
    """Compile LLVM code to an object file.

    The caller holds `_LLVM_LOCK` until llvmlite has freed all temporary objects.
    """
    llvm_binding = _initialized_llvm()
    llvm_module = llvm_binding.parse_assembly(llvm_code)
    llvm_module.verify()
    tuning_options = llvm_binding.create_pipeline_tuning_options(speed_level=1)
    tuning_options.loop_vectorization = tuning_options.slp_vectorization = (
        tuning_options.loop_unrolling
    ) = False
    pass_builder = llvm_binding.create_pass_builder(_shared_target_machine(), tuning_options)
    pass_manager = pass_builder.getModulePassManager()
    pass_manager.run(llvm_module, pass_builder)
    _free_passes(pass_manager)
    object_file: bytes = _shared_target_machine().emit_object(llvm_module)
    return object_file


def _free_passes(passes: Any) -> None:
    """Free a pass manager of llvmlite.

    Up to llvmlite 0.50, `close()` leaks a manager of 50 kB: its class inherits the empty `_dispose` of
    `ObjectRef` before its own one. This function calls the own `_dispose` and detaches the manager.
    """
    from llvmlite.binding import newpassmanagers

    if not passes.closed:
        newpassmanagers.NewPassManager._dispose(passes)
        passes.detach()


def _load_engine(code: bytes) -> Any:
    """Load an object file into an llvmlite execution engine.

    The caller holds `_LLVM_LOCK`.
    """
    llvm_binding = _initialized_llvm()
    empty_module = llvm_binding.parse_assembly("")
    execution_engine = llvm_binding.create_mcjit_compiler(empty_module, _new_target_machine())
    execution_engine.remove_module(empty_module)
    execution_engine.add_object_file(llvm_binding.ObjectFileRef.from_data(code))
    execution_engine.finalize_object()
    return execution_engine
