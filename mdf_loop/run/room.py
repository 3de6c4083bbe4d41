"""Preallocated memory into which a computation writes its rows.

Whoever keeps rows has the room, whoever computes them is given it and may leave it alone: then they
are copied when they are kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TypeAlias

from mdf_loop.ir import Array

Room: TypeAlias = Mapping[str, Array]
"""Arrays of the very shape and dtype of outputs, by their names; not all need have one."""

NO_ROOM: Room = MappingProxyType({})


def address(array: Array) -> int:
    """Return the address of an array, five times as fast as `array.ctypes.data`."""
    place: int = array.__array_interface__["data"][0]
    return place


def is_in(array: Array, room: Array | None) -> bool:
    """Return True if an array lies in preallocated memory."""
    return (
        room is not None
        and array.shape == room.shape
        and array.strides == room.strides
        and address(array) == address(room)
    )
