"""Text form of programs, as `print(program)` writes it."""

from __future__ import annotations

import numpy as np

from mdf_loop.ir import Scanned
from mdf_loop.lower.builder import ModelBuilder
from mdf_loop.lower.choice import choose
from mdf_loop.run.interpret import interpret
from tests.models.choices import program, repeat
from tests.passes.sketch import Sketch, text


def test_the_text_of_a_choice_with_a_loop_in_a_branch() -> None:
    b = ModelBuilder()
    go, x = b.new("bool", (), "go"), b.new("float64", ("n",), "x")

    def several(b: ModelBuilder):
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


def test_large_constants_are_abbreviated() -> None:
    b = ModelBuilder()
    few, many = b.constant(np.arange(6)), b.constant(np.arange(7))
    text = str(program(b, (), few=few, many=many))
    assert "= [0, 1, 2, 3, 4, 5]" in text
    assert "%const_2: int64[7] = [...]" in text


def test_the_text_of_a_continued_loop_with_a_scan() -> None:
    s = Sketch()
    done = s.b.new("int64", (), "done")
    rows, row = s.b.new("float64", (2, "t"), "rows"), s.body.new("float64", (2,), "row")
    scanned = (Scanned(rows, row, 1, is_backward=True),)
    loop = s.loop(s.body.op("Add", s.x, row), s.i, scanned=scanned, first_iteration=done)
    scanning = s.program(done, rows, x=loop.carried[0].final, r=loop.recorded[0].stack)
    assert text(scanning)[2:6] == [
        "  loop %i < %n after %done",
        "    carry %x: float64[2] from %x0 to %Add giving %final",
        "    scan %row: float64[2] of %rows axis 1 backward",
        "    %Add: float64[2] = Add(%x, %row)",
    ]
    arrays = {"n": 3, "x0": [0.0, 0.0], "a": [0.0, 0.0], "done": 5}
    feeds = {"rows": [[1.0, 2.0, 4.0, 8.0], [0.0, 1.0, 0.0, 3.0]], **arrays}
    results = interpret(scanning, {name: np.asarray(array) for name, array in feeds.items()})
    assert results["x"].tolist() == [14.0, 4.0]
    assert results["r"].tolist() == [5, 6, 7]
