"""What is known of each operation, in one table: see `ops.registry`. One file is one family."""

from mdf_loop.ops import (
    draws,
    elementwise,
    gradients,
    loop_reductions,
    movement,
    networks,
    noise,
    others,
    products,
    reductions,
    sequences,
)
from mdf_loop.ops.registry import Row, names, register, registered, row_of

register(
    *elementwise.ROWS,
    *movement.ROWS,
    *products.ROWS,
    *reductions.ROWS,
    *loop_reductions.ROWS,
    *networks.ROWS,
    *sequences.ROWS,
    *draws.ROWS,
    *noise.ROWS,
    *gradients.ROWS,
    *others.ROWS,
)

__all__ = ["Row", "names", "registered", "row_of"]
