"""Free parameters that change nothing: refused before a fit reports a number for them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from mdf_loop.errors import Finding, raise_findings
from mdf_loop.fitting.free import Free
from mdf_loop.ir import Array

PLACES = (0.05, 0.35, 0.65, 0.95)
"""Where a parameter is tried between its bounds."""


def refuse_unmoved(free: Free, points: Array, rows: Callable[[Array], Array]) -> None:
    """Refuse parameters that change none of the rows, wherever they are, at any of some points.

    Raises:
        InputError: there are such; all by name.
    """
    at, owners = [], []
    start = 0
    for each in free.parameters:
        size = each.lower.size
        for point in points:
            for place in PLACES:
                moved = point.copy()
                moved[start : start + size] = place
                at.append(moved)
                owners.append(each.name)
        start += size
    made = rows(np.array(at))
    per = len(PLACES)
    groups = made.reshape(-1, per, *made.shape[1:])
    same = [np.array_equal(g, np.broadcast_to(g[:1], g.shape), equal_nan=True) for g in groups]
    moves = dict.fromkeys(owners, False)
    for name, is_same in zip(owners[::per], same, strict=True):
        moves[name] |= not is_same
    raise_findings(
        Finding(
            "InputError",
            f"'{name}' changes nothing of what is compared, within its bounds",
            "",
            "leave it out of free, or fit against what depends on it",
        )
        for name, does in moves.items()
        if not does
    )
