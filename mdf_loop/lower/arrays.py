"""Array functions of `numpy.`: reductions, shapes, products."""

from __future__ import annotations

from mdf_loop.build import Builder
from mdf_loop.ir import Value
from mdf_loop.lower.functions import names
from mdf_loop.lower.operators import Term, tensor


@names("numpy.array", "numpy.asarray")
def array(b: Builder, x: Term, /) -> Value:
    """`numpy.array(x)`: a list of numbers as one tensor."""
    return tensor(b, x)
