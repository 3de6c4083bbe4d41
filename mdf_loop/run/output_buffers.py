"""Preallocated memory into which a computation may write its outputs.

The recorder of the rows owns the memory and offers it to the computation. If the computation does not use
the memory, the recorder copies the rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TypeAlias

from mdf_loop.ir import Array

OutputBuffers: TypeAlias = Mapping[str, Array]
"""Preallocated arrays with the shape and dtype of outputs, by output name."""

NO_BUFFERS: OutputBuffers = MappingProxyType({})


def address(array: Array) -> int:
    """Return the memory address of an array, faster than `array.ctypes.data`."""
    data_address: int = array.__array_interface__["data"][0]
    return data_address


def shares_memory(array: Array, buffer: Array | None) -> bool:
    """Return True if an array occupies exactly the memory of `buffer`."""
    return (
        buffer is not None
        and array.shape == buffer.shape
        and array.strides == buffer.strides
        and address(array) == address(buffer)
    )
