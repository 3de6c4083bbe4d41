"""Program -> Program. One file is one function."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from mdf_loop.ir import Program
from mdf_loop.passes.absorb_signs import absorb_signs
from mdf_loop.passes.drop_empty_loops import drop_empty_loops
from mdf_loop.passes.drop_neutral import drop_neutral
from mdf_loop.passes.drop_true_conditions import drop_true_conditions
from mdf_loop.passes.drop_unused import drop_unused
from mdf_loop.passes.fast_products import fast_products
from mdf_loop.passes.hoist_invariants import hoist_invariants
from mdf_loop.passes.lazy_choices import lazy_choices
from mdf_loop.passes.logical_choices import logical_choices
from mdf_loop.passes.merge_equal import merge_equal
from mdf_loop.passes.report_loops import report_loops
from mdf_loop.passes.stack_invariants import stack_invariants

Pass: TypeAlias = Callable[[Program], Program]

DEFAULT: tuple[Pass, ...] = (
    drop_empty_loops,  # first: what they would have computed is wanted by nobody
    drop_true_conditions,  # a condition left out needs nothing computed for it
    drop_unused,  # before the others, so that nothing is rewritten in vain
    logical_choices,
    drop_neutral,
    absorb_signs,  # after drop_neutral: what is left of a product may be only its sign
    fast_products,
    merge_equal,  # after the new spellings, which may make more operations equal
    hoist_invariants,
    stack_invariants,  # after hoisting: what is then outside of a loop is the same in every row
    lazy_choices,  # after hoisting too: what is computed once stays outside of the choice
    drop_unused,  # what the new spellings no longer read
)
"""The passes of every compilation, in order. All keep results bit for bit."""


def optimise(program: Program) -> Program:
    """The program after all default passes."""
    for apply in DEFAULT:
        program = apply(program)
    return program


__all__ = [
    "DEFAULT",
    "Pass",
    "absorb_signs",
    "drop_empty_loops",
    "drop_neutral",
    "drop_true_conditions",
    "drop_unused",
    "fast_products",
    "hoist_invariants",
    "lazy_choices",
    "logical_choices",
    "merge_equal",
    "optimise",
    "report_loops",
    "stack_invariants",
]
