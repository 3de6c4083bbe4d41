"""Rows that are the same in every iteration are stacked after the loop."""

from __future__ import annotations

import numpy as np
import pytest

from mdf_loop.build import Options
from mdf_loop.emit.legalise import runnable
from mdf_loop.passes import stack_invariants
from mdf_loop.run.session import Session
from tests.passes.sketch import Sketch, same_bits, text


def test_golden() -> None:
    s = Sketch()
    loop = s.loop(s.body.op("Add", s.x, s.a), s.a, s.x)
    stacks = {f"rows{k}": recorded.stack for k, recorded in enumerate(loop.recorded)}
    program = s.program(y=loop.carried[0].final, **stacks)
    assert text(stack_invariants(program))[1:] == [
        "  %true: bool[] = True",
        "  loop %i < %n",
        "    carry %x: float64[2] from %x0 to %Add giving %final",
        "    %Add: float64[2] = Add(%x, %a)",
        "    record %x giving %trace1: float64[t, 2]",
        "    continue if %true",
        "    count giving %count",
        "    last condition giving %last",
        "  %const: int64[1] = [1]",
        "  %trace0:Reshape: int64[1] = Reshape(%count, %const)",
        "  %const_2: int64[1] = [2]",
        "  %trace0:Concat: int64[2] = Concat(%trace0:Reshape, %const_2, axis=0)",
        "  %trace0: float64[t, 2] = Expand(%a, %trace0:Concat)",
        "  output y = %final",
        "  output rows0 = %trace0",
        "  output rows1 = %trace1",
    ]


@pytest.mark.parametrize("n", [-1, 0, 1, 4])
def test_as_many_rows_as_iterations(n: int) -> None:
    s = Sketch()
    number = s.b.constant(np.array(7))
    loop = s.loop(s.body.op("Add", s.x, s.a), s.a, number)
    program = s.program(rows=loop.recorded[0].stack, numbers=loop.recorded[1].stack)
    arrays = {"n": np.array(n), "x0": np.zeros(2), "a": np.array([1.5, -0.0])}
    same_bits(stack_invariants, program, **arrays)
    made = Session(runnable(program, Options()), "cpu").run(arrays)
    assert (made["rows"].shape, made["numbers"].tolist()) == ((max(n, 0), 2), [7] * max(n, 0))


def test_rows_of_the_loop_itself_stay() -> None:
    s = Sketch()
    leave = s.body.op("Add", s.x, s.a)
    loop = s.loop(leave, s.x, leave, s.i)
    program = s.program(**{f"r{k}": r.stack for k, r in enumerate(loop.recorded)})
    assert stack_invariants(program) is program


def test_a_loop_that_may_stop_early_keeps_its_rows() -> None:
    s = Sketch()
    loop = s.loop(s.body.op("Add", s.x, s.a), s.a, condition=s.true, condition_out=s.go_in)
    program = s.program(rows=loop.recorded[0].stack)
    assert stack_invariants(program) is program
