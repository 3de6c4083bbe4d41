"""One array of a Zarr store that rows are added to."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from mdf_loop.errors import InputError
from mdf_loop.ir import Array
from mdf_loop.onnx_types import dtype_name
from mdf_loop.run.labels import storable
from mdf_loop.run.recording import zarr_folder as folder

ENDLESS = 1 << 62


class Growing:
    """The array at `place`, which has this metadata and grows along the dimension `dim`.

    It is written to as if it had no end; the store does not say so.
    """

    def __init__(self, place: Path, metadata: Mapping[str, Any], dim: str) -> None:
        import zarr

        stored = folder.open_array(place, "r+")
        self.name: str = metadata.get("attributes", {}).get("long_name", place.name)
        self.axis: int = metadata["dimension_names"].index(dim)
        self.place = place
        self._front, self._own = stored.shape[: self.axis], stored.shape[self.axis + 1 :]
        self.chunk_rows = stored.chunks[self.axis]
        self.chunk_bytes = math.prod(stored.chunks) * stored.dtype.itemsize
        endless: Any = stored.metadata.update_shape((*self._front, ENDLESS, *self._own))
        config: Any = {"write_empty_chunks": True}
        self._endless = zarr.Array(zarr.AsyncArray(endless, stored.store_path, config))
        self._waiting: list[Array] = []

    # --- rows in memory -----------------------------------------------------------------------

    def fitted(self, rows: Array, count: int) -> Array:
        """A copy of rows with the dtype and the shape of those in the store.

        Raises:
            InputError: they would not be the same any more.
        """
        rows = folder.as_stored(storable(np.asarray(rows)))
        lead = self.axis + 1
        deep = (1,) * (len(self._own) - (rows.ndim - lead))
        made = np.empty((*self._front, count, *self._own), self._endless.dtype)
        try:
            deepened = rows.reshape(*rows.shape[:lead], *deep, *rows.shape[lead:])
            np.copyto(made, deepened, "same_kind")
        except (ValueError, TypeError):
            raise self._misfit(rows) from None
        if made.dtype != rows.dtype and not _same(made.astype(rows.dtype), deepened):
            raise self._misfit(rows)
        return made

    def _misfit(self, rows: Array) -> InputError:
        rest = list(rows.shape[self.axis + 1 :])
        return InputError(
            f"rows of '{self.name}' that are {dtype_name(rows)}{rest} cannot be kept exactly in a "
            f"store whose rows are {self._endless.dtype}{list(self._own)}"
        )

    def wait(self, rows: Array) -> None:
        """Keep rows until they are written."""
        self._waiting.append(rows)

    def forget(self, count: int) -> int:
        """Forget the first rows, which are written; how many bytes still wait."""
        rows = self._all()[self._at(count, None)]
        self._waiting = [rows] if rows.shape[self.axis] else []
        return rows.nbytes

    def clear(self) -> None:
        """Forget all rows that wait."""
        self._waiting = []

    def _all(self) -> Array:
        self._waiting = [np.concatenate(self._waiting, self.axis)]
        return self._waiting[0]

    def _at(self, start: int, stop: int | None) -> tuple[slice, ...]:
        return (*(slice(None),) * self.axis, slice(start, stop))

    # --- the disk -----------------------------------------------------------------------------

    def write(self, start: int, count: int) -> None:
        """Write the first `count` rows that wait from row `start` on, chunk by chunk."""
        rows, size, end = self._all(), self.chunk_rows, start + count
        edges = [start, *range(start - start % size + size, end, size), end]
        for first, last in pairwise(edges):
            part = rows[self._at(first - start, last - start)]
            self._endless[self._at(first, last)] = part

    def cut(self, length: int) -> None:
        """Remove the chunks that have no row before `length`."""
        number = -(-length // self.chunk_rows)
        while (chunk := self._chunk_file(number)).exists():
            chunk.unlink()
            number += 1

    def _chunk_file(self, number: int) -> Path:
        place = [0] * self._endless.ndim
        place[self.axis] = number
        return self.place / self._endless.metadata.encode_chunk_key(tuple(place))


def _same(made: Array, rows: Array) -> bool:
    whole = np.broadcast_to(rows, made.shape)
    return bool(np.all((made == whole) | ((made != made) & (whole != whole))))
