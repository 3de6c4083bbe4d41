"""Scalarization of batched loops: arrays become one scalar per element and batch member.

    split = ElementwiseValues("batch", known)
    split.split_op(op)              # %y: float64[batch, 2] = Mul(%x, %x): two operations on scalars
    split.of(y)                     # %y 0, %y 1: float64[batch]

An elementwise operation becomes one operation for each element. An operation that only moves elements becomes
a renaming of elements. Reductions combine the elements in the same order as reductions of arrays in native loops.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec import Struct
from msgspec.structs import replace

from mdf_loop.ir import Array, Op, Operation, Shape, Value, is_fixed, reads
from mdf_loop.ops import row_of
from mdf_loop.ops.native.code import NotNative, is_float
from mdf_loop.ops.native.moves import ZERO_POSITION, positions_of
from mdf_loop.ops.native.products import reduce_in_pairs
from mdf_loop.ops.native.reductions import BINARY_OP_BY_REDUCTION, stated_axes
from mdf_loop.ops.ordered_sum import MIN_TERMS_IN_PARTS, PARTIAL_SUM_COUNT, is_summed_in_parts
from mdf_loop.ops.registry import qualified_name

Elements = npt.NDArray[Any]
"""Array of the elements of one member, as values, in the shape of the member."""

MAX_SPLIT_ELEMENTS, MAX_SPLIT_OPS = 32, 4000
"""Maximum number of elements of an array that is split, and maximum number of operations of the resulting loop."""


def elements_read(operation: Operation) -> tuple[Value, ...]:
    """Return the operands whose elements an operation reads, rather than only their shape."""
    operand_values = tuple(reads(operation))
    reads_single_operand = isinstance(operation, Op) and row_of(operation.op_type).keeps_order
    return operand_values[:1] if reads_single_operand else operand_values


class ElementPosition(Struct, frozen=True):
    """Position of a scalar in an array that has several elements per batch member."""

    array: Value
    index: int = 0
    element_count: int = 1


class ElementwiseValues:
    """Values of a batched loop body, each split into one scalar per array element.

    Attributes:
        constants: Constants, including the elements of constant arrays.
        element_positions: For each element of an input or output array of the loop, its position in the array.
        ops: Operations that compute the elements.
    """

    def __init__(self, batch_axis: str, constants: Mapping[Value, Array]) -> None:
        self.constants = dict(constants)
        self.element_positions: dict[Value, ElementPosition] = {}
        self.ops: list[Op] = []
        self._batch_axis = batch_axis
        self._elements_by_value: dict[Value, Elements] = {}

    # --- values -----------------------------------------------------------------------------------

    def of(self, value: Value) -> list[Value]:
        """Return the scalars into which an array is split, in row-major order."""
        return list(self._elements_of(value).flat)

    def set_elements(self, value: Value, elements: Sequence[Value]) -> None:
        """Set the scalars into which an array is split, in row-major order."""
        elements_array = np.empty(len(elements), object)
        elements_array[:] = elements
        self._elements_by_value[value] = elements_array.reshape(self._member_shape(value))

    def create_input_elements(self, value: Value) -> list[Value]:
        """Create the scalars into which an input of the loop body is split."""
        element_values = self._new_elements(value, self._element_shape(value))
        self.set_elements(value, element_values)
        return element_values

    def create_outer_elements(self, value: Value) -> list[Value]:
        """Create the scalars into which an array outside of the loop is split."""
        element_values = self._new_elements(value, self._element_shape(value))
        for index, element in enumerate(element_values):
            if element is not value:
                self.element_positions[element] = ElementPosition(value, index, len(element_values))
        return element_values

    def matching_elements(self, value: Value, enter: Value) -> list[Value]:
        """Return the scalars of a carried value, or raise NotNative if its shape changes.

        Raises:
            NotNative: The shapes differ, or the value has no elements.
        """
        member_shape = self._member_shape(value)
        if member_shape != self._member_shape(enter):
            raise NotNative(f"'{enter.name}' changes its shape")
        if 0 in member_shape:
            raise NotNative(f"members stop each for itself, and '{enter.name}' has no elements")
        return self.of(value)

    def _elements_of(self, value: Value) -> Elements:
        if value not in self._elements_by_value:
            constant_array = self.constants.get(value)
            if constant_array is None or constant_array.size == 1:
                self.set_elements(
                    value, self.create_outer_elements(value) if constant_array is None else [value]
                )
            else:
                element_values = self._new_elements(value, ())
                self.constants.update(zip(element_values, np.ravel(constant_array), strict=True))
                self.set_elements(value, element_values)
        return self._elements_by_value[value]

    def _new_elements(self, value: Value, shape: Shape) -> list[Value]:
        """Create a value of the given shape for each element of an array.

        A value that already has this shape is its own element.
        """
        member_shape = self._member_shape(value)
        if member_shape == () and value.shape == shape:
            return [value]
        element_names = (f"{value.name} {index}" for index in range(math.prod(member_shape)))
        return [Value(name, value.dtype, shape) for name in element_names]

    def _element_shape(self, value: Value) -> Shape:
        """Return the shape of one element for all batch members, or () without a batch axis.

        With a batch axis, the shape is (batch,).
        """
        return (self._batch_axis,) if self._has_batch_axis(value) else ()

    def _has_batch_axis(self, value: Value) -> bool:
        return value.shape is not None and value.shape[:1] == (self._batch_axis,)

    def _member_shape(self, value: Value) -> tuple[int, ...]:
        """Return the shape of a value without the batch axis."""
        member_shape = value.shape
        if member_shape is not None and self._has_batch_axis(value):
            member_shape = member_shape[1:]
        if not is_fixed(member_shape):
            raise NotNative(f"the shape of '{value.name}' is known only when it runs")
        if math.prod(member_shape) > MAX_SPLIT_ELEMENTS:
            raise NotNative("members stop each for itself, and have large arrays")
        return member_shape

    # --- operations -------------------------------------------------------------------------------

    def split_op(self, op: Op) -> None:
        """Replace an operation on arrays by scalar operations on the elements of the arrays.

        Raises:
            NotNative: The operation cannot be split. The message states the reason.
        """
        operation_row = row_of(op.op_type)
        try:
            if len(op.outputs) > 1 and (operation_row.keeps_order or operation_row.is_elementwise):
                raise NotNative(_unsupported_on_arrays(op))
            if operation_row.keeps_order:
                self._reshape_elements(op)
            elif operation_row.is_elementwise and operation_row.native_code is not None:
                self._split_elementwise(op)
            elif op.op_type in BINARY_OP_BY_REDUCTION:
                self._split_reduction(op)
            elif operation_row.moved_operands is not None:
                self._move_elements(op)
            else:
                raise NotNative(_unsupported_on_arrays(op))
        except NotNative as reason:
            reason.op = reason.op or op
            raise
        if len(self.ops) > MAX_SPLIT_OPS:
            raise NotNative("members stop each for itself, and compute much with arrays")

    def _split_elementwise(self, op: Op) -> None:
        (output,) = op.outputs
        member_shape = self._member_shape(output)
        operand_elements = [
            None if operand is None else self._align_elements(operand, output)
            for operand in op.inputs
        ]
        broadcast_elements = [
            None if elements is None else np.broadcast_to(elements, member_shape).reshape(-1)
            for elements in operand_elements
        ]
        output_elements = [
            self._append(
                op.op_type,
                [None if elements is None else elements[k] for elements in broadcast_elements],
                output,
                k,
                op,
            )
            for k in range(math.prod(member_shape))
        ]
        self.set_elements(output, output_elements)

    def _append(
        self, op_type: str, operands: Sequence[Value | None], like: Value, number: int, op: Op
    ) -> Value:
        """Append a scalar operation that computes element `number` of the array `like`."""
        has_batch_axis = any(
            operand is not None and self._has_batch_axis(operand) for operand in operands
        )
        element_shape: Shape = (self._batch_axis,) if has_batch_axis else ()
        has_same_shape = like.shape == element_shape
        output_element = (
            like if has_same_shape else Value(f"{like.name} {number}", like.dtype, element_shape)
        )
        scalar_attributes = op.attributes if op_type == op.op_type else {}
        self.ops.append(
            Op(op_type, tuple(operands), (output_element,), scalar_attributes, where=op.where)
        )
        return output_element

    def _align_elements(self, value: Value, output: Value) -> Elements:
        """Return the elements of an operand, reshaped for broadcasting to the output's shape."""
        elements, output_rank = self._elements_of(value), len(self._member_shape(output))
        if self._has_batch_axis(value) and elements.ndim not in (0, output_rank):
            raise NotNative(f"the axes of '{value.name}' are others than those of a member")
        return elements.reshape(elements.shape[max(elements.ndim - output_rank, 0) :])

    def _reshape_elements(self, op: Op) -> None:
        """Set the elements of an output that reshapes or broadcasts the operand."""
        operand, output = op.inputs[0], op.outputs[0]
        assert operand is not None
        elements, output_shape = self._elements_of(operand), self._member_shape(output)
        if elements.size != math.prod(output_shape):
            elements = np.broadcast_to(self._align_elements(operand, output), output_shape)
        self.set_elements(output, list(elements.flat))

    def _move_elements(self, op: Op) -> None:
        """Set the elements of outputs that only contain elements of operands, as of a Transpose."""
        moved_operands, source_position_arrays = positions_of(
            op, self._single_member_shape, self.constants.get
        )
        operand_elements = [
            element for operand in moved_operands for element in self._elements_of(operand).flat
        ]
        for output, source_positions in zip(op.outputs, source_position_arrays, strict=True):
            if (
                source_positions.shape != self._single_member_shape(output)
                or (source_positions == ZERO_POSITION).any()
            ):
                raise NotNative(_unsupported_on_arrays(op))
            self.set_elements(
                output, [operand_elements[position] for position in source_positions.flat]
            )

    def _single_member_shape(self, value: Value) -> tuple[int, ...]:
        """Return the shape that a value would have in a batch of one member."""
        return (*(1,) * self._has_batch_axis(value), *self._member_shape(value))

    # --- reductions -------------------------------------------------------------------------------

    def _split_reduction(self, op: Op) -> None:
        operand, output = op.inputs[0], op.outputs[0]
        assert operand is not None
        if operand.dtype == "bool" or (op.op_type == "ReduceMean" and not is_float(operand.dtype)):
            raise NotNative(f"it has {qualified_name(op.op_type)} of {operand.dtype}")
        elements = self._elements_of(operand)
        reduced_axes = self._reduced_axes(op, operand)
        is_in_parts = is_summed_in_parts(reduced_axes, elements.ndim) if reduced_axes else False
        kept_axes = [axis for axis in range(elements.ndim) if axis not in reduced_axes]
        reduced_rows = elements.transpose(*kept_axes, *reduced_axes)
        reduced_rows = reduced_rows.reshape(
            math.prod(elements.shape[axis] for axis in kept_axes), -1
        )
        if not reduced_rows.shape[1]:
            raise NotNative(f"it has {qualified_name(op.op_type)} of nothing")
        row_results = []
        for index, row in enumerate(reduced_rows):
            row_total = self._reduce_row(op, list(row), output, index, in_parts=is_in_parts)
            row_results.append(self._divide_by_count(op, row_total, len(row), index))
        self.set_elements(output, row_results)

    def _reduced_axes(self, op: Op, data: Value) -> list[int]:
        """Return the axes that a reduction reduces, not counting the batch axis."""
        batch_axis_count = int(self._has_batch_axis(data))
        reduced_axes = [
            axis - batch_axis_count
            for axis in stated_axes(op, len(data.shape or ()), self.constants.get)
        ]
        if min(reduced_axes, default=-1) < 0:
            raise NotNative(f"it has {qualified_name(op.op_type)} over members")
        return reduced_axes

    def _reduce_row(
        self, op: Op, row: list[Value], output: Value, number: int, *, in_parts: bool
    ) -> Value:
        """Append scalar operations that reduce elements, in the order of `ops.ordered_sum`."""

        def join(a: Value, b: Value) -> Value:
            output_template = replace(output, name=f"{output.name} of {number}")
            return self._append(
                BINARY_OP_BY_REDUCTION[op.op_type], (a, b), output_template, len(self.ops), op
            )

        if in_parts and len(row) >= MIN_TERMS_IN_PARTS:
            partial_results = row[:PARTIAL_SUM_COUNT]
            for k in range(PARTIAL_SUM_COUNT, len(row)):
                partial_results[k % PARTIAL_SUM_COUNT] = join(
                    partial_results[k % PARTIAL_SUM_COUNT], row[k]
                )
            return reduce_in_pairs(partial_results, join)
        partial_result = row[0]
        for element in row[1:]:
            partial_result = join(partial_result, element)
        return partial_result

    def _divide_by_count(self, op: Op, total: Value, count: int, number: int) -> Value:
        if op.op_type != "ReduceMean":
            return total
        divisor = Value(f"{count} of {op.outputs[0].name}", total.dtype, ())
        self.constants[divisor] = np.array(count, total.dtype)
        mean_template = replace(op.outputs[0], name=f"{op.outputs[0].name} mean")
        return self._append("Div", (total, divisor), mean_template, number, op)


def _unsupported_on_arrays(op: Op) -> str:
    return f"members stop each for itself, and it has {qualified_name(op.op_type)} of arrays"
