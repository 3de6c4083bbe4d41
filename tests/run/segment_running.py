"""Comparison of programs in segments with the same programs in one run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np

from mdf_loop.importing.opening import open_document
from mdf_loop.ir import Program, StopReason
from mdf_loop.ir.check import check
from mdf_loop.lower.builder import Options
from mdf_loop.passes.segments.loop_segment import LoopSegment
from mdf_loop.passes.segments.split_into_segments import split_into_segments
from mdf_loop.pipeline import ONNXRUNTIME, passes_of_evaluation, prepare
from mdf_loop.reading import bind, read
from mdf_loop.run.backend import PROGRAM_BACKENDS
from mdf_loop.run.control.chunks import Chunks
from mdf_loop.run.control.snapshot import Snapshot
from mdf_loop.run.control.stopping import Stopping
from mdf_loop.run.loop_stepper import LoopStepper
from mdf_loop.run.onnxruntime.session import Session
from mdf_loop.run.segments import PartialRun, SegmentedEvaluation, Segments
from tests.conftest import document_of
from tests.models.loops import loop_model
from tests.placements import STANDARD

NEWTON = loop_model(
    {"cond": True, "v_initial": "(1.0,)"},
    {"x_next": "(x + a / x) / 2", "residue": "x * x - a"},
    port_values={"a": 2.0},
    carried="x",
    recorded="residue",
    go="abs((x + a / x) / 2 - x) > 1e-12",
)
"""A loop without a trip count."""


CHAIN = """
nodes:
  A:
    input_ports: {x: {default_value: 1.5}, n: {type: int, default_value: 8}}
    functions:
      f:
        function: onnx::Loop
        args:
          M: n
          v_initial: (x,)
          body: {g: {metadata: {inputs: [i, c, v], outputs: [c, w, w]}, nodes: {s: {
            input_ports: {v: {}, i: {}}, output_ports: {w: {value: numpy.sin(v) + i}}}}}}
    output_ports: {last: {value: "f[0]"}, rows: {value: "f[1]"}}
  B:
    input_ports: {x: {}, rows: {}}
    functions:
      mean: {value: x * numpy.sum(rows)}
      f:
        function: onnx::Loop
        args:
          cond: true
          v_initial: (mean,)
          body: {g: {metadata: {inputs: [i, c, v], outputs: [go, w, w]}, nodes: {s: {
            input_ports: {v: {}}, output_ports: {w: {value: v / 2}, go: {value: abs(v) > 0.001}}}}}}
    output_ports: {last: {value: "f[0]"}, rows: {value: "f[1]"}, n: {value: f.iterations}}
  C:
    input_ports: {x: {}, rows: {}, k: {type: int}}
    output_ports: {y: {value: x + numpy.sum(rows)}, z: {value: "rows[0] + k"}, x: {value: x}}
edges:
  e1: {sender: A, receiver: B, sender_port: last, receiver_port: x}
  e2: {sender: A, receiver: B, sender_port: rows, receiver_port: rows}
  e3: {sender: A, receiver: C, sender_port: last, receiver_port: x}
  e4: {sender: B, receiver: C, sender_port: rows, receiver_port: rows}
  e5: {sender: B, receiver: C, sender_port: n, receiver_port: k}
metadata:
  outputs: [A.rows, A.last, B.rows, B.last, C.y, C.z, C.x]
