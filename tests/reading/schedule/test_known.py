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
    SIGNS,
    as_number,
    both,
    chosen,
    compared,
    either,
    every_nth,
    opposite,
    plus,
    value_of,
    zero_if,
)
from mdf_loop.run.interpret import interpret


def _computed(function: Callable[..., Any], *arguments: Any) -> Any:
    """Interpret the operations of a function whose arguments are all unknown until run time."""
    b = ModelBuilder()
    arrays = {f"x{k}": np.array(a) for k, a in enumerate(arguments)}
    values = [b.new(str(a.dtype), (), name) for name, a in arrays.items()]
    result = value_of(b, function(b, *values))
    program = Program("p", tuple(Input(v) for v in values), tuple(b.ops), (Output("y", result),))
    return interpret(program, arrays)["y"].item()


TRUTHS = (False, True)


@pytest.mark.parametrize("function", [both, either])
def test_two_truths(function: Callable[..., Any]) -> None:
    for left, right in product(TRUTHS, TRUTHS):
        known = function(ModelBuilder(), left, right)
        assert known is _computed(function, left, right)
        assert known == _computed(lambda b, x, y=right: function(b, x, y), left)
        assert known == _computed(lambda b, y, x=left: function(b, x, y), right)


def test_one_truth() -> None:
    for truth in TRUTHS:
        assert _computed(opposite, truth) == opposite(ModelBuilder(), truth) == (not truth)
        assert _computed(as_number, truth) == as_number(ModelBuilder(), truth) == int(truth)


def test_a_choice() -> None:
    for test, then, otherwise in product(TRUTHS, repeat=3):
        known = chosen(ModelBuilder(), test, then, otherwise)
        assert known == (then if test else otherwise) == _computed(chosen, test, then, otherwise)


@pytest.mark.parametrize("sign", SIGNS)
def test_comparisons(sign: str) -> None:
    for left, right in product((0, 1, 2), (1, 1.0, 1.5)):
        known = compared(ModelBuilder(), left, sign, right)
        assert known == _computed(lambda b, x, r=right: compared(b, x, sign, r), left)


@pytest.mark.parametrize(("n", "offset"), [(1, 0), (2, 0), (3, 1), (3, 7)])
def test_every_nth(n: int, offset: int) -> None:
    for number in range(12):
        known = every_nth(ModelBuilder(), number, n, offset)
        assert known == ((number - offset) % n == 0)
        assert known == _computed(lambda b, x: every_nth(b, x, n, offset), number)


def test_numbers() -> None:
    for left, right in product((0, 2), (0, 3)):
        assert plus(ModelBuilder(), left, right) == _computed(plus, left, right) == left + right
    for truth, number in product(TRUTHS, (0, 4)):
        known = zero_if(ModelBuilder(), truth, number)
        assert known == _computed(zero_if, truth, number) == (0 if truth else number)


def test_known_values_add_no_operations() -> None:
    b = ModelBuilder()
    unknown = b.new("bool", (), "x")
    number = b.new("int64", (), "n")
    assert both(b, False, unknown) is False
    assert either(b, True, unknown) is True
    assert both(b, True, unknown) is either(b, False, unknown) is unknown
    assert plus(b, 0, number) is plus(b, number, 0) is number
    assert zero_if(b, True, number) == 0
    assert not b.ops
