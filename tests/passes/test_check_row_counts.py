"""`check_row_counts` adds an error for inputs whose number of rows differs from the number of steps."""

from __future__ import annotations

import numpy as np
import pytest

from mdf_loop.build import Builder
from mdf_loop.errors import RunError
from mdf_loop.ir import Program
from mdf_loop.ir.check import check
from mdf_loop.passes.check_row_counts import check_row_counts
from mdf_loop.run.interpret import interpret
from tests.passes.sketch import straight, text


def summed() -> Program:
    b = Builder()
    x, steps = b.new("float64", ("all", 2), "x"), b.new("int64", (), "steps")
    return straight(b, (x, steps), y=b.op("ReduceSum", x, keepdims=0))


def test_the_number_of_rows_is_checked() -> None:
    checked = check_row_counts(summed(), {"x": "net.x"}, "steps")
    assert not check(checked)
    assert text(checked) == [
        "program(%x: float64[all, 2], %steps: int64[])",
        "  %x:Shape: int64[2] = Shape(%x)",
        "  %const: int64[] = 0",
        "  %x:Gather: int64[] = Gather(%x:Shape, %const, axis=0)",
        "  %x:Equal: bool[] = Equal(%x:Gather, %steps)",
        "  %guard: float64[all, 2] = %x if %x:Equal else fail "
        "\"'net.x' must have a row for each of the steps\"",
        "  %ReduceSum: float64[] = ReduceSum(%guard, keepdims=0)",
        "  output y = %ReduceSum",
    ]


def test_a_program_without_rows_is_unchanged() -> None:
    assert text(check_row_counts(summed(), {}, "steps")) == text(summed())


@pytest.mark.parametrize("rows", [0, 2, 4])
def test_another_number_of_rows_than_steps_fails(rows: int) -> None:
    checked = check_row_counts(summed(), {"x": "net.x"}, "steps")
    x = np.ones((3, 2))
    assert interpret(checked, {"x": x, "steps": np.array(3)})["y"] == 6.0
    with pytest.raises(RunError, match=r"'net\.x' must have a row for each of the steps"):
        interpret(checked, {"x": np.ones((rows, 2)), "steps": np.array(3)})
