"""Selections with expensive operands become branches, which compute only the selected operand.

The operations here round alike everywhere, so numbers are equal bit for bit in all engines.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import mdf_loop
from mdf_loop.ir import If, Program, Value, walk
from mdf_loop.lower.builder import ModelBuilder
from mdf_loop.lower.guards import guard_value
from mdf_loop.passes.simplify.costs import estimate_cost
from mdf_loop.passes.simplify.sink_into_branches import sink_into_branches
from mdf_loop.pipeline import SIMPLIFY
from tests.models.choices import choices, everywhere, repeat
from tests.models.choices import program as whole
from tests.passes.sketch import straight, text

N = 20000
X = np.linspace(0, 2, N)


class Segments:
    """Builder of a program with a condition, an array, an expensive operation and selections."""

    def __init__(self, n: int | str = N) -> None:
        self.b = ModelBuilder()
        self.go = self.b.new("bool", (), "go")
        self.x = self.b.new("float64", (n,), "x")

    def expensive(self, x: Value | None = None) -> Value:
        return self.b.op("Sqrt", x or self.x)

    def choose(self, then: Value, otherwise: Value, go: Value | None = None) -> Value:
        return self.b.op("Where", go or self.go, then, otherwise)

    def program(self, **outputs: Value) -> Program:
        return straight(self.b, (self.go, self.x), **outputs)


def test_an_expensive_operand_moves_into_a_branch() -> None:
    p = Segments()
    program = p.program(y=p.choose(p.expensive(p.expensive()), p.b.op("Neg", p.x)))
    assert text(sink_into_branches(program))[1:] == [
        "  if %go giving %Where: float64[20000]",
        "    %Sqrt: float64[20000] = Sqrt(%x)",
        "    %Sqrt_2: float64[20000] = Sqrt(%Sqrt)",
        "    give %Sqrt_2",
        "  else",
        "    %Neg: float64[20000] = Neg(%x)",
        "    give %Neg",
        "  output y = %Where",
    ]
    for go in (True, False):
        everywhere(program, go=go, x=X)


def test_selections_by_one_condition_share_operations() -> None:
    p = Segments()
    t = p.expensive()
    left, right = (p.choose(p.b.op(kind, t), p.x) for kind in ("Neg", "Abs"))
    program = p.program(y=left, z=right)
    (choice,) = choices(sink_into_branches(program))
    assert [op.op_type for op in choice.then.ops] == ["Sqrt", "Neg", "Abs"]
    for go in (True, False):
        everywhere(program, go=go, x=X)


def test_dependent_selections_move_alone() -> None:
    p = Segments()
    first = p.choose(p.expensive(), p.x)
    second = p.choose(p.expensive(p.b.op("Neg", first)), first)
    program = p.program(y=second)
    assert len(choices(sink_into_branches(program))) == 2
    for go in (True, False):
        everywhere(program, go=go, x=X)


def test_a_selection_within_an_operand() -> None:
    p = Segments()
    other = p.b.op("Less", p.b.op("ReduceMax", p.x, keepdims=0), p.b.constant(np.array(1.0)))
    inner = p.choose(p.expensive(p.expensive()), p.x, other)
    program = p.program(y=p.choose(p.b.op("Neg", inner), p.x))
    (outer,) = (op for op in sink_into_branches(program).ops if isinstance(op, If))
    assert sum(isinstance(op, If) for op in walk(outer.then.ops)) == 1
    for go in (True, False):
        everywhere(program, go=go, x=X)
        everywhere(program, go=go, x=X / 9)


def test_loop_invariants_stay_outside_of_the_branch() -> None:
    b = ModelBuilder()
    x, steps = b.new("float64", (N,), "x"), 4

    def body(b: ModelBuilder, i: Value, enters: Sequence[Value]) -> list[Value]:
        fixed = b.op("Abs", x)
        half = b.op("Less", i, b.constant(np.array(2)))
        work = b.op("Sqrt", b.op("Add", enters[0], fixed))
        return [b.op("Where", half, work, enters[0])]

    finals, _ = repeat(b, steps, [x], body)
    program = whole(b, [x], y=finals[0])
    everywhere(program, x=X)
    optimised = program
    for apply in SIMPLIFY:
        optimised = apply(optimised)
    (choice,) = choices(optimised)
    assert [op.op_type for op in choice.then.ops] == ["Add", "Sqrt"]


def test_a_loop_of_known_length_moves_into_a_branch() -> None:
    b = ModelBuilder()
    go, x = b.new("bool", (), "go"), b.new("float64", (2,), "x")
    finals, _ = repeat(b, 50, [x], lambda b, i, enters: [b.op("Abs", enters[0])])
    program = straight(b, (go, x), y=b.op("Where", go, finals[0], x))
    assert len(choices(sink_into_branches(program))) == 1
    for value in (True, False):
        everywhere(program, go=value, x=np.array([1.0, -2.0]))


def is_unchanged(program: Program) -> bool:
    return sink_into_branches(program) is program


def test_cheap_operands_are_not_moved() -> None:
    p = Segments(3)
    assert is_unchanged(p.program(y=p.choose(p.expensive(), p.b.op("Neg", p.x))))


def test_operands_of_unknown_size_are_not_moved() -> None:
    p = Segments("n")
    assert is_unchanged(p.program(y=p.choose(p.expensive(), p.x)))


def test_operations_with_other_readers_are_not_moved() -> None:
    p = Segments()
    t = p.expensive()
    assert is_unchanged(p.program(y=p.choose(t, p.x), t=t))
    p = Segments()
    t = p.expensive()
    assert is_unchanged(p.program(y=p.choose(t, p.x), z=p.b.op("Neg", t)))
    p = Segments()
    t = p.expensive()
    program = p.program(y=p.choose(t, p.b.op("Neg", t)))
    (choice,) = choices(sink_into_branches(program))
    assert choice.then.ops == ()
    assert [op.op_type for op in choice.otherwise.ops] == ["Neg"]


def test_elementwise_selections_are_unchanged() -> None:
    p = Segments()
    mask = p.b.op("Less", p.x, p.b.constant(np.array(0.0)))
    assert is_unchanged(p.program(y=p.choose(p.expensive(), p.x, mask)))


def test_broadcasting_selections_are_unchanged() -> None:
    p = Segments()
    assert is_unchanged(p.program(y=p.choose(p.expensive(), p.b.constant(np.array(0.0)))))


def test_random_numbers_guards_and_failing_operations_are_not_moved() -> None:
    p = Segments()
    drawn = p.b.op("RandomUniformLike", p.x)
    assert is_unchanged(p.program(y=p.choose(drawn, p.x)))
    p = Segments()
    ok = p.b.op("Less", p.b.op("ReduceMax", p.x, keepdims=0), p.b.constant(np.array(9.0)))
    program = p.program(y=p.choose(p.expensive(guard_value(p.b, p.x, ok, "too large")), p.x))
    (choice,) = choices(sink_into_branches(program))
    assert [op.op_type for op in choice.then.ops] == ["Sqrt"]
    p = Segments()
    index = p.b.new("int64", (N,), "index")
    element = p.b.op("Gather", p.x, index, axis=0)
    program = straight(p.b, (p.go, p.x, index), y=p.choose(element, p.x))
    assert is_unchanged(program)


def test_endless_loops_are_not_moved() -> None:
    b = ModelBuilder()
    go, x = b.new("bool", (), "go"), b.new("float64", (N,), "x")
    finals, _ = repeat(b, 50, [x], lambda b, i, enters: [b.op("Sqrt", enters[0])])
    from msgspec.structs import replace

    from mdf_loop.ir import Loop

    b.ops[:] = [
        replace(op, trip_count=None, max_iterations=9) if isinstance(op, Loop) else op
        for op in b.ops
    ]
    assert is_unchanged(straight(b, (go, x), y=b.op("Where", go, finals[0], x)))


@pytest.mark.parametrize(
    ("op_type", "shapes", "least"),
    [
        ("Abs", [(3,)], 0.2),
        ("Tanh", [(1000,)], 3.2),
        ("MatMul", [(100, 100), (100,)], 1.7),
        ("Tanh", [("n", 1000)], 3.2),
    ],
)
def test_estimated_costs(op_type: str, shapes: list[tuple[int | str, ...]], least: float) -> None:
    b = ModelBuilder()
    b.op(op_type, *(b.new("float64", shape, "x") for shape in shapes))
    assert estimate_cost(b, b.ops) == pytest.approx(least, rel=0.02)


CONDITIONAL = """
nodes:
  A:
    input_ports: {x: {shape: [2000], default_value: 0}, level: {default_value: 0.0}}
    parameters:
      busy: {value: numpy.sin(numpy.tanh(x)) + 1}
    output_ports:
      y: {value: busy if level > 0 else x}
