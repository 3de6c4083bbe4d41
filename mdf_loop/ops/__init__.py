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
    *elementwise.OPERATOR_ROWS,
    *movement.OPERATOR_ROWS,
    *products.OPERATOR_ROWS,
    *reductions.OPERATOR_ROWS,
    *loop_reductions.OPERATOR_ROWS,
    *networks.OPERATOR_ROWS,
    *sequences.OPERATOR_ROWS,
    *random_numbers.OPERATOR_ROWS,
    *random_streams.OPERATOR_ROWS,
    *stop_gradient.OPERATOR_ROWS,
    *signals_and_text.OPERATOR_ROWS,
)

__all__ = ["Row", "names", "registered", "row_of"]
