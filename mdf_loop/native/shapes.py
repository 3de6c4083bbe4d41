"""The shapes of arrays in a loop in steps, as far as they are known when its code is written.

An extent is a number, or the register of one that is known only when the loop runs. The names in a
program's shapes tell whose extents are equal only of what the loop is given: the operator sees to it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from mdf_loop.ir import Op, Value, is_fixed
from mdf_loop.native.loop_text import extent_at
from mdf_loop.ops.native.code import BYTES, Code, Extent, Extents, NotNative
from mdf_loop.ops.native.extents import product
from mdf_loop.ops.registry import title


class ValueExtents:
    """The extents of a loop's values."""

    def __init__(self, code: Code) -> None:
        self._code = code
        self._names: Mapping[str, str] = {}
        self._places: Mapping[Extent, int] = {}
        self._known: dict[Value, Extents] = {}

    def begin(self, names: Mapping[str, str], captured: Iterable[Value]) -> None:
        """Record the inputs of a loop: extents by name, in the order of `%extents`, and values with them."""
        self._names = names
        self._places = {register: place for place, register in enumerate(names.values())}
        for value in captured:
            self._known[value] = tuple(
                extent if isinstance(extent, int) else names[extent] for extent in value.shape or ()
            )

    @property
    def given(self) -> int:
        """Number of extents that the loop is given."""
        return len(self._places)

    def of(self, value: Value) -> Extents:
        """Return the extents of a value, from its operands or from the program."""
        if value in self._known:
            return self._known[value]
        extents = (
            [self.named(extent) for extent in value.shape] if value.shape is not None else [None]
        )
        known_extents = tuple(extent for extent in extents if extent is not None)
        if len(known_extents) < len(extents):
            raise unknown(value)
        return self._known.setdefault(value, known_extents)

    def has(self, number: Extent) -> bool:
        """Return True if a number is, or may be, an extent of a value."""
        if isinstance(number, int):
            return number >= 0
        return any(number in extents for extents in self._known.values())

    def fixed(self, value: Value) -> tuple[int, ...]:
        """Return the extents of a value whose extents are all known numbers."""
        extents = self.of(value)
        if not is_fixed(extents):
            raise unknown(value)
        return extents

    def take(self, value: Value, extents: Extents) -> None:
        """Let a value have these extents; what the program says of it must agree.

        Raises:
            NotNative: whether it does is known only when the loop runs.
        """
        if is_fixed(value.shape) and is_fixed(extents):
            return
        shape = value.shape
        if shape is None or len(shape) != len(extents):
            raise unknown(value)
        if any(isinstance(s, int) and s != e for s, e in zip(shape, extents, strict=True)):
            raise unknown(value)
        if self._known.setdefault(value, extents) != extents:
            raise unknown(value)

    def have(self, value: Value, extents: Extents) -> None:
        """Let a value have these extents from here on."""
        self._known[value] = extents

    def named(self, extent: int | str) -> Extent | None:
        """Return an extent that is known at the beginning of the loop, from its name in the program, or None."""
        return extent if isinstance(extent, int) else self._names.get(extent)

    def joined(self, op: Op) -> Extents:
        """Return the shape to which the operands of an operation are broadcast."""
        shapes = [self.of(value) for value in op.inputs if value is not None]
        rank = max(map(len, shapes))
        joined_extents: list[Extent] = []
        for axis in zip(*((*[1] * (rank - len(s)), *s) for s in shapes), strict=True):
            extents = {extent for extent in axis if extent != 1}
            if len(extents) > 1:
                raise NotNative(f"it has {title(op.op_type)} of arrays that may differ in shape")
            joined_extents.append(extents.pop() if extents else 1)
        return tuple(joined_extents)

    def told(self, value: Value) -> tuple[int, ...] | None:
        """Return a shape that is known at the beginning of the loop, as in `LoopText.shapes`, or None."""
        extents = self.of(value)
        if not all(isinstance(extent, int) or extent in self._places for extent in extents):
            return None
        return tuple(e if isinstance(e, int) else extent_at(self._places[e]) for e in extents)

    def size(self, value: Value) -> Extent:
        """Return the number of elements of a value."""
        return product(self._code, self.of(value))

    def bytes(self, value: Value) -> Extent:
        """Return the number of bytes of a value."""
        return product(self._code, (*self.of(value), BYTES[value.dtype]))


def unknown(value: Value) -> NotNative:
    """Return the reason why a loop with unknown extents is standard."""
    return NotNative(f"the shape of '{value.name}' is known only when it runs")
