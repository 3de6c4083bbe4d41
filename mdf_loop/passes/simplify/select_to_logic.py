"""Truth values chosen by a truth value are a plain `and` or `or`.

    Where(a, b, a)   ->   And(b, a)
    Where(a, a, b)   ->   Or(a, b)

Keeps: results bit for bit. That is how Python's own `and` and `or` are read; ONNX Runtime
chooses truth values only by way of whole numbers, in four operations.
"""

from __future__ import annotations

from mdf_loop.build import Builder
from mdf_loop.ir import Op, Program, Value
from mdf_loop.passes.rewrite import rewrite


def select_to_logic(program: Program) -> Program:
    """The program with choices between truth values as logic, where they are no more than that."""
    return rewrite(program, _Choices().rule)


class _Choices:
    """Knows which truth values are the one element of another value."""

    def __init__(self) -> None:
        self.element_of: dict[Value, Value] = {}

    def rule(self, b: Builder, op: Op) -> tuple[Value | None, ...] | None:
        """`And` or `Or` for a `Where` that gives its own condition in one of its cases."""
        made, source = op.outputs[0], op.inputs[0] if op.inputs else None
        if op.op_type == "Reshape" and source is not None and _is_single(source, made):
            self.element_of[made] = source
        if op.op_type != "Where" or made.dtype != "bool":
            return None
        condition, left, right = (value for value in op.inputs if value is not None)
        same = (condition, self.element_of.get(condition))
        if right in same:
            return (b.op("And", left, right),)
        return (b.op("Or", left, right),) if left in same else None


def _is_single(source: Value, element: Value) -> bool:
    single = source.shape is not None and all(extent == 1 for extent in source.shape)
    return single and element.shape == ()
