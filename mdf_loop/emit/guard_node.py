"""`Guard` -> what does not exist: ONNX has no assertion, but every runtime refuses that.

    made = value if ok          index = Cast(Not(ok))
    else fail "..."      ->     made = Gather(Unsqueeze(value, 0), index)       # of one element

A sequence gets a member more, which is taken away again: at its place, if that is 0. The node that
fails is known by its name (`Nodes.guards`); the sentence stands in it for people.

ONNX Runtime's kernels for CUDA look at no index. There an axis is left out that does not exist, which
is looked at before anything is computed:

    axes = Where(ok, 0, 99);  made = Squeeze(Unsqueeze(value, 0), axes)
"""

from __future__ import annotations

import numpy as np

from mdf_loop.emit.scope import OnnxScope
from mdf_loop.ir import Guard
from mdf_loop.ir.types import element_type, inside, is_sequence, numpy_dtype
from mdf_loop.onnx_writer import oir

_NO_AXIS = 99
"""More axes than an array can have."""


def write_guard(scope: OnnxScope, guard: Guard) -> None:
    """Append the guard to the scope that it stands in."""
    writer, value = scope.writer, scope.writer.values[guard.value]
    wrong = scope.truth("Not", writer.values[guard.ok])
    index = scope.whole("Cast", wrong, to=element_type("int64"))
    if is_sequence(guard.value.dtype):
        more = _with_one_more(scope, guard, value)
        place = scope.whole("Add", scope.whole("SequenceLength", value), index)
        _append(scope, guard, "SequenceErase", [more, place])
    else:
        _append(scope, guard, "Gather", [_alone(scope, value), index], axis=0)


def write_host_guard(scope: OnnxScope, guard: Guard) -> None:
    """Append the guard to the scope that it stands in, where kernels look at no index."""
    if is_sequence(guard.value.dtype):
        write_guard(scope, guard)
        return
    writer = scope.writer
    there, nowhere = (writer.constant(np.array([axis])) for axis in (0, _NO_AXIS))
    axes = scope.whole("Where", writer.values[guard.ok], there, nowhere)
    _append(scope, guard, "Squeeze", [_alone(scope, writer.values[guard.value]), axes])


def _alone(scope: OnnxScope, value: oir.Value) -> oir.Value:
    """An array of nothing but the value."""
    alone = oir.Value(name=scope.writer.fresh("guarded"), type=value.type)
    scope.node("Unsqueeze", [value, scope.writer.constant(np.array([0]))], [alone])
    return alone


def _append(
    scope: OnnxScope, guard: Guard, op_type: str, inputs: list[oir.Value], **attributes: int
) -> None:
    """Append the node that fails if the guard does not hold."""
    made = scope.define(guard.made)
    where = f"{guard.where} guard: {guard.sentence}"
    failing = scope.node(op_type, inputs, [made], attributes, where)
    scope.writer.nodes.guards[failing] = guard


def _with_one_more(scope: OnnxScope, guard: Guard, value: oir.Value) -> oir.Value:
    dtype = inside(guard.value.dtype)
    member = np.array("" if dtype == "string" else 0, numpy_dtype(dtype))
    return scope.helper("SequenceInsert", [value, scope.writer.constant(member)], value)
