"""Steps down to opset 17: layers of networks, signals."""

from __future__ import annotations

from mdf_loop.importing.opsets.rewrite import Rewrite


def average_pool_19(r: Rewrite) -> None:
    """Spread windows are new in 19: other nodes are what they were."""
    r.keep(drop=() if _is_spread(r) else ("dilations",))


def lp_pool_18(r: Rewrite) -> None:
    """Spread windows and rounding up are new in 18: other nodes are what they were."""
    new = _is_spread(r) or r.get("ceil_mode", 0)
    r.keep(drop=() if new else ("dilations", "ceil_mode"))


def _is_spread(r: Rewrite) -> bool:
    return any(step != 1 for step in r.get("dilations", ()))


def grid_sample_20(r: Rewrite) -> None:
    """Images had other words for the modes; other inputs than images are new in 20."""
    if r.rank(r.input(0)) != 4:
        r.keep()
        return
    mode = str(r.get("mode", "linear"))
    r.keep(mode={"linear": "bilinear", "cubic": "bicubic"}.get(mode, mode))


def dft_20(r: Rewrite) -> None:
    """The axis was an attribute; where none is given it is -2 now and was 1.

    A node whose axis only the run knows stays as it is, and so does an inverse of one side.
    """
    axis = -2
    late = r.input(2) and r.facts.value(r.input(2)) is None
    if late or (r.get("onesided", 0) and r.get("inverse", 0)):
        r.keep()
        return
    if r.input(2):
        (axis,) = r.numbers(r.input(2))
    rank = r.rank(r.input(0))
    r.keep([r.input(0), r.input(1)], axis=axis % rank)
