"""Effects of each pass on a choice: its branches stay lazy, and unread outputs are removed."""

from __future__ import annotations

import numpy as np
from msgspec.structs import replace

from mdf_loop.ir import Program, Value
from mdf_loop.lower.builder import ModelBuilder
from mdf_loop.lower.choice import choose
from mdf_loop.passes.report_loops import report_loops
from mdf_loop.passes.simplify.drop_true_conditions import drop_true_conditions
from mdf_loop.passes.simplify.eliminate_dead_code import eliminate_dead_code
from mdf_loop.passes.simplify.hoist_invariants import hoist_invariants
from tests.models.choices import choices, everywhere, program, repeat


class ChoiceInputs:
    """Builder with a boolean and two vectors."""

    def __init__(self) -> None:
        self.b = ModelBuilder()
        self.go = self.b.new("bool", (), "go")
        self.x = self.b.new("float64", (2,), "x")
        self.a = self.b.new("float64", (2,), "a")

    def program(self, **outputs: Value) -> Program:
        built_program = program(self.b, (self.go, self.x, self.a), **outputs)
        for go in (True, False):
            everywhere(built_program, go=go, x=[1.0, 2.0], a=[0.5, -4.0])
        return built_program


def text(program: Program) -> list[str]:
    return str(program).splitlines()[1:]


def test_dead_code_elimination_of_outputs_of_a_choice() -> None:
    g = ChoiceInputs()
    unread = g.b.op("Abs", g.a)
    _, second = choose(
        g.b,
        g.go,
        lambda b: [b.op("Add", g.x, unread), b.op("Neg", g.x)],
        lambda b: [b.op("Sub", g.x, g.a), g.x],
        "y",
    )
    program = g.program(second=second)
    assert text(eliminate_dead_code(program)) == [
        "  if %go giving %y_2: float64[2]",
        "    %Neg: float64[2] = Neg(%x)",
        "    give %Neg",
        "  else",
        "    give %x",
        "  output second = %y_2",
    ]


def test_dead_code_elimination_of_choices_and_operations_of_branches() -> None:
    g = ChoiceInputs()
    choose(g.b, g.go, lambda b: [b.op("Abs", g.x)], lambda b: [g.x], "unread")

    def wasteful(b: ModelBuilder) -> list[Value]:
        b.op("Exp", g.a)
        return [b.op("Neg", g.x)]

    (y,) = choose(g.b, g.go, wasteful, lambda b: [g.x], "y")
    transformed = text(eliminate_dead_code(g.program(y=y)))
    assert not any(word in line for line in transformed for word in ("Exp", "Abs", "unread"))


def test_dead_code_elimination_keeps_a_choice_in_use() -> None:
    g = ChoiceInputs()
    absolute = g.b.op("Abs", g.a)
    (y,) = choose(g.b, g.go, lambda b: [b.op("Neg", g.x)], lambda b: [absolute], "y")
    program = g.program(y=y)
    assert eliminate_dead_code(program) is program


def test_dead_code_elimination_keeps_a_carried_value_that_only_a_branch_reads() -> None:
    g = ChoiceInputs()

    def body(b: ModelBuilder, i: Value, entering: object) -> list[Value]:
        x, u, v = entering
        (new,) = choose(b, g.go, lambda b: [b.op("Add", x, u)], lambda b: [x], "new")
        return [new, b.op("Neg", u), b.op("Abs", v)]

    (final, *_), _ = repeat(g.b, 3, [g.x, g.a, g.a], body)
    transformed = "\n".join(text(eliminate_dead_code(g.program(final=final))))
    assert transformed.count("carry") == 2
    assert "Abs" not in transformed


def test_hoisting_keeps_branches_lazy_and_the_choice_in_its_loop() -> None:
    g = ChoiceInputs()

    def body(b: ModelBuilder, i: Value, entering: object) -> list[Value]:
        (x,) = entering
        invariant = b.op("Mul", g.a, g.a)
        (drive,) = choose(b, g.go, lambda b: [b.op("Exp", g.a)], lambda b: [g.a], "drive")
        return [b.op("Add", b.op("Add", x, invariant), drive)]

    (final,), _ = repeat(g.b, 3, [g.x], body)
    transformed = hoist_invariants(g.program(final=final))
    assert text(transformed) == [
        "  %const: int64[] = 3",
        "  %Mul: float64[2] = Mul(%a, %a)",
        "  loop %i < %const",
        "    carry %enter: float64[2] from %x to %Add_2 giving %final",
        "    if %go giving %drive: float64[2]",
        "      %Exp: float64[2] = Exp(%a)",
        "      give %Exp",
        "    else",
        "      give %a",
        "    %Add: float64[2] = Add(%enter, %Mul)",
        "    %Add_2: float64[2] = Add(%Add, %drive)",
        "  output final = %final",
    ]
    assert hoist_invariants(transformed) is transformed


def test_hoisting_out_of_a_loop_stays_in_the_branch() -> None:
    g = ChoiceInputs()

    def looping(b: ModelBuilder) -> list[Value]:
        def body(b: ModelBuilder, i: Value, entering: object) -> list[Value]:
            return [b.op("Add", entering[0], b.op("Mul", g.a, g.a))]

        return repeat(b, 3, [g.x], body)[0]

    (y,) = choose(g.b, g.go, looping, lambda b: [g.x], "y")
    (after,) = choices(hoist_invariants(g.program(y=y)))
    assert [getattr(operation, "op_type", "loop") for operation in after.then.ops] == [
        "Mul",
        "loop",
    ]


def test_true_conditions_are_dropped_in_branches_too() -> None:
    g = ChoiceInputs()
    true = g.b.constant(np.array(True))

    def looping(b: ModelBuilder) -> list[Value]:
        return repeat(b, 3, [g.x], lambda b, i, v: [b.op("Neg", v[0])], condition=true)[0]

    (y,) = choose(g.b, g.go, looping, lambda b: [g.x], "y")
    program = g.program(y=y)
    assert "while" in str(program)
    assert "while" not in str(drop_true_conditions(program))


def counted(b: ModelBuilder, x: Value) -> Value:
    """Build a loop that counts its iterations, twice in a program under one name."""
    (final,), _ = repeat(b, 3, [x], lambda b, i, v: [b.op("Neg", v[0])])
    b.ops[-1] = replace(b.ops[-1], iteration_count=b.new("int64", (), "count"))
    return final


def test_the_last_copy_of_a_loop_is_reported() -> None:
    g = ChoiceInputs()
    program = g.program(y=counted(g.b, counted(g.b, g.x)))
    transformed = report_loops(program)
    assert [(output.name, output.value.name) for output in transformed.outputs] == [
        ("y", "final_2"),
        ("loop.iterations", "count_2"),
    ]


def test_loops_of_branches_are_not_reported() -> None:
    """Check that a loop in a branch, which may not run, is not reported as the last copy of a loop before it."""
    g = ChoiceInputs()
    first = counted(g.b, g.x)
    (y,) = choose(g.b, g.go, lambda b: [counted(b, first)], lambda b: [first], "y")
    program = g.program(y=y)
    assert report_loops(program) is program
