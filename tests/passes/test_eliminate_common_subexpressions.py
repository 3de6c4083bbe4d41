"""Common subexpression elimination, also of an operation in a body."""

from __future__ import annotations

import numpy as np

from mdf_loop.build import Builder
from mdf_loop.passes.simplify.eliminate_common_subexpressions import eliminate_common_subexpressions
from tests.passes.sketch import SPECIAL, Sketch, same_bits, straight, text


def test_the_second_of_two_equal_operations_is_removed() -> None:
    b = Builder()
    v, s = b.new("float64", (8,), "v"), b.constant(np.array(0.001), name="s")
    first = b.op("Add", b.op("Div", v, s), v)
    second = b.op("Mul", b.op("Div", v, s), v)
    program = straight(b, (v,), first=first, second=second)
    assert text(eliminate_common_subexpressions(program))[2:] == [
        "  %Div: float64[8] = Div(%v, %s)",
        "  %Add: float64[8] = Add(%Div, %v)",
        "  %Mul: float64[8] = Mul(%Div, %v)",
        "  output first = %Add",
        "  output second = %Mul",
    ]
    same_bits(eliminate_common_subexpressions, program, v=SPECIAL)


def test_chains_of_equal_operations_are_merged() -> None:
    b = Builder()
    v = b.new("float64", (8,), "v")
    twice = [b.op("Exp", b.op("Neg", v)) for _ in range(2)]
    program = straight(b, (v,), a=twice[0], b=twice[1])
    assert [
        line.split(" = ")[1] for line in text(eliminate_common_subexpressions(program))[1:]
    ] == [
        "Neg(%v)",
        "Exp(%Neg)",
        "%Exp",
        "%Exp",
    ]
    same_bits(eliminate_common_subexpressions, program, v=SPECIAL)


def test_an_operation_of_a_body_is_replaced_by_an_outer_one() -> None:
    s = Sketch()
    outside = s.b.op("Mul", s.a, s.a)
    drive = s.body.op("Mul", s.a, s.a)
    loop = s.loop(s.body.op("Add", s.x, drive), drive)
    program = s.program(y=loop.carried[0].final, z=outside, rows=loop.recorded[0].stack)
    merged = text(eliminate_common_subexpressions(program))
    assert sum("= Mul(" in line for line in merged) == 1
    assert "    record %Mul giving %trace0: float64[t, 2]" in merged
    same_bits(
        eliminate_common_subexpressions,
        program,
        n=np.array(3),
        x0=np.ones(2),
        a=np.array([0.5, -0.0]),
    )


def test_an_operation_of_a_body_is_not_reused_outside() -> None:
    s = Sketch()
    loop = s.loop(s.body.op("Add", s.x, s.body.op("Mul", s.a, s.a)))
    after = s.b.op("Mul", s.a, s.a)
    program = s.program(y=loop.carried[0].final, z=after)
    assert eliminate_common_subexpressions(program) is program


def test_operations_with_other_attributes_or_types_are_kept() -> None:
    b = Builder()
    v = b.new("float64", (2, 2), "v")
    values = [b.op("Cast", v, to=to) for to in (6, 7)]
    values += [b.op("Softmax", v, axis=axis) for axis in (0, 1)]
    program = straight(b, (v,), **{f"y{k}": value for k, value in enumerate(values)})
    assert eliminate_common_subexpressions(program) is program
