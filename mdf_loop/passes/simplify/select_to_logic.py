"""Replacement of `Where` on booleans by `And` or `Or`, if the condition is also an operand.

    Where(a, b, a)   ->   And(b, a)
    Where(a, a, b)   ->   Or(a, b)

Preserves: results bit for bit. Python's `and` and `or` are lowered to such selections. ONNX Runtime
needs four operations to select booleans, because `Where` has no kernel for bool.
"""

from __future__ import annotations

from mdf_loop.build import Builder
from mdf_loop.ir import Op, Program, Value
from mdf_loop.passes.rewrite import rewrite


def select_to_logic(program: Program) -> Program:
    """Replace `Where` on booleans by `And` or `Or`, if the condition is also an operand."""
    return rewrite(program, _BooleanSelections().rule)


class _BooleanSelections:
    """Rewrite rule that replaces `Where` on booleans by `And` or `Or`."""

    def __init__(self) -> None:
        self.scalar_sources: dict[Value, Value] = {}

    def rule(self, b: Builder, op: Op) -> tuple[Value | None, ...] | None:
        """Return the `And` or `Or` that replaces a `Where` on booleans, or None to keep it."""
        output, source = op.outputs[0], op.inputs[0] if op.inputs else None
        if op.op_type == "Reshape" and source is not None and _is_scalar_of(source, output):
            self.scalar_sources[output] = source
        if op.op_type != "Where" or output.dtype != "bool":
            return None
        condition, then_operand, else_operand = (value for value in op.inputs if value is not None)
        condition_values = (condition, self.scalar_sources.get(condition))
        if else_operand in condition_values:
            return (b.op("And", then_operand, else_operand),)
        return (
            (b.op("Or", then_operand, else_operand),) if then_operand in condition_values else None
        )


def _is_scalar_of(source: Value, element: Value) -> bool:
    has_one_element = source.shape is not None and all(extent == 1 for extent in source.shape)
    return has_one_element and element.shape == ()
