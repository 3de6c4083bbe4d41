"""Requested and chosen devices (CPU or CUDA) of programs."""

from __future__ import annotations

from msgspec import Struct

from mdf_loop.ir import Program


class Placement(Struct, frozen=True):
    """Execution options of a program: device, number of threads, machine code for loops.

    Attributes:
        device: `auto`, `cpu` or `cuda`.
        native: Loops as machine code: `auto` for all supported loops, `off`, or `require`.
        is_brief: True if the program computes so little that compilation to machine code does not pay.
        threads: Maximum number of threads, native loops included. None means all threads of the process,
            if several threads are faster than one.
        loop_program: Prepared program whose last loop has this program as its iteration. If that loop
            is native and computes arrays, the functions of the iteration are native, too.
    """

    device: str = "auto"
    native: str = "auto"
    is_brief: bool = False
    threads: int | None = None
    loop_program: Program | None = None


DEFAULT_PLACEMENT = Placement()
"""Default placement: the faster device, and native loops where they are supported."""


class Device(Struct, frozen=True):
    """Device that was chosen for a program, with the reason for the choice."""

    name: str
    reason: str


UNDECIDED_DEVICE = Device("auto", "the first run decides between cpu and cuda")
