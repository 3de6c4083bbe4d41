"""Preallocated memory into which a computation writes its rows.

The recorder of the rows owns the memory and offers it to the computation. If the computation does not use
the memory, the recorder copies the rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TypeAlias

from mdf_loop.ir import Array

Room: TypeAlias = Mapping[str, Array]
"""Preallocated arrays with the shape and dtype of outputs, by output name."""

NO_ROOM: Room = MappingProxyType({})


def address(array: Array) -> int:
    """Return the address of an array's data, five times as fast as `array.ctypes.data`."""
    place: int = array.__array_interface__["data"][0]
    return place


def shares_memory(array: Array, room: Array | None) -> bool:
    """Return True if an array occupies the preallocated memory `room`."""
    return (
        room is not None
        and array.shape == room.shape
        and array.strides == room.strides
        and address(array) == address(room)
    )
