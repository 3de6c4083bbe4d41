"""Kernel of a loop: its signature and its machine code, which is cached by the LLVM code."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from mdf_loop.locks import ForkSafeLock
from mdf_loop.lru_cache import LRUCache
from mdf_loop.native import machine
from mdf_loop.native.lanes import write_lanes
from mdf_loop.native.loop_text import COUNT, FUNCTION, SHARES, LoopText
from mdf_loop.native.steps import write_steps
from mdf_loop.native.support import KernelSignature, extent_names

MOST = 256
"""Maximum number of entries in the cache of machine code."""

_MADE: LRUCache[machine.Machine] = LRUCache(MOST)
_LOCK = ForkSafeLock()


class Kernel(Struct, frozen=True, eq=False):
    """Compiled loop: its signature, its LLVM code and its machine code.

    Attributes:
        form: Inputs, outputs and constants of the loop.
        written: LLVM code of the loop.
        code: Machine code.
        extents: Names of the extents that are known only at run time, in order.
    """

    form: KernelSignature
    written: LoopText
    code: machine.Machine
    extents: Sequence[str]

    @property
    def address(self) -> int:
        """Address of the function that runs the loop."""
        return self.code.addresses[0]

    @property
    def count(self) -> int | None:
        """Address of the function that counts the iterations in advance, or None."""
        return self.code.addresses[1] if self.written.counts else None

    @property
    def shares(self) -> int | None:
        """Address of the function that returns the number of shares of the lanes, or None."""
        return self.code.addresses[-1] if self.written.shares else None


def text_of(form: KernelSignature, width: int) -> LoopText:
    """Return the LLVM code of a loop for vectors of `width` float64 numbers.

    Raises:
        NotNative: An operation of the loop has no machine code.
    """
    return write_steps(form, width) if form.steps else write_lanes(form, width)


def kernel_of(form: KernelSignature) -> Kernel:
    """Compile the kernel of a loop.

    The machine code is cached by the LLVM code.

    Raises:
        NotNative: An operation of the loop has no machine code.
    """
    written = text_of(form, machine.width())
    with _LOCK:
        code = _MADE.get(written.text)
        if code is None:
            names = (FUNCTION, *[COUNT] * written.counts, *[SHARES] * written.shares)
            code = machine.compiled(written.text, names)
            _MADE.put(written.text, code)
    return Kernel(form, written, code, extent_names(form))
