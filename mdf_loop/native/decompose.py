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
        """Reword why a loop has no machine code, naming the operation before its decomposition."""
        original_op = None if reason.op is None else self.original_ops.get(reason.op.outputs[0])
        if reason.op is None or original_op is None:
            return reason
        return NotNative(
            str(reason).replace(
                qualified_name(reason.op.op_type), qualified_name(original_op.op_type)
            )
        )


def decompose_loop(loop: Loop, constants: Mapping[Value, Array]) -> DecomposedLoop:
    """Decompose all operations of a loop that have no machine code of their own.

    Args:
        loop: The loop.
        constants: Constants of the program of the loop.
    """
    if not any(isinstance(op, Op) and _lacks_machine_code(op) for op in walk(loop.ops)):
        return DecomposedLoop(loop, constants, {})
    constant_ops = tuple(Constant(value, array) for value, array in constants.items())
    loop_program = Program("loop", (), (*constant_ops, loop), ())
    original_ops: dict[Value, Op] = {}
    while (
        next_program := rewrite(loop_program, partial(_decompose_op, original_ops))
    ) is not loop_program:
        loop_program = next_program
    *outer_ops, decomposed_loop = guard_integer_division(loop_program).ops
    assert isinstance(decomposed_loop, Loop)
    all_constants = {op.value: op.array for op in outer_ops if isinstance(op, Constant)}
    return DecomposedLoop(decomposed_loop, all_constants, original_ops)


def _lacks_machine_code(op: Op) -> bool:
    operation_row = row_of(op.op_type)
    is_data_movement = operation_row.moved_operands is not None and len(op.outputs) == 1
    has_machine_code = (
        is_data_movement
        or operation_row.native_code is not None
        or operation_row.native_array_code is not None
    )
    return operation_row.decomposition is not None and not has_machine_code


def _decompose_op(
    original_ops: dict[Value, Op], b: Builder, op: Op
) -> tuple[Value | None, ...] | None:
    decompose = row_of(op.op_type).decomposition
    if decompose is None or not _lacks_machine_code(op):
        return None
    first_new_op_index = len(b.ops)
    try:
        decomposed_outputs = decompose(b, op)
    except LoopError:  # no decomposition for these operands
        decomposed_outputs = ()
    is_recursive = any(
        isinstance(new_op, Op) and new_op.op_type == op.op_type
        for new_op in b.ops[first_new_op_index:]
    )
    if is_recursive or decomposed_outputs == ():
        b.discard(b.ops[first_new_op_index:])
        del b.ops[first_new_op_index:]
        return None
    original_op = original_ops.get(op.outputs[0], op)
    new_values = (
        value
        for new_op in b.ops[first_new_op_index:]
        if isinstance(new_op, Op)
        for value in new_op.outputs
    )
    original_ops.update(dict.fromkeys((*new_values, *op.outputs), original_op))
    return decomposed_outputs if isinstance(decomposed_outputs, tuple) else (decomposed_outputs,)
