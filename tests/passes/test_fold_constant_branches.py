"""Choices with a constant condition become the chosen branch."""

from __future__ import annotations

import numpy as np
import pytest

from mdf_loop.build import Builder
from mdf_loop.errors import RunError
from mdf_loop.ir import Branch, Carried, If, Loop, Value, walk
from mdf_loop.passes.simplify.fold_constant_branches import fold_constant_branches
from mdf_loop.pipeline import ONNXRUNTIME, prepare
from mdf_loop.run.interpret import interpret
from mdf_loop.run.onnxruntime.session import Session
from tests.passes.sketch import Sketch, same_bits, straight, text
from tests.placements import STANDARD


def exp_if(b: Builder, truth: Value, x: Value, y: Value) -> Value:
    """Build `exp(x) if truth else y`."""
    then = b.body()
    power = then.op("Exp", x)
    selected = b.new(x.dtype, x.shape, "made")
    b.append(If("choice", truth, Branch(tuple(then.ops), (power,)), Branch((), (y,)), (selected,)))
    return selected


def test_a_constant_condition_is_folded() -> None:
    b = Builder()
    x, y = b.new("float64", (2,), "x"), b.new("float64", (2,), "y")
    first = exp_if(b, b.constant(np.array(True)), x, y)
    second = exp_if(b, b.constant(np.array(False)), x, first)
    program = straight(b, (x, y), z=b.op("Add", first, second), second=second)
    assert text(fold_constant_branches(program)) == [
        "program(%x: float64[2], %y: float64[2])",
        "  %const: bool[] = True",
        "  %Exp: float64[2] = Exp(%x)",
        "  %const_2: bool[] = False",
        "  %Add: float64[2] = Add(%Exp, %Exp)",
        "  output z = %Add",
        "  output second = %Exp",
    ]
    same_bits(fold_constant_branches, program, x=np.array([0.5, 1.0]), y=np.array([-0.0, np.nan]))


def test_a_variable_condition_is_not_folded() -> None:
    b = Builder()
    truth, x = b.new("bool", (), "truth"), b.new("float64", (2,), "x")
    program = straight(b, (truth, x), made=exp_if(b, truth, x, x))
    assert fold_constant_branches(program) is program


@pytest.mark.parametrize("truth", [False, True])
def test_nested_choices_in_a_loop(truth: bool) -> None:
    s = Sketch()
    known = s.b.constant(np.array(truth))
    then = s.body.body()
    inner = exp_if(then, known, s.x, s.a)
    outer = s.body.new("float64", (2,), "outer")
    sides = Branch(tuple(then.ops), (inner,)), Branch((), (s.x,))
    s.body.append(If("outer", s.b.constant(np.array(True)), *sides, (outer,)))
    loop = s.loop(outer, outer)
    program = s.program(x=loop.carried[0].final, rows=loop.recorded[0].stack)
    assert not any(isinstance(op, If) for op in walk(fold_constant_branches(program).ops))
    arrays = {"n": np.array(2), "x0": np.zeros(2), "a": np.array([1.5, -2.0])}
    same_bits(fold_constant_branches, program, **arrays)


def test_the_runtime_keeps_a_choice_whose_shape_is_read() -> None:
    s = Sketch()
    selected = exp_if(s.body, s.b.constant(np.array(False)), s.a, s.x0)
    shape = s.body.op("Shape", selected)
    row = s.body.op("Reshape", selected, shape, allowzero=1)
    loop = s.loop(s.x, row)
    program = s.program(rows=loop.recorded[0].stack)
    arrays = {"n": np.array(2), "x0": np.array([3.0, 4.0]), "a": np.ones(2)}
    rewritten_y = Session(prepare(program, ONNXRUNTIME), STANDARD).run(arrays)
    np.testing.assert_array_equal(rewritten_y["rows"], interpret(program, arrays)["rows"])


def test_the_entering_condition_is_true_in_a_loop_without_a_condition() -> None:
    """Fold a condition that is always true, so that loading the model divides by zero in the chosen branch."""
    b = Builder()
    x, trips = b.new("int64", (1,), "x"), b.new("int64", (), "trips")
    body = b.body()
    i, go = body.new("int64", (), "i"), body.new("bool", (), "go")
    divisor = body.new("int64", (1,), "divisor")
    zero, one = (b.constant(np.array([number])) for number in (0, 1))
    body.append(If("choice", go, Branch((), (zero,)), Branch((), (one,)), (divisor,)))
    enter, final = body.new("int64", (1,), "enter"), b.new("int64", (1,), "final")
    leave = body.op("Mod", enter, divisor)
    carried = (Carried(x, enter, leave, final),)
    b.append(Loop("loop", trips, None, i, go, None, carried, (), tuple(body.ops), ()))
    program = straight(b, (x, trips), y=final)
    assert not any(isinstance(op, If) for op in walk(fold_constant_branches(program).ops))
    session = Session(prepare(program, ONNXRUNTIME), STANDARD)
    feeds = {"x": np.array([7]), "trips": np.array(0)}
    assert session.run(feeds)["y"] == [7]
    with pytest.raises(RunError, match="divided by zero"):
        session.run({**feeds, "trips": np.array(1)})
