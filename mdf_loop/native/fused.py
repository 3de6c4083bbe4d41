"""Fusion of elementwise operations: consecutive operations on arrays of the same shape become one loop over elements.

a = x * y; b = a + z; c = max(b)        for k in range(n): b[k] = x[k] * y[k] + z[k]
                                        c = ...
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np

from mdf_loop.ir import Loop, Op, Value, is_fixed
from mdf_loop.native.support import readers
from mdf_loop.ops.native import moves, views
from mdf_loop.ops.native.code import Arrays, Cell, Code, Extents, NotNative
from mdf_loop.ops.native.extents import bare, product


class FusedWriter(Arrays, Protocol):
    """Interface of the writer of a loop in steps."""

    def joined(self, op: Op) -> Extents:
        """Return the shape to which the operands of an operation are broadcast."""

    def vectors(self, code: Code, op: Op, operands: Sequence[Sequence[str]]) -> Sequence[str]:
        """Write an elementwise operation for several vectors."""


class FusedOperations:
    """Deferred elementwise operations, which are written together.

    The operations are written when another operation needs their results, or before an operation on arrays of
    another shape is deferred.
    """

    def __init__(self, writer: FusedWriter, loop: Loop) -> None:
        self._writer = writer
        self._group: list[Op] = []
        self._readers = readers(loop)

    def put_off(self, op: Op, cells: dict[Value, Cell]) -> None:
        """Defer an elementwise operation. Earlier operations with another shape are written first."""
        writer, output = self._writer, op.outputs[0]
        writer.shaped(output, writer.joined(op))
        if self._group and writer.extents(self._group[0].outputs[0]) != writer.extents(output):
            self.flush(cells)
        self._group.append(op)

    def flush(self, cells: dict[Value, Cell]) -> None:
        """Write one loop over elements for all deferred operations."""
        writer = self._writer
        group, self._group = self._group, []
        if not group:
            return
        inside = dict.fromkeys(op.outputs[0] for op in group)  # ordered, for deterministic code
        mine = {id(op) for op in group}
        read = [v for op in group for v in op.inputs if v is not None and v not in inside]
        first = group[0].outputs[0]
        sources = {value: self._source(value, first, cells) for value in read}
        buffers = {v: writer.buffer(v) for v in inside if self._readers.get(v, set()) - mine}

        def write(code: Code, k: str) -> None:
            registers = {v: self._element(code, v, source, k) for v, source in sources.items()}
            for op in group:
                output = op.outputs[0]
                operands = [registers[value] for value in op.inputs if value is not None]
                (registers[output],) = writer.vectors(code, op, [operands])
                if output in buffers:
                    writer.store(code, output.dtype, registers[output], buffers[output], k)

        writer.over(product(writer.one, writer.extents(first)), write)
        cells.update((value, Cell(pointer=pointer)) for value, pointer in buffers.items())

    def _source(self, value: Value, like: Value, cells: Mapping[Value, Cell]) -> Cell:
        """Return the cell of an operand: a scalar, or an array that is broadcast to the shape of `like`."""
        writer = self._writer
        cell, own, target_extents = (
            writer.cell(value, cells),
            writer.extents(value),
            writer.extents(like),
        )
        if not cell.single:
            cell = Cell(pointer=writer.pointer_of(value, cell))
        if cell.single or bare(own) == bare(target_extents):
            return cell
        if not (is_fixed(own) and is_fixed(target_extents)):
            return views.broadcast(writer, value, cell, target_extents)
        try:
            places = np.broadcast_to(np.arange(math.prod(own)).reshape(own), target_extents)
        except ValueError:
            raise NotNative(f"'{value.name}' does not fit '{like.name}'") from None
        wide = Value(value.name, value.dtype, target_extents)
        return moves.gathered(writer, wide, [(value, cell)], places.reshape(-1))

    def _element(self, code: Code, value: Value, cell: Cell, place: str) -> str:
        if cell.single:
            return code.spread(cell.registers[0], value.dtype)
        return self._writer.load(code, value.dtype, cell.pointer, place)
