"""Programs are split into segments at their outermost loops; inner loops are not split."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from mdf_loop.ir import Program, Scanned, loops
from mdf_loop.lower.builder import Options
from mdf_loop.passes.segments.loop_segment import LoopSegment
from mdf_loop.passes.segments.split_into_segments import StraightSegment, split_into_segments
from mdf_loop.run.control.stopping import Stopping
from mdf_loop.run.onnxruntime.session import Session
from tests.models.loops import loop_model
from tests.passes.sketch import Sketch, text
from tests.placements import STANDARD
from tests.run.segment_running import by_chance, cut, opened, ready, run, same, same_outputs

# --- what the segments are --------------------------------------------------------------------------


def test_a_program_is_split_at_its_loop() -> None:
    s = Sketch()
    step = s.body.op("Mul", s.a, s.body.op("Cast", s.i, to=11))
    loop = s.loop(s.body.op("Add", s.x, step), s.x)
    doubled = s.b.op("Add", loop.carried[0].final, loop.carried[0].final)
    program = s.program(y=doubled, rows=loop.recorded[0].stack, n=loop.iteration_count, a=s.a)  # type: ignore[arg-type]
    segments = split_into_segments(program)
    assert segments is not None
    segment, last = segments
    assert isinstance(segment, LoopSegment)
    assert isinstance(last, StraightSegment)
    assert text(segment.program) == [
        "program(%a: float64[2], %most: int64[], %done: int64[], %x_before: float64[2])",
        "  %true: bool[] = True",
        "  loop %i < %most after %done",
        "    carry %x: float64[2] from %x_before to %Add giving %final",
        "    %Cast: float64[] = Cast(%i, to=11)",
        "    %Mul: float64[2] = Mul(%a, %Cast)",
        "    %Add: float64[2] = Add(%x, %Mul)",
        "    record %x giving %trace0: float64[t, 2]",
        "    continue if %true",
        "    last condition giving %last",
        "  output final = %final",
        "  output trace0 = %trace0",
        "  output last = %last",
    ]
    assert text(last.program) == [
        "program(%final: float64[2], %a: float64[2])",
        "  %Add_2: float64[2] = Add(%final, %final)",
        "  output a = %a",
        "  output Add_2 = %Add_2",
    ]


def test_the_condition_is_an_input_and_an_output() -> None:
    s = Sketch()
    small = s.body.op("Less", s.body.op("ReduceMax", s.x, keepdims=0), s.b.constant(9.0))
    options = {
        "condition": s.true,
        "condition_out": small,
        "iteration_count": None,
        "last_condition": None,
    }
    loop = s.loop(s.body.op("Add", s.x, s.a), **options)
    segments = split_into_segments(s.program(y=loop.carried[0].final))
    assert segments is not None
    (segment,) = segments
    assert isinstance(segment, LoopSegment)
    assert "  loop %i < %most while %condition_before" in text(segment.program)
    assert segment.first_iteration is None
    assert segment.iteration_count is not None
    assert segment.last_condition is not None
    assert [output.name for output in segment.program.outputs][-2:] == ["count", "last_condition"]


def test_a_program_without_loops_is_not_split() -> None:
    s = Sketch()
    assert split_into_segments(s.program(y=s.b.op("Neg", s.a))) is None


def test_a_loop_that_only_counts_is_not_split() -> None:
    program, arrays = opened(loop_model({"M": 3}, {"y": "1.5 * i"}, recorded="y"))
    (loop,) = loops(program)
    s = Sketch()
    assert split_into_segments(program) is not None
    assert loop.recorded
    counted = s.loop(s.body.op("Add", s.x, s.a), iteration_count=s.b.new("int64", (), "m"))
    assert split_into_segments(ready(s.program(n=counted.iteration_count))) is None  # type: ignore[arg-type]
    assert same(program, arrays, 0)


SEQUENCE = """
nodes:
  A:
    functions:
      grow:
        function: onnx::Loop
        args:
          M: 4
          v_initial: (s, x)
          body:
            b:
              metadata: {inputs: [i, c, s, x], outputs: [c, s_next, x_next]}
              nodes:
                step:
                  input_ports: {s: {}, x: {}}
                  functions:
                    more: {function: "onnx::SequenceInsert", args: {input_sequence: s, tensor: x}}
                  output_ports: {s_next: {value: more}, x_next: {value: x + 1}}
      last: {function: "onnx::SequenceAt", args: {input_sequence: "s_end", position: -1}}
      s: {function: "onnx::SequenceConstruct", args: {inputs: [x]}}
      s_end: {value: "grow[0]"}
    parameters: {x: {value: 1.5}}
    output_ports: {y: {value: last}, z: {value: "grow[1]"}}
"""


def test_a_loop_that_carries_a_sequence_is_not_split() -> None:
    program, _ = opened(SEQUENCE)
    assert loops(program)
    assert split_into_segments(program) is None


AGAIN = """
      again:
        function: onnx::Loop
        args:
          M: 3
          v_initial: (last,)
          body: {b: {metadata: {inputs: [i, c, v], outputs: [c, w]}, nodes: {t: {
            input_ports: {v: {}}, output_ports: {w: {value: v + 0.5}}}}}}
