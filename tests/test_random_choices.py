"""Random programs of choices and loops in each other: the interpreter, the passes, ONNX Runtime.

Values are vectors of three numbers, computed by operations that round alike everywhere, so
that results are equal bit for bit.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mdf_loop.build import Builder
from mdf_loop.check import check
from mdf_loop.ir import Program, Value
from mdf_loop.lower.choice import choose
from mdf_loop.passes import DEFAULT, Pass
from mdf_loop.run.interpret import interpret
from tests.choice_programs import agree, everywhere, program, repeat
from tests.soak import times

pytestmark = [pytest.mark.slow, pytest.mark.soak]

GIVEN = {"x0": np.array([0.5, -1.0, 2.0]), "x1": np.array([3.0, 0.25, -0.75])}


class Grower:
    """Appends what hypothesis draws."""

    def __init__(self, draw: st.DrawFn) -> None:
        self.draw = draw

    def grow(self, b: Builder, around: Sequence[Value], depth: int) -> list[Value]:
        """The values that can be read, with those that a few new statements make."""
        pool = list(around)
        for _ in range(self.draw(st.integers(1, 3))):
            kinds = ["op", "op", "constant"] + ["choice", "choice", "loop"] * (depth > 0)
            pool += getattr(self, self.draw(st.sampled_from(kinds)))(b, pool, depth)
        return pool

    def pick(self, pool: Sequence[Value]) -> Value:
        return self.draw(st.sampled_from(pool))

    def op(self, b: Builder, pool: Sequence[Value], depth: int) -> list[Value]:
        if self.draw(st.booleans()):
            return [b.op(self.draw(st.sampled_from(["Neg", "Abs"])), self.pick(pool))]
        op_type = self.draw(st.sampled_from(["Add", "Sub"]))
        return [b.op(op_type, self.pick(pool), self.pick(pool))]

    def constant(self, b: Builder, pool: Sequence[Value], depth: int) -> list[Value]:
        return [b.constant(np.full(3, self.draw(st.sampled_from([0.0, 1.0, -2.5]))))]

    def condition(self, b: Builder, pool: Sequence[Value]) -> Value:
        known = self.draw(st.sampled_from([None, None, None, True, False]))
        if known is not None:
            return b.constant(np.array(known))
        sides = (b.op("ReduceMax", self.pick(pool), keepdims=0) for _ in range(2))
        return b.op("Less", *sides)

    def choice(self, b: Builder, pool: Sequence[Value], depth: int) -> list[Value]:
        count = self.draw(st.integers(1, 2))

        def branch(b: Builder) -> list[Value]:
            inner = self.grow(b, pool, depth - 1)
            return [self.pick(inner) for _ in range(count)]

        return list(choose(b, self.condition(b, pool), branch, branch, "choice"))

    def loop(self, b: Builder, pool: Sequence[Value], depth: int) -> list[Value]:
        count, rows = self.draw(st.integers(1, 2)), self.draw(st.integers(0, 1))

        def body(b: Builder, i: Value, enters: Sequence[Value]) -> list[Value]:
            inner = self.grow(b, [*pool, *enters], depth - 1)
            return [self.pick(inner) for _ in range(count + rows)]

        initials = [self.pick(pool) for _ in range(count)]
        finals, stacks = repeat(b, self.draw(st.integers(0, 3)), initials, body, rows)
        axes = b.constant(np.array([0]))
        return finals + [b.op("ReduceSum", stack, axes, keepdims=0) for stack in stacks]


@st.composite
def programs(draw: st.DrawFn) -> Program:
    grower, b = Grower(draw), Builder()
    inputs = [b.new("float64", (3,), name) for name in GIVEN]
    pool = grower.grow(b, inputs, 3)
    made = pool[len(inputs) :]
    outputs = {f"y{k}": value for k, value in enumerate(made) if draw(st.booleans())}
    return program(b, inputs, **(outputs or {"y": made[-1]}))


@settings(
    max_examples=times(75, 1500),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(programs())
def test_all_engines_agree(made: Program) -> None:
    everywhere(made, **GIVEN)


@settings(
    max_examples=times(30, 500),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(programs())
@pytest.mark.parametrize("apply", tuple(dict.fromkeys(DEFAULT)), ids=lambda p: p.__name__)
def test_each_pass_keeps_results_and_rests(apply: Pass, made: Program) -> None:
    once = apply(made)
    assert check(once) == ()
    agree(interpret(once, GIVEN), interpret(made, GIVEN))
    assert apply(once) is once
