"""Compare branches that compute one side (`If`) with branches that compute both sides (`Where`).

    python benchmarks/lazy_choices.py [--iterations 20000] [--rounds 9]

A loop calculates `x = f(x) if go else x` for bodies f of growing cost. `go` is true in 0, 50 and 100 % of
the iterations. "both" always computes f and selects with `Where`. "one" computes f only in the iterations
with a true `go`, with `If`. Samples alternate. A figure is the median in microseconds per iteration.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Sequence

import numpy as np
import onnxruntime

from mdf_loop.ir import Carried, Input, Loop, Output, Program, Value
from mdf_loop.lower.builder import ModelBuilder
from mdf_loop.lower.choice import choose
from mdf_loop.passes.simplify.sink_into_branches import sink_into_branches
from mdf_loop.pipeline import ONNXRUNTIME, prepare
from mdf_loop.run.device import Placement
from mdf_loop.run.onnxruntime.session import Session

STANDARD = Placement("cpu", native="off")
"""Standard ONNX Runtime operators; `native.py` measures native loops."""

Work = Callable[[ModelBuilder, Value], Value]
Way = Callable[[ModelBuilder, Value, Work, Value], Value]


def select_with_where(b: ModelBuilder, go: Value, work: Work, x: Value) -> Value:
    """Compute both sides and select with `Where`."""
    return b.op("Where", go, work(b, x), x)


def select_with_if(b: ModelBuilder, go: Value, work: Work, x: Value) -> Value:
    """Compute only the side that the condition selects, with `If`."""
    return choose(b, go, lambda inner: [work(inner, x)], lambda inner: [x], "choice")[0]


def repeat_operation(op_type: str, times: int) -> Work:
    """Return a body of `times` operations of one kind in a row."""

    def work(b: ModelBuilder, x: Value) -> Value:
        for _ in range(times):
            x = b.op(op_type, x)
        return b.op("Mul", x, b.constant(np.array(0.5)))

    return work


def multiply_by_matrix(size: int) -> Work:
    """Return a body that multiplies by a square matrix."""
    weights = np.random.default_rng(1).normal(0, 0.5 / size**0.5, (size, size))
    return lambda b, x: b.op("MatMul", b.constant(weights), x)


def program(way: Way, work: Work, size: int) -> Program:
    """Build the loop; `every` is the number of iterations out of four in which `go` is true."""
    b = ModelBuilder()
    steps, every = b.new("int64", (), "steps"), b.new("int64", (), "every")
    x0 = b.new("float64", (size,), "x0")
    body = b.body()
    i, condition = body.new("int64", (), "i"), body.new("bool", (), "on")
    x = body.new("float64", (size,), "x")
    phase = body.op("Mod", i, body.constant(np.array(4)))
    next_x = way(body, body.op("Less", phase, every), work, x)
    final = b.new("float64", (size,), "final")
    carried = (Carried(x0, x, next_x, final),)
    b.append(Loop("loop", steps, None, i, condition, None, carried, (), tuple(body.ops)))
    return Program("p", tuple(map(Input, (steps, every, x0))), tuple(b.ops), (Output("x", final),))


def prepare_without_sinking(program: Program) -> Program:
    """Apply all passes except `sink_into_branches`, which would convert a `Where` into an `If`."""
    return prepare(
        program, tuple(apply for apply in ONNXRUNTIME if apply is not sink_into_branches)
    )


def medians(
    sessions: Sequence[Session], inputs: dict[str, np.ndarray], iterations: int, rounds: int
) -> list[float]:
    """Return the median microseconds per iteration of each session."""
    samples: list[list[float]] = [[] for _ in sessions]
    for _ in range(rounds + 1):
        for session, times in zip(sessions, samples, strict=True):
            start = time.perf_counter()
            session.run(inputs)
            times.append((time.perf_counter() - start) / iterations * 1e6)
    return [statistics.median(times[1:]) for times in samples]


CASES: dict[str, tuple[Work, int]] = {
    "1 Abs, 3": (repeat_operation("Abs", 1), 3),
    "4 Abs, 3": (repeat_operation("Abs", 4), 3),
    "8 Abs, 3": (repeat_operation("Abs", 8), 3),
    "16 Abs, 3": (repeat_operation("Abs", 16), 3),
    "1 Abs, 1000": (repeat_operation("Abs", 1), 1000),
    "4 Abs, 1000": (repeat_operation("Abs", 4), 1000),
    "1 Abs, 10000": (repeat_operation("Abs", 1), 10000),
    "1 Tanh, 100": (repeat_operation("Tanh", 1), 100),
    "1 Tanh, 1000": (repeat_operation("Tanh", 1), 1000),
    "4 Tanh, 100": (repeat_operation("Tanh", 4), 100),
    "4 Tanh, 1000": (repeat_operation("Tanh", 4), 1000),
    "MatMul 30": (multiply_by_matrix(30), 30),
    "MatMul 100": (multiply_by_matrix(100), 100),
    "MatMul 300": (multiply_by_matrix(300), 300),
}


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--iterations", type=int, default=20000)
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args()
    print(f"onnxruntime {onnxruntime.__version__}, us for each iteration")
    print(f"{'work, elements':>16} {'true':>5} {'both':>8} {'one':>8}")
    for name, (work, size) in CASES.items():
        iterations = max(200, options.iterations // max(1, size // 30))
        sessions = [
            Session(prepare_without_sinking(program(way, work, size)), STANDARD)
            for way in (select_with_where, select_with_if)
        ]
        for every in (0, 2, 4):
            inputs = {
                "steps": np.array(iterations),
                "every": np.array(every),
                "x0": np.linspace(-1, 1, size),
            }
            both_time, one_time = medians(sessions, inputs, iterations, options.rounds)
            print(f"{name:>16} {every * 25:>4}% {both_time:8.2f} {one_time:8.2f}")


if __name__ == "__main__":
    main()
