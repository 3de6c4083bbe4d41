"""`Guard` -> an index that does not exist: ONNX has no assertion, but every runtime refuses that.

    made = value if ok          index = Cast(Not(ok))
    else fail "..."      ->     made = Gather(Unsqueeze(value, 0), index)       # of one element

A sequence gets a member more, which is taken away again: at its place, if that is 0. The node that
fails is known by its name (`Nodes.guards`); the sentence stands in it for people.
"""

from __future__ import annotations

import numpy as np

from mdf_loop.emit.scope import OnnxScope
from mdf_loop.ir import Guard
from mdf_loop.ir.types import element_type, inside, is_sequence, numpy_dtype
from mdf_loop.onnx_writer import oir


def write_guard(scope: OnnxScope, guard: Guard) -> None:
    """Append the guard to the scope that it stands in."""
    writer, value = scope.writer, scope.writer.values[guard.value]
    wrong = scope.truth("Not", writer.values[guard.ok])
    index = scope.whole("Cast", wrong, to=element_type("int64"))
    where = f"{guard.where} guard: {guard.sentence}"
    made = scope.define(guard.made)
    if is_sequence(guard.value.dtype):
        more = _with_one_more(scope, guard, value)
        place = scope.whole("Add", scope.whole("SequenceLength", value), index)
        failing = scope.node("SequenceErase", [more, place], [made], where=where)
    else:
        alone = oir.Value(name=writer.fresh("guarded"), type=value.type)
        scope.node("Unsqueeze", [value, writer.constant(np.array([0]))], [alone])
        failing = scope.node("Gather", [alone, index], [made], {"axis": 0}, where)
    writer.nodes.guards[failing] = guard


def _with_one_more(scope: OnnxScope, guard: Guard, value: oir.Value) -> oir.Value:
    dtype = inside(guard.value.dtype)
    member = np.array("" if dtype == "string" else 0, numpy_dtype(dtype))
    return scope.helper("SequenceInsert", [value, scope.writer.constant(member)], value)