"""
CROSSING = """
      place: {function: "onnx::Cast", args: {input: "again - again", to: 7}}
      at: {function: "onnx::SequenceAt", args: {input_sequence: "s_end", position: place}}
"""


def test_a_loop_is_split_if_no_sequence_crosses_it() -> None:
    source = SEQUENCE.replace("    parameters:", AGAIN + "    parameters:")
    source = source.replace("z: {", "a: {value: again}, z: {")
    program, arrays = opened(source)
    assert len(loops(program)) == 2
    assert same(program, arrays, 0)
    segments = split_into_segments(program)
    assert segments is not None
    assert [type(segment) for segment in segments] == [StraightSegment, LoopSegment]
    crossed = source.replace("    parameters:", CROSSING + "    parameters:")
    program, arrays = opened(crossed.replace("z: {", "b: {value: at}, z: {"))
    assert float(Session(program, STANDARD).run(arrays)["A.b"]) == 1.5
    assert split_into_segments(program) is None


# --- what is watched ------------------------------------------------------------------------------


def watched(program: Program, arrays: Mapping[str, Any], most: int = 3) -> dict[str, np.ndarray]:
    """Return the watched floats of the first loop, after checking that watching changes no result."""
    segments = cut(program, watch=True)
    assert segments is not None
    chunks: list[Mapping[str, np.ndarray]] = []

    def follower(stepper: Any, stopping: Stopping) -> None:
        while not stepper.finished:
            block = stepper.advance(most, stopping)
            assert all(len(rows) == len(block.step_numbers) for rows in block.watched_rows.values())
            chunks.append(block.watched_rows)
            stepper.add_block(block)

    outputs = run(segments, arrays, follower)
    same_outputs(outputs.outputs, Session(program, STANDARD).run(arrays))
    return {name: np.concatenate([part[name] for part in chunks]) for name in chunks[0]}


def test_floats_are_watched_in_order_of_computation() -> None:
    args = {"M": 5, "v_initial": "(1.0, 2, [1.0, 2.0])"}
    body = {"y": "w * 2", "k_next": "k + 1", "x_next": "x * 0.5", "w_next": "w / x"}
    program, arrays = opened(loop_model(args, body, carried="x k w", recorded="y"))
    chunks = watched(program, arrays)
    assert list(chunks) == ["A.loop.y", "A.loop.x_next", "A.loop.w_next"]
    assert chunks["A.loop.x_next"].tolist() == [0.5**k for k in range(1, 6)]
    assert chunks["A.loop.w_next"].shape == (5, 2)


def test_a_value_of_changing_shape_is_watched_by_a_finiteness_mark() -> None:
    from tests.models.growing import CONCAT

    options = Options(shapes="dynamic")
    program, arrays = opened(CONCAT, options, n=4)
    (rows,) = watched(program, arrays).values()
    assert rows.tolist() == [0.0] * 4
    (rows,) = watched(program, {**arrays, "x": np.array([np.inf, 1.0])}).values()
    assert np.isnan(rows).all()


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_the_finiteness_mark_of_every_dtype(dtype: Any) -> None:
    from tests.models.growing import CONCAT

    x = np.array([1.0, np.finfo(dtype).max], dtype)
    program, arrays = opened(CONCAT, Options(shapes="dynamic"), n=2, x=x)
    (rows,) = watched(program, arrays).values()
    assert rows.tolist() == [0.0, 0.0]


def test_watching_changes_no_bits() -> None:
    args = {"M": 7, "cond": True, "v_initial": "(1.0,)"}
    model = loop_model(args, {"x_next": "x * 1.5"}, carried="x", recorded="", go="x < 4")
    program, arrays = opened(model)
    segments = cut(program, watch=True)
    assert segments is not None
    outputs = run(segments, arrays, by_chance(np.random.default_rng(0)))
    same_outputs(outputs.outputs, Session(program, STANDARD).run(arrays))


def test_scanned_rows_are_passed_chunk_by_chunk() -> None:
    s = Sketch()
    rows, row = s.b.new("float64", (2, 9), "rows"), s.body.new("float64", (2,), "row")
    leave = s.body.op("Add", s.x, row)
    loop = s.loop(leave, leave, scanned=(Scanned(rows, row, 1, is_backward=True),))
    (segment,) = split_into_segments(s.program(rows, trace=loop.recorded[0].stack)) or ()
    assert isinstance(segment, LoopSegment)
    assert segment.first_iteration is None
    assert segment.captured_inputs == ()
    assert text(segment.program)[2:5] == [
        "  loop %i < %most",
        "    carry %x: float64[2] from %x_before to %Add giving %final",
        "    scan %row: float64[2] of %rows_of_chunk axis 1 backward",
    ]