"""


def test_conditional_expressions(mdf) -> None:
    compiled = mdf_loop.compile(mdf(CONDITIONAL), device="cpu")
    x = np.linspace(-2, 2, 2000)
    for level in (1.0, -1.0):
        result = compiled.run({"x": x, "level": level})["A.y"]
        expected = np.sin(np.tanh(x)) + 1 if level > 0 else x
        np.testing.assert_allclose(result, expected, rtol=1e-14)


class ProgramBuilder:
    """Builder of random programs with many selections by few booleans, and operations that round alike everywhere."""

    def __init__(self, draw: st.DrawFn, n: int) -> None:
        self.draw, self.n = draw, n

    def grow(
        self, b: ModelBuilder, around: Sequence[Value], conditions: Sequence[Value]
    ) -> list[Value]:
        pool = list(around)
        for _ in range(self.draw(st.integers(2, 8))):
            kind = self.draw(
                st.sampled_from(["Abs", "Neg", "Sqrt", "Add", "Sub", "Where", "Where"])
            )
            if kind == "Where":
                pool.append(b.op("Where", self.pick(conditions), self.pick(pool), self.pick(pool)))
            elif kind in ("Add", "Sub"):
                pool.append(b.op(kind, self.pick(pool), self.pick(pool)))
            else:
                pool.append(b.op(kind, b.op("Abs", self.pick(pool))))
        return pool

    def pick(self, pool: Sequence[Value]) -> Value:
        late = self.draw(st.booleans())
        return pool[-1] if late else self.draw(st.sampled_from(pool))


@pytest.mark.slow
@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_random_programs(data: st.DataObject) -> None:
    b = ModelBuilder()
    draw = data.draw
    x, y = (b.new("float64", (20000,), name) for name in "xy")
    go, on = (b.new("bool", (), name) for name in ("go", "on"))
    grower = ProgramBuilder(draw, 20000)

    def body(b: ModelBuilder, i: Value, enters: Sequence[Value]) -> list[Value]:
        odd = b.op("Less", i, b.constant(np.array(1)))
        return [grower.grow(b, [x, *enters], [go, odd])[-1]]

    pool = grower.grow(b, [x, y], [go, on])
    finals, _ = repeat(b, 2, [grower.pick(pool)], body)
    pool = grower.grow(b, [*pool, *finals], [go, on])
    program = whole(b, [x, y, go, on], last=pool[-1], some=grower.pick(pool))
    feeds = {"x": np.linspace(-2, 2, 20000), "y": np.linspace(3, -1, 20000)}
    everywhere(program, go=draw(st.booleans()), on=draw(st.booleans()), **feeds)
