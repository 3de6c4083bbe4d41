"""Transcendental functions outside of native loops, which must return the same bits as inside.

Passes hoist invariant functions out of a loop, and the first evaluation of a model over time precedes the
loop over the other evaluations. ONNX Runtime's functions of arrays depend on the position in an array and on
the number of threads. A member of a sweep would then depend on its batch. `function_loops` computes these
functions in machine code.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct

from mdf_loop.ir import Loop, Op, Operation, Program, bodies
from mdf_loop.ops import row_of
from mdf_loop.ops.native.code import REGISTER_TYPES, is_float
from mdf_loop.ops.registry import Reproducibility


class OutsideFunctions(Struct, frozen=True, eq=False):
    """Transcendental functions that a program computes outside of all loops.

    Attributes:
        functions: The operations, in all scopes of a program outside of loops.
        is_swept: True if the program computes a batch of members.
    """

    functions: Sequence[Op]
    is_swept: bool

    def of_loop(self, loop: Loop) -> list[Op]:
        """Return the math functions hoisted out of a loop, or all of them in a parameter sweep."""
        if self.is_swept:
            return list(self.functions)
        return [op for op in self.functions if op.where.startswith(loop.where)]

    def of_loops(self, loops: Iterable[Loop]) -> list[Op]:
        """Return the math functions hoisted out of any of several loops, in program order."""
        chosen_ids = {id(op) for loop in loops for op in self.of_loop(loop)}
        return [op for op in self.functions if id(op) in chosen_ids]


def find_outside_functions(program: Program, *, whole: Program | None = None) -> OutsideFunctions:
    """Find the transcendental functions that a program computes outside of all loops.

    Args:
        program: The program.
        whole: Program of which `program` is a part, if any. This program determines if there is a batch.
    """
    functions = tuple(_find_functions(program.ops))
    is_swept = any(output.member_axis is not None for output in (whole or program).outputs)
    return OutsideFunctions(functions, is_swept)


def _find_functions(ops: Iterable[Operation]) -> Iterator[Op]:
    for operation in ops:
        if isinstance(operation, Op):
            if _depends_on_math_library(operation):
                yield operation
        elif not isinstance(operation, Loop):
            for body in bodies(operation):
                yield from _find_functions(body.ops)


def _depends_on_math_library(op: Op) -> bool:
    """Return True if the last bits of an operation's result depend on the math library."""
    op_values = [*(value for value in op.inputs if value is not None), *op.outputs]
    has_machine_code = all(
        value.dtype in REGISTER_TYPES and value.shape is not None for value in op_values
    )
    has_library_bits = (
        row_of(op.op_type).reproducibility is Reproducibility.RUNTIME_DEPENDENT
        and not row_of(op.op_type).is_random
    )
    return (
        has_machine_code
        and has_library_bits
        and len(op.outputs) == 1
        and is_float(op.outputs[0].dtype)
    )
