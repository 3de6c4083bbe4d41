"""Order of the rewriting passes of programs, for each target such as ONNX Runtime or a file.

    ready = prepare(program, ONNXRUNTIME, asked=passes_of_evaluation())

    read -> asked         -> simplify         -> legalize           -> a back end, a file
            batching,        the same results    only operations
            loop reports     with less work      with safe kernels

A pass is a function `Program -> Program` (see `mdf_loop.passes`). An order is a tuple of passes,
first to last. No other module combines passes. Every order keeps results bit for bit,
except for `decompose` and `promote_unsupported_dtypes`, which state what they keep.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterator
from typing import TypeAlias

from mdf_loop.errors import UnsupportedError
from mdf_loop.ir import Op, Program, walk
from mdf_loop.ops.registry import qualified_name
from mdf_loop.passes import Pass
from mdf_loop.passes.batching.batch import batch
from mdf_loop.passes.batching.refuse_ragged_outputs import refuse_ragged_outputs
from mdf_loop.passes.legalize.cast_bfloat16_io import cast_bfloat16_io
from mdf_loop.passes.legalize.decompose import decompose
from mdf_loop.passes.legalize.for_cuda import for_cuda
from mdf_loop.passes.legalize.guard_integer_division import guard_integer_division
from mdf_loop.passes.legalize.guard_zero_divisors import guard_zero_divisors
from mdf_loop.passes.legalize.keep_double_casts import keep_double_casts
from mdf_loop.passes.legalize.mask_finished_members import mask_finished_members
from mdf_loop.passes.legalize.promote_unsupported_dtypes import promote_unsupported_dtypes
from mdf_loop.passes.legalize.protect_backward_slices import protect_backward_slices
from mdf_loop.passes.legalize.protect_clips import protect_clips
from mdf_loop.passes.legalize.protect_expands import protect_expands
from mdf_loop.passes.legalize.protect_identities import protect_identities
from mdf_loop.passes.legalize.protect_reshapes import protect_reshapes
from mdf_loop.passes.legalize.repeat_loops_with_nan import repeat_loops_with_nan
from mdf_loop.passes.report_loops import report_loops, report_needed_loops
from mdf_loop.passes.scan_axis_first import scan_axis_first
from mdf_loop.passes.simplify.drop_empty_loops import drop_empty_loops
from mdf_loop.passes.simplify.drop_true_conditions import drop_true_conditions
from mdf_loop.passes.simplify.eliminate_common_subexpressions import eliminate_common_subexpressions
from mdf_loop.passes.simplify.eliminate_dead_code import eliminate_dead_code
from mdf_loop.passes.simplify.fast_matrix_vector_products import fast_matrix_vector_products
from mdf_loop.passes.simplify.fold_constant_branches import fold_constant_branches
from mdf_loop.passes.simplify.fold_negations import fold_negations
from mdf_loop.passes.simplify.fuse_axis_changes import fuse_axis_changes
from mdf_loop.passes.simplify.hoist_invariants import hoist_invariants
from mdf_loop.passes.simplify.select_to_logic import select_to_logic
from mdf_loop.passes.simplify.simplify_identities import simplify_identities
from mdf_loop.passes.simplify.sink_into_branches import sink_into_branches
from mdf_loop.passes.subsample_recordings import subsample_recordings

PassOrder: TypeAlias = tuple[Pass, ...]
"""Passes, first to last."""


MAX_ROUNDS = 50
"""Largest number of rounds of a fixed point. Real programs need few, so more mean an endless loop."""


def fixed_point(*passes: Pass) -> Pass:
    """Return a pass that applies several passes repeatedly until the program stops changing.

    Raises:
        UnsupportedError: The passes replace an operation endlessly. The error names the operation.
    """

    def apply(program: Program) -> Program:
        for _ in range(MAX_ROUNDS):
            rewritten_program = prepare(program, passes)
            if rewritten_program is program:
                return program
            previous_program, program = program, rewritten_program
        raise _endless_replacement_error(previous_program, program)

    apply.__name__ = ", ".join(single_pass.__name__ for single_pass in passes)
    return apply


def _endless_replacement_error(before: Program, after: Program) -> UnsupportedError:
    """Return the error for passes that never stop replacing an operation."""
    previous_ids = {id(operation) for operation in walk(before.ops)}
    replaced_op = next(
        op for op in walk(after.ops) if isinstance(op, Op) and id(op) not in previous_ids
    )
    return UnsupportedError(
        f"ONNX Runtime has no {replaced_op.outputs[0].dtype} kernel for {qualified_name(replaced_op.op_type)}",
        replaced_op.where,
        "use another dtype",
    )


SIMPLIFY: PassOrder = (
    fold_constant_branches,  # first: it leaves the operations of other branches without readers
    drop_empty_loops,  # also leaves operations without readers
    drop_true_conditions,  # leaves the operations of the conditions without readers
    eliminate_dead_code,  # before the other passes, so that they rewrite no dead code
    select_to_logic,
    simplify_identities,
    fold_negations,  # after simplify_identities, which may leave only the sign of a product
    fast_matrix_vector_products,
    fuse_axis_changes,
    eliminate_common_subexpressions,  # after the rewrites, which may make more operations equal
    hoist_invariants,
    sink_into_branches,  # after hoisting, so that loop invariants stay outside of the branch
    eliminate_dead_code,  # removes operations that the rewrites no longer read
)
"""Passes that reduce the work of a program, for every back end."""

LEGAL: PassOrder = (
    # First, and to a fixed point: each of the two creates operations that the other one replaces.
    fixed_point(decompose, promote_unsupported_dtypes),
    protect_expands,  # decompositions expand, too
    protect_identities,  # decompositions have constants, too
    keep_double_casts,  # promotion inserts casts, too
    protect_backward_slices,  # decompositions slice, too
    protect_reshapes,  # decompositions reshape, too
    protect_clips,  # decompositions clip, too
    guard_zero_divisors,  # decompositions and promoted operations divide integers, too
    guard_integer_division,  # decompositions and promoted operations divide integers, too
    eliminate_common_subexpressions,  # merges the checks of one divisor
    hoist_invariants,  # moves the checks of a loop-invariant divisor out of the loop
)
"""Passes that leave only operations which ONNX Runtime's CPU provider runs correctly."""

