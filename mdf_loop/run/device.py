"""Where a program is computed."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Placement:
    """Where, and how, a program is to be computed.

    Attributes:
        device: `auto`, `cpu` or `cuda`.
        native: whether loops are machine code: `auto`, those that can be; `off`; `require`.
        brief: whether there is so little to compute that making machine code would not pay.
    """

    device: str = "auto"
    native: str = "auto"
    brief: bool = False


USUAL = Placement()
"""Where it is fastest."""


@dataclass(frozen=True, slots=True)
class Device:
    """A device that was taken, and why."""

    name: str
    reason: str


UNDECIDED = Device("auto", "the first run decides between cpu and cuda")
