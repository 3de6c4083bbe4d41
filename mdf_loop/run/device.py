"""Placement of programs on devices."""

from __future__ import annotations

from msgspec import Struct

from mdf_loop.ir import Program


class Placement(Struct, frozen=True):
    """Requested device and form of a program.

    Attributes:
        device: `auto`, `cpu` or `cuda`.
        native: whether loops are machine code: `auto`, those that can be; `off`; `require`.
        brief: whether there is so little to compute that making machine code would not pay.
        threads: the most threads that compute, native loops included. None: as many as the process
            may use, where several are faster than one.
        iteration_of: the prepared program whose last loop the program is an iteration of. Where
            that loop is native and computes arrays, so are the functions of the iteration.
    """

    device: str = "auto"
    native: str = "auto"
    brief: bool = False
    threads: int | None = None
    iteration_of: Program | None = None


USUAL = Placement()
"""Where it is fastest."""


class Device(Struct, frozen=True):
    """Chosen device with the reason for the choice."""

    name: str
    reason: str


UNDECIDED = Device("auto", "the first run decides between cpu and cuda")
