"""Interfaces of a run in chunks: a stepper, its rows, and their destination."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, TypeAlias

from msgspec import Struct, field

from mdf_loop.ir import Array, Data
from mdf_loop.run.control.snapshot import Snapshot
from mdf_loop.run.control.stopping import Stopping
from mdf_loop.run.room import Room

Numbers: TypeAlias = "range | Array"
"""The number of the step of each row; steps count from 0 over the whole run."""


class Block(Struct, frozen=True):
    """Rows that some further steps gave: `[time, ...]`, in a sweep `[members, time, ...]`.

    `watched` are the floats that are watched for nan, in the order in which they are computed.
    `owned_names` are names of rows that are already where they are to be kept.
    """

    numbers: Numbers
    rows: Mapping[str, Array]
    watched: Mapping[str, Array] = field(default_factory=dict)
    owned_names: frozenset[str] = frozenset()


class Cadence(Struct):
    """Number of steps that take half of a chunk's time, shared by the runs of one model.

    `sizes` are those of what the first step carried on and gave, in bytes: of others it says nothing.
    """

    steps: int = 1
    sizes: tuple[int, int] | None = None


class Stepper(Protocol):
    """A computation that goes on step by step: evaluations of a model, iterations of a loop.

    Attributes:
        cadence: that of earlier runs, which this one is to know.
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
    def held(self) -> int:
        """The bytes of what is carried into the next step."""

    def advance(self, most: int, stopping: Stopping) -> Block:
        """Do at least one step, and at most so many.

        Raises:
            Stopped: it was ended from outside; all is as it was before.
        """

    def back(self) -> None:
        """Forget what the last `advance` did."""

    def snapshot(self) -> dict[str, Array]:
        """Return everything that is necessary to resume."""

    def restore(self, parts: Snapshot) -> None:
        """Go on from there."""


class Along(Protocol):
    """Interface of coordinates along rows: an array, or an object that becomes one on access."""

    def __len__(self) -> int:
        """Return the number of rows."""

    def __array__(self, dtype: Any = None) -> Array:
        """Return the array."""


class RowSink(Protocol):
    """Interface of a destination of rows."""

    @property
    def length(self) -> int:
        """Number of added rows."""

    def room(self, count: int) -> Room:
        """Return memory for the next rows before they are added, if it is known."""

    def add(self, coordinate: Along, rows: Mapping[str, Array]) -> None:
        """Add rows, and the time or the number of the step of each."""

    def flush(self) -> None:
        """Let everything that was added be safe."""

    def close(self) -> None:
        """End; nothing will be added any more."""

    def arrays(self) -> Mapping[str, Data]:
        """All rows by name, in memory or to be read when they are looked at."""

    def snapshot(self) -> Mapping[str, Array]:
        """Return the rows, if they are stored nowhere else."""

    def restore(self, parts: Snapshot, length: int, columns: Mapping[str, str]) -> None:
        """Go on after so many rows, those of a snapshot; `columns` have rows of these dtypes."""


def data_bytes(data: Data) -> int:
    """Return the bytes of an array, of the members of a sequence, or of an absent value."""
    members = data if isinstance(data, list) else [data]
    return sum(member.nbytes for member in members if member is not None)
