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
from mdf_loop.ops.registry import title
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

    def reason(self, why: NotNative) -> NotNative:
        """Return the reason `why`, with the original operation named instead of an operation of its decomposition."""
        origin = None if why.op is None else self.origins.get(why.op.outputs[0])
        if why.op is None or origin is None:
            return why
        return NotNative(str(why).replace(title(why.op.op_type), title(origin.op_type)))


def composed(loop: Loop, known: Mapping[Value, Array]) -> DecomposedLoop:
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
    while (following := rewrite(program, partial(_rule, origins))) is not program:
        program = following
    *others, whole = guard_integer_division(program).ops
    assert isinstance(whole, Loop)
    constants_of = {op.value: op.array for op in others if isinstance(op, Constant)}
    return DecomposedLoop(whole, constants_of, origins)


def _lacks_code(op: Op) -> bool:
    row = row_of(op.op_type)
    moves = row.moves is not None and len(op.outputs) == 1
    has_form = moves or row.native is not None or row.native_whole is not None
    return row.decomposition is not None and not has_form


def _rule(origins: dict[Value, Op], b: Builder, op: Op) -> tuple[Value | None, ...] | None:
    compose = row_of(op.op_type).decomposition
    if compose is None or not _lacks_code(op):
        return None
    begin = len(b.ops)
    try:
        operations = compose(b, op)
    except LoopError:  # no decomposition for these operands
        operations = ()
    again = any(isinstance(new, Op) and new.op_type == op.op_type for new in b.ops[begin:])
    if again or operations == ():
        b.discard(b.ops[begin:])
        del b.ops[begin:]
        return None
    origin = origins.get(op.outputs[0], op)
    fresh = (value for new in b.ops[begin:] if isinstance(new, Op) for value in new.outputs)
    origins.update(dict.fromkeys((*fresh, *op.outputs), origin))
    return operations if isinstance(operations, tuple) else (operations,)
