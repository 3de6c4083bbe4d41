"""Selections between booleans become logic."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from mdf_loop.build import Builder
from mdf_loop.passes.simplify.eliminate_dead_code import eliminate_dead_code
from mdf_loop.passes.simplify.select_to_logic import select_to_logic
from tests.passes.sketch import same_bits, straight, text

TRUTH = np.array(list(itertools.product([False, True], repeat=2)))


def test_golden_and_equal_for_all_truth_values() -> None:
    b = Builder()
    a, c = b.new("bool", (4,), "a"), b.new("bool", (4,), "c")
    both, either = b.op("Where", a, c, a), b.op("Where", a, a, c)
    program = straight(b, (a, c), both=both, either=either)
    assert text(select_to_logic(program))[1:3] == [
        "  %Where: bool[4] = And(%c, %a)",
        "  %Where_2: bool[4] = Or(%a, %c)",
    ]
    same_bits(select_to_logic, program, a=TRUTH[:, 0], c=TRUTH[:, 1])


@pytest.mark.parametrize("values", TRUTH.tolist())
def test_the_condition_may_be_the_only_element(values: list[bool]) -> None:
    b = Builder()
    a, c = b.new("bool", (1,), "a"), b.new("bool", (1,), "c")
    element = b.op("Reshape", a, b.constant(np.array([], np.int64)))
    program = straight(b, (a, c), both=b.op("Where", element, c, a))
    lines = text(eliminate_dead_code(select_to_logic(program)))
    assert lines[1] == "  %Where: bool[1] = And(%c, %a)"
    same_bits(select_to_logic, program, a=np.array(values[:1]), c=np.array(values[1:]))


def test_other_selections_are_unchanged() -> None:
    b = Builder()
    a, c, x = b.new("bool", (4,), "a"), b.new("bool", (4,), "c"), b.new("float64", (4,), "x")
    outputs = {
        "numbers": b.op("Where", a, x, b.op("Neg", x)),
        "third": b.op("Where", a, c, b.op("Not", a)),
    }
    program = straight(b, (a, c, x), **outputs)
    assert select_to_logic(program) is program
