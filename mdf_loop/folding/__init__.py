"""Conversion of nodes to a loop node (`fold`), and of a loop node to nodes (`unfold`)."""

from mdf_loop.folding.folded import fold
from mdf_loop.folding.unfolded import unfold

__all__ = ["fold", "unfold"]
