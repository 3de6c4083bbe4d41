"""Choice of the fastest reverse-mode derivative of a loop, for ONNX Runtime or native code.

    ONNX Runtime's own kernels     each operation of an iteration costs a call
        few carried numbers        a Jacobian matrix for each iteration
        many                       only the adjoint recursion in the loop
        large arrays               everything in the loop: rows of all iterations would exceed the cache
    native code                    operations cost next to nothing
        large sums                 only the adjoint recursion in the loop: a sum of products is one product
        all other loops            everything in the loop

If an operation cannot be computed for all iterations at once, the backward loop computes everything.
"""

from __future__ import annotations

from mdf_loop.errors import UnsupportedError
from mdf_loop.ir import Constant, Loop, captures
from mdf_loop.ops.derivatives.sweep import Sweep
from mdf_loop.ops.registry import count_elements
from mdf_loop.passes.gradient.jacobian_backward import has_small_state, jacobian_backward
from mdf_loop.passes.gradient.loop_backward import loop_backward
from mdf_loop.passes.gradient.reverse import LoopBackward, Reverse
from mdf_loop.passes.gradient.split_backward import split_backward

MIN_LARGE_ELEMENTS = 2048
"""Minimum number of carried elements for which computing single rows is as fast as all rows at once."""


def backward_for_onnxruntime(reverse: Reverse, outer_sweep: Sweep, loop: Loop) -> None:
    """Append the form of a loop's reverse-mode derivative that ONNX Runtime runs fastest."""
    if any(
        count_elements((carried.body_input,)) >= MIN_LARGE_ELEMENTS
        for carried in loop.carried
        if reverse.is_active_float(carried.body_input)
    ):
        loop_backward(reverse, outer_sweep, loop)
    else:
        apply_or_fall_back(
            jacobian_backward if has_small_state(reverse, loop) else split_backward,
            reverse,
            outer_sweep,
            loop,
        )


def backward_for_native(reverse: Reverse, outer_sweep: Sweep, loop: Loop) -> None:
    """Append the form of a loop's reverse-mode derivative that native code runs fastest."""
    carried_count = count_elements(
        [
            carried.body_input
            for carried in loop.carried
            if reverse.is_active_float(carried.body_input)
        ]
    )
    captured_count = count_elements(
        [value for value in captures(loop) if reverse.is_active_float(value)]
    )
    if captured_count > carried_count > 0:
        apply_or_fall_back(split_backward, reverse, outer_sweep, loop)
    else:
        loop_backward(reverse, outer_sweep, loop)


def apply_or_fall_back(
    append_backward: LoopBackward, reverse: Reverse, outer_sweep: Sweep, loop: Loop
) -> None:
    """Apply a reverse-mode rule to a loop, or `loop_backward` if the rule does not support it."""
    b, first_new_op_index = outer_sweep.b, len(outer_sweep.b.ops)
    earlier_cotangents = dict(outer_sweep.cotangents)
    try:
        append_backward(reverse, outer_sweep, loop)
    except UnsupportedError:
        b.discard(op for op in b.ops[first_new_op_index:] if not isinstance(op, Constant))
        b.ops[first_new_op_index:] = [
            op for op in b.ops[first_new_op_index:] if isinstance(op, Constant)
        ]
        outer_sweep.cotangents.clear()
        outer_sweep.cotangents.update(earlier_cotangents)
        loop_backward(reverse, outer_sweep, loop)
