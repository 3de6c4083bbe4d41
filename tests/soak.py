"""How often something is tried: a few times in tests, many times by `make soak`."""

from __future__ import annotations

import os


def times(usual: int, soaked: int) -> int:
    """A number of tries for a test that is marked `soak`."""
    return soaked if os.environ.get("SOAK") else usual
