"""Conversion between flat graphs and loop nodes: `fold` and its inverse `unfold`."""

from mdf_loop.folding.folded import fold
from mdf_loop.folding.unfolded import unfold

__all__ = ["fold", "unfold"]
