"""Extents of all arrays in a loop, as known numbers or as LLVM registers.

An extent is a number, or the register of a number that is known only at run time. Equal names of extents in a
program imply equal extents only for the inputs of the loop, for which the operator checks it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from mdf_loop.ir import Op, Value, is_fixed
from mdf_loop.native.loop_text import extent_code
from mdf_loop.ops.native.code import ITEM_BYTES, Code, Extent, Extents, NotNative
from mdf_loop.ops.native.extents import product
from mdf_loop.ops.registry import qualified_name


class ValueExtents:
    """Extents of all arrays in a loop, as known numbers or as LLVM registers."""

    def __init__(self, code: Code) -> None:
        self._scalar_code = code
        self._registers_by_name: Mapping[str, str] = {}
        self._index_by_extent: Mapping[Extent, int] = {}
        self._extents_by_value: dict[Value, Extents] = {}

    def set_inputs(self, names: Mapping[str, str], captured: Iterable[Value]) -> None:
        """Record the extents of the loop's inputs.

        Args:
            names: Registers of extents by name, in the order of `%extents`.
            captured: Input values.
        """
        self._registers_by_name = names
        self._index_by_extent = {register: index for index, register in enumerate(names.values())}
        for value in captured:
            self._extents_by_value[value] = tuple(
                extent if isinstance(extent, int) else names[extent] for extent in value.shape or ()
            )

    @property
    def input_extent_count(self) -> int:
        """Number of distinct extents of the loop's inputs that are known only at run time."""
        return len(self._index_by_extent)

    def of(self, value: Value) -> Extents:
        """Return the extents of an array, each as a number or an LLVM register.

        Raises:
            NotNative: An extent is neither recorded nor known before the loop.
        """
        if value in self._extents_by_value:
            return self._extents_by_value[value]
        resolved_extents = (
            [self.resolve_extent(extent) for extent in value.shape]
            if value.shape is not None
            else [None]
        )
        known_extents = tuple(extent for extent in resolved_extents if extent is not None)
        if len(known_extents) < len(resolved_extents):
            raise unknown_shape(value)
        return self._extents_by_value.setdefault(value, known_extents)

    def is_extent(self, number: Extent) -> bool:
        """Return True if a number is a nonnegative constant, or the register of an array extent."""
        if isinstance(number, int):
            return number >= 0
        return any(number in extents for extents in self._extents_by_value.values())

    def fixed_extents(self, value: Value) -> tuple[int, ...]:
        """Return the extents of an array, or raise NotNative if an extent is not constant.

        Raises:
            NotNative: An extent is known only at run time.
        """
        value_extents = self.of(value)
        if not is_fixed(value_extents):
            raise unknown_shape(value)
        return value_extents

    def record_extents(self, value: Value, extents: Extents) -> None:
        """Record the extents of an array, which must agree with its declared shape.

        Raises:
            NotNative: The agreement is known only at run time.
        """
        if is_fixed(value.shape) and is_fixed(extents):
            return
        stated_shape = value.shape
        if stated_shape is None or len(stated_shape) != len(extents):
            raise unknown_shape(value)
        if any(
            isinstance(stated_extent, int) and stated_extent != extent
            for stated_extent, extent in zip(stated_shape, extents, strict=True)
        ):
            raise unknown_shape(value)
        if self._extents_by_value.setdefault(value, extents) != extents:
            raise unknown_shape(value)

    def replace_extents(self, value: Value, extents: Extents) -> None:
        """Replace the recorded extents of an array for all code emitted afterwards."""
        self._extents_by_value[value] = extents

    def resolve_extent(self, extent: int | str) -> Extent | None:
        """Return a constant extent, or the register of a named extent (None for unknown names)."""
        return extent if isinstance(extent, int) else self._registers_by_name.get(extent)

    def broadcast_shape(self, op: Op) -> Extents:
        """Return the common shape to which the operands of an operation are broadcast."""
        operand_shapes = [self.of(value) for value in op.inputs if value is not None]
        output_rank = max(map(len, operand_shapes))
        output_extents: list[Extent] = []
        for axis_extents in zip(
            *((*[1] * (output_rank - len(shape)), *shape) for shape in operand_shapes), strict=True
        ):
            distinct_extents = {extent for extent in axis_extents if extent != 1}
            if len(distinct_extents) > 1:
                raise NotNative(
                    f"it has {qualified_name(op.op_type)} of arrays that may differ in shape"
                )
            output_extents.append(distinct_extents.pop() if distinct_extents else 1)
        return tuple(output_extents)

    def encoded_shape(self, value: Value) -> tuple[int, ...] | None:
        """Return the shape of an array, with run-time extents encoded as negative numbers.

        Return None if the shape is unknown before the loop. `LoopText.output_shapes` has the encoding.
        """
        value_extents = self.of(value)
        if not all(
            isinstance(extent, int) or extent in self._index_by_extent for extent in value_extents
        ):
            return None
        return tuple(
            extent if isinstance(extent, int) else extent_code(self._index_by_extent[extent])
            for extent in value_extents
        )

    def size(self, value: Value) -> Extent:
        """Return the number of elements of an array, as a number or an LLVM register."""
        return product(self._scalar_code, self.of(value))

    def bytes(self, value: Value) -> Extent:
        """Return the number of bytes of an array, as a number or an LLVM register."""
        return product(self._scalar_code, (*self.of(value), ITEM_BYTES[value.dtype]))


def unknown_shape(value: Value) -> NotNative:
    """Return the NotNative exception for a value whose shape is unknown before the run."""
    return NotNative(f"the shape of '{value.name}' is known only when it runs")
