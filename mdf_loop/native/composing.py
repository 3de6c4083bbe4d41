"""Operations that have no machine code, made of others that may have some.

    y = LayerNormalization(x)   ->   mean = ReduceMean(x); ...; y = Div(difference, deviation)

ONNX Runtime's own loop keeps its kernels: this is done of a loop only when its code is written.
"""

from __future__ import annotations

from collections.abc import Mapping

from mdf_loop.build import Builder
from mdf_loop.errors import LoopError
from mdf_loop.ir import Array, Constant, Loop, Op, Program, Value, walk
from mdf_loop.ops import row_of
from mdf_loop.passes.legal.safe_divisions import safe_divisions
from mdf_loop.passes.rewrite import rewrite


def composed(loop: Loop, known: Mapping[Value, Array]) -> tuple[Loop, Mapping[Value, Array]]:
    """The loop with compositions in place of what has no code, and all constants; `known` are those before."""
    if not any(isinstance(op, Op) and _lacks_code(op) for op in walk(loop.ops)):
        return loop, known
    constants = tuple(Constant(value, array) for value, array in known.items())
    made = Program("loop", (), (*constants, loop), ())
    while (following := rewrite(made, _rule)) is not made:
        made = following
    *others, whole = safe_divisions(made).ops
    assert isinstance(whole, Loop)
    return whole, {op.value: op.array for op in others if isinstance(op, Constant)}


def _lacks_code(op: Op) -> bool:
    row = row_of(op.op_type)
    moves = row.moves is not None and len(op.outputs) == 1
    has_form = moves or row.native is not None or row.native_whole is not None
    return row.composed is not None and not has_form


def _rule(b: Builder, op: Op) -> tuple[Value | None, ...] | None:
    compose = row_of(op.op_type).composed
    if compose is None or not _lacks_code(op):
        return None
    begin = len(b.ops)
    try:
        made = compose(b, op)
    except LoopError:  # none for these operands
        made = ()
    again = any(isinstance(new, Op) and new.op_type == op.op_type for new in b.ops[begin:])
    if again or made == ():
        b.discard(b.ops[begin:])
        del b.ops[begin:]
        return None
    return made if isinstance(made, tuple) else (made,)
