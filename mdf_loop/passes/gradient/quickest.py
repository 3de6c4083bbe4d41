"""How a loop is gone through backward, chosen for ONNX Runtime's own kernels.

few carried numbers       a matrix for each iteration
many                      the recursion alone in the loop
large arrays              everything in the loop: what is made for all iterations at once is not cached
what cannot be computed for all iterations at once: everything in the loop
"""

from __future__ import annotations

import math

from mdf_loop.errors import UnsupportedError
from mdf_loop.ir import Constant, Loop, Value
from mdf_loop.ops.derivatives.sweep import Sweep
from mdf_loop.passes.gradient.jacobian_form import is_small, jacobian_form
from mdf_loop.passes.gradient.plain import plain
from mdf_loop.passes.gradient.reverse import Reverse
from mdf_loop.passes.gradient.split import split

LARGE = 2048
"""Numbers of one carried array from which on a row of it is computed as fast alone as with others."""


def quickest(reverse: Reverse, outside: Sweep, loop: Loop) -> None:
    """Go through a loop in the way that takes least."""
    if any(_size(c.enter) >= LARGE for c in loop.carried if reverse.changes(c.enter)):
        plain(reverse, outside, loop)
        return
    b, before = outside.b, len(outside.b.ops)
    given = dict(outside.of)
    try:
        (jacobian_form if is_small(reverse, loop) else split)(reverse, outside, loop)
    except UnsupportedError:
        b.discard(op for op in b.ops[before:] if not isinstance(op, Constant))
        b.ops[before:] = [op for op in b.ops[before:] if isinstance(op, Constant)]
        outside.of.clear()
        outside.of.update(given)
        plain(reverse, outside, loop)


def _size(value: Value) -> int:
    """How many numbers a value has; one for each extent that nobody knows."""
    return math.prod(e for e in value.shape or () if isinstance(e, int))
