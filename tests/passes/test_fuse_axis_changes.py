"""Consecutive insertions and removals of axes become one operation."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from mdf_loop.build import Builder
from mdf_loop.ir import Value
from mdf_loop.ops.build_helpers import ints
from mdf_loop.passes.simplify.eliminate_dead_code import eliminate_dead_code
from mdf_loop.passes.simplify.fuse_axis_changes import fuse_axis_changes
from tests.passes.sketch import same_bits, straight, text


def _chain(b: Builder, source: Value, op_type: str, *axes: tuple[int, ...]) -> Value:
    for each in axes:
        source = b.op(op_type, source, ints(b, *each))
    return source


def test_consecutive_axis_changes_are_fused() -> None:
    b = Builder()
    v = b.new("float64", (3,), "v")
    program = straight(b, (v,), y=_chain(b, v, "Unsqueeze", (0,), (0,), (-1,)))
    assert text(eliminate_dead_code(fuse_axis_changes(program)))[1:] == [
        "  %Unsqueeze_3_2: int64[3] = [0, 1, 3]",
        "  %Unsqueeze_3: float64[1, 1, 3, 1] = Unsqueeze(%v, %Unsqueeze_3_2)",
        "  output y = %Unsqueeze_3",
    ]


INSERTIONS = [
    (first, second)
    for count in (1, 2)
    for first in itertools.permutations(range(-2 - count, 2 + count), count)
    for second in [(0,), (-1,), (1, 0), (0, 2), (3,), (-2, 0)]
    if len({axis % (2 + count) for axis in first}) == count
]


@pytest.mark.parametrize(("first", "second"), INSERTIONS)
def test_fused_insertions_of_axes(first: tuple[int, ...], second: tuple[int, ...]) -> None:
    b = Builder()
    v = b.new("float64", (2, 3), "v")
    program = straight(b, (v,), y=_chain(b, v, "Unsqueeze", first, second))
    same_bits(fuse_axis_changes, program, v=np.arange(6.0).reshape(2, 3))
    assert str(text(eliminate_dead_code(fuse_axis_changes(program)))).count("= Unsqueeze(") == 1


EXTENTS = (1, 2, 1, 1, 3, 1)
REMOVALS = [
    (first, second)
    for first in [(0,), (2,), (-1,), (0, 3), (5, 2), (-4,)]
    for second in [(0,), (2,), (-1,)]
    if np.delete(EXTENTS, first)[second[0]] == 1
]


@pytest.mark.parametrize(("first", "second"), REMOVALS)
def test_fused_removals_of_axes(first: tuple[int, ...], second: tuple[int, ...]) -> None:
    b = Builder()
    v = b.new("float64", EXTENTS, "v")
    program = straight(b, (v,), y=_chain(b, v, "Squeeze", first, second))
    same_bits(fuse_axis_changes, program, v=np.arange(6.0).reshape(EXTENTS))
    assert str(text(eliminate_dead_code(fuse_axis_changes(program)))).count("= Squeeze(") == 1


def test_other_chains_are_unchanged() -> None:
    b = Builder()
    v = b.new("float64", (3,), "v")
    unknown = b.new("int64", (1,), "axes")
    there_and_back = _chain(b, _chain(b, v, "Unsqueeze", (0,)), "Squeeze", (0,))
    inserted = b.op("Unsqueeze", _chain(b, v, "Unsqueeze", (0,)), unknown)
    program = straight(b, (v, unknown), y=there_and_back, z=inserted)
    assert fuse_axis_changes(program) is program
