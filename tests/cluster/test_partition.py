"""Blocks contain each member once, in order, and complete chunks."""

from __future__ import annotations

import math

import numpy as np
import pytest

from mdf_loop.cluster.partition import Partition, boxes

SHAPES = [(1,), (7,), (3, 5), (2, 3, 4), (10, 1), (1, 9)]


@pytest.mark.parametrize("shape", SHAPES)
def test_blocks_are_consecutive_and_have_complete_chunks(shape: tuple[int, ...]) -> None:
    members = math.prod(shape)
    numbers = np.arange(members).reshape(shape)
    for chunk in range(1, members + 1):
        for block in range(1, members + 2):
            partition = Partition.of(shape, chunk, block)
            blocks = list(partition.blocks())
            ends = [0, *(each.end_member for each in blocks)]
            assert [each.first_member for each in blocks] == ends[:-1]
            assert ends[-1] == members
            assert min(each.member_count for each in blocks) > 0
            assert math.prod(partition.chunk_shape) <= chunk
            for each in blocks:
                member_boxes = [*boxes(shape, each.first_member, each.end_member)]
                rows = np.concatenate([numbers[box].ravel() for box in member_boxes])
                np.testing.assert_array_equal(rows, np.arange(each.first_member, each.end_member))
                for box in member_boxes:
                    for part, along, extent in zip(box, partition.chunk_shape, shape, strict=True):
                        assert part.start % along == 0
                        assert part.stop % along == 0 or part.stop == extent


def test_the_size_of_a_block_is_near_the_requested_size() -> None:
    partition = Partition.of((1000, 1000), 64, 10_000)
    sizes = {block.member_count for block in list(partition.blocks())[1:-1]}
    assert min(sizes) > 9000
    assert max(sizes) <= 10_240
    assert partition.block(0).member_count == 64
