"""Where a program is computed."""

from __future__ import annotations

from msgspec import Struct


class Placement(Struct, frozen=True):
    """Where, and how, a program is to be computed.

    Attributes:
        device: `auto`, `cpu` or `cuda`.
        native: whether loops are machine code: `auto`, those that can be; `off`; `require`.
        brief: whether there is so little to compute that making machine code would not pay.
        threads: the most threads that compute, native loops included. None: as many as the process
            may use, where several are faster than one.
        is_iteration: True if the program is the first iteration of a loop over time. The functions
            of its arrays are those of native loops.
    """

    device: str = "auto"
    native: str = "auto"
    brief: bool = False
    threads: int | None = None
    is_iteration: bool = False


USUAL = Placement()
"""Where it is fastest."""


class Device(Struct, frozen=True):
    """A device that was taken, and why."""

    name: str
    reason: str


UNDECIDED = Device("auto", "the first run decides between cpu and cuda")
