"""A loop's kernel: its form, its machine code, made once for the same program and types."""

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
"""For how many texts machine code is kept."""

_MADE: LRUCache[machine.Machine] = LRUCache(MOST)
_LOCK = ForkSafeLock()


class Kernel(Struct, frozen=True, eq=False):
    """A loop that is ready to be run: its text says what is to be known to call its code.

    Attributes:
        extents: the names of extents that are known only when it runs, in order.
    """

    form: KernelSignature
    written: LoopText
    code: machine.Machine
    extents: Sequence[str]

    @property
    def address(self) -> int:
        """Address of the function."""
        return self.code.addresses[0]

    @property
    def count(self) -> int | None:
        """Address of the function that counts the iterations before the loop, or None."""
        return self.code.addresses[1] if self.written.counts else None

    @property
    def shares(self) -> int | None:
        """Address of the function that gives the number of parts of the lanes, or None."""
        return self.code.addresses[-1] if self.written.shares else None


def text_of(form: KernelSignature, width: int) -> LoopText:
    """Return the code of a loop for vectors of `width` float64 numbers.

    Raises:
        NotNative: an operation of it has no code.
    """
    return write_steps(form, width) if form.steps else write_lanes(form, width)


def kernel_of(form: KernelSignature) -> Kernel:
    """Return the kernel of a loop in its form.

    Raises:
        NotNative: an operation of it has no code.
    """
    written = text_of(form, machine.width())
    with _LOCK:
        code = _MADE.get(written.text)
        if code is None:
            names = (FUNCTION, *[COUNT] * written.counts, *[SHARES] * written.shares)
            code = machine.compiled(written.text, names)
            _MADE.put(written.text, code)
    return Kernel(form, written, code, extent_names(form))
