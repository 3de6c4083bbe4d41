"""Conversion of transcendental functions into one-iteration loops, which have machine code.

    y: float64[batch] = Exp(%x)    ->    loop 1 times: %row = Exp(%x); record %row giving %rows
                                         y = Squeeze(%rows)

The machine code is cached by its text, so each function is compiled once in a process.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from mdf_loop.build import Builder
from mdf_loop.ir import If, Loop, Op, Operation, Program, Recorded, bodies, with_bodies
from mdf_loop.native.decompose import decompose_loop
from mdf_loop.native.kernel import Kernel, compile_kernel
from mdf_loop.native.support import constants_in, signature_of
from mdf_loop.ops.build_helpers import ints
from mdf_loop.ops.native.code import NotNative


class LoopedFunctions(Struct, frozen=True, eq=False):
    """Program in which one-iteration loops replace transcendental functions.

    Attributes:
        program: The program.
        kernels: Machine code of each of these loops.
    """

    program: Program
    kernels: Mapping[Loop, Kernel]


def replace_functions_by_loops(program: Program, functions: Sequence[Op]) -> LoopedFunctions:
    """Replace transcendental functions by one-iteration loops, which have machine code."""
    return _FunctionReplacer(program, functions).replace_functions()


class _FunctionReplacer:
    """Builder of a program in which one-iteration loops replace transcendental functions."""

    def __init__(self, program: Program, functions: Sequence[Op]) -> None:
        self._program = program
        self._replaced_op_ids = {id(op) for op in functions}
        self._b = Builder.for_rewrite_of(program)
        self._one, self._first_axis = self._b.constant(np.array(1)), ints(self._b, 0)
        self._constants = {**constants_in(program), self._one: np.array(1)}
        self._kernels: dict[Loop, Kernel] = {}

    def replace_functions(self) -> LoopedFunctions:
        """Return the program with one-iteration loops in place of transcendental functions."""
        new_ops = self._replace_in(self._program.ops)
        if not self._kernels:
            return LoopedFunctions(self._program, {})
        return LoopedFunctions(replace(self._program, ops=(*self._b.ops, *new_ops)), self._kernels)

    def _replace_in(self, ops: Iterable[Operation]) -> tuple[Operation, ...]:
        new_ops: list[Operation] = []
        for operation in ops:
            if isinstance(operation, Op):
                new_ops += (
                    self._make_loop(operation)
                    if id(operation) in self._replaced_op_ids
                    else (operation,)
                )
            elif isinstance(operation, If):
                inner_ops = [self._replace_in(body.ops) for body in bodies(operation)]
                new_ops.append(with_bodies(operation, inner_ops))
            else:
                new_ops.append(operation)
        return tuple(new_ops)

    def _make_loop(self, op: Op) -> tuple[Operation, ...]:
        """Replace an operation by a one-iteration native loop and a `Squeeze` of the loop's row.

        An operation without machine code is returned unchanged.
        """
        b, (output,) = self._b, op.outputs
        output_row = b.new(output.dtype, output.shape, f"{output.name} row")
        output_rows = b.new(output.dtype, (1, *(output.shape or ())), f"{output.name} rows")
        one_iteration_loop = Loop(
            name=output.name,
            trip_count=self._one,
            condition=None,
            iteration=b.new("int64", (), "iteration"),
            condition_in=b.new("bool", (), "go"),
            condition_out=None,
            carried=(),
            recorded=(Recorded(output_row, output_rows),),
            ops=(replace(op, outputs=(output_row,)),),
            where=op.where,
        )
        try:
            self._kernels[one_iteration_loop] = self._compile_kernel(one_iteration_loop)
        except NotNative:
            return (op,)
        return one_iteration_loop, Op(
            "Squeeze", (output_rows, self._first_axis), (output,), where=op.where
        )

    def _compile_kernel(self, loop: Loop) -> Kernel:
        """Compile a one-iteration loop that computes even scalars by vectorized math functions."""
        decomposed_loop = decompose_loop(loop, self._constants)
        return compile_kernel(
            replace(
                signature_of(decomposed_loop.loop, decomposed_loop.constants), computes_arrays=True
            )
        )
