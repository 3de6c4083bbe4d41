"""The shapes of rows are compared only if iterations may have different shapes."""

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


def compares_shapes(program: Program) -> bool:
    """Return True if the body of the ONNX Loop returns the shapes of rows."""
    (loop,) = (node for node in to_onnx(program).graph.node if node.op_type == "Loop")
    body = onnx.helper.get_node_attr_value(loop, "body")
    return "Shape" in [node.op_type for node in body.node]


Extent = int | str


def cells(s: Sketch, outside: Extent, inside: Extent) -> tuple[Value, Carried]:
    """Return an input and a carried value of the loop; extents with different names may differ."""
    source = s.b.new("float64", (outside,), "source")
    enter = s.body.new("float64", (inside,), "cells")
    leave = s.body.op("Add", enter, enter)
    return source, Carried(source, enter, leave, s.b.new("float64", (inside,), "cells_final"))


@pytest.mark.parametrize(
    ("outside", "inside", "expected"), [(3, 3, False), ("n", "n", False), ("n", "m", True)]
)
def test_rows_with_extents_of_outer_values_are_not_compared(
    outside: Extent, inside: Extent, expected: bool
) -> None:
    s = Sketch()
    source, carried = cells(s, outside, inside)
    loop = s.loop(s.body.op("Add", s.x, s.a), carried.body_output, more=[carried])
    program = s.program(source, rows=loop.recorded[0].stack)
    assert compares_shapes(program) is expected
    arrays = {"n": np.array(2), "x0": np.zeros(2), "a": np.zeros(2), "source": np.ones(3)}
    session_arrays = Session(program, STANDARD).run(arrays)
    np.testing.assert_array_equal(session_arrays["rows"], interpret(program, arrays)["rows"])
    assert session_arrays["rows"].tolist() == [[2.0] * 3, [4.0] * 3]


def test_rows_whose_extent_depends_on_the_iteration_are_compared() -> None:
    s = Sketch()
    source = s.b.new("float64", ("n",), "source")
    axis = s.b.constant(np.array([0]))
    end = s.body.op("Reshape", s.i, s.b.constant(np.array([1])))
    prefix = s.body.op("Slice", source, s.b.constant(np.array([0])), end, axis)
    loop = s.loop(s.body.op("Add", s.x, s.a), prefix)
    program = s.program(source, rows=loop.recorded[0].stack)
    assert compares_shapes(program)
    arrays = {"n": np.array(3), "x0": np.zeros(2), "a": np.zeros(2), "source": np.ones(3)}
    with pytest.raises(RecordShapeError, match=r"\[0\] at first, but \[1\] in a later iteration"):
        Session(program, STANDARD).run(arrays)
