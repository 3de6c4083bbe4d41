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
from mdf_loop.passes.gradient.jacobian_backward import has_small_state, jacobian_backward
from mdf_loop.passes.gradient.loop_backward import loop_backward
from mdf_loop.passes.gradient.reverse import LoopBackward, Reverse
from mdf_loop.passes.gradient.split_backward import split_backward

MIN_LARGE_ELEMENTS = 2048
"""Numbers of one carried array from which on a row of it is computed as fast alone as with others."""


def backward_for_onnxruntime(reverse: Reverse, outside: Sweep, loop: Loop) -> None:
    """Go through a loop as ONNX Runtime's own kernels do best."""
    if any(
        elements((c.enter,)) >= MIN_LARGE_ELEMENTS for c in loop.carried if reverse.changes(c.enter)
    ):
        loop_backward(reverse, outside, loop)
    else:
        apply_or_fall_back(
            jacobian_backward if has_small_state(reverse, loop) else split_backward,
            reverse,
            outside,
            loop,
        )


def backward_for_native(reverse: Reverse, outside: Sweep, loop: Loop) -> None:
    """Go through a loop as machine code does best."""
    carried = elements([c.enter for c in loop.carried if reverse.changes(c.enter)])
    read = elements([value for value in captures(loop) if reverse.changes(value)])
    if read > carried > 0:
        apply_or_fall_back(split_backward, reverse, outside, loop)
    else:
        loop_backward(reverse, outside, loop)


def apply_or_fall_back(form: LoopBackward, reverse: Reverse, outside: Sweep, loop: Loop) -> None:
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
        loop_backward(reverse, outside, loop)
