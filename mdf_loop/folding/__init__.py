"""Flat graph <-> loop node: `fold` makes a loop of nodes, `unfold` writes its iterations out."""

from mdf_loop.folding.folded import fold
from mdf_loop.folding.unfolded import unfold

__all__ = ["fold", "unfold"]
