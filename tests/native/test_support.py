"""Why a loop is standard: each reason, and what is native though it looks otherwise."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from mdf_loop.errors import UnsupportedError
from mdf_loop.ir import (
    Branch,
    Carried,
    Constant,
    If,
    Loop,
    Program,
    Recorded,
    Value,
)
from mdf_loop.native import loop_decisions
from mdf_loop.run.onnxruntime.session import Session
from tests.native.one_loop import Sketch
from tests.placements import NATIVE, REQUIRED, STANDARD


def text() -> Program:
    s = Sketch()
    return s.program(s.carry(s.given("string"), lambda v: s.inside.op("Identity", v)))


def small_floats() -> Program:
    s = Sketch()
    x = s.given("float16", (3,))
    return s.program(s.carry(x, lambda v: s.inside.op("Neg", v)))


def changing_axes() -> Program:
    s = Sketch()
    x = s.given("float64", ("n",))
    more = s.b.constant(np.array([0]))
    final = s.carry(x, lambda v: s.inside.op("Unsqueeze", v, more), ("m",), final=("f",))
    return s.program(final, dynamic_shapes=True)


def said_otherwise() -> Program:
    """Three numbers, it says, that become six."""
    s = Sketch()
    x = s.given("float64", (3,))
    final = s.carry(x, lambda v: s.inside.op("Concat", v, v, axis=0), final=("m",))
    return s.program(final, dynamic_shapes=True)


def inner_rows() -> Program:
    """A loop inside records as many rows as a condition lets it."""
    s = Sketch()
    x, flag = s.given("float64", (3,)), s.given("bool", (), "flag")
    inner = s.inside.body()
    j, go = inner.new("int64", (), "j"), inner.new("bool", (), "go")
    row = inner.op("Add", x, inner.op("Cast", j, to=11))
    stack = s.inside.new("float64", ("rows", 3), "rows")
    three = s.b.constant(np.array(3))
    ops, rows = tuple(inner.ops), (Recorded(row, stack),)
    s.inside.append(Loop("A.g", three, flag, j, go, flag, (), rows, ops))
    total = s.inside.op("ReduceSum", stack, s.b.constant(np.array([0])), keepdims=0)
    return s.program(s.carry(x, lambda v: s.inside.op("Add", v, total)))


def many_axes() -> Program:
    s = Sketch()
    x = s.given("float64", tuple(f"n{k}" for k in range(16)))
    return s.program(s.carry(x, lambda v: s.inside.op("Neg", v)))


def unknown_rank() -> Program:
    s = Sketch()
    x = s.given("float64", None)
    return s.program(s.carry(x, lambda v: s.inside.op("Neg", v)))


def rows_of_unknown_rank() -> Program:
    s = Sketch()
    row = s.scan(s.given("float64", None))
    return s.program(s.record(s.inside.op("Neg", row)))


def several_shapes() -> Program:
    s = Sketch()
    x, y = s.given("float64", ("n",)), s.given("float64", ("m",), "w")
    return s.program(*(s.carry(each, lambda v: s.inside.op("Neg", v)) for each in (x, y)))


def reduced() -> Program:
    s = Sketch()
    x = s.given("float64", ("n",))
    return s.program(
        s.carry(x, lambda v: s.inside.op("Sub", v, s.inside.op("ReduceSum", v, keepdims=0)))
    )


def expanded() -> Program:
    """As many numbers as only a number says."""
    s = Sketch()
    x, shape = s.given(), s.given("int64", (1,), "shape")
    number = s.inside.op("Cast", s.i, to=11)
    return s.program(s.record(s.inside.op("Expand", s.inside.op("Add", x, number), shape)))


def another_name_inside() -> Program:
    s = Sketch()
    x = s.given("float64", ("n",))
    return s.program(s.carry(x, lambda v: s.inside.op("Add", v, v), ("m",)))


def another_name_outside() -> Program:
    s = Sketch()
    x = s.given("float64", ("n",))
    return s.program(s.carry(x, lambda v: s.inside.op("Add", v, v), final=("m",)))


def rows_by_another_name() -> Program:
    s = Sketch()
    row = s.scan(s.given("float64", (5, "n"), "rows"), ("m",))
    return s.program(s.record(s.inside.op("Neg", row)))


def rows_of_another_extent() -> Program:
    """What is known of the row is not known of the rows."""
    s = Sketch()
    row = s.scan(s.given("float64", (5, "n"), "rows"), (4,))
    return s.program(s.record(s.inside.op("Neg", row)))


def rows_said_otherwise() -> Program:
    """Rows of three numbers, it says, that become shorter in a loop inside."""
    s = Sketch()
    x, two = s.given("float64", (3,)), s.b.constant(np.array(2))
    inner = s.inside.body()
    j, go = inner.new("int64", (), "j"), inner.new("bool", (), "go")
    enter = inner.new("float64", (3,), "row")
    zero, one = s.b.constant(np.array([0])), s.b.constant(np.array([1]))
    end = inner.op("Reshape", inner.op("Sub", two, j), one)
    leave = inner.op("Slice", enter, zero, end, zero)
    final, stack = s.inside.new("float64", ("f",), "f"), s.inside.new("float64", (2, 3), "rows")
    carried, rows = (Carried(x, enter, leave, final),), (Recorded(enter, stack),)
    inside = Loop(
        "A.g", two, None, j, go, None, carried, rows, tuple(inner.ops), dynamic_shapes=True
    )
    s.inside.append(inside)
    return s.program(s.record(s.inside.op("Neg", stack)))


def large_product() -> Program:
    """Composed of a product that is large."""
    s = Sketch()
    x, weights = s.given("float64", (1, 2000)), s.given("float64", (2000, 1000), "w")
    return s.program(s.record(s.inside.op("Gemm", s.varied(x), weights)))


def no_code() -> Program:
    s = Sketch()
    x = s.given("float64", (2, 3, 3))
    two = s.b.constant(np.array([2]))
    values, _ = s.inside.multi("TopK", s.varied(x), two, n_outputs=2)
    return s.program(s.record(values))


def open_terms() -> Program:
    """Nobody knows how many terms a sum will have."""
    s = Sketch()
    x, y = s.given("float64", (3, "n")), s.given("float64", ("n", 2), "w")
    return s.program(s.record(s.inside.op("MatMul", s.varied(x), y)))


def may_differ() -> Program:
    """One may be spread to the shape of the other, or not."""
    s = Sketch()
    x, y = s.given("float64", ("n",)), s.given("float64", ("m",), "w")
    return s.program(s.record(s.inside.op("Mul", s.varied(x), y), "rows"))


def steps_of_a_slice() -> Program:
    s = Sketch()
    x, step = s.given("float64", ("n",)), s.given("int64", (1,), "step")
    zero, all_of_it = (s.b.constant(np.array([number])) for number in (0, 2**62))
    return s.program(s.record(s.inside.op("Slice", s.varied(x), zero, all_of_it, zero, step)))


def apart() -> Program:
    s = Sketch()
    x, axes = s.given("float64", ("n", 3, 2)), s.b.constant(np.array([0, 2]))
    return s.program(s.record(s.inside.op("ReduceSum", s.varied(x), axes)))


def bounds_are_arrays() -> Program:
    """What the runtime refuses when it runs."""
    s = Sketch()
    x, low = s.given("float64", (3,)), s.given("float64", (3,), "low")
    return s.program(s.carry(x, lambda v: s.inside.op("Clip", v, low)))


def too_many_slopes() -> Program:
    s = Sketch()
    x, slopes = s.given("float32", ()), s.given("float32", (3,), "slopes")
    return s.program(s.carry(x, lambda v: s.inside.op("PRelu", v, slopes)))


def other_slopes() -> Program:
    s = Sketch()
    x, slopes = s.given("float32", (3,)), s.given("float32", (2, 3), "slopes")
    return s.program(s.carry(x, lambda v: s.inside.op("PRelu", v, slopes)))


def differing_branches() -> Program:
    s = Sketch()
    x, y = s.given("float64", (3,)), s.given("float64", (2,), "w")
    flag, z = s.given("bool", (), "flag"), s.inside.new("float64", None, "z")
    s.inside.append(If("if", flag, Branch((), (x,)), Branch((), (y,)), (z,)))
    return s.program(s.record(z))


STANDARDS = {
    text: "it has string",
    small_floats: "it has float16",
    changing_axes: "what it carries may change its shape",
    said_otherwise: "the shape of 'Concat' is known only when it runs",
    many_axes: "it has an array of more than 15 axes",
    unknown_rank: "the shape of 'enter' is known only when it runs",
    rows_of_another_extent: "the shape of 'row' is known only when it runs",
    rows_of_unknown_rank: "the shape of what it scans is known only when it runs",
    rows_said_otherwise: "the shape of 'row' is known only when it runs",
    large_product: "it has a large onnx::Gemm",
    no_code: "it has onnx::TopK",
    open_terms: "it has onnx::MatMul of arrays whose shape is known only when it runs",
    may_differ: "it has onnx::Mul of arrays that may differ in shape",
    steps_of_a_slice: "it has onnx::Slice of what is computed",
    apart: "it has onnx::ReduceSum along axes that do not lie together",
    bounds_are_arrays: "it has onnx::Clip with bounds that are arrays",
    too_many_slopes: "'slopes' is an array where one number is wanted",
    other_slopes: "'slopes' does not fit 'PRelu'",
    differing_branches: "the shape of 'z' is known only when it runs",
}
"""Programs, and why their loops are standard."""


@pytest.mark.parametrize("make", STANDARDS, ids=lambda make: make.__name__)
def test_reasons(make: Callable[[], Program], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop_decisions, "LITTLE", 0)
    program, reason = make(), STANDARDS[make]
    assert Session(program, NATIVE).native["A.f"] == f"standard: {reason}"
    with pytest.raises(UnsupportedError) as error:
        Session(program, REQUIRED)
    assert error.value.findings[0].what == f"the loop 'A.f' cannot be native: {reason}"


def test_constants_in_the_body() -> None:
    """Where passes put none."""
    s = Sketch()
    x = s.given("float64", (3,))
    inside = Value("inside", "float64", (3,))
    s.inside.ops.append(Constant(inside, np.array([1.0, 2.0, 4.0])))
    prepared = s.program(s.carry(x, lambda v: s.inside.op("Add", v, inside)))
    plain = Program("p", prepared.inputs, tuple(s.b.ops), prepared.outputs)
    given = {"x": np.array([0.5, -1.0, 3.0])}
    made = Session(plain, REQUIRED).run(given)["y0"]
    np.testing.assert_array_equal(made, Session(plain, STANDARD).run(given)["y0"], strict=True)


def many_names() -> Program:
    """More than an array has axes."""
    s = Sketch()
    arrays = [s.given("float64", (f"n{k}", f"m{k}"), f"x{k}") for k in range(20)]
    return s.program(*(s.carry(each, lambda v: s.inside.op("Neg", v)) for each in arrays))


GIVEN = {
    **{"x": np.array([1.5, -2.0, 0.25]), "w": np.array([3.0, 0.5]), "flag": np.array(True)},
    **{"rows": np.arange(20.0).reshape(5, 4), "shape": np.array([3])},
    **{f"x{k}": np.arange(3.0 * k).reshape(k, 3) for k in range(20)},
}
"""What these programs are given, by name."""


@pytest.mark.parametrize(
    "make",
    [
        *(many_names, several_shapes, another_name_inside, another_name_outside),
        *(rows_by_another_name, inner_rows, reduced, expanded),
    ],
)
def test_extents_are_no_reason(make: Callable[[], Program]) -> None:
    """What enters an iteration has the shape of what entered the first one, whatever it is called."""
    program = make()
    feeds = {e.value.name: GIVEN[e.value.name] for e in program.inputs}
    if make is expanded:
        feeds["x"] = np.array(0.5)
    made, expected = (Session(program, where).run(feeds) for where in (REQUIRED, STANDARD))
    for name, array in expected.items():
        np.testing.assert_allclose(made[name], array, rtol=1e-14, strict=True)
