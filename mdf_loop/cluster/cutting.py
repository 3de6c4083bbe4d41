"""Members cut into chunks and blocks: runs of members that follow one another.

    Cut.of((100, 100), chunk=40, block=1000)      chunks of 40, 40, 20 in each row of a grid
                                                  blocks: the first chunk, then 75 chunks each

A member is one place along all axes in front: of a sweep or a grid, then of trials; the last axis
changes fastest. A chunk is a box of them, of one axis cut, so that a store can have such chunks. The
first block is one chunk, which tells how fast the others are.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from msgspec import Struct


class MemberBlock(Struct, frozen=True):
    """Members from `first` to before `last`; `number` tells it apart."""

    number: int
    first: int
    last: int

    @property
    def members(self) -> int:
        """How many there are."""
        return self.last - self.first


class Cut(Struct, frozen=True):
    """How members of this `shape` are cut.

    Attributes:
        axis: the axis that chunks cut; those before it have one place in a chunk, those after it all.
        along: how many places of that axis a chunk has.
        chunks: how many chunks are in a block.
    """

    shape: tuple[int, ...]
    axis: int
    along: int
    chunks: int

    @classmethod
    def of(cls, shape: tuple[int, ...], chunk: int, block: int) -> Cut:
        """Chunks of at most so many members, and blocks of about so many."""
        axis, inner = len(shape) - 1, 1
        while axis > 0 and inner * shape[axis] <= chunk:
            inner *= shape[axis]
            axis -= 1
        along = max(1, min(shape[axis], chunk // inner))
        return cls(shape, axis, along, max(1, block // (along * inner)))

    @property
    def members(self) -> int:
        """How many there are in all."""
        return math.prod(self.shape)

    @property
    def chunk(self) -> tuple[int, ...]:
        """The shape of a chunk."""
        return (*(1,) * self.axis, self.along, *self.shape[self.axis + 1 :])

    @property
    def count(self) -> int:
        """How many blocks there are."""
        return 1 + math.ceil((self._all_chunks - 1) / self.chunks)

    @property
    def _in_a_row(self) -> int:
        return math.ceil(self.shape[self.axis] / self.along)

    @property
    def _all_chunks(self) -> int:
        return math.prod(self.shape[: self.axis]) * self._in_a_row

    def _begin(self, chunk: int) -> int:
        """The first member of a chunk."""
        row, part = divmod(min(chunk, self._all_chunks), self._in_a_row)
        inner = math.prod(self.shape[self.axis + 1 :])
        return (row * self.shape[self.axis] + part * self.along) * inner

    def block(self, number: int) -> MemberBlock:
        """A block by its number."""
        first = 0 if number == 0 else 1 + (number - 1) * self.chunks
        last = 1 + number * self.chunks
        return MemberBlock(number, self._begin(first), self._begin(last))

    def blocks(self) -> Iterator[MemberBlock]:
        """All of them, in order."""
        return map(self.block, range(self.count))


Box = tuple[slice, ...]


def boxes(shape: tuple[int, ...], first: int, last: int) -> Iterator[Box]:
    """Members from `first` to before `last` as boxes of places along axes, in order."""
    if first >= last:
        return
    if len(shape) == 1:
        yield (slice(first, last),)
        return
    inner = math.prod(shape[1:])
    begin, end = -(-first // inner), last // inner  # whole rows
    if begin > end:  # within one row
        yield from _within(shape, first // inner, first % inner, last % inner)
        return
    if first % inner:
        yield from _within(shape, first // inner, first % inner, inner)
    if begin < end:
        yield (slice(begin, end), *(slice(0, extent) for extent in shape[1:]))
    yield from _within(shape, end, 0, last % inner)


def _within(shape: tuple[int, ...], row: int, first: int, last: int) -> Iterator[Box]:
    for box in boxes(shape[1:], first, last):
        yield (slice(row, row + 1), *box)


def member_of(shape: tuple[int, ...], box: Box) -> int:
    """The first member of a box."""
    return int(np.ravel_multi_index([part.start for part in box], shape))
