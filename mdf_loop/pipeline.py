"""The order of all passes, for each target: what a program goes through before it is computed.

    ready = prepare(program, ONNXRUNTIME, asked=evaluation())

    read -> asked         -> simplify         -> legal              -> a back end, a file
            many values,     the same by         what has kernels,
            reports          less work           what cannot trap

A pass is a function `Program -> Program` (see `mdf_loop.passes`); an order is a tuple of passes,
first to last. Nothing else in this library puts passes in a row. Every order keeps results bit for
bit, but for `decompose` and `promote_unsupported_dtypes`, which say what they keep.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterator
from typing import TypeAlias

from mdf_loop.errors import UnsupportedError
from mdf_loop.ir import Op, Program, walk
from mdf_loop.ops.registry import title
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

Order: TypeAlias = tuple[Pass, ...]
"""Passes, first to last."""


MAX_ROUNDS = 50
"""Rounds of passes in turn after which they have no end: what they make needs at most a few."""


def fixed_point(*passes: Pass) -> Pass:
    """Passes one after the other, again and again, until none has anything to do.

    Raises:
        UnsupportedError: They replace an operation again and again. The error names the operation and its place.
    """

    def apply(program: Program) -> Program:
        for _ in range(MAX_ROUNDS):
            rewritten = prepare(program, passes)
            if rewritten is program:
                return program
            before, program = program, rewritten
        raise _replaced_endlessly(before, program)

    apply.__name__ = ", ".join(each.__name__ for each in passes)
    return apply


def _replaced_endlessly(before: Program, after: Program) -> UnsupportedError:
    """Return the error about the first operation that the last round of passes has replaced."""
    known = {id(op) for op in walk(before.ops)}
    replaced = next(op for op in walk(after.ops) if isinstance(op, Op) and id(op) not in known)
    return UnsupportedError(
        f"ONNX Runtime has no {replaced.outputs[0].dtype} kernel for {title(replaced.op_type)}",
        replaced.where,
        "use another dtype",
    )


SIMPLIFY: Order = (
    fold_constant_branches,  # first: what is on the side that is not taken is wanted by nobody
    drop_empty_loops,  # nor is what loops without iterations would have computed
    drop_true_conditions,  # a condition left out needs nothing computed for it
    eliminate_dead_code,  # before the others, so that nothing is rewritten in vain
    select_to_logic,
    simplify_identities,
    fold_negations,  # after simplify_identities: what is left of a product may be only its sign
    fast_matrix_vector_products,
    fuse_axis_changes,
    eliminate_common_subexpressions,  # after the new spellings, which may make more operations equal
    hoist_invariants,
    sink_into_branches,  # after hoisting too: what is computed once stays outside of the choice
    eliminate_dead_code,  # what the new spellings no longer read
)
"""The same numbers by less work, whoever computes them."""

LEGAL: Order = (
    # First, and to a fixed point: each of the two creates operations that the other one replaces.
    fixed_point(decompose, promote_unsupported_dtypes),
    protect_expands,  # what is composed spreads elements, too
    protect_identities,  # compositions have constants, too
    keep_double_casts,  # what is made wider is cast, too
    protect_backward_slices,  # decompositions slice, too
    protect_reshapes,  # decompositions reshape, too
    protect_clips,  # decompositions clip, too
    guard_zero_divisors,  # compositions and wider dtypes divide whole numbers, too
    guard_integer_division,  # compositions and wider dtypes divide whole numbers, too
    eliminate_common_subexpressions,  # divisions by one divisor look at it once
    hoist_invariants,  # what belongs to a divisor from outside of a loop is computed there
)
"""Nothing but operations that ONNX Runtime's CPU provider can run, runs as meant, and cannot trap."""

# --- what is asked of a program -----------------------------------------------------------------


def evaluation(swept: Collection[str] = ()) -> Order:
    """One evaluation, which says how its loops went; `swept` are inputs of many values."""
    return (report_needed_loops, *_batched(swept)) if swept else (report_loops,)


def over_time(swept: Collection[str] = (), *, thinned: bool = False) -> Order:
    """A model over time; `thinned`: rows of every so-many-th step only."""
    rows = (subsample_recordings,) if thinned else ()
    return (*rows, *_batched(swept), refuse_ragged_outputs) if swept else rows


def _batched(swept: Collection[str]) -> Order:
    @functools.wraps(batch)
    def batch_swept(program: Program) -> Program:
        return batch(program, swept)

    return (
        eliminate_dead_code,  # first: what nobody reads need not be computable for many values
        batch_swept,
    )


# --- the targets ------------------------------------------------------------------------------

ONNXRUNTIME: Order = (
    *SIMPLIFY,
    scan_axis_first,  # before the last `hoist_invariants`: rows from outside are turned once
    *LEGAL,  # after simplifying: what is left out needs no kernel
)
"""For a run on ONNX Runtime."""

CHECK: Order = ONNXRUNTIME
"""For `mdf-loop check`: what a run accepts is accepted, and nothing else."""

PORTABLE: Order = (*SIMPLIFY, *LEGAL)
"""For a file: no other runtime has more kernels."""

INTERPRET: Order = ()
"""For the interpreter, which says what a program means: it takes what was read, as it was read.

What simplifies a program, and what composes operations of others, is compared with what it gives.
"""

LOADED: Order = (cast_bfloat16_io,)
"""What ONNX Runtime's own form needs when it loads a program: a whole one, or a segment of one."""

CUDA: Order = (
    mask_finished_members,  # first: what masks is written otherwise, too
    for_cuda,
)
"""What is loaded, for ONNX Runtime's CUDA provider, whose kernels do what those of the CPU do not."""


# --- applied ------------------------------------------------------------------------------------


def prepare(program: Program, order: Order, asked: Order = ()) -> Program:
    """The program after what is asked of it, and then all passes of an order.

    Raises:
        UnsupportedError: it cannot be made what the order is for; the sentence names the place.
    """
    for apply in (*asked, *order):
        program = apply(program)
    return program


def after_each(program: Program, order: Order) -> Iterator[tuple[str, Program]]:
    """The name of each pass, and the program after it."""
    for apply in order:
        program = apply(program)
        yield apply.__name__, program
