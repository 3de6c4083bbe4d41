"""Operators that ONNX Runtime's CPU provider lacks for a dtype, made of those that it has.

One file per family. `COMPOSITIONS` has what can be made, `REFUSED` what cannot and why.
"""

from __future__ import annotations

from mdf_loop.emit.compositions import (
    activations,
    arithmetic,
    convolution,
    elementary,
    erf,
    normalization,
    pooling,
    recurrent,
    reductions,
    resize,
    selection,
    sequences,
    text,
)
from mdf_loop.emit.compositions.registry import COMPOSITIONS, composes

REFUSED = {
    "GridSample": "sampling between grid points has no composition yet",
    "MaxRoiPool": "regions of varying size have no composition",
    "MelWeightMatrix": "give its arguments as constants, then it is computed when compiling",
    "Multinomial": "random draws have no composition",
}
"""Operators without a float64 kernel and without a composition, and what to say of them."""

__all__ = [
    "COMPOSITIONS",
    "REFUSED",
    "activations",
    "arithmetic",
    "composes",
    "convolution",
    "elementary",
    "erf",
    "normalization",
    "pooling",
    "recurrent",
    "reductions",
    "resize",
    "selection",
    "sequences",
    "text",
]
