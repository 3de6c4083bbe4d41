"""What is differentiated as a composition of others is written as that.

    y = Gelu(x)   ->   part = Mul(x, ...); curve = Erf(part); ...; y = Mul(x, ...)

Keeps: the values of the definition, but for the last bits.
"""

from __future__ import annotations

from mdf_loop.build import Builder
from mdf_loop.ir import Op, Program, Value
from mdf_loop.ops.derivatives.rule import Through, is_float
from mdf_loop.ops.derivatives.sweep import derivative_of
from mdf_loop.passes.batching.varying import spread_varying
from mdf_loop.passes.rewrite import rewrite


def spell_out(program: Program, names: frozenset[str]) -> Program:
    """The program in which all that depends on these inputs has a rule of its own, or none at all."""

    def rule(b: Builder, op: Op) -> tuple[Value | None, ...] | None:
        changes = any(is_float(v) and v in active for v in op.inputs) and any(
            map(is_float, op.outputs)
        )
        found = derivative_of(op) if changes else None
        if not isinstance(found, Through):
            return None
        made = found.composition(b, op)
        return made if isinstance(made, tuple) else (made,)

    while True:
        active = {entry.value for entry in program.inputs if entry.value.name in names}
        spread_varying(program.ops, active)
        made = rewrite(program, rule)
        if made is program:
            return program
        program = made
