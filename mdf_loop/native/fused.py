"""Fusion of consecutive elementwise operations of equal shape into one loop over elements.

a = x * y; b = a + z; c = max(b)        for k in range(n): b[k] = x[k] * y[k] + z[k]
                                        c = ...
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np

from mdf_loop.ir import Loop, Op, Value, is_fixed
from mdf_loop.native.support import reader_ids
from mdf_loop.ops.native import moves, views
from mdf_loop.ops.native.code import ArrayCode, Cell, Code, Extents, NotNative
from mdf_loop.ops.native.extents import product, strip_leading_ones


class FusedWriter(ArrayCode, Protocol):
    """Interface of the code emitter that writes fused elementwise operations."""

    def broadcast_shape(self, op: Op) -> Extents:
        """Return the common shape to which the operands of an operation are broadcast."""

    def emit_vectors(self, code: Code, op: Op, operands: Sequence[Sequence[str]]) -> Sequence[str]:
        """Emit an elementwise operation on several vectors of elements."""


class FusedOperations:
    """Deferred elementwise operations, which are emitted as one loop over array elements.

    The operations are written when another operation needs their results, or before an operation on arrays of
    another shape is deferred.
    """

    def __init__(self, writer: FusedWriter, loop: Loop) -> None:
        self._writer = writer
        self._deferred_ops: list[Op] = []
        self._reader_ids = reader_ids(loop)

    def defer(self, op: Op, cells: dict[Value, Cell]) -> None:
        """Defer the emission of an elementwise operation, for fusion with later ones.

        Earlier operations with another shape are emitted first.
        """
        writer, op_output = self._writer, op.outputs[0]
        writer.set_extents(op_output, writer.broadcast_shape(op))
        if self._deferred_ops and writer.extents(
            self._deferred_ops[0].outputs[0]
        ) != writer.extents(op_output):
            self.flush(cells)
        self._deferred_ops.append(op)

    def flush(self, cells: dict[Value, Cell]) -> None:
        """Emit one loop over array elements that computes all deferred operations."""
        writer = self._writer
        fused_ops, self._deferred_ops = self._deferred_ops, []
        if not fused_ops:
            return
        fused_outputs = dict.fromkeys(
            op.outputs[0] for op in fused_ops
        )  # ordered, for deterministic code
        fused_op_ids = {id(op) for op in fused_ops}
        read_values = [
            operand
            for op in fused_ops
            for operand in op.inputs
            if operand is not None and operand not in fused_outputs
        ]
        first_output = fused_ops[0].outputs[0]
        broadcast_operands = {
            value: self._broadcast_operand(value, first_output, cells) for value in read_values
        }
        output_buffers = {
            output: writer.allocate_buffer(output)
            for output in fused_outputs
            if self._reader_ids.get(output, set()) - fused_op_ids
        }

        def write(code: Code, k: str) -> None:
            registers_by_value = {
                value: self._load_element(code, value, broadcast_operand, k)
                for value, broadcast_operand in broadcast_operands.items()
            }
            for op in fused_ops:
                op_output = op.outputs[0]
                operands = [registers_by_value[value] for value in op.inputs if value is not None]
                (registers_by_value[op_output],) = writer.emit_vectors(code, op, [operands])
                if op_output in output_buffers:
                    writer.store(
                        code,
                        op_output.dtype,
                        registers_by_value[op_output],
                        output_buffers[op_output],
                        k,
                    )

        writer.for_each_element(product(writer.scalar_code, writer.extents(first_output)), write)
        cells.update((value, Cell(pointer=pointer)) for value, pointer in output_buffers.items())

    def _broadcast_operand(self, value: Value, like: Value, cells: Mapping[Value, Cell]) -> Cell:
        """Return an operand as a scalar, or as an array broadcast to the shape of `like`."""
        writer = self._writer
        operand_cell, operand_extents, target_extents = (
            writer.cell(value, cells),
            writer.extents(value),
            writer.extents(like),
        )
        if not operand_cell.is_scalar:
            operand_cell = Cell(pointer=writer.pointer_of(value, operand_cell))
        if operand_cell.is_scalar or strip_leading_ones(operand_extents) == strip_leading_ones(
            target_extents
        ):
            return operand_cell
        if not (is_fixed(operand_extents) and is_fixed(target_extents)):
            return views.broadcast(writer, value, operand_cell, target_extents)
        try:
            element_indices = np.broadcast_to(
                np.arange(math.prod(operand_extents)).reshape(operand_extents), target_extents
            )
        except ValueError:
            raise NotNative(f"'{value.name}' does not fit '{like.name}'") from None
        broadcast_value = Value(value.name, value.dtype, target_extents)
        return moves.gather_at_known_positions(
            writer, broadcast_value, [(value, operand_cell)], element_indices.reshape(-1)
        )

    def _load_element(self, code: Code, value: Value, cell: Cell, index: str) -> str:
        if cell.is_scalar:
            return code.broadcast(cell.registers[0], value.dtype)
        return self._writer.load(code, value.dtype, cell.pointer, index)
