"""Kernel (compiled machine code) of a loop, with a cache keyed by the LLVM code."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from mdf_loop.locks import ForkSafeLock
from mdf_loop.lru_cache import LRUCache
from mdf_loop.native import machine
from mdf_loop.native.lanes import write_lanes
from mdf_loop.native.loop_text import COUNT_FUNCTION, LOOP_FUNCTION, SHARE_COUNT_FUNCTION, LoopText
from mdf_loop.native.steps import write_steps
from mdf_loop.native.support import KernelSignature, extent_names

MAX_CACHED_KERNELS = 256
"""Maximum number of entries in the cache of machine code."""

_COMPILED_CODE: LRUCache[machine.MachineCode] = LRUCache(MAX_CACHED_KERNELS)
_CODE_CACHE_LOCK = ForkSafeLock()


class Kernel(Struct, frozen=True, eq=False):
    """Compiled loop, with its signature, LLVM code and machine code.

    Attributes:
        signature: Inputs, outputs and constants of the loop.
        loop_text: LLVM code of the loop.
        machine_code: Machine code.
        runtime_extents: Names of the extents that are known only at run time, in order.
    """

    signature: KernelSignature
    loop_text: LoopText
    machine_code: machine.MachineCode
    runtime_extents: Sequence[str]

    @property
    def loop_address(self) -> int:
        """Address of the machine code that runs the loop."""
        return self.machine_code.function_addresses[0]

    @property
    def count_address(self) -> int | None:
        """Address of the machine code that counts the iterations in advance, or None."""
        return (
            self.machine_code.function_addresses[1] if self.loop_text.has_count_function else None
        )

    @property
    def share_count_address(self) -> int | None:
        """Address of the machine code that returns how many threads are worth using, or None."""
        return (
            self.machine_code.function_addresses[-1] if self.loop_text.has_share_function else None
        )


def write_kernel(signature: KernelSignature, width: int) -> LoopText:
    """Return the LLVM code of a loop, for a processor with `width` float64 numbers per vector.

    Raises:
        NotNative: An operation of the loop has no machine code.
    """
    return (
        write_steps(signature, width)
        if signature.computes_whole_arrays
        else write_lanes(signature, width)
    )


def compile_kernel(signature: KernelSignature) -> Kernel:
    """Compile a loop to machine code.

    The machine code is cached by the LLVM code.

    Raises:
        NotNative: An operation of the loop has no machine code.
    """
    loop_text = write_kernel(signature, machine.vector_width())
    with _CODE_CACHE_LOCK:
        machine_code = _COMPILED_CODE.get(loop_text.llvm_code)
        if machine_code is None:
            function_names = (
                LOOP_FUNCTION,
                *[COUNT_FUNCTION] * loop_text.has_count_function,
                *[SHARE_COUNT_FUNCTION] * loop_text.has_share_function,
            )
            machine_code = machine.compile_llvm(loop_text.llvm_code, function_names)
            _COMPILED_CODE.put(loop_text.llvm_code, machine_code)
    return Kernel(signature, loop_text, machine_code, extent_names(signature))
