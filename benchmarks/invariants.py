"""Measure loop-invariant code motion: the cost of an invariant product in a loop, in eight formulations.

    python benchmarks/invariants.py [--size 300] [--iterations 400] [--rounds 9]

Each loop runs `x = 0.5 * x + f(p, q)[0]` for a product f of the same two matrices. The compiler moves
loop-invariant operations out of the loop, so the cost must not depend on the formulation of the product.
Samples alternate. A figure is the least time of a run in milliseconds. The exit code is 1 if a formulation
takes more than 3 times as long as MatMul.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Mapping

import numpy as np
import onnxruntime

from mdf_loop.build import Builder
from mdf_loop.ir import Carried, Input, Loop, Output, Program, Value
from mdf_loop.pipeline import ONNXRUNTIME, prepare
from mdf_loop.run.device import Placement
from mdf_loop.run.onnxruntime.session import Session

STANDARD = Placement("cpu", native="off")
"""Standard ONNX Runtime operators; `native.py` measures native loops."""

Work = Callable[[Builder, Value, Value], Value]
MAX_RATIO = 3.0


def _first_row(b: Builder, product: Value) -> Value:
    return b.op("Gather", product, b.constant(np.array(0)), axis=0)


def _flat(b: Builder, value: Value) -> Value:
    return b.op("Reshape", value, b.constant(np.array([-1])))


WAYS: Mapping[str, Work] = {
    "MatMul": lambda b, p, q: b.op("MatMul", p, q),
    "Einsum": lambda b, p, q: b.op("Einsum", p, q, equation="ij,jk->ik"),
    "Gemm": lambda b, p, q: b.op("Gemm", p, q),
    "LogSoftmax": lambda b, p, q: b.op("LogSoftmax", b.op("MatMul", p, q)),
    "CumSum": lambda b, p, q: b.op("CumSum", b.op("MatMul", p, q), b.constant(np.array(1))),
    "ReduceL2": lambda b, p, q: b.op("ReduceL2", b.op("MatMul", p, q), axes=(1,), keepdims=1),
    "Gather": lambda b, p, q: b.op(
        "MatMul", b.op("Gather", p, b.constant(np.arange(9, -1, -1))), q
    ),
    "Reshape": lambda b, p, q: b.op("Transpose", b.op("MatMul", p, _square(b, _flat(b, q), q))),
}
"""Formulations of the product by name; the first is the reference."""


def _square(b: Builder, flat: Value, like: Value) -> Value:
    return b.op("Reshape", flat, b.constant(np.array(like.shape)))


def program(work: Work, size: int) -> Program:
    """Build the loop for one formulation of the product."""
    b = Builder()
    steps = b.new("int64", (), "steps")
    p, q = (b.new("float64", (size, size), name) for name in "pq")
    x0 = b.new("float64", (size,), "x0")
    body = b.body()
    i, condition = body.new("int64", (), "i"), body.new("bool", (), "on")
    x = body.new("float64", (size,), "x")
    half_value = body.op("Mul", x, body.constant(np.array(0.5)))
    next_x = body.op("Add", half_value, _first_row(body, work(body, p, q)))
    final = b.new("float64", (size,), "final")
    carried = (Carried(x0, x, next_x, final),)
    b.append(Loop("loop", steps, None, i, condition, None, carried, (), tuple(body.ops)))
    return Program("p", tuple(map(Input, (steps, p, q, x0))), tuple(b.ops), (Output("x", final),))


def least_milliseconds(size: int, iterations: int, rounds: int) -> dict[str, float]:
    """Return the least milliseconds of a run by formulation."""
    rng = np.random.default_rng(1)
    inputs = {name: rng.normal(0, size**-0.5, (size, size)) for name in "pq"}
    inputs |= {"steps": np.array(iterations), "x0": np.linspace(-1, 1, size)}
    sessions = {
        name: Session(prepare(program(work, size), ONNXRUNTIME), STANDARD)
        for name, work in WAYS.items()
    }
    samples: dict[str, list[float]] = {name: [] for name in WAYS}
    for _ in range(rounds + 1):
        for name, session in sessions.items():
            start = time.perf_counter()
            session.run(inputs)
            samples[name].append((time.perf_counter() - start) * 1e3)
    return {name: min(times[1:]) for name, times in samples.items()}


def main() -> None:
    """Print the table and exit with code 1 if a threshold is missed."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--size", type=int, default=300)
    parser.add_argument("--iterations", type=int, default=400)
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args()
    times = least_milliseconds(options.size, options.iterations, options.rounds)
    print(
        f"onnxruntime {onnxruntime.__version__}, {options.size} x {options.size}, "
        f"{options.iterations} iterations"
    )
    print("| product | ms | beside MatMul |")
    print("|---|---|---|")
    for name, milliseconds in times.items():
        print(f"| {name} | {milliseconds:.1f} | {milliseconds / times['MatMul']:.2f} |")
    slow = [
        name for name, milliseconds in times.items() if milliseconds > MAX_RATIO * times["MatMul"]
    ]
    if slow:
        sys.exit(f"more than {MAX_RATIO} times MatMul: {', '.join(slow)}")
    print("all thresholds hold")


if __name__ == "__main__":
    main()
