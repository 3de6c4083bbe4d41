"""Programs with choices, and a comparison of their outputs in every engine."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import starmap
from typing import Any

import numpy as np
import onnx
import onnxruntime

from mdf_loop.build import Builder
from mdf_loop.emit import portable, to_onnx
from mdf_loop.ir import Carried, If, Input, Loop, Output, Program, Recorded, Scanned, Value, walk
from mdf_loop.ir.check import check
from mdf_loop.pipeline import ONNXRUNTIME, SIMPLIFY, prepare
from mdf_loop.run.interpret import interpret
from mdf_loop.run.onnxruntime.session import Session
from tests.placements import STANDARD

CPU = "CPUExecutionProvider"
Body = Callable[[Builder, Value, Sequence[Value]], Sequence[Value]]


def repeat(
    b: Builder,
    times: int,
    initials: Sequence[Value],
    body: Body,
    rows: int = 0,
    condition: Value | None = None,
    scanned: Sequence[tuple[Value, int, bool]] = (),
) -> tuple[list[Value], list[Value]]:
    """Append a loop over `body(b, i, values) -> values, then rows` and return final values and recordings.

    `scanned` lists arrays with a scan axis and a flag for backward scans. The body also gets their rows.
    """
    inside = b.body()
    i, go = inside.new("int64", (), "i"), inside.new("bool", (), "go")
    enters = [inside.new(v.dtype, v.shape, "enter") for v in initials]
    scanned_inputs = [
        Scanned(
            rows,
            inside.new(rows.dtype, tuple(np.delete(rows.shape, axis).tolist()), "row"),
            axis,
            back,
        )
        for rows, axis, back in scanned
    ]
    outputs = list(body(inside, i, [*enters, *(each.row for each in scanned_inputs)]))
    finals = [b.new(v.dtype, v.shape, "final") for v in initials]
    pairs = zip(initials, enters, outputs, finals, strict=False)
    stacks = [
        Recorded(row, b.new(row.dtype, (times, *(row.shape or ())), "stack"))
        for row in outputs[len(initials) : len(initials) + rows]
    ]
    trip = b.constant(np.array(times))
    carried = tuple(Carried(*pair) for pair in pairs)
    ops = tuple(inside.ops)
    parts = (carried, tuple(stacks), ops, tuple(scanned_inputs))
    loop = Loop("loop", trip, condition, i, go, condition, *parts, where="$.l")
    b.append(loop)
    return finals, [recorded.stack for recorded in stacks]


def program(b: Builder, inputs: Sequence[Value], **outputs: Value) -> Program:
    return Program(
        "p", tuple(map(Input, inputs)), tuple(b.ops), tuple(starmap(Output, outputs.items()))
    )


def choices(program: Program) -> list[If]:
    return [operation for operation in walk(program.ops) if isinstance(operation, If)]


def everywhere(program: Program, **inputs: Any) -> dict[str, np.ndarray]:
    """Return the outputs of a program, after a check that interpreter and ONNX Runtime agree on them.

    The program runs with and without passes.
    """
    assert check(program) == ()
    quiet = onnxruntime.SessionOptions()
    quiet.log_severity_level = 4
    arrays = {k: np.asarray(v) for k, v in inputs.items()}
    expected = interpret(program, arrays)
    optimised = prepare(program, SIMPLIFY)
    assert check(optimised) == ()
    agree(interpret(optimised, arrays), expected)
    prepared = prepare(program, ONNXRUNTIME)
    for candidate in (program, optimised, prepared):
        agree(Session(candidate, STANDARD).run(arrays), expected)
    saved = portable(to_onnx(prepared))
    # ONNX requires a rank for outputs.
    if all(output.value.shape is not None for output in prepared.outputs):
        onnx.checker.check_model(saved, full_check=True)
    other = onnxruntime.InferenceSession(saved.SerializeToString(), quiet, providers=[CPU])
    agree(dict(zip(expected, other.run(list(expected), arrays), strict=True)), expected)
    return expected


def agree(actual: Mapping[str, np.ndarray], expected: Mapping[str, np.ndarray]) -> None:
    assert list(actual) == list(expected)
    for name, array in expected.items():
        np.testing.assert_array_equal(actual[name], array, strict=True)
