"""Where a program is computed."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Device:
    """A device that was taken, and why."""

    name: str
    reason: str


UNDECIDED = Device("auto", "the first run decides between cpu and cuda")
