"""Loop-carried arrays whose shape changes from one iteration to the next.

    for i in range(trip): x = Concat(x, a)      # x: a growable buffer, and memory for each extent that changes

The extents that change are found while the code is written. The code is first written for constant extents.
If an array may change its shape within an iteration (`MoreExtentsChangeError`), the code is written again.
"""

from __future__ import annotations

from collections.abc import Collection
from operator import itemgetter
from typing import TypeAlias

from mdf_loop.ir import Carried, Loop, Value
from mdf_loop.native.loop_text import extent_code
from mdf_loop.native.stacks import RowsWriter, allocate_output
from mdf_loop.ops.native.code import ITEM_BYTES, Cell, Extents, NotNative, is_single

Axes: TypeAlias = frozenset[tuple[Value, int]]
"""Axes of carried values whose extent may differ between iterations."""


class MoreExtentsChangeError(Exception):
    """Error raised if a carried array changes shape along an axis assumed to be constant.

    Attributes:
        changing_axes: The axes of carried values that change.
    """

    def __init__(self, changing_axes: Axes) -> None:
        super().__init__()
        self.changing_axes = changing_axes


class ChangingArrays:
    """Emitter of LLVM code for carried arrays whose shape changes between iterations.

    Attributes:
        changing_axes: The axes whose extent changes.
        final_extent_indices: For each final value of the outer loop, the index in `%extents` of each extent that changes,
            by axis.
    """

    def __init__(self, writer: RowsWriter, changing_axes: Axes) -> None:
        self.changing_axes = changing_axes
        self._writer = writer
        self._axes_by_value: dict[Value, list[int]] = {}
        for value, axis in sorted(
            changing_axes, key=itemgetter(1)
        ):  # the order of a set varies between processes
            self._axes_by_value.setdefault(value, []).append(axis)
        self._buffer_numbers: dict[Value, int] = {}
        self._extent_pointers: dict[Value, dict[int, str]] = {}
        self.final_extent_indices: dict[Value, dict[int, int]] = {}

    def __contains__(self, value: Value) -> bool:
        return value in self._axes_by_value

    # --- from one iteration to the next -----------------------------------------------------------

    def allocate(self, value: Value) -> None:
        """Reserve a growable buffer for a carried array, and memory for its extents that change."""
        self._buffer_numbers[value] = self._writer.function_memory.add_growable_buffer()
        self._extent_pointers[value] = {
            axis: self._writer.scalar_code.allocate_local("i64")
            for axis in self._axes_by_value[value]
        }

    def assign(self, value: Value, other: Value, pointer: str) -> None:
        """Emit a copy of the array `other`, with its extents, to a carried array.

        The array must not be in a buffer of a carried value.
        """
        writer, assigned_extents = self._writer, self._writer.value_extents.of(other)
        for axis, extent_pointer in self._extent_pointers[value].items():
            writer.scalar_code.line(f"store i64 {assigned_extents[axis]}, ptr {extent_pointer}")
        buffer_number = self._buffer_numbers[value]
        buffer_pointer = writer.function_memory.grow(
            buffer_number, (*assigned_extents, ITEM_BYTES[value.dtype])
        )
        buffer_pointer = writer.bounds.register_array(
            buffer_pointer, value, assigned_extents, buffer_number
        )
        writer.copy(buffer_pointer, pointer, writer.value_extents.bytes(other))

    def load(self, value: Value) -> Cell:
        """Emit loads of a carried array's current extents, and return the pointer to the array."""
        writer, scalar_code = self._writer, self._writer.scalar_code
        current_extents = list(writer.value_extents.of(value))
        for axis, extent_pointer in self._extent_pointers[value].items():
            current_extents[axis] = scalar_code.emit(f"load i64, ptr {extent_pointer}")
        writer.value_extents.replace_extents(value, tuple(current_extents))
        buffer_number = self._buffer_numbers[value]
        return Cell(
            pointer=writer.bounds.register_array(
                writer.function_memory.load_address(buffer_number),
                value,
                buffer_number=buffer_number,
            )
        )

    # --- final values of the outer loop -----------------------------------------------------------

    def assign_extent_indices(self, loop: Loop, next_index: int) -> int:
        """Assign an index in the kernel's array of extents to each extent that iterations change.

        Args:
            loop: The outer loop.
            next_index: First free index.

        Returns:
            The number of assigned indices.
        """
        first_index = next_index
        for carried_value in loop.carried:
            changing_axes = self._axes_by_value.get(carried_value.body_input, [])
            if changing_axes:
                self.final_extent_indices[carried_value.final] = dict(
                    zip(
                        changing_axes,
                        range(next_index, next_index + len(changing_axes)),
                        strict=True,
                    )
                )
                next_index += len(changing_axes)
        return next_index - first_index

    def final_shape(self, value: Value, initial_shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return a carried array's final shape, with run-time extents as negative numbers.

        `LoopText.output_shapes` has the encoding.

        Args:
            value: The final value.
            initial_shape: Encoded shape of the initial value.
        """
        index_by_axis = self.final_extent_indices[value]
        return tuple(
            extent_code(index_by_axis[axis]) if axis in index_by_axis else extent
            for axis, extent in enumerate(initial_shape)
        )

    def store_extents(self, value: Value, extents: Extents) -> None:
        """Emit stores of a carried array's final extents to the kernel's array of extents."""
        scalar_code = self._writer.scalar_code
        for axis, index in self.final_extent_indices.get(value, {}).items():
            extent_pointer = scalar_code.emit(f"getelementptr i64, ptr %extents, i64 {index}")
            scalar_code.line(f"store i64 {extents[axis]}, ptr {extent_pointer}")

    def allocate_output(self, value: Value, initial_output: str) -> str:
        """Emit the allocation of the loop output for a carried array that changes shape.

        Args:
            value: The final value.
            initial_output: Pointer to the output that is used if the loop has no iterations.
        """
        scalar_code = self._writer.scalar_code
        output_pointer = scalar_code.allocate_local("ptr")
        scalar_code.line(f"store ptr {initial_output}, ptr {output_pointer}")

        def ask() -> None:
            scalar_code.line(
                f"store ptr {allocate_output(self._writer, value)}, ptr {output_pointer}"
            )

        scalar_code.branch(scalar_code.emit("icmp sgt i64 %trip, 0"), ask)
        return scalar_code.emit(f"load ptr, ptr {output_pointer}")


def find_changed_axes(
    carried: Carried, input_extents: Extents, output_extents: Extents
) -> Collection[tuple[Value, int]]:
    """Return the axes along which an iteration may change the extent of a carried array.

    Raises:
        NotNative: The number of axes changes, or the value may be a scalar in some iterations only.
    """
    if is_single(carried.body_input) and is_single(carried.body_output):
        return ()
    if (
        len(input_extents) != len(output_extents)
        or is_single(carried.body_input)
        or is_single(carried.final)
    ):
        raise NotNative("what it carries may change its shape")
    extent_pairs = zip(input_extents, output_extents, strict=True)
    return [
        (carried.body_input, k)
        for k, (enter_extent, leave_extent) in enumerate(extent_pairs)
        if enter_extent != leave_extent
    ]
