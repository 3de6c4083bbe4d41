"""Decomposition of operations without machine code into operations that may have machine code.

    y = LayerNormalization(x)   ->   mean = ReduceMean(x); ...; y = Div(difference, deviation)

Only loops that are compiled are decomposed. A standard loop keeps the kernels of ONNX Runtime.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from msgspec import Struct

from mdf_loop.build import Builder
from mdf_loop.errors import LoopError
from mdf_loop.ir import Array, Constant, Loop, Op, Program, Value, walk
from mdf_loop.ops import row_of
from mdf_loop.ops.native.code import NotNative
from mdf_loop.ops.registry import qualified_name
from mdf_loop.passes.legalize.guard_integer_division import guard_integer_division
from mdf_loop.passes.rewrite import rewrite


class DecomposedLoop(Struct, frozen=True, eq=False):
    """Loop in which operations without machine code are replaced by their decompositions.

    Attributes:
        loop: The loop with decomposed operations.
        known: All constants, including those of decompositions.
        origins: The original operation of each value that a decomposition computes.
    """

    loop: Loop
    known: Mapping[Value, Array]
    origins: Mapping[Value, Op]

    def restate_reason(self, reason: NotNative) -> NotNative:
        """Return `reason`, with the original operation named instead of an operation of its decomposition."""
        origin = None if reason.op is None else self.origins.get(reason.op.outputs[0])
        if reason.op is None or origin is None:
            return reason
        return NotNative(
            str(reason).replace(qualified_name(reason.op.op_type), qualified_name(origin.op_type))
        )


def decompose_loop(loop: Loop, known: Mapping[Value, Array]) -> DecomposedLoop:
    """Return the loop with the decompositions of all operations that have no machine code.

    Args:
        loop: The loop.
        known: Constants of the program of the loop.
    """
    if not any(isinstance(op, Op) and _lacks_code(op) for op in walk(loop.ops)):
        return DecomposedLoop(loop, known, {})
    constants = tuple(Constant(value, array) for value, array in known.items())
    program = Program("loop", (), (*constants, loop), ())
    origins: dict[Value, Op] = {}
    while (next_program := rewrite(program, partial(_decompose_op, origins))) is not program:
        program = next_program
    *outer_ops, decomposed_loop = guard_integer_division(program).ops
    assert isinstance(decomposed_loop, Loop)
    all_constants = {op.value: op.array for op in outer_ops if isinstance(op, Constant)}
    return DecomposedLoop(decomposed_loop, all_constants, origins)


def _lacks_code(op: Op) -> bool:
    row = row_of(op.op_type)
    moves = row.moved_operands is not None and len(op.outputs) == 1
    has_form = moves or row.native_code is not None or row.native_array_code is not None
    return row.decomposition is not None and not has_form


def _decompose_op(origins: dict[Value, Op], b: Builder, op: Op) -> tuple[Value | None, ...] | None:
    decompose = row_of(op.op_type).decomposition
    if decompose is None or not _lacks_code(op):
        return None
    begin = len(b.ops)
    try:
        operations = decompose(b, op)
    except LoopError:  # no decomposition for these operands
        operations = ()
    is_recursive = any(isinstance(new, Op) and new.op_type == op.op_type for new in b.ops[begin:])
    if is_recursive or operations == ():
        b.discard(b.ops[begin:])
        del b.ops[begin:]
        return None
    origin = origins.get(op.outputs[0], op)
    new_values = (value for new in b.ops[begin:] if isinstance(new, Op) for value in new.outputs)
    origins.update(dict.fromkeys((*new_values, *op.outputs), origin))
    return operations if isinstance(operations, tuple) else (operations,)
