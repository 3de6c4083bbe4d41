"""How a loop is gone through backward, chosen for what will compute it.

    ONNX Runtime's own kernels     each operation of an iteration costs a call
        few carried numbers        a matrix for each iteration
        many                       the recursion of adjoints alone in the loop
        large arrays               everything in the loop: of all iterations at once they fit no cache
    machine code                   operations cost next to nothing
        large sums                 the recursion alone: a sum of products is one product
        all else                   everything in the loop

What cannot be computed for all iterations at once is in the loop.
"""

from __future__ import annotations

from mdf_loop.errors import UnsupportedError
from mdf_loop.ir import Constant, Loop, captures
from mdf_loop.ops.derivatives.sweep import Sweep
from mdf_loop.ops.registry import elements
from mdf_loop.passes.gradient.jacobian_form import is_small, jacobian_form
from mdf_loop.passes.gradient.plain import plain
from mdf_loop.passes.gradient.reverse import Reverse, Through
from mdf_loop.passes.gradient.split import split

LARGE = 2048
"""Numbers of one carried array from which on a row of it is computed as fast alone as with others."""


def for_kernels(reverse: Reverse, outside: Sweep, loop: Loop) -> None:
    """Go through a loop as ONNX Runtime's own kernels do best."""
    if any(elements((c.enter,)) >= LARGE for c in loop.carried if reverse.changes(c.enter)):
        plain(reverse, outside, loop)
    else:
        tried(jacobian_form if is_small(reverse, loop) else split, reverse, outside, loop)


def for_machine_code(reverse: Reverse, outside: Sweep, loop: Loop) -> None:
    """Go through a loop as machine code does best."""
    carried = elements([c.enter for c in loop.carried if reverse.changes(c.enter)])
    read = elements([value for value in captures(loop) if reverse.changes(value)])
    if read > carried > 0:
        tried(split, reverse, outside, loop)
    else:
        plain(reverse, outside, loop)


def tried(form: Through, reverse: Reverse, outside: Sweep, loop: Loop) -> None:
    """Go through a loop in a form, or where that cannot be, with everything in the loop."""
    b, before = outside.b, len(outside.b.ops)
    given = dict(outside.of)
    try:
        form(reverse, outside, loop)
    except UnsupportedError:
        b.discard(op for op in b.ops[before:] if not isinstance(op, Constant))
        b.ops[before:] = [op for op in b.ops[before:] if isinstance(op, Constant)]
        outside.of.clear()
        outside.of.update(given)
        plain(reverse, outside, loop)
