"""Derivation of shapes that hold for all inputs of a program, not only for the inputs of one run.

x = float64[2, 3]        its port says shape: [-1, 3]   ->   [?, 3]
y = Transpose(x)         float64[3, 2]                  ->   [3, ?]
z: a carried value       float64[2, 3]                  ->   [?, ?]
"""

from __future__ import annotations

from mdf_loop.errors import OperandError
from mdf_loop.ir import Guard, Op, Shape, Value, operands
from mdf_loop.ir.types import is_tensor
from mdf_loop.lower.builder import ModelBuilder
from mdf_loop.ops.inference import infer


class GeneralShapes:
    """Shapes of a program's values that hold for all inputs, not only for the inputs of one run.

    An unknown extent has a name that begins with `?`.
    """

    def __init__(self, b: ModelBuilder) -> None:
        self.b = b
        self._shapes: dict[Value, Shape] = dict(b.stated_shapes)

    def find_shape(self, value: Value) -> Shape:
        """Return the shape that a value has for all inputs of the program."""
        pending_values = [value]
        while pending_values:
            pending_value = pending_values[-1]
            op = self.b.producers.get(pending_value)
            unknown_operands = (
                [operand for operand in operands(op) if operand not in self._shapes] if op else []
            )
            if pending_value in self._shapes or not unknown_operands:
                self._record_shape(pending_value, op)
                pending_values.pop()
            pending_values += unknown_operands if pending_value not in self._shapes else []
        return self._shapes[value]

    def _record_shape(self, value: Value, op: Op | Guard | None) -> None:
        """Infer and record the shape that a value has for all inputs of the program."""
        if value in self._shapes:
            return
        if is_independent_of_inputs(self.b, value):
            self._shapes[value] = value.shape
        elif op is None:
            self._shapes[value] = _forget_extents(value)
        elif isinstance(op, Guard):
            self._shapes[value] = self._shapes[op.value]
        else:
            self._shapes.update(zip(op.outputs, self._infer_outputs(op), strict=True))

    def _infer_outputs(self, op: Op) -> list[Shape]:
        """Infer the shapes that an operation's outputs have for all inputs of the program."""
        b, operand_types = (
            self.b,
            [
                None if operand is None else (operand.dtype, self._shapes[operand])
                for operand in op.inputs
            ],
        )
        if not any(
            is_specialized(b, operand, self._shapes[operand])
            for operand in op.inputs
            if operand is not None
        ):
            return [value.shape for value in op.outputs]
        small_constants = b.small_constants(
            operand if operand is not None and is_independent_of_inputs(b, operand) else None
            for operand in op.inputs
        )
        try:
            output_types = infer(
                op.op_type, operand_types, op.attributes, small_constants, len(op.outputs)
            )
        except OperandError:
            return [_forget_extents(value) for value in op.outputs]
        return [shape for _, shape in output_types]


def is_independent_of_inputs(b: ModelBuilder, value: Value) -> bool:
    """Return True if a value is constant or not a tensor, so that its shape is always the same."""
    is_constant = b.constant_of(value) is not None and not b.is_shape_constant(value)
    return is_constant or not is_tensor(value.dtype)


def is_specialized(b: ModelBuilder, value: Value, general_shape: Shape) -> bool:
    """Return True if a value or its shape holds only for the inputs of one run."""
    shape = value.shape
    if (
        b.is_shape_constant(value)
        or shape is None
        or general_shape is None
        or len(shape) != len(general_shape)
    ):
        return shape is not None
    return any(
        isinstance(general_extent, str) and isinstance(extent, int)
        for general_extent, extent in zip(general_shape, shape, strict=True)
    )


def _forget_extents(value: Value) -> Shape:
    """Return the shape of a value with every extent replaced by an unknown extent."""
    return value.shape and tuple(f"?{k}" for k, _ in enumerate(value.shape))
