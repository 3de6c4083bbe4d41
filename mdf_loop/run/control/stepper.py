"""Interfaces for execution in chunks: steppers, blocks of rows, and destinations of rows."""

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
    """Recorded rows of consecutive steps: arrays `[time, ...]`, or `[members, time, ...]`.

    `watched_rows` has the floats that are checked for nan, in order of computation. `stored_names` has the names
    of rows that are already stored at their destination.
    """

    step_numbers: StepNumbers
    rows: Mapping[str, Array]
    watched_rows: Mapping[str, Array] = field(default_factory=dict)
    stored_names: frozenset[str] = frozenset()


class Cadence(Struct):
    """Number of steps that last took half of a chunk's target duration, kept for later runs.

    `first_chunk_sizes` are the bytes of the carried values and of the rows after the first chunk. The number of steps is
    valid only for runs with equal sizes.
    """

    steps: int = 1
    first_chunk_sizes: tuple[int | None, int] | None = None


class Stepper(Protocol):
    """Interface of a computation in steps: evaluations over time, or iterations of a loop.

    Attributes:
        cadence: Cadence of earlier runs of the same model.
    """

    cadence: Cadence

    @property
    def done(self) -> int:
        """Number of completed steps."""

    @property
    def total(self) -> int | None:
        """Total number of steps, or None if a condition ends the computation."""

    @property
    def finished(self) -> bool:
        """True if the computation has no further steps."""

    @property
    def carried_bytes(self) -> int | None:
        """Number of bytes of the values carried into the next step, or None if not yet computed."""

    def advance(self, max_steps: int, stopping: Stopping) -> Block:
        """Run between 1 and `max_steps` further steps, and return their recorded rows.

        Raises:
            Stopped: The computation was stopped. The state is the one before the call.
        """

    def undo_advance(self) -> None:
        """Undo the last call of `advance`."""

    def snapshot(self) -> dict[str, Array]:
        """Return the arrays that a checkpoint needs to resume the run."""

    def restore(self, snapshot: Snapshot) -> None:
        """Restore the state of the computation from a checkpoint."""


class Coordinates(Protocol):
    """Interface of the times or step numbers of rows: an array, or convertible to an array."""

    def __len__(self) -> int:
        """Return the number of coordinates, one for each row."""

    def __array__(self, dtype: Any = None) -> Array:
        """Return the coordinates as a NumPy array."""


class RowSink(Protocol):
    """Interface of a destination of recorded rows, in memory or on disk."""

    @property
    def length(self) -> int:
        """Number of rows that the sink contains."""

    def next_buffers(self, count: int) -> OutputBuffers:
        """Return preallocated buffers for the next `count` rows, by output name.

        Outputs without preallocated memory are missing.
        """

    def add(self, coordinate: Coordinates, rows: Mapping[str, Array]) -> None:
        """Append rows to the destination, with the time or step number of each row."""

    def flush(self) -> None:
        """Write all appended rows to storage (such as the disk)."""

    def close(self) -> None:
        """Finish recording: write all rows, and free unused memory or reserved disk space."""

    def arrays(self) -> Mapping[str, Data]:
        """Return all rows by name, as NumPy arrays or as arrays that are read lazily."""

    def snapshot(self) -> Mapping[str, Array]:
        """Return the arrays that a checkpoint needs to restore the recorded rows, by name."""

    def restore(self, snapshot: Snapshot, length: int, columns: Mapping[str, str]) -> None:
        """Restore `length` rows from a checkpoint.

        `columns` maps each name to its dtype.
        """


def data_bytes(data: Data) -> int:
    """Return the number of bytes of an array, a sequence of arrays, or an absent value (0)."""
    arrays = data if isinstance(data, list) else [data]
    return sum(array.nbytes for array in arrays if array is not None)
