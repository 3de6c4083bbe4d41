"""Division of sweep members into chunks, and of chunks into blocks of consecutive members.

    Partition.of((100, 100), chunk=40, block=1000)      chunks of 40, 40, 20 in each row of a grid
                                                        blocks: the first chunk, then 75 chunks each

Members are numbered along all leading axes: those of a sweep or a grid, then trials. The last axis changes
fastest. A chunk is a box of members that divides one axis, so a store can have the same chunks. The first
block is one chunk, whose duration predicts the duration of the others.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from msgspec import Struct


class MemberBlock(Struct, frozen=True):
    """Block of consecutive members of a sweep, from `first_member` to `end_member` - 1."""

    block_number: int
    first_member: int
    end_member: int

    @property
    def member_count(self) -> int:
        """Number of members in the block."""
        return self.end_member - self.first_member


class Partition(Struct, frozen=True):
    """Division of the members of a sweep into chunks, and of the chunks into blocks.

    Attributes:
        shape: Number of members along each axis.
        chunk_axis: Axis that is divided into chunks. A chunk has one index of earlier axes, and all of later axes.
        chunk_extent: Number of indices of `chunk_axis` in a chunk.
        chunks_per_block: Number of chunks in a block.
    """

    shape: tuple[int, ...]
    chunk_axis: int
    chunk_extent: int
    chunks_per_block: int

    @classmethod
    def of(cls, shape: tuple[int, ...], chunk: int, block: int) -> Partition:
        """Divide members into chunks of at most `chunk`, and into blocks of about `block` members."""
        chunk_axis, members_per_index = len(shape) - 1, 1
        while chunk_axis > 0 and members_per_index * shape[chunk_axis] <= chunk:
            members_per_index *= shape[chunk_axis]
            chunk_axis -= 1
        chunk_extent = max(1, min(shape[chunk_axis], chunk // members_per_index))
        return cls(
            shape, chunk_axis, chunk_extent, max(1, block // (chunk_extent * members_per_index))
        )

    @property
    def member_count(self) -> int:
        """Number of members in all blocks."""
        return math.prod(self.shape)

    @property
    def chunk_shape(self) -> tuple[int, ...]:
        """Number of members in a chunk along each axis."""
        return (*(1,) * self.chunk_axis, self.chunk_extent, *self.shape[self.chunk_axis + 1 :])

    @property
    def block_count(self) -> int:
        """Number of blocks."""
        return 1 + math.ceil((self._chunk_count - 1) / self.chunks_per_block)

    @property
    def _chunks_per_row(self) -> int:
        return math.ceil(self.shape[self.chunk_axis] / self.chunk_extent)

    @property
    def _chunk_count(self) -> int:
        return math.prod(self.shape[: self.chunk_axis]) * self._chunks_per_row

    def _first_member(self, chunk: int) -> int:
        """Return the number of the first member in a chunk."""
        row_number, chunk_in_row = divmod(min(chunk, self._chunk_count), self._chunks_per_row)
        members_per_index = math.prod(self.shape[self.chunk_axis + 1 :])
        return (
            row_number * self.shape[self.chunk_axis] + chunk_in_row * self.chunk_extent
        ) * members_per_index

    def block(self, number: int) -> MemberBlock:
        """Return the block of members with a given number."""
        first_chunk = 0 if number == 0 else 1 + (number - 1) * self.chunks_per_block
        end_chunk = 1 + number * self.chunks_per_block
        return MemberBlock(number, self._first_member(first_chunk), self._first_member(end_chunk))

    def blocks(self) -> Iterator[MemberBlock]:
        """Return an iterator over all blocks of members, in order."""
        return map(self.block, range(self.block_count))


Box = tuple[slice, ...]


def boxes(shape: tuple[int, ...], first: int, last: int) -> Iterator[Box]:
    """Divide the members `first` to `last` - 1 into boxes (one slice per axis), in order."""
    if first >= last:
        return
    if len(shape) == 1:
        yield (slice(first, last),)
        return
    members_per_row = math.prod(shape[1:])
    first_row, end_row = -(-first // members_per_row), last // members_per_row  # complete rows
    if first_row > end_row:  # within one row
        yield from _boxes_in_row(
            shape, first // members_per_row, first % members_per_row, last % members_per_row
        )
        return
    if first % members_per_row:
        yield from _boxes_in_row(
            shape, first // members_per_row, first % members_per_row, members_per_row
        )
    if first_row < end_row:
        yield (slice(first_row, end_row), *(slice(0, extent) for extent in shape[1:]))
    yield from _boxes_in_row(shape, end_row, 0, last % members_per_row)


def _boxes_in_row(shape: tuple[int, ...], row: int, first: int, last: int) -> Iterator[Box]:
    """Divide members with one index along the first axis into boxes (one slice per axis)."""
    for box in boxes(shape[1:], first, last):
        yield (slice(row, row + 1), *box)


def first_member_of(shape: tuple[int, ...], box: Box) -> int:
    """Return the number of the first member in a box (one slice per axis)."""
    return int(np.ravel_multi_index([axis_slice.start for axis_slice in box], shape))