"""
"""Two loops, and something computed before, between and after them."""


def opened(
    source: Any, options: Options | None = None, **inputs: Any
) -> tuple[Program, Mapping[str, Any]]:
    """Return the program of a model, prepared for a session, with its input arrays."""
    document = open_document(document_of(source) if isinstance(source, str) else source)
    options = options or Options()
    arrays = bind(document, inputs, options).arrays
    return ready(read(document, inputs, options=options)), arrays


Follower: TypeAlias = Callable[[LoopStepper, Stopping], StopReason | None]
"""Function that runs a stepper until its end or a stop, and adds each block to its rows."""


def follow_loop(stepper: LoopStepper, stopping: Stopping) -> StopReason | None:
    """Run a loop in chunks until the loop ends or is stopped, and return the reason of the stop."""
    chunks = Chunks(stepper, stopping)
    for block in chunks:
        stepper.add_block(block)
    return chunks.reason


def run_in_segments(
    segments: Segments,
    arrays: Mapping[str, Any],
    stopping: Stopping,
    follower: Follower = follow_loop,
    resume: Snapshot | None = None,
) -> PartialRun:
    """Evaluate a split program part by part, and run each loop with `follower`."""
    evaluation = SegmentedEvaluation(segments, arrays, stopping, resume)
    for stepper in evaluation.steppers():
        evaluation.reason = follower(stepper, stopping)
    return evaluation.results()


class Break(Exception):  # noqa: N818 - it ends a run, as a crash does
    """Exception that ends a run at once and carries a snapshot of the stepper."""

    def __init__(self, snapshot: Mapping[str, np.ndarray]) -> None:
        self.snapshot = snapshot


def by_chance(rng: np.random.Generator, longest: int = 5, *, breaks: bool = False) -> Follower:
    """Return a function that advances a stepper in chunks of random lengths, and repeats some chunks.

    With `breaks`, it raises `Break` after some of the chunks."""

    def follower(stepper: LoopStepper, stopping: Stopping) -> None:
        while not stepper.finished:
            length = int(rng.integers(1, longest + 1))
            if rng.random() < 0.2:
                stepper.advance(int(rng.integers(1, longest + 1)), stopping)
                stepper.undo_advance()
            before = stepper.done
            block = stepper.advance(length, stopping)
            assert 1 <= len(block.step_numbers) <= length
            assert list(block.step_numbers) == list(range(before, stepper.done))
            stepper.add_block(block)
            if breaks and rng.random() < 0.5:
                raise Break(copied(stepper.snapshot()))

    return follower


def copied(parts: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Copy the arrays, so that later changes do not affect them."""
    assert all(isinstance(part, np.ndarray) for part in parts.values())
    return {name: part.copy() for name, part in parts.items()}


def after(iterations: int, reason: StopReason = StopReason.INTERRUPTED) -> Follower:
    """Return a function that stops a stepper after `iterations` iterations of the first longer loop."""

    def follower(stepper: LoopStepper, stopping: Stopping) -> StopReason | None:
        while not stepper.finished:
            if stepper.done == iterations:
                return reason
            stepper.add_block(stepper.advance(iterations - stepper.done, stopping))
        return None

    return follower


def ready(program: Program) -> Program:
    """Apply the passes that a session of ONNX Runtime needs."""
    return prepare(program, ONNXRUNTIME, passes_of_evaluation())


def cut(program: Program, *, watch: bool = False) -> Segments | None:
    """Split a prepared program into segments and check each segment."""
    segments = split_into_segments(program, watch)
    if segments is None:
        return None
    for segment in segments:
        assert not check(segment.program), str(segment.program)
        names = [output.name for output in segment.program.outputs]
        assert len(set(names)) == len(names) > 0
    assert any(isinstance(segment, LoopSegment) for segment in segments)
    return Segments(program, segments, PROGRAM_BACKENDS["onnxruntime"], STANDARD)


def run(segments: Segments, arrays: Mapping[str, Any], follower: Follower) -> PartialRun:
    """Run the segments, and resume from the snapshot of each `Break`."""
    resume = None
    while True:
        try:
            with Stopping() as stopping:
                return run_in_segments(segments, arrays, stopping, follower, resume)
        except Break as broken:
            resume = Snapshot(broken.snapshot)


def same(program: Program, arrays: Mapping[str, Any], seed: int, *, breaks: bool = False) -> bool:
    """Return True if the program can be split, and check that all outputs have the same bits."""
    segments = cut(program)
    if segments is None:
        return False
    unbroken = Session(program, STANDARD).run(arrays)
    partial_run = run(segments, arrays, by_chance(np.random.default_rng(seed), breaks=breaks))
    assert (partial_run.stopped_by, partial_run.missing_reasons) == (None, {})
    same_outputs(partial_run.outputs, unbroken)
    return True


def same_outputs(actual: Mapping[str, Any], expected: Mapping[str, Any]) -> None:
    """Check that names, order and bits of the outputs are equal."""
    assert list(actual) == list(expected)
    for name, array in expected.items():
        same_bits(actual[name], array, name)


def same_bits(actual: Any, expected: Any, name: str = "") -> None:
    """Check that dtype, shape and bits are equal, for a sequence member by member."""
    if expected is None or isinstance(expected, list):
        assert type(actual) is type(expected), name
        for first, second in zip(actual or (), expected or (), strict=True):
            same_bits(first, second, name)
        return
    assert (actual.dtype, actual.shape) == (expected.dtype, expected.shape), name
    if expected.dtype == object:
        assert actual.tolist() == expected.tolist(), name
    else:
        assert np.ascontiguousarray(actual).tobytes() == np.ascontiguousarray(expected).tobytes(), (
            name
        )
