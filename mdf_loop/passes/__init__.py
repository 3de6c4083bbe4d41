"""Program -> Program. One file is one function."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from mdf_loop.ir import Program
from mdf_loop.passes.drop_true_conditions import drop_true_conditions
from mdf_loop.passes.drop_unused import drop_unused
from mdf_loop.passes.hoist_invariants import hoist_invariants
from mdf_loop.passes.report_loops import report_loops

Pass: TypeAlias = Callable[[Program], Program]

DEFAULT: tuple[Pass, ...] = (
    drop_true_conditions,  # first: a condition left out needs nothing computed for it
    drop_unused,  # before moving, so that nothing is moved in vain
    hoist_invariants,
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
    "drop_true_conditions",
    "drop_unused",
    "hoist_invariants",
    "optimise",
    "report_loops",
]
