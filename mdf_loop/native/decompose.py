"""Decomposition of operations that have no machine code of their own.

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
    """Loop in which decompositions replace the operations without machine code.

    Attributes:
        loop: The loop with decomposed operations.
        constants: All constants, including those of decompositions.
        original_ops: The original operation of each value that a decomposition computes.
    """

    loop: Loop
    constants: Mapping[Value, Array]
    original_ops: Mapping[Value, Op]

    def restate_reason(self, reason: NotNative) -> NotNative:
        """Reword why a loop has no machine code, with the name of the original operation."""
        original_op = None if reason.op is None else self.original_ops.get(reason.op.outputs[0])
        if reason.op is None or original_op is None:
            return reason
        return NotNative(
            str(reason).replace(
                qualified_name(reason.op.op_type), qualified_name(original_op.op_type)
            )
        )


def decompose_loop(loop: Loop, known: Mapping[Value, Array]) -> DecomposedLoop:
    """Decompose all operations of a loop that have no machine code of their own.

    Args:
        loop: The loop.
        known: Constants of the program of the loop.
    """
    if not any(isinstance(op, Op) and _lacks_code(op) for op in walk(loop.ops)):
        return DecomposedLoop(loop, known, {})
    constants = tuple(Constant(value, array) for value, array in known.items())
    program = Program("loop", (), (*constants, loop), ())
    original_ops: dict[Value, Op] = {}
    while (next_program := rewrite(program, partial(_decompose_op, original_ops))) is not program:
        program = next_program
    *outer_ops, decomposed_loop = guard_integer_division(program).ops
    assert isinstance(decomposed_loop, Loop)
    all_constants = {op.value: op.array for op in outer_ops if isinstance(op, Constant)}
    return DecomposedLoop(decomposed_loop, all_constants, original_ops)


def _lacks_code(op: Op) -> bool:
    row = row_of(op.op_type)
    is_move = row.moved_operands is not None and len(op.outputs) == 1
    has_code = is_move or row.native_code is not None or row.native_array_code is not None
    return row.decomposition is not None and not has_code


def _decompose_op(
    original_ops: dict[Value, Op], b: Builder, op: Op
) -> tuple[Value | None, ...] | None:
    decompose = row_of(op.op_type).decomposition
    if decompose is None or not _lacks_code(op):
        return None
    old_op_count = len(b.ops)
    try:
        outputs = decompose(b, op)
    except LoopError:  # no decomposition for these operands
        outputs = ()
    is_recursive = any(
        isinstance(new_op, Op) and new_op.op_type == op.op_type for new_op in b.ops[old_op_count:]
    )
    if is_recursive or outputs == ():
        b.discard(b.ops[old_op_count:])
        del b.ops[old_op_count:]
        return None
    original_op = original_ops.get(op.outputs[0], op)
    new_values = (
        value
        for new_op in b.ops[old_op_count:]
        if isinstance(new_op, Op)
        for value in new_op.outputs
    )
    original_ops.update(dict.fromkeys((*new_values, *op.outputs), original_op))
    return outputs if isinstance(outputs, tuple) else (outputs,)
