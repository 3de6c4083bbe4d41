"""Programs of one operation, and their results on ONNX Runtime."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnxruntime

from mdf_loop.build import Builder
from mdf_loop.emit import to_onnx
from mdf_loop.ir import Carried, Input, Loop, Output, Program, Recorded
from mdf_loop.ir.types import dtype_name
from mdf_loop.pipeline import LEGAL, prepare

Arrays = Sequence[np.ndarray | None]


def program_of(
    op_type: str,
    arrays: Arrays,
    output_count: int = 1,
    *,
    shapes: Sequence[Any] | None = None,
    constant: Sequence[int] = (),
    **attributes: Any,
) -> Program:
    """Return the program `y0, y1 ... = op_type(x0, x1, ...)`.

    `shapes` replace those of the arrays. Inputs at the positions `constant` are constants.
    """
    b = Builder()
    inputs = [
        None
        if a is None
        else b.constant(a)
        if k in constant
        else b.new(dtype_name(a), a.shape if shapes is None else shapes[k], f"x{k}")
        for k, a in enumerate(arrays)
    ]
    with b.at("$.here", "op"):
        results = b.multi(op_type, *inputs, output_count=output_count, **attributes)
    variables = [v for k, v in enumerate(inputs) if v is not None and k not in constant]
    outputs = tuple(Output(f"y{k}", v) for k, v in enumerate(results))
    return Program("p", tuple(map(Input, variables)), tuple(b.ops), outputs)


def in_a_loop(op_type: str, array: np.ndarray, **attributes: Any) -> Program:
    """Return the program `x = x0; 2 times: x = x / 2 + op_type(x) / 4; record op_type(x)`."""
    b = Builder()
    x0 = b.new(str(array.dtype), array.shape, "x0")
    body = b.body()
    x = body.new(x0.dtype, x0.shape, "x")
    with body.at("$.here", "op"):
        y = body.op(op_type, x, **attributes)
        half, quarter = (body.constant(np.array(f, x.dtype)) for f in (0.5, 0.25))
        step = body.op("Add", body.op("Mul", x, half), body.op("Mul", y, quarter))
    i, go = b.new("int64", (), "i"), b.new("bool", (), "go")
    last = b.new(x0.dtype, x0.shape, "last")
    stack = b.new(x0.dtype, (2, *array.shape), "ys")
    carried, recorded = (Carried(x0, x, step, last),), (Recorded(y, stack),)
    trip = b.constant(np.array(2))
    b.append(Loop("loop", trip, None, i, go, None, carried, recorded, tuple(body.ops)))
    return Program("p", (Input(x0),), tuple(b.ops), (Output("y0", stack),))


def session_of(program: Program) -> onnxruntime.InferenceSession:
    """Return a session with exact optimizations only; higher levels fuse 0.1 * (a @ b) in float32."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(
        to_onnx(program).SerializeToString(), options, providers=["CPUExecutionProvider"]
    )


def run(program: Program, arrays: Arrays, *, inferred: bool = True) -> list[np.ndarray]:
    """Run a program on ONNX Runtime and check the declared dtypes and (if `inferred`) shapes."""
    input_names = {entry.value.name for entry in program.inputs}
    feeds = {f"x{k}": np.asarray(a) for k, a in enumerate(arrays) if f"x{k}" in input_names}
    actual = session_of(program).run(None, feeds)
    for array, output in zip(actual, program.outputs, strict=True):
        value = output.value
        assert dtype_name(array) == value.dtype
        if value.shape is not None and inferred:
            assert len(array.shape) == len(value.shape)
            pairs = zip(array.shape, value.shape, strict=True)
            assert all(n == dim for n, dim in pairs if isinstance(dim, int))
    return actual


def legal_run(
    op_type: str, arrays: Arrays, output_count: int = 1, *, inferred: bool = True, **rest: Any
) -> list[np.ndarray]:
    """Run an operation on ONNX Runtime after the passes of `LEGAL`."""
    program = prepare(program_of(op_type, arrays, output_count, **rest), LEGAL)
    return run(program, arrays, inferred=inferred)


def float32_run(
    op_type: str, arrays: Arrays, output_count: int = 1, **rest: Any
) -> list[np.ndarray]:
    """Run an operation by ONNX Runtime's own float32 kernel."""
    float32_values = [
        a.astype(np.float32) if a is not None and a.dtype == float else a for a in arrays
    ]
    return run(
        program_of(op_type, float32_values, output_count, **rest), float32_values, inferred=False
    )


def only_op(program: Program, op_type: str) -> Any:
    """Return the only operation of a type in the program."""
    (match,) = (op for op in program.ops if getattr(op, "op_type", "") == op_type)
    return match
