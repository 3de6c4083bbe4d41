"""Decomposition of operations that are differentiated through their decompositions.

    y = Gelu(x)   ->   part = Mul(x, ...); curve = Erf(part); ...; y = Mul(x, ...)

Preserves: the values of the definition, except for rounding errors in the last bits.
"""

from __future__ import annotations

from msgspec.structs import replace

from mdf_loop.build import Builder
from mdf_loop.ir import Op, Program, Value, walk
from mdf_loop.ops.derivatives.rule import DecomposedDerivative, is_float
from mdf_loop.ops.derivatives.sweep import derivative_of
from mdf_loop.passes.batching.varying import propagate_varying, values_read
from mdf_loop.passes.rewrite import rewrite


def decompose_for_derivatives(program: Program, names: frozenset[str]) -> Program:
    """Decompose each operation that is differentiated through its decomposition, such as Gelu.

    Only operations that depend on the inputs `names` are decomposed.
    """
    while (
        rewritten_program := rewrite(program, _ActiveDecomposition(program, names).rule)
    ) is not program:
        program = rewritten_program
    return program


class _ActiveDecomposition:
    """Rewrite rule that decomposes operations which depend on the inputs to differentiate by."""

    def __init__(self, program: Program, names: frozenset[str]) -> None:
        self._active_values = {
            program_input.value
            for program_input in program.inputs
            if program_input.value.name in names
        }
        propagate_varying(program.ops, self._active_values)
        self._read_values = {value for op in walk(program.ops) for value in values_read(op)}
        self._read_values |= {output.value for output in program.outputs}

    def rule(self, b: Builder, op: Op) -> tuple[Value | None, ...] | None:
        """Return the outputs of an operation's decomposition, or None to keep the operation.

        Unused outputs at the end are None.
        """
        is_active = any(is_float(value) and value in self._active_values for value in op.inputs)
        derivative = derivative_of(op) if is_active and any(map(is_float, op.outputs)) else None
        if not isinstance(derivative, DecomposedDerivative):
            return None
        last_used_output = max(
            (k for k, output in enumerate(op.outputs) if output in self._read_values), default=0
        )
        decomposed_outputs = derivative.decompose(
            b, replace(op, outputs=op.outputs[: last_used_output + 1])
        )
        replacements = (
            decomposed_outputs if isinstance(decomposed_outputs, tuple) else (decomposed_outputs,)
        )
        return (*replacements, *(None,) * (len(op.outputs) - len(replacements)))
