"""Symbolic axis lengths, such as `n`, which a program reads from the shapes of its values."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from mdf_loop.ir import Shape, Value
from mdf_loop.lower.builder import ModelBuilder
from mdf_loop.ops.build_helpers import ints


class Extents:
    """Symbolic extents (axis lengths), each with a value and an axis of this extent."""

    def __init__(self, values: Iterable[Value]) -> None:
        self._axis_sources: dict[str, tuple[Value, int]] = {}
        for value in values:
            for axis, extent in enumerate(value.shape or ()):
                if isinstance(extent, str):
                    self._axis_sources.setdefault(extent, (value, axis))

    def tensor(self, b: ModelBuilder, shape: Shape) -> Value | None:
        """Return a shape as an int64 tensor, or None if a symbolic extent of it cannot be read.

        The program reads a symbolic extent from a value with this extent.
        """
        if shape is None or any(
            isinstance(extent, str) and extent not in self._axis_sources for extent in shape
        ):
            return None
        if all(isinstance(extent, int) for extent in shape):
            return b.constant(np.array(shape, np.int64).reshape(-1))
        return b.op("Concat", *(self._read_extent(b, extent) for extent in shape), axis=0)

    def _read_extent(self, b: ModelBuilder, extent: int | str) -> Value:
        """Append operations that read one extent from a value, as a tensor of one element."""
        if isinstance(extent, int):
            return ints(b, extent)
        source_value, source_axis = self._axis_sources[extent]
        return b.op("Gather", b.op("Shape", source_value), ints(b, source_axis), axis=0)
