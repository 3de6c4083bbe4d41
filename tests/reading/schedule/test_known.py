"""Known numbers and truth values are folded, and unknown ones become operations with equal results."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest

from mdf_loop.ir import Input, Output, Program
from mdf_loop.lower.builder import ModelBuilder
from mdf_loop.reading.schedule.known import (
    COMPARATORS,
    add,
    compare,
    every_nth,
    logical_and,
    logical_not,
    logical_or,
    select_truth,
    to_value,
    truth_to_number,
    zero_if,
)
from mdf_loop.run.interpret import interpret


def _computed(function: Callable[..., Any], *arguments: Any) -> Any:
    """Interpret the operations of a function whose arguments are all unknown until run time."""
    b = ModelBuilder()
    arrays = {f"x{k}": np.array(a) for k, a in enumerate(arguments)}
    values = [b.new(str(a.dtype), (), name) for name, a in arrays.items()]
    result = to_value(b, function(b, *values))
    program = Program("p", tuple(Input(v) for v in values), tuple(b.ops), (Output("y", result),))
    return interpret(program, arrays)["y"].item()


TRUTHS = (False, True)


@pytest.mark.parametrize("function", [logical_and, logical_or])
def test_two_truths(function: Callable[..., Any]) -> None:
    for left, right in product(TRUTHS, TRUTHS):
        known = function(ModelBuilder(), left, right)
        assert known is _computed(function, left, right)
        assert known == _computed(lambda b, x, y=right: function(b, x, y), left)
        assert known == _computed(lambda b, y, x=left: function(b, x, y), right)


def test_one_truth() -> None:
    for truth in TRUTHS:
        assert _computed(logical_not, truth) == logical_not(ModelBuilder(), truth) == (not truth)
        assert (
            _computed(truth_to_number, truth)
            == truth_to_number(ModelBuilder(), truth)
            == int(truth)
        )


def test_a_choice() -> None:
    for test, then, otherwise in product(TRUTHS, repeat=3):
        known = select_truth(ModelBuilder(), test, then, otherwise)
        assert (
            known == (then if test else otherwise) == _computed(select_truth, test, then, otherwise)
        )


@pytest.mark.parametrize("sign", COMPARATORS)
def test_comparisons(sign: str) -> None:
    for left, right in product((0, 1, 2), (1, 1.0, 1.5)):
        known = compare(ModelBuilder(), left, sign, right)
        assert known == _computed(lambda b, x, r=right: compare(b, x, sign, r), left)


@pytest.mark.parametrize(("n", "offset"), [(1, 0), (2, 0), (3, 1), (3, 7)])
def test_every_nth(n: int, offset: int) -> None:
    for number in range(12):
        known = every_nth(ModelBuilder(), number, n, offset)
        assert known == ((number - offset) % n == 0)
        assert known == _computed(lambda b, x: every_nth(b, x, n, offset), number)


def test_numbers() -> None:
    for left, right in product((0, 2), (0, 3)):
        assert add(ModelBuilder(), left, right) == _computed(add, left, right) == left + right
    for truth, number in product(TRUTHS, (0, 4)):
        known = zero_if(ModelBuilder(), truth, number)
        assert known == _computed(zero_if, truth, number) == (0 if truth else number)


def test_known_values_add_no_operations() -> None:
    b = ModelBuilder()
    unknown = b.new("bool", (), "x")
    number = b.new("int64", (), "n")
    assert logical_and(b, False, unknown) is False
    assert logical_or(b, True, unknown) is True
    assert logical_and(b, True, unknown) is logical_or(b, False, unknown) is unknown
    assert add(b, 0, number) is add(b, number, 0) is number
    assert zero_if(b, True, number) == 0
    assert not b.ops
