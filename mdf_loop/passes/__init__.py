"""Program -> Program. One file is one function; `mdf_loop.pipeline` says in which order they come."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from mdf_loop.ir import Program
from mdf_loop.passes.record_every import record_every
from mdf_loop.passes.report_loops import report_loops
from mdf_loop.passes.simplify.absorb_signs import absorb_signs
from mdf_loop.passes.simplify.drop_empty_loops import drop_empty_loops
from mdf_loop.passes.simplify.drop_neutral import drop_neutral
from mdf_loop.passes.simplify.drop_true_conditions import drop_true_conditions
from mdf_loop.passes.simplify.drop_unused import drop_unused
from mdf_loop.passes.simplify.fast_products import fast_products
from mdf_loop.passes.simplify.hoist_invariants import hoist_invariants
from mdf_loop.passes.simplify.lazy_choices import lazy_choices
from mdf_loop.passes.simplify.logical_choices import logical_choices
from mdf_loop.passes.simplify.merge_equal import merge_equal

Pass: TypeAlias = Callable[[Program], Program]
"""A new program, or the same object where there is nothing to change."""

__all__ = [
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
    "record_every",
    "report_loops",
]
