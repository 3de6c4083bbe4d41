"""Interfaces of a run in chunks: the stepper, its blocks of rows, and the destination of the rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, TypeAlias

from msgspec import Struct, field

from mdf_loop.ir import Array, Data
from mdf_loop.run.control.snapshot import Snapshot
from mdf_loop.run.control.stopping import Stopping
from mdf_loop.run.output_buffers import OutputBuffers

StepNumbers: TypeAlias = "range | Array"
"""Step number of each row. Steps count from 0 over the whole run."""


class Block(Struct, frozen=True):
    """Rows of some consecutive steps: `[time, ...]`, in a sweep `[members, time, ...]`.

    `watched_rows` has the floats that are checked for nan, in order of computation. `owned_names` has the names
    of rows that are already stored at their destination.
    """

    numbers: StepNumbers
    rows: Mapping[str, Array]
    watched_rows: Mapping[str, Array] = field(default_factory=dict)
    owned_names: frozenset[str] = frozenset()


class Cadence(Struct):
    """Number of steps that take half of a chunk's target duration, shared by the runs of one model.

    `first_chunk_sizes` are the bytes of the carried values and of the rows after the first chunk. The number of steps is
    valid only for runs with equal sizes.
    """

    steps: int = 1
    first_chunk_sizes: tuple[int | None, int] | None = None


class Stepper(Protocol):
    """Interface of a computation in steps: evaluations of a model, or iterations of a loop.

    Attributes:
        cadence: Cadence of earlier runs of the same model.
    """

    cadence: Cadence

    @property
    def done(self) -> int:
        """Number of completed steps."""

    @property
    def total(self) -> int | None:
        """Total number of steps, or None if a condition decides."""

    @property
    def finished(self) -> bool:
        """True if no steps remain."""

    @property
    def carried_bytes(self) -> int | None:
        """Bytes of the values that are carried into the next step, or None if no step has computed them."""

    def advance(self, max_steps: int, stopping: Stopping) -> Block:
        """Run at least one step and at most `max_steps` steps.

        Raises:
            Stopped: The computation was stopped. The state is the one before the call.
        """

    def undo_advance(self) -> None:
        """Restore the state before the last `advance`."""

    def snapshot(self) -> dict[str, Array]:
        """Return the arrays that a checkpoint needs to resume the run."""

    def restore(self, snapshot: Snapshot) -> None:
        """Restore the state of the computation from a snapshot."""


class Coordinates(Protocol):
    """Interface of the coordinates of rows: an array, or an object that NumPy converts to an array."""

    def __len__(self) -> int:
        """Return the number of rows."""

    def __array__(self, dtype: Any = None) -> Array:
        """Return the coordinates as an array."""


class RowSink(Protocol):
    """Interface of a destination of recorded rows, in memory or on disk."""

    @property
    def length(self) -> int:
        """Number of rows that the destination contains."""

    def next_buffers(self, count: int) -> OutputBuffers:
        """Return preallocated memory for the next `count` rows, if the destination has some."""

    def add(self, coordinate: Coordinates, rows: Mapping[str, Array]) -> None:
        """Append rows, with the time or the step number of each."""

    def flush(self) -> None:
        """Write all appended rows to storage."""

    def close(self) -> None:
        """Close the destination. No more rows follow."""

    def arrays(self) -> Mapping[str, Data]:
        """Return all rows by name, as arrays in memory or as lazily read arrays."""

    def snapshot(self) -> Mapping[str, Array]:
        """Return the rows, unless they are stored in a file."""

    def restore(self, snapshot: Snapshot, length: int, columns: Mapping[str, str]) -> None:
        """Restore `length` rows from a snapshot. `columns` maps each name to its dtype."""


def data_bytes(data: Data) -> int:
    """Return the bytes of an array, of all members of a sequence, or 0 for an absent value."""
    arrays = data if isinstance(data, list) else [data]
    return sum(array.nbytes for array in arrays if array is not None)
