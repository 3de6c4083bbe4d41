"""Rows are compared in shape only where each iteration may have another one."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from mdf_loop.emit import to_onnx
from mdf_loop.errors import RecordShapeError
from mdf_loop.ir import Carried, Program, Value
from mdf_loop.run.interpret import interpret
from mdf_loop.run.onnxruntime.session import Session
from tests.passes.sketch import Sketch
from tests.placements import STANDARD


def compares(program: Program) -> bool:
    """Whether the loop of the model tells the shapes of rows."""
    (loop,) = (node for node in to_onnx(program).graph.node if node.op_type == "Loop")
    body = onnx.helper.get_node_attr_value(loop, "body")
    return "Shape" in [node.op_type for node in body.node]


Extent = int | str


def cells(s: Sketch, outside: Extent, inside: Extent) -> tuple[Value, Carried]:
    """What a loop carries of an input's cells; where the names differ, there may be others."""
    given = s.b.new("float64", (outside,), "given")
    enter = s.body.new("float64", (inside,), "cells")
    leave = s.body.op("Add", enter, enter)
    return given, Carried(given, enter, leave, s.b.new("float64", (inside,), "cells_final"))


@pytest.mark.parametrize(
    ("outside", "inside", "expected"), [(3, 3, False), ("n", "n", False), ("n", "m", True)]
)
def test_extents_of_what_comes_from_outside_stay(
    outside: Extent, inside: Extent, expected: bool
) -> None:
    s = Sketch()
    given, carried = cells(s, outside, inside)
    loop = s.loop(s.body.op("Add", s.x, s.a), carried.leave, more=[carried])
    program = s.program(given, rows=loop.recorded[0].stack)
    assert compares(program) is expected
    arrays = {"n": np.array(2), "x0": np.zeros(2), "a": np.zeros(2), "given": np.ones(3)}
    made = Session(program, STANDARD).run(arrays)
    np.testing.assert_array_equal(made["rows"], interpret(program, arrays)["rows"])
    assert made["rows"].tolist() == [[2.0] * 3, [4.0] * 3]


def test_extents_of_the_iteration_are_compared() -> None:
    s = Sketch()
    given = s.b.new("float64", ("n",), "given")
    axis = s.b.constant(np.array([0]))
    end = s.body.op("Reshape", s.i, s.b.constant(np.array([1])))
    some = s.body.op("Slice", given, s.b.constant(np.array([0])), end, axis)
    loop = s.loop(s.body.op("Add", s.x, s.a), some)
    program = s.program(given, rows=loop.recorded[0].stack)
    assert compares(program)
    arrays = {"n": np.array(3), "x0": np.zeros(2), "a": np.zeros(2), "given": np.ones(3)}
    with pytest.raises(RecordShapeError, match=r"\[0\] at first, but \[1\] in a later iteration"):
        Session(program, STANDARD).run(arrays)
