"""Transcendental functions outside of native loops that the loops would have computed with own code.

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
from mdf_loop.ops.native.code import TYPES, is_float
from mdf_loop.ops.registry import Bits


class OutsideFunctions(Struct, frozen=True, eq=False):
    """Functions outside of loops that native loops with arrays compute with own code.

    Attributes:
        functions: The operations, in all scopes of a program outside of loops.
        is_swept: True if the program computes a batch of members.
    """

    functions: Sequence[Op]
    is_swept: bool

    def of_loop(self, loop: Loop) -> list[Op]:
        """Return the functions that belong to a loop with arrays: the hoisted ones, or all functions of a sweep."""
        if self.is_swept:
            return list(self.functions)
        return [op for op in self.functions if op.where.startswith(loop.where)]

    def of_loops(self, loops: Iterable[Loop]) -> list[Op]:
        """Return the functions that belong to native loops with arrays."""
        chosen = {id(op) for loop in loops for op in self.of_loop(loop)}
        return [op for op in self.functions if id(op) in chosen]


def outside_of(program: Program, *, whole: Program | None = None) -> OutsideFunctions:
    """Return the functions of floats outside of all loops of a program.

    Args:
        program: The program.
        whole: Program of which `program` is a part, if any. It determines whether there is a batch.
    """
    functions = tuple(_functions(program.ops))
    is_swept = any(output.members is not None for output in (whole or program).outputs)
    return OutsideFunctions(functions, is_swept)


def _functions(ops: Iterable[Operation]) -> Iterator[Op]:
    for operation in ops:
        if isinstance(operation, Op):
            if _is_function(operation):
                yield operation
        elif not isinstance(operation, Loop):
            for body in bodies(operation):
                yield from _functions(body.ops)


def _is_function(op: Op) -> bool:
    """Return True if libraries differ in the last bits of an operation, and the operation may have machine code."""
    values = [*(value for value in op.inputs if value is not None), *op.outputs]
    has_code = all(value.dtype in TYPES and value.shape is not None for value in values)
    is_open = row_of(op.op_type).bits is Bits.OPEN and not row_of(op.op_type).random
    return has_code and is_open and len(op.outputs) == 1 and is_float(op.outputs[0].dtype)
