"""Registry rows of operators that draw random numbers; no pass folds, merges or moves these operators.

A `Dropout` outside of training draws nothing and is no operation of a program (see `lower.dropout`).
"""

from __future__ import annotations

from functools import partial

from mdf_loop.ops.registry import Row

_drawn = partial(
    Row,
    random=True,
    not_batched="each of them would draw other random numbers than it draws alone",
)

ROWS = (
    _drawn(name="Bernoulli"),
    _drawn(name="Dropout"),
    _drawn(name="Multinomial", not_decomposed="random draws have no composition"),
    _drawn(name="RandomNormal"),
    _drawn(name="RandomNormalLike"),
    _drawn(name="RandomUniform"),
    _drawn(name="RandomUniformLike"),
)
