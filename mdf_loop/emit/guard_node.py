"""Conversion of a `Guard`, a check at run time, to ONNX nodes that fail if the check fails.

ONNX has no assertion, but every runtime refuses an index that does not exist:

    y = value if ok             index = Cast(Not(ok))
    else fail "..."      ->     y = Gather(Unsqueeze(value, 0), index)       # of one element

A sequence is extended by one member, which SequenceErase removes again. If the condition is False, the
position of SequenceErase is one beyond the last member. The name of the failing node identifies the
guard (`NodeRegistry.guard_by_node_name`) and contains its sentence for people who read the file.

ONNX Runtime's kernels for CUDA do not check indices. For them the guard removes an axis that does not
exist. The runtime checks axes before it computes anything:

    axes = Where(ok, 0, 99);  y = Squeeze(Unsqueeze(value, 0), axes)
"""

from __future__ import annotations

import numpy as np

from mdf_loop.emit.scope import OnnxScope
from mdf_loop.ir import Guard
from mdf_loop.ir.types import element_type, inner_dtype, is_sequence, numpy_dtype
from mdf_loop.onnx_writer import oir

_INVALID_AXIS = 99
"""Axis number that no array has, because ONNX Runtime's arrays have fewer axes."""


def write_guard(scope: OnnxScope, guard: Guard) -> None:
    """Append ONNX nodes that index out of range if a run-time check fails."""
    writer, guarded_value = scope.writer, scope.writer.onnx_values[guard.value]
    condition_is_false = scope.append_bool_node("Not", writer.onnx_values[guard.condition])
    failure_index = scope.append_int64_node("Cast", condition_is_false, to=element_type("int64"))
    if is_sequence(guard.value.dtype):
        extended_sequence = _append_member(scope, guard, guarded_value)
        erased_position = scope.append_int64_node(
            "Add", scope.append_int64_node("SequenceLength", guarded_value), failure_index
        )
        _append_failing(scope, guard, "SequenceErase", [extended_sequence, erased_position])
    else:
        _append_failing(
            scope, guard, "Gather", [_unsqueeze(scope, guarded_value), failure_index], axis=0
        )


def write_host_guard(scope: OnnxScope, guard: Guard) -> None:
    """Append ONNX nodes of a run-time check for providers that do not check indices (CUDA)."""
    if is_sequence(guard.value.dtype):
        write_guard(scope, guard)
        return
    writer = scope.writer
    valid_axis, invalid_axis = (
        writer.constant(np.array([axis_number])) for axis_number in (0, _INVALID_AXIS)
    )
    squeezed_axis = scope.append_int64_node(
        "Where", writer.onnx_values[guard.condition], valid_axis, invalid_axis
    )
    unsqueezed_value = _unsqueeze(scope, writer.onnx_values[guard.value])
    _append_failing(scope, guard, "Squeeze", [unsqueezed_value, squeezed_axis])


def _unsqueeze(scope: OnnxScope, source: oir.Value) -> oir.Value:
    """Append an Unsqueeze that inserts a first axis of extent 1."""
    unsqueezed_value = oir.Value(name=scope.writer.new_name("guarded"), type=source.type)
    scope.append_node(
        "Unsqueeze", [source, scope.writer.constant(np.array([0]))], [unsqueezed_value]
    )
    return unsqueezed_value


def _append_failing(
    scope: OnnxScope, guard: Guard, op_type: str, inputs: list[oir.Value], **attributes: int
) -> None:
    """Append the node that fails if the condition of the guard is False."""
    guarded_output = scope.define_value(guard.output)
    guard_path = f"{guard.where} guard: {guard.message}"
    node_name = scope.append_node(op_type, inputs, [guarded_output], attributes, guard_path)
    scope.writer.node_registry.guard_by_node_name[node_name] = guard


def _append_member(scope: OnnxScope, guard: Guard, sequence: oir.Value) -> oir.Value:
    """Append a SequenceInsert that adds one member to a sequence."""
    dtype = inner_dtype(guard.value.dtype)
    new_member = np.array("" if dtype == "string" else 0, numpy_dtype(dtype))
    return scope.append_like(
        "SequenceInsert", [sequence, scope.writer.constant(new_member)], sequence
    )
