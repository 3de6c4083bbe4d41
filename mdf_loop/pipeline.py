"""The order of all passes, for each target: what a program goes through before it is computed.

    ready = prepare(program, ONNXRUNTIME, asked=evaluation())

    read -> asked         -> simplify         -> legal              -> a back end, a file
            many values,     the same by         what has kernels,
            reports          less work           what cannot trap

A pass is a function `Program -> Program` (see `mdf_loop.passes`); an order is a tuple of passes,
first to last. Nothing else in this library puts passes in a row. Every order keeps results bit for
bit, but for `compose` and `widen`, which say what they keep.
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
from mdf_loop.passes.batching.rows_alike import rows_alike
from mdf_loop.passes.legal.backward_slices import backward_slices
from mdf_loop.passes.legal.casts_apart import casts_apart
from mdf_loop.passes.legal.compose import compose
from mdf_loop.passes.legal.expansions import expansions
from mdf_loop.passes.legal.float32_ends import with_float32_ends
from mdf_loop.passes.legal.for_cuda import for_cuda
from mdf_loop.passes.legal.guard_zero_divisors import guard_zero_divisors
from mdf_loop.passes.legal.masked import all_masked
from mdf_loop.passes.legal.near_neutral import near_neutral
from mdf_loop.passes.legal.protect_clips import protect_clips
from mdf_loop.passes.legal.protect_reshapes import protect_reshapes
from mdf_loop.passes.legal.safe_divisions import safe_divisions
from mdf_loop.passes.legal.widen import widen
from mdf_loop.passes.record_every import record_every
from mdf_loop.passes.report_loops import report_loops, report_needed_loops
from mdf_loop.passes.rows_in_front import rows_in_front
from mdf_loop.passes.simplify.absorb_signs import absorb_signs
from mdf_loop.passes.simplify.drop_empty_loops import drop_empty_loops
from mdf_loop.passes.simplify.drop_neutral import drop_neutral
from mdf_loop.passes.simplify.drop_true_conditions import drop_true_conditions
from mdf_loop.passes.simplify.drop_unused import drop_unused
from mdf_loop.passes.simplify.fast_products import fast_products
from mdf_loop.passes.simplify.fuse_axis_changes import fuse_axis_changes
from mdf_loop.passes.simplify.hoist_invariants import hoist_invariants
from mdf_loop.passes.simplify.known_choices import known_choices
from mdf_loop.passes.simplify.lazy_choices import lazy_choices
from mdf_loop.passes.simplify.logical_choices import logical_choices
from mdf_loop.passes.simplify.merge_equal import merge_equal

Order: TypeAlias = tuple[Pass, ...]
"""Passes, first to last."""


MAX_ROUNDS = 50
"""Rounds of passes in turn after which they have no end: what they make needs at most a few."""


def in_turn(*passes: Pass) -> Pass:
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
    known_choices,  # first: what is on the side that is not taken is wanted by nobody
    drop_empty_loops,  # nor is what loops without iterations would have computed
    drop_true_conditions,  # a condition left out needs nothing computed for it
    drop_unused,  # before the others, so that nothing is rewritten in vain
    logical_choices,
    drop_neutral,
    absorb_signs,  # after drop_neutral: what is left of a product may be only its sign
    fast_products,
    fuse_axis_changes,
    merge_equal,  # after the new spellings, which may make more operations equal
    hoist_invariants,
    lazy_choices,  # after hoisting too: what is computed once stays outside of the choice
    drop_unused,  # what the new spellings no longer read
)
"""The same numbers by less work, whoever computes them."""

LEGAL: Order = (
    in_turn(compose, widen),  # first: what they make is looked at, too, by each other and by others
    expansions,  # what is composed spreads elements, too
    near_neutral,  # compositions have constants, too
    casts_apart,  # what is made wider is cast, too
    backward_slices,  # decompositions slice, too
    protect_reshapes,  # decompositions reshape, too
    protect_clips,  # decompositions clip, too
    guard_zero_divisors,  # compositions and wider dtypes divide whole numbers, too
    safe_divisions,  # compositions and wider dtypes divide whole numbers, too
    merge_equal,  # divisions by one divisor look at it once
    hoist_invariants,  # what belongs to a divisor from outside of a loop is computed there
)
"""Nothing but operations that ONNX Runtime's CPU provider can run, runs as meant, and cannot trap."""

# --- what is asked of a program -----------------------------------------------------------------


def evaluation(swept: Collection[str] = ()) -> Order:
    """One evaluation, which says how its loops went; `swept` are inputs of many values."""
    return (report_needed_loops, *_at_once(swept)) if swept else (report_loops,)


def over_time(swept: Collection[str] = (), *, thinned: bool = False) -> Order:
    """A model over time; `thinned`: rows of every so-many-th step only."""
    rows = (record_every,) if thinned else ()
    return (*rows, *_at_once(swept), rows_alike) if swept else rows


def _at_once(swept: Collection[str]) -> Order:
    @functools.wraps(batch)
    def batch_swept(program: Program) -> Program:
        return batch(program, swept)

    return (
        drop_unused,  # first: what nobody reads need not be computable for many values
        batch_swept,
    )


# --- the targets ------------------------------------------------------------------------------

ONNXRUNTIME: Order = (
    *SIMPLIFY,
    rows_in_front,  # before the last `hoist_invariants`: rows from outside are turned once
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

LOADED: Order = (with_float32_ends,)
"""What ONNX Runtime's own form needs when it loads a program: a whole one, or a segment of one."""

CUDA: Order = (
    all_masked,  # first: what masks is written otherwise, too
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
