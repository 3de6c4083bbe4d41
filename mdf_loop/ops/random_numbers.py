"""Registry rows of random operators, which no compiler pass folds, merges or moves.

A `Dropout` outside of training draws nothing and is no operation of a program (see `lower.dropout`).
"""

from __future__ import annotations

from functools import partial

from mdf_loop.ops.registry import Row

_random_row = partial(
    Row,
    is_random=True,
    unbatched_reason="each of them would draw other random numbers than it draws alone",
)

OPERATOR_ROWS = (
    _random_row(name="Bernoulli"),
    _random_row(name="Dropout"),
    _random_row(name="Multinomial", undecomposed_reason="random draws have no composition"),
    _random_row(name="RandomNormal"),
    _random_row(name="RandomNormalLike"),
    _random_row(name="RandomUniform"),
    _random_row(name="RandomUniformLike"),
)
