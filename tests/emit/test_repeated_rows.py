"""Recorded rows that are equal in all iterations of a counted loop are stacked after the loop."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from mdf_loop.emit import to_onnx
from mdf_loop.ir import Program
from mdf_loop.pipeline import ONNXRUNTIME, prepare
from mdf_loop.run.interpret import interpret
from mdf_loop.run.onnxruntime.session import Session
from tests.passes.sketch import Sketch
from tests.placements import STANDARD


def count_loop_records(program: Program) -> int:
    """Return the number of outputs that the ONNX Loop of the program records."""
    (loop,) = (node for node in to_onnx(program).graph.node if node.op_type == "Loop")
    body = onnx.helper.get_node_attr_value(loop, "body")
    return len(body.output) - (len(body.input) - 1)


@pytest.mark.parametrize("n", [-1, 0, 1, 4])
def test_a_repeated_row_is_stacked_once_per_iteration(n: int) -> None:
    s = Sketch()
    number = s.b.constant(np.array(7))
    loop = s.loop(s.body.op("Add", s.x, s.a), s.a, number, s.x)
    program = s.program(**{f"r{k}": recorded.stack for k, recorded in enumerate(loop.recorded)})
    assert count_loop_records(prepare(program, ONNXRUNTIME)) == 1
    arrays = {"n": np.array(n), "x0": np.zeros(2), "a": np.array([1.5, -0.0])}
    session_arrays = Session(prepare(program, ONNXRUNTIME), STANDARD).run(arrays)
    for name, array in interpret(program, arrays).items():
        assert (session_arrays[name].dtype, session_arrays[name].shape) == (
            array.dtype,
            array.shape,
        )
        assert session_arrays[name].tobytes() == array.tobytes()


def test_a_loop_that_only_records_repeated_rows_is_removed() -> None:
    s = Sketch()
    loop = s.loop(s.body.op("Add", s.x, s.a), s.a)
    program = prepare(s.program(rows=loop.recorded[0].stack), ONNXRUNTIME)
    assert "Loop" not in [node.op_type for node in to_onnx(program).graph.node]
    session_arrays = Session(program, STANDARD).run(
        {"n": np.array(3), "a": np.array([1.5, 2.0]), "x0": np.ones(2)}
    )
    assert session_arrays["rows"].tolist() == [[1.5, 2.0]] * 3


def test_the_loop_records_rows_that_the_body_computes() -> None:
    s = Sketch()
    leave = s.body.op("Add", s.x, s.a)
    loop = s.loop(leave, s.x, leave, s.i)
    program = s.program(**{f"r{k}": r.stack for k, r in enumerate(loop.recorded)})
    assert count_loop_records(program) == 3


def test_a_loop_that_may_stop_early_records_repeated_rows() -> None:
    s = Sketch()
    loop = s.loop(s.body.op("Add", s.x, s.a), s.a, condition=s.true, condition_out=s.go_in)
    assert count_loop_records(s.program(rows=loop.recorded[0].stack)) == 1
