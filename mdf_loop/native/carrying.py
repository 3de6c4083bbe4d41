"""Carried arrays whose shape changes from one iteration to the next.

    for i in range(trip): x = Concat(x, a)      # x: a room, and a place for each extent that changes

Which extents change is found when the code is written: it is written as if none did, and once more
where an array leaves an iteration in another shape than it enters it (`MoreExtentsChangeError`).
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TypeAlias

from mdf_loop.ir import Carried, Loop, Value
from mdf_loop.native.loop_text import extent_at
from mdf_loop.native.stacks import RowsWriter, asked_for
from mdf_loop.ops.native.code import BYTES, Cell, Extents, NotNative, is_single

Axes: TypeAlias = frozenset[tuple[Value, int]]
"""Those along which what enters an iteration may have any extent."""


class MoreExtentsChangeError(Exception):
    """More extents change than was thought when the code was written."""

    def __init__(self, axes: Axes) -> None:
        super().__init__()
        self.axes = axes


class ChangingArrays:
    """The arrays of a loop, and of loops inside, whose shape changes.

    Attributes:
        axes: along which it does.
        finals: of what the whole loop gives the places of such extents among all that it knows, by axis.
    """

    def __init__(self, writer: RowsWriter, axes: Axes) -> None:
        self.axes = axes
        self._writer = writer
        self._axes: dict[Value, list[int]] = {}
        for value, axis in axes:
            self._axes.setdefault(value, []).append(axis)
        self._rooms: dict[Value, int] = {}
        self._places: dict[Value, dict[int, str]] = {}
        self.finals: dict[Value, dict[int, int]] = {}

    def __contains__(self, value: Value) -> bool:
        return value in self._axes

    # --- from one iteration to the next -----------------------------------------------------------

    def begin(self, value: Value) -> None:
        """Provide a room for the value that enters iterations, and memory for its extents."""
        self._rooms[value] = self._writer.space.room()
        self._places[value] = {axis: self._writer.one.place("i64") for axis in self._axes[value]}

    def put(self, value: Value, other: Value, pointer: str) -> None:
        """Let it be this array from now on; that lies in no room of what is carried."""
        writer, extents = self._writer, self._writer.shapes.of(other)
        for axis, place in self._places[value].items():
            writer.one.line(f"store i64 {extents[axis]}, ptr {place}")
        room = self._rooms[value]
        buffer = writer.space.grown(room, (*extents, BYTES[value.dtype]))
        buffer = writer.bounds.array(buffer, value, extents, room)
        writer.copy(buffer, pointer, writer.shapes.bytes(other))

    def got(self, value: Value) -> Cell:
        """Return the present array."""
        writer, code = self._writer, self._writer.one
        extents = list(writer.shapes.of(value))
        for axis, place in self._places[value].items():
            extents[axis] = code.put(f"load i64, ptr {place}")
        writer.shapes.have(value, tuple(extents))
        room = self._rooms[value]
        return Cell(pointer=writer.bounds.array(writer.space.held(room), value, room=room))

    # --- what the whole loop gives ----------------------------------------------------------------

    def tell(self, loop: Loop, first: int) -> int:
        """Give the extents of finals places, from the first one on; how many there are."""
        begun = first
        for carried in loop.carried:
            axes = self._axes.get(carried.enter, [])
            if axes:
                self.finals[carried.final] = dict(
                    zip(axes, range(first, first + len(axes)), strict=True)
                )
                first += len(axes)
        return first - begun

    def told(self, value: Value, known: tuple[int, ...]) -> tuple[int, ...]:
        """Return the shape of a final value, as in `LoopText.shapes`. `known` is the shape of the initial value."""
        places = self.finals[value]
        return tuple(extent_at(places[k]) if k in places else e for k, e in enumerate(known))

    def tell_extents(self, value: Value, extents: Extents) -> None:
        """Write down those of a final."""
        code = self._writer.one
        for axis, place in self.finals.get(value, {}).items():
            at = code.put(f"getelementptr i64, ptr %extents, i64 {place}")
            code.line(f"store i64 {extents[axis]}, ptr {at}")

    def output(self, value: Value, known: str) -> str:
        """Request the memory of a final value with its present extents, or those of `known` without iterations."""
        code = self._writer.one
        place = code.place("ptr")
        code.line(f"store ptr {known}, ptr {place}")

        def ask() -> None:
            code.line(f"store ptr {asked_for(self._writer, value)}, ptr {place}")

        code.when(code.put("icmp sgt i64 %trip, 0"), ask)
        return code.put(f"load ptr, ptr {place}")


def compare(carried: Carried, enter: Extents, leave: Extents) -> Collection[tuple[Value, int]]:
    """Return the axes along which a carried value may change its extent within an iteration.

    Raises:
        NotNative: it has other axes then, or is one number.
    """
    if is_single(carried.enter) and is_single(carried.leave):
        return ()
    if len(enter) != len(leave) or is_single(carried.enter) or is_single(carried.final):
        raise NotNative("what it carries may change its shape")
    pairs = zip(enter, leave, strict=True)
    return [(carried.enter, k) for k, (before, after) in enumerate(pairs) if before != after]
