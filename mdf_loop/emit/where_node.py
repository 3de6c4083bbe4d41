"""Conversion of a `Where` operation to ONNX nodes that preserve the signs of zeros.

ONNX Runtime's Where returns 0.0 instead of a -0.0 of its second operand, and preserves a -0.0 of its third
operand. So an operand that may hold -0.0 becomes the third one. If both operands may hold -0.0, each is
selected alone, against 0.0, and with the opposite sign:

    y = Where(c, a, b)      ->      y = -Where(not c, 0.0, -a) - Where(c, 0.0, -b)

The difference is exact: it is a - 0.0 if `a` is selected, else -0.0 + b. These are `a` and `b` with their
signs. Nan and infinities are preserved.

ONNX Runtime exchanges the operands of a Where whose condition is a Not. So every negation of a condition is
written as Xor, also a Not of the program:

    n = Not(c); y = Where(n, 1.0, b)      ->      y = Where(Xor(c, true), 1.0, b)

Source: onnxruntime 1.32, `where_op.cc`, which merges two selections by comparing with 0, and
`not_where_fusion.cc`.
"""

from __future__ import annotations

import numpy as np

from mdf_loop.emit.scope import OnnxScope
from mdf_loop.ir import Op, Value
from mdf_loop.onnx_writer import oir
from mdf_loop.ops.build_helpers import holds_negative_zero, kind


def write_where(scope: OnnxScope, op: Op) -> None:
    """Append nodes that compute a Where operation and preserve the signs of selected zeros."""
    writer = scope.writer
    condition, then_value, else_value = (
        writer.onnx_values[operand] for operand in op.inputs if operand is not None
    )
    where_outputs = [scope.define_value(value) for value in op.outputs]
    (output_value,) = op.outputs
    loses_sign_of_zero = [
        kind(output_value) == "f" and _may_hold_negative_zero(scope, operand)
        for operand in op.inputs[1:]
    ]
    if any(loses_sign_of_zero):
        condition = _replace_not(scope, condition)
    if not loses_sign_of_zero[0]:
        scope.append_node(
            "Where", [condition, then_value, else_value], where_outputs, where=op.where
        )
        return
    true_constant = writer.constant(np.array(True))
    negated_condition = scope.append_like("Xor", [condition, true_constant], condition)
    if not loses_sign_of_zero[1]:
        scope.append_node(
            "Where", [negated_condition, else_value, then_value], where_outputs, where=op.where
        )
        return
    constant_zero = writer.constant(np.array(0, output_value.dtype))
    negated_sides_or_zeros = [
        _append_where_or_zero(
            scope,
            selection_mask,
            constant_zero,
            scope.append_like("Neg", [selected_value], selected_value),
            op.where,
        )
        for selection_mask, selected_value in (
            (negated_condition, then_value),
            (condition, else_value),
        )
    ]
    scope.append_node(
        "Sub",
        [
            scope.append_like("Neg", [negated_sides_or_zeros[0]], negated_sides_or_zeros[0]),
            negated_sides_or_zeros[1],
        ],
        where_outputs,
        where=op.where,
    )


def _replace_not(scope: OnnxScope, condition: oir.Value) -> oir.Value:
    """Return the condition of a Where, with a Not that computes it rewritten as Xor with True."""
    node = condition.producer()
    while node is not None and node.op_type in ("Identity", "Not"):
        (operand,) = node.inputs
        assert operand is not None
        if node.op_type == "Not":
            true_constant = scope.writer.constant(np.array(True))
            return scope.append_like("Xor", [operand, true_constant], condition)
        node = operand.producer()
    return condition


def _append_where_or_zero(
    scope: OnnxScope, mask: oir.Value, zero: oir.Value, side: oir.Value, where: str
) -> oir.Value:
    """Append a node `Where(mask, 0.0, side)` without declaring its output shape."""
    where_output = oir.Value(name=scope.writer.new_name("Where"), type=side.type)
    scope.append_node("Where", [mask, zero, side], [where_output], where=where)
    return where_output


def _may_hold_negative_zero(scope: OnnxScope, value: Value | None) -> bool:
    """Return True unless the value is a constant without -0.0."""
    constant_array = scope.writer.constant_array(value)
    return constant_array is None or holds_negative_zero(constant_array)
