"""Text of a program before and after each simplification, and programs that each pass leaves unchanged."""

from __future__ import annotations

import numpy as np
import pytest

from mdf_loop.ir import Carried
from mdf_loop.passes.report_loops import report_loops
from mdf_loop.passes.simplify.drop_true_conditions import drop_true_conditions
from mdf_loop.passes.simplify.eliminate_dead_code import eliminate_dead_code
from mdf_loop.passes.simplify.hoist_invariants import hoist_invariants
from mdf_loop.pipeline import SIMPLIFY, prepare
from tests.passes.sketch import Sketch, text


def test_loop_invariants_are_hoisted() -> None:
    s = Sketch()
    drive = s.body.op("Mul", s.a, s.a)
    leave = s.body.op("Add", s.x, drive)
    original = s.program(y=s.loop(leave).carried[0].final)
    assert text(original) == [
        "program(%n: int64[], %x0: float64[2], %a: float64[2])",
        "  %true: bool[] = True",
        "  loop %i < %n",
        "    carry %x: float64[2] from %x0 to %Add giving %final",
        "    %Mul: float64[2] = Mul(%a, %a)",
        "    %Add: float64[2] = Add(%x, %Mul)",
        "    continue if %true",
        "    count giving %count",
        "    last condition giving %last",
        "  output y = %final",
    ]
    assert text(hoist_invariants(original))[2:6] == [
        "  %Mul: float64[2] = Mul(%a, %a)",
        "  loop %i < %n",
        "    carry %x: float64[2] from %x0 to %Add giving %final",
        "    %Add: float64[2] = Add(%x, %Mul)",
    ]


def test_operations_that_read_a_carried_value_are_not_hoisted() -> None:
    s = Sketch()
    leave = s.body.op("Mul", s.x, s.x)
    program = s.program(y=s.loop(leave).carried[0].final)
    assert hoist_invariants(program) is program


def test_operations_that_can_fail_are_not_hoisted() -> None:
    s = Sketch()
    quotient = s.body.op("Div", s.n, s.n)  # a whole number divided by zero fails
    leave = s.body.op("Add", s.x, s.body.op("Cast", quotient, to=11))
    program = s.program(y=s.loop(leave).carried[0].final)
    assert hoist_invariants(program) is program


def test_dead_code_elimination_of_operations_records_and_carried_values() -> None:
    s = Sketch()
    u = s.body.new("float64", (2,), "u")
    s.body.op("Exp", s.x)
    leave = s.body.op("Add", s.x, s.a)
    unused = Carried(s.a, u, s.body.op("Neg", u), s.b.new("float64", (2,), "u_final"))
    program = s.program(y=s.loop(leave, s.x, more=[unused]).carried[0].final)
    assert text(eliminate_dead_code(program)) == [
        "program(%n: int64[], %x0: float64[2], %a: float64[2])",
        "  loop %i < %n",
        "    carry %x: float64[2] from %x0 to %Add giving %final",
        "    %Add: float64[2] = Add(%x, %a)",
        "  output y = %final",
    ]


def test_dead_code_elimination_keeps_a_carried_value_that_another_one_reads() -> None:
    s = Sketch()
    u = s.body.new("float64", (2,), "u")
    leave = s.body.op("Add", s.x, u)
    helper = Carried(s.a, u, s.body.op("Neg", u), s.b.new("float64", (2,), "u_final"))
    program = eliminate_dead_code(s.program(y=s.loop(leave, more=[helper]).carried[0].final))
    assert sum("carry" in line for line in text(program)) == 2
    assert eliminate_dead_code(program) is program


def test_dead_code_elimination_removes_a_whole_loop() -> None:
    s = Sketch()
    s.loop(s.body.op("Add", s.x, s.a))
    assert text(eliminate_dead_code(s.program(y=s.a)))[1:] == ["  output y = %a"]


def test_a_condition_that_is_always_true_is_left_out() -> None:
    s = Sketch()
    leave = s.body.op("Add", s.x, s.a)
    program = s.program(y=s.loop(leave, condition=s.true).carried[0].final)
    assert "while" in str(program)
    assert "while" not in str(drop_true_conditions(program))


@pytest.mark.parametrize("fields", [{"trip_count": None, "max_iterations": 5}, {}])
def test_a_condition_passed_through_is_always_true(fields: dict[str, object]) -> None:
    s = Sketch()
    leave = s.body.op("Add", s.x, s.a)
    loop = s.loop(leave, condition=s.true, condition_out=s.go_in, **fields)
    program = drop_true_conditions(s.program(y=loop.carried[0].final))
    assert " while " not in str(program)


def test_a_computed_condition_is_kept() -> None:
    s = Sketch()
    leave = s.body.op("Add", s.x, s.a)
    zero = s.b.constant(np.array(0))
    go = s.body.op("Greater", s.i, zero)
    program = s.program(y=s.loop(leave, condition=s.true, condition_out=go).carried[0].final)
    assert drop_true_conditions(program) is program


def test_a_loop_reports_its_count_and_an_unknown_condition() -> None:
    s = Sketch()
    leave = s.body.op("Add", s.x, s.a)
    for_loop = report_loops(s.program(y=s.loop(leave).carried[0].final))
    assert [output.name for output in for_loop.outputs] == ["y", "A.f.iterations"]
    s = Sketch()
    leave = s.body.op("Add", s.x, s.a)
    both = report_loops(s.program(y=s.loop(leave, condition=s.true).carried[0].final))
    assert [output.name for output in both.outputs] == ["y", "A.f.iterations", "A.f.condition"]


def test_a_program_without_loops_has_no_report() -> None:
    s = Sketch()
    program = s.program(y=s.a)
    assert report_loops(program) is program


def test_all_passes_simplify_a_program() -> None:
    s = Sketch()
    s.body.op("Exp", s.x)
    drive = s.body.op("Mul", s.a, s.a)
    loop = s.loop(s.body.op("Add", s.x, drive), condition=s.true)
    assert text(prepare(s.program(y=loop.carried[0].final), SIMPLIFY)) == [
        "program(%n: int64[], %x0: float64[2], %a: float64[2])",
        "  %Mul: float64[2] = Mul(%a, %a)",
        "  loop %i < %n",
        "    carry %x: float64[2] from %x0 to %Add giving %final",
        "    %Add: float64[2] = Add(%x, %Mul)",
        "  output y = %final",
    ]
