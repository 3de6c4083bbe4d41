"""Registry of all ONNX operations and their properties, with one module per family."""

from mdf_loop.ops import (
    elementwise,
    loop_reductions,
    movement,
    networks,
    products,
    random_numbers,
    random_streams,
    reductions,
    sequences,
    signals_and_text,
    stop_gradient,
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
    *random_numbers.ROWS,
    *random_streams.ROWS,
    *stop_gradient.ROWS,
    *signals_and_text.ROWS,
)

__all__ = ["Row", "names", "registered", "row_of"]
