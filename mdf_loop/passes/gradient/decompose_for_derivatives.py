"""What is differentiated as a composition of others is written as that.

    y = Gelu(x)   ->   part = Mul(x, ...); curve = Erf(part); ...; y = Mul(x, ...)

Keeps: the values of the definition, but for the last bits.
"""

from __future__ import annotations

from msgspec.structs import replace

from mdf_loop.build import Builder
from mdf_loop.ir import Op, Program, Value, walk
from mdf_loop.ops.derivatives.rule import Through, is_float
from mdf_loop.ops.derivatives.sweep import derivative_of
from mdf_loop.passes.batching.varying import propagate_varying, values_read
from mdf_loop.passes.rewrite import rewrite


def decompose_for_derivatives(program: Program, names: frozenset[str]) -> Program:
    """The program in which all that depends on these inputs has a rule of its own, or none at all."""
    while (made := rewrite(program, _Spelling(program, names).rule)) is not program:
        program = made
    return program


class _Spelling:
    """What of a program depends on inputs, and what of it is read."""

    def __init__(self, program: Program, names: frozenset[str]) -> None:
        self._active = {entry.value for entry in program.inputs if entry.value.name in names}
        propagate_varying(program.ops, self._active)
        self._read = {value for op in walk(program.ops) for value in values_read(op)}
        self._read |= {output.value for output in program.outputs}

    def rule(self, b: Builder, op: Op) -> tuple[Value | None, ...] | None:
        """The composition of an operation; outputs that nobody reads are left out."""
        changes = any(is_float(value) and value in self._active for value in op.inputs)
        found = derivative_of(op) if changes and any(map(is_float, op.outputs)) else None
        if not isinstance(found, Through):
            return None
        last = max((k for k, output in enumerate(op.outputs) if output in self._read), default=0)
        made = found.composition(b, replace(op, outputs=op.outputs[: last + 1]))
        given = made if isinstance(made, tuple) else (made,)
        return (*given, *(None,) * (len(op.outputs) - len(given)))
