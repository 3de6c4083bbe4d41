"""Random programs of nested choices and loops on vectors of three numbers.

All operations round alike everywhere, so that results are equal bit for bit.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from hypothesis import strategies as st

from mdf_loop.ir import Program, Value
from mdf_loop.lower.builder import ModelBuilder
from mdf_loop.lower.choice import choose
from tests.models.choices import program, repeat

GIVEN = {"x0": np.array([0.5, -1.0, 2.0]), "x1": np.array([3.0, 0.25, -0.75])}


class ProgramBuilder:
    """Builder of random statements."""

    def __init__(self, draw: st.DrawFn) -> None:
        self.draw = draw

    def grow(self, b: ModelBuilder, around: Sequence[Value], depth: int) -> list[Value]:
        """Append a few statements, and return all values that can be read."""
        pool = list(around)
        for _ in range(self.draw(st.integers(1, 3))):
            kinds = ["op", "op", "constant", "guard"] + ["choice", "choice", "loop"] * (depth > 0)
            pool += getattr(self, self.draw(st.sampled_from(kinds)))(b, pool, depth)
        return pool

    def pick(self, pool: Sequence[Value]) -> Value:
        return self.draw(st.sampled_from(pool))

    def op(self, b: ModelBuilder, pool: Sequence[Value], depth: int) -> list[Value]:
        if self.draw(st.booleans()):
            return [b.op(self.draw(st.sampled_from(["Neg", "Abs"])), self.pick(pool))]
        op_type = self.draw(st.sampled_from(["Add", "Sub"]))
        return [b.op(op_type, self.pick(pool), self.pick(pool))]

    def constant(self, b: ModelBuilder, pool: Sequence[Value], depth: int) -> list[Value]:
        return [b.constant(np.full(3, self.draw(st.sampled_from([0.0, 1.0, -2.5]))))]

    def guard(self, b: ModelBuilder, pool: Sequence[Value], depth: int) -> list[Value]:
        """Return a value that equals its operand, but not provably for any pass."""
        value, other = self.pick(pool), self.pick(pool)
        ends = [b.op(op_type, other, keepdims=0) for op_type in ("ReduceMin", "ReduceMax")]
        return [b.guard(value, b.op("LessOrEqual", *ends), "never said")]

    def condition(self, b: ModelBuilder, pool: Sequence[Value]) -> Value:
        known = self.draw(st.sampled_from([None, None, None, True, False]))
        if known is not None:
            return b.constant(np.array(known))
        sides = (b.op("ReduceMax", self.pick(pool), keepdims=0) for _ in range(2))
        return b.op("Less", *sides)

    def choice(self, b: ModelBuilder, pool: Sequence[Value], depth: int) -> list[Value]:
        count = self.draw(st.integers(1, 2))

        def branch(b: ModelBuilder) -> list[Value]:
            inner = self.grow(b, pool, depth - 1)
            return [self.pick(inner) for _ in range(count)]

        return list(choose(b, self.condition(b, pool), branch, branch, "choice"))

    def loop(self, b: ModelBuilder, pool: Sequence[Value], depth: int) -> list[Value]:
        count, rows = self.draw(st.integers(1, 2)), self.draw(st.integers(0, 1))
        scanned = [self.rows(b, pool) for _ in range(self.draw(st.integers(0, 1)))]

        def body(b: ModelBuilder, i: Value, enters: Sequence[Value]) -> list[Value]:
            inner = self.grow(b, [*pool, *enters], depth - 1)
            return [self.pick(inner) for _ in range(count + rows)]

        initials = [self.pick(pool) for _ in range(count)]
        finals, stacks = repeat(
            b, self.draw(st.integers(0, 3)), initials, body, rows, None, scanned
        )
        axes = b.constant(np.array([0]))
        return finals + [b.op("ReduceSum", stack, axes, keepdims=0) for stack in stacks]

    def rows(self, b: ModelBuilder, pool: Sequence[Value]) -> tuple[Value, int, bool]:
        """Return three rows of three numbers, the scanned axis, and True for a backward scan."""
        axis = b.constant(np.array([0]))
        parts = (b.op("Unsqueeze", self.pick(pool), axis) for _ in range(3))
        return (
            b.op("Concat", *parts, axis=0),
            self.draw(st.integers(0, 1)),
            self.draw(st.booleans()),
        )


@st.composite
def programs(draw: st.DrawFn) -> Program:
    grower, b = ProgramBuilder(draw), ModelBuilder()
    inputs = [b.new("float64", (3,), name) for name in GIVEN]
    pool = grower.grow(b, inputs, 3)
    appended = pool[len(inputs) :]
    outputs = {f"y{k}": value for k, value in enumerate(appended) if draw(st.booleans())}
    return program(b, inputs, **(outputs or {"y": appended[-1]}))
