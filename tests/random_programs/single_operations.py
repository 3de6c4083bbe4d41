"""Comparison of single operations in machine code and in ONNX Runtime, on operands of the interpreter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mdf_loop.build import Builder
from mdf_loop.ir import Input, Loop, Output, Program, Recorded, Scanned
from mdf_loop.ir.types import dtype_name
from mdf_loop.pipeline import prepare
from mdf_loop.run.backend import PROGRAM_BACKENDS
from tests.placements import NATIVE, STANDARD
from tests.random_programs.agreement import close_by_ulps, same_bits
from tests.random_programs.amplification import ELEMENTARY, KNOWN_ERRORS, Trace, allowed_error


def one_operation(op_type: str, operands: Sequence[Any], attributes: Mapping[str, Any]) -> Program:
    """Return a loop of one iteration that applies the operation to scanned rows."""
    b = Builder()
    body = b.body()
    rows = [b.new(dtype_name(a), (1, *a.shape), f"x{k}") for k, a in enumerate(operands)]
    scanned = [Scanned(v, body.new(v.dtype, v.shape[1:], f"row{k}")) for k, v in enumerate(rows)]
    iteration, go = body.new("int64", (), "i"), body.new("bool", (), "go")
    constants = [
        body.constant(a) if a.dtype.kind == "i" and a.ndim < 2 and _says_axes(op_type, k) else s.row
        for k, (a, s) in enumerate(zip(operands, scanned, strict=True))
    ]
    result = body.op(op_type, *constants, **attributes)
    stack = b.new(result.dtype, (1, *(result.shape or ())), "stack")
    parts = ((), (Recorded(result, stack),), tuple(body.ops), tuple(scanned))
    b.append(Loop("one", b.constant(np.array(1)), None, iteration, go, None, *parts))
    return Program("p", tuple(map(Input, rows)), tuple(b.ops), (Output("y", stack),))


def _says_axes(op_type: str, position: int) -> bool:
    return position == 1 and (op_type.startswith("Reduce") or op_type == "CumSum")


def operation_differences(trace: Trace, most: int = 6) -> list[str]:
    """Return descriptions of the operations in a trace whose forms differ beyond the tolerance."""
    backend = PROGRAM_BACKENDS["onnxruntime"]
    sentences = []
    for op_type, operands, attributes, results in _distinct(trace, most):
        program = prepare(one_operation(op_type, operands, attributes), backend.pass_order)
        feeds = {f"x{k}": a[np.newaxis] for k, a in enumerate(operands)}
        feeds = {e.value.name: feeds[e.value.name] for e in program.inputs}
        for placement in (STANDARD, NATIVE):
            row = np.asarray(backend.load(program, placement).run(feeds)["y"])[0]
            if not _agree(op_type, operands, attributes, row, results[0]):
                call = f"{op_type}{[a.tolist() for a in operands]} {dict(attributes)}"
                sentences.append(f"{placement.native}: {row!r}, not {results[0]!r}: {call}"[:900])
    return sentences


def _distinct(trace: Trace, most: int) -> list[Any]:
    first_cases: dict[tuple[Any, ...], Any] = {}
    for call in trace.calls:
        op_type, operands, attributes, results = call
        if any(not isinstance(a, np.ndarray) or a.size > 100 for a in operands):
            continue
        if dtype_name(results[0]) not in ("float64", "float32"):
            continue
        key = (op_type, *(f"{a.dtype}{a.shape}" for a in operands), str(attributes))
        first_cases.setdefault(key, call)
    return list(first_cases.values())[:most]


def _agree(op_type: str, operands: Any, attributes: Any, actual: Any, expected: Any) -> bool:
    if actual.shape != expected.shape or actual.dtype != expected.dtype:
        return False
    if op_type in ELEMENTARY and op_type not in KNOWN_ERRORS:
        return close_by_ulps(actual, expected, 4)
    with np.errstate(all="ignore"):
        error = allowed_error(op_type, operands, attributes, expected)
        if error is None:
            return same_bits(actual, expected)
        difference = np.abs(actual.astype(np.float64) - expected.astype(np.float64))
        both_nan = np.isnan(actual) & np.isnan(expected)
        return bool(np.all((difference <= error) | (actual == expected) | both_nan))
