"""Random programs that can be differentiated: choices and loops in each other, on three numbers.

By a seed, not by hypothesis: central differences know nothing near kinks, so examples are not searched.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from mdf_loop.ir import Loop, Program, Value
from mdf_loop.lower.builder import ModelBuilder
from mdf_loop.lower.choice import choose
from mdf_loop.ops.words import cast
from tests.models.choices import program, repeat

GIVEN = {"x0": np.array([0.5, -1.0, 2.0]), "x1": np.array([1.5, 0.25, -0.75])}


class Grower:
    """Appends what a seed says. What is made stays small, so that loops do not leave all scales."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)

    def grow(self, b: ModelBuilder, around: Sequence[Value], depth: int) -> list[Value]:
        """The values that can be read, with those that a few new statements make."""
        pool = list(around)
        for _ in range(self.rng.integers(2, 5)):
            kinds = ["smooth", "pair", "pair", "product", "select", "safe"]
            kinds += ["choice", "loop", "loop", "until"] * (depth > 0)
            pool += getattr(self, self.rng.choice(kinds))(b, pool, depth)
        return pool

    def pick(self, pool: Sequence[Value]) -> Value:
        """A value; those that were made last more often."""
        return pool[-1 - min(int(self.rng.geometric(0.35)) - 1, len(pool) - 1)]

    def number(self, b: ModelBuilder, number: float) -> Value:
        return b.constant(np.array(number))

    def smooth(self, b: ModelBuilder, pool: Sequence[Value], depth: int) -> list[Value]:
        return [b.op(str(self.rng.choice(["Sin", "Tanh", "Sigmoid", "Cos"])), self.pick(pool))]

    def pair(self, b: ModelBuilder, pool: Sequence[Value], depth: int) -> list[Value]:
        word = str(self.rng.choice(["Add", "Sub", "Mul", "Max", "Min", "Div"]))
        x, y = self.pick(pool), self.pick(pool)
        if word == "Div":
            y = b.op("Add", b.op("Mul", y, y), self.number(b, 1.5))
        return [b.op("Tanh", b.op(word, x, y))]

    def product(self, b: ModelBuilder, pool: Sequence[Value], depth: int) -> list[Value]:
        matrix = b.constant(self.rng.uniform(-1, 1, (3, 3)))
        return [b.op("MatMul", self.pick(pool), matrix)]

    def select(self, b: ModelBuilder, pool: Sequence[Value], depth: int) -> list[Value]:
        x, y = self.pick(pool), self.pick(pool)
        return [b.op("Where", b.op("Less", x, y), self.pick(pool), y)]

    def safe(self, b: ModelBuilder, pool: Sequence[Value], depth: int) -> list[Value]:
        """What has no number, or no slope, on the side that is not taken."""
        x = self.pick(pool)
        word = str(self.rng.choice(["Sqrt", "Log", "Reciprocal"]))
        taken = b.op("Greater", x, self.number(b, 0.05))
        return [b.op("Where", taken, b.op("Tanh", b.op(word, x)), self.pick(pool))]

    def less(self, b: ModelBuilder, pool: Sequence[Value]) -> Value:
        x, y = (b.op("ReduceSum", self.pick(pool), keepdims=0) for _ in range(2))
        return b.op("Less", x, b.op("Add", y, self.number(b, 0.25)))

    def choice(self, b: ModelBuilder, pool: Sequence[Value], depth: int) -> list[Value]:
        def branch(b: ModelBuilder) -> list[Value]:
            inner = self.grow(b, pool, depth - 1)
            return [self.pick(inner) for _ in range(2)]

        return list(choose(b, self.less(b, pool), branch, branch, "choice"))

    def loop(self, b: ModelBuilder, pool: Sequence[Value], depth: int) -> list[Value]:
        """A number of iterations, from a first one on; rows that come and go."""
        rows = int(self.rng.integers(0, 2))
        scanned = [self.rows(b, pool) for _ in range(self.rng.integers(0, 2))]

        def body(b: ModelBuilder, i: Value, enters: Sequence[Value]) -> list[Value]:
            numbered = b.op("Mul", cast(b, i, "float64"), self.pick(enters))
            inner = self.grow(b, [*pool, *enters, b.op("Sin", numbered)], depth - 1)
            return [self.pick(inner) for _ in range(2 + rows)]

        times, initials = int(self.rng.integers(0, 4)), [self.pick(pool) for _ in range(2)]
        first = b.constant(np.array(5))
        finals, stacks = repeat(b, times, initials, body, rows, None, scanned)
        if self.rng.integers(0, 2):
            loop = b.ops.pop()
            assert isinstance(loop, Loop)
            b.append(replace(loop, first=first))
        axes = b.constant(np.array([0]))
        return finals + [b.op("ReduceSum", stack, axes, keepdims=0) for stack in stacks]

    def until(self, b: ModelBuilder, pool: Sequence[Value], depth: int) -> list[Value]:
        """As long as something is large, which gets smaller."""
        said: list[Value] = []

        def body(b: ModelBuilder, i: Value, enters: Sequence[Value]) -> list[Value]:
            half = b.op("Mul", enters[0], self.number(b, 0.5))
            size = b.op("ReduceSum", b.op("Mul", half, half), keepdims=0)
            said.append(b.op("Greater", size, self.number(b, 0.01)))
            inner = self.grow(b, [*pool, *enters, half], depth - 1)
            return [half, self.pick(inner), self.pick(inner)]

        start = b.constant(np.array(True))
        finals, stacks = repeat(b, 0, [self.pick(pool), self.pick(pool)], body, 1, start)
        loop = b.ops[-1]
        assert isinstance(loop, Loop)
        stack = replace(stacks[0], shape=(b.name("rows"), 3))
        (recorded,) = loop.recorded
        b.ops[-1] = replace(
            loop,
            trip_count=None,
            condition_out=said[0],
            recorded=(replace(recorded, stack=stack),),
        )
        return [*finals, b.op("ReduceSum", stack, b.constant(np.array([0])), keepdims=0)]

    def rows(self, b: ModelBuilder, pool: Sequence[Value]) -> tuple[Value, int, bool]:
        """Three rows of three numbers, along an axis, and whether they come backward."""
        axis = b.constant(np.array([0]))
        parts = (b.op("Unsqueeze", self.pick(pool), axis) for _ in range(3))
        return b.op("Concat", *parts, axis=0), int(self.rng.integers(2)), bool(self.rng.integers(2))


def differentiable(seed: int) -> Program:
    """A program whose output `value` is a number that depends on `x0` and `x1`."""
    grower, b = Grower(seed), ModelBuilder()
    inputs = [b.new("float64", (3,), name) for name in GIVEN]
    pool = grower.grow(b, inputs, 2)
    total = b.op("Sum", *(b.op("Mul", v, b.op("Cos", v)) for v in pool[-3:]))
    return program(b, inputs, value=b.op("ReduceSum", total, keepdims=0))