# --- preparation for a run -------------------------------------------------------------------


def passes_of_evaluation(swept: Collection[str] = ()) -> PassOrder:
    """Return the passes for a single evaluation, batched over the inputs in `swept`.

    The program also reports about its loops.
    """
    return (report_needed_loops, *_make_batching_passes(swept)) if swept else (report_loops,)


def passes_over_time(swept: Collection[str] = (), *, thinned: bool = False) -> PassOrder:
    """Return the passes for a model over time, batched over the inputs in `swept`.

    With `thinned`, the program records only every k-th step.
    """
    recording_passes = (subsample_recordings,) if thinned else ()
    return (
        (*recording_passes, *_make_batching_passes(swept), refuse_ragged_outputs)
        if swept
        else recording_passes
    )


def _make_batching_passes(swept: Collection[str]) -> PassOrder:
    """Return the passes that add an axis of sweep members to a program."""

    @functools.wraps(batch)
    def batch_swept(program: Program) -> Program:
        return batch(program, swept)

    return (
        eliminate_dead_code,  # first: dead code need not be computable for many values
        batch_swept,
    )


# --- the targets ------------------------------------------------------------------------------

ONNXRUNTIME: PassOrder = (
    *SIMPLIFY,
    scan_axis_first,  # before the last `hoist_invariants`, which moves the Transpose out of outer loops
    *LEGAL,  # after simplifying: removed operations need no kernel
)
"""Passes for a run on ONNX Runtime."""

CHECK: PassOrder = ONNXRUNTIME
"""Passes for `mdf-loop check`, which accepts exactly the models that a run accepts."""

PORTABLE: PassOrder = (*SIMPLIFY, *LEGAL, repeat_loops_with_nan)
"""Passes for a file: no other runtime has more kernels than ONNX Runtime.

A run applies `repeat_loops_with_nan` later, to the loops that machine code does not compute.
"""

INTERPRET: PassOrder = ()
"""Passes for the interpreter, which defines the meaning of a program: none.

The results of simplified and decomposed programs are compared with its results.
"""

LOADED: PassOrder = (cast_bfloat16_io,)
"""Passes for a program, or a segment of one, that ONNX Runtime loads."""

CUDA: PassOrder = (
    mask_finished_members,  # first: `for_cuda` also rewrites the masks
    for_cuda,
)
"""Passes for a program that ONNX Runtime's CUDA provider loads, whose kernels differ from CPU kernels."""


# --- application --------------------------------------------------------------------------------


def prepare(program: Program, order: PassOrder, first: PassOrder = ()) -> Program:
    """Apply the passes in `first`, and then the passes in `order`, to a program.

    Raises:
        UnsupportedError: The program cannot be prepared for the target. The message names the place.
    """
    for apply_pass in (*first, *order):
        program = apply_pass(program)
    return program


def run_passes_in_turn(program: Program, order: PassOrder) -> Iterator[tuple[str, Program]]:
    """Yield the name of each pass with the program that it returns."""
    for apply_pass in order:
        program = apply_pass(program)
        yield apply_pass.__name__, program
