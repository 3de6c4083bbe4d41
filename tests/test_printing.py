"""What `print(program)` shows."""

from __future__ import annotations

import numpy as np

from mdf_loop.build import Builder
from mdf_loop.lower.choice import choose
from tests.choice_programs import program, repeat


def test_a_choice_with_a_loop_in_a_branch() -> None:
    b = Builder()
    go, x = b.new("bool", (), "go"), b.new("float64", ("n",), "x")

    def several(b: Builder):
        (final,), _ = repeat(b, 3, [x], lambda b, i, values: [b.op("Add", values[0], x)])
        return [final, b.op("Neg", x)]

    y, z = choose(b, go, several, lambda b: [x, x], "y")
    assert str(program(b, (go, x), y=y, z=z)).splitlines() == [
        "program(%go: bool[], %x: float64[n])",
        "  %const: int64[] = 3",
        "  if %go giving %y: float64[n], %y_2: float64[n]",
        "    loop %i < %const",
        "      carry %enter: float64[n] from %x to %Add giving %final",
        "      %Add: float64[n] = Add(%enter, %x)",
        "    %Neg: float64[n] = Neg(%x)",
        "    give %final, %Neg",
        "  else",
        "    give %x, %x",
        "  output y = %y",
        "  output z = %y_2",
    ]


def test_large_constants_are_left_out() -> None:
    b = Builder()
    few, many = b.constant(np.arange(6)), b.constant(np.arange(7))
    text = str(program(b, (), few=few, many=many))
    assert "= [0, 1, 2, 3, 4, 5]" in text
    assert "%const_2: int64[7] = [...]" in text
