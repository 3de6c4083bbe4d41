"""How each operator is computed for many values at once: one file per family, one table."""

from mdf_loop.passes.batching import (  # noqa: F401 - they register rules
    elementwise,
    products,
    reductions,
    rows,
    selection,
    shapes,
)
from mdf_loop.passes.batching.refused import reason
from mdf_loop.passes.batching.registry import HINT, RULES, UNBATCHED, Lane, Operand

__all__ = ["HINT", "RULES", "UNBATCHED", "Lane", "Operand", "reason"]
