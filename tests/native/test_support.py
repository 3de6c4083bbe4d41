"""The reasons why a loop is standard, and loops that are native although their extents are unknown."""

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


def string_dtype() -> Program:
    s = Sketch()
    return s.program(s.carry(s.input("string"), lambda v: s.inside.op("Identity", v)))


def float16_dtype() -> Program:
    s = Sketch()
    x = s.input("float16", (3,))
    return s.program(s.carry(x, lambda v: s.inside.op("Neg", v)))


def changing_axes() -> Program:
    s = Sketch()
    x = s.input("float64", ("n",))
    more = s.b.constant(np.array([0]))
    final = s.carry(x, lambda v: s.inside.op("Unsqueeze", v, more), ("m",), final=("f",))
    return s.program(final, has_dynamic_shapes=True)


def wrong_declared_shape() -> Program:
    """Declare a carried shape of 3 elements, although concatenation doubles the array."""
    s = Sketch()
    x = s.input("float64", (3,))
    final = s.carry(x, lambda v: s.inside.op("Concat", v, v, axis=0), final=("m",))
    return s.program(final, has_dynamic_shapes=True)


def inner_rows() -> Program:
    """Record rows in an inner loop until a condition ends the inner loop."""
    s = Sketch()
    x, flag = s.input("float64", (3,)), s.input("bool", (), "flag")
    inner = s.inside.body()
    j, go = inner.new("int64", (), "j"), inner.new("bool", (), "go")
    row = inner.op("Add", x, inner.op("Cast", j, to=11))
    stack = s.inside.new("float64", ("rows", 3), "rows")
    three_iterations = s.b.constant(np.array(3))
    ops, rows = tuple(inner.ops), (Recorded(row, stack),)
    s.inside.append(Loop("A.g", three_iterations, flag, j, go, flag, (), rows, ops))
    total = s.inside.op("ReduceSum", stack, s.b.constant(np.array([0])), keepdims=0)
    return s.program(s.carry(x, lambda v: s.inside.op("Add", v, total)))


def many_axes() -> Program:
    s = Sketch()
    x = s.input("float64", tuple(f"n{k}" for k in range(16)))
    return s.program(s.carry(x, lambda v: s.inside.op("Neg", v)))


def unknown_rank() -> Program:
    s = Sketch()
    x = s.input("float64", None)
    return s.program(s.carry(x, lambda v: s.inside.op("Neg", v)))


def rows_of_unknown_rank() -> Program:
    s = Sketch()
    row = s.scan(s.input("float64", None))
    return s.program(s.record(s.inside.op("Neg", row)))


def two_symbolic_extents() -> Program:
    s = Sketch()
    x, y = s.input("float64", ("n",)), s.input("float64", ("m",), "w")
    return s.program(*(s.carry(each, lambda v: s.inside.op("Neg", v)) for each in (x, y)))


def reduced() -> Program:
    s = Sketch()
    x = s.input("float64", ("n",))
    return s.program(
        s.carry(x, lambda v: s.inside.op("Sub", v, s.inside.op("ReduceSum", v, keepdims=0)))
    )


def expanded() -> Program:
    """Expand a number to a shape that is an input of the program."""
    s = Sketch()
    x, shape = s.input(), s.input("int64", (1,), "shape")
    number = s.inside.op("Cast", s.i, to=11)
    return s.program(s.record(s.inside.op("Expand", s.inside.op("Add", x, number), shape)))


def renamed_extent_inside() -> Program:
    s = Sketch()
    x = s.input("float64", ("n",))
    return s.program(s.carry(x, lambda v: s.inside.op("Add", v, v), ("m",)))


def renamed_extent_outside() -> Program:
    s = Sketch()
    x = s.input("float64", ("n",))
    return s.program(s.carry(x, lambda v: s.inside.op("Add", v, v), final=("m",)))


def renamed_extent_of_rows() -> Program:
    s = Sketch()
    row = s.scan(s.input("float64", (5, "n"), "rows"), ("m",))
    return s.program(s.record(s.inside.op("Neg", row)))


def rows_of_fixed_and_symbolic_extent() -> Program:
    """Declare rows of 4 elements, although the scanned array has the symbolic extent `n`."""
    s = Sketch()
    row = s.scan(s.input("float64", (5, "n"), "rows"), (4,))
    return s.program(s.record(s.inside.op("Neg", row)))


def wrong_declared_rows() -> Program:
    """Declare recorded rows of 3 elements, although an inner loop makes the rows shorter."""
    s = Sketch()
    x, two = s.input("float64", (3,)), s.b.constant(np.array(2))
    inner = s.inside.body()
    j, go = inner.new("int64", (), "j"), inner.new("bool", (), "go")
    enter = inner.new("float64", (3,), "row")
    zero, one = s.b.constant(np.array([0])), s.b.constant(np.array([1]))
    end = inner.op("Reshape", inner.op("Sub", two, j), one)
    leave = inner.op("Slice", enter, zero, end, zero)
    final, stack = s.inside.new("float64", ("f",), "f"), s.inside.new("float64", (2, 3), "rows")
    carried, rows = (Carried(x, enter, leave, final),), (Recorded(enter, stack),)
    inside = Loop(
        "A.g", two, None, j, go, None, carried, rows, tuple(inner.ops), has_dynamic_shapes=True
    )
    s.inside.append(inside)
    return s.program(s.record(s.inside.op("Neg", stack)))


def large_product() -> Program:
    """Use a `Gemm` that decomposes to a large matrix product."""
    s = Sketch()
    x, weights = s.input("float64", (1, 2000)), s.input("float64", (2000, 1000), "w")
    return s.program(s.record(s.inside.op("Gemm", s.varied(x), weights)))


def operator_without_machine_code() -> Program:
    s = Sketch()
    x = s.input("float64", (2, 3, 3))
    two = s.b.constant(np.array([2]))
    values, _ = s.inside.multi("TopK", s.varied(x), two, n_outputs=2)
    return s.program(s.record(values))


def unknown_inner_extent() -> Program:
    """Multiply matrices whose inner extent is unknown."""
    s = Sketch()
    x, y = s.input("float64", (3, "n")), s.input("float64", ("n", 2), "w")
    return s.program(s.record(s.inside.op("MatMul", s.varied(x), y)))


def possibly_broadcast() -> Program:
    """Multiply arrays of two symbolic extents, which may be equal or need broadcasting."""
    s = Sketch()
    x, y = s.input("float64", ("n",)), s.input("float64", ("m",), "w")
    return s.program(s.record(s.inside.op("Mul", s.varied(x), y), "rows"))


def steps_of_a_slice() -> Program:
    s = Sketch()
    x, step = s.input("float64", ("n",)), s.input("int64", (1,), "step")
    zero, all_of_it = (s.b.constant(np.array([number])) for number in (0, 2**62))
    return s.program(s.record(s.inside.op("Slice", s.varied(x), zero, all_of_it, zero, step)))


def separate_reduced_axes() -> Program:
    s = Sketch()
    x, axes = s.input("float64", ("n", 3, 2)), s.b.constant(np.array([0, 2]))
    return s.program(s.record(s.inside.op("ReduceSum", s.varied(x), axes)))


def bounds_are_arrays() -> Program:
    """Use an array as a bound of `Clip`, which the runtime refuses at run time."""
    s = Sketch()
    x, low = s.input("float64", (3,)), s.input("float64", (3,), "low")
    return s.program(s.carry(x, lambda v: s.inside.op("Clip", v, low)))


def too_many_slopes() -> Program:
    s = Sketch()
    x, slopes = s.input("float32", ()), s.input("float32", (3,), "slopes")
    return s.program(s.carry(x, lambda v: s.inside.op("PRelu", v, slopes)))


def slopes_of_higher_rank() -> Program:
    s = Sketch()
    x, slopes = s.input("float32", (3,)), s.input("float32", (2, 3), "slopes")
    return s.program(s.carry(x, lambda v: s.inside.op("PRelu", v, slopes)))


def branches_of_different_shapes() -> Program:
    s = Sketch()
    x, y = s.input("float64", (3,)), s.input("float64", (2,), "w")
    flag, z = s.input("bool", (), "flag"), s.inside.new("float64", None, "z")
    s.inside.append(If("if", flag, Branch((), (x,)), Branch((), (y,)), (z,)))
    return s.program(s.record(z))


REASONS = {
    string_dtype: "it has string",
    float16_dtype: "it has float16",
    changing_axes: "what it carries may change its shape",
    wrong_declared_shape: "the shape of 'Concat' is known only when it runs",
    many_axes: "it has an array of more than 15 axes",
    unknown_rank: "the shape of 'enter' is known only when it runs",
    rows_of_fixed_and_symbolic_extent: "the shape of 'row' is known only when it runs",
    rows_of_unknown_rank: "the shape of what it scans is known only when it runs",
    wrong_declared_rows: "the shape of 'row' is known only when it runs",
    large_product: "it has a large onnx::Gemm",
    operator_without_machine_code: "it has onnx::TopK",
    unknown_inner_extent: "it has onnx::MatMul of arrays whose shape is known only when it runs",
    possibly_broadcast: "it has onnx::Mul of arrays that may differ in shape",
    steps_of_a_slice: "it has onnx::Slice of what is computed",
    separate_reduced_axes: "it has onnx::ReduceSum along axes that do not lie together",
    bounds_are_arrays: "it has onnx::Clip with bounds that are arrays",
    too_many_slopes: "'slopes' is an array where one number is wanted",
    slopes_of_higher_rank: "'slopes' does not fit 'PRelu'",
    branches_of_different_shapes: "the shape of 'z' is known only when it runs",
}
"""Functions that build programs, and the reasons why their loops are standard."""


@pytest.mark.parametrize("make", REASONS, ids=lambda make: make.__name__)
def test_the_reason_of_a_standard_loop(
    make: Callable[[], Program], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop_decisions, "MIN_NATIVE_MICROSECONDS", 0)
    program, reason = make(), REASONS[make]
    assert Session(program, NATIVE).native["A.f"] == f"standard: {reason}"
    with pytest.raises(UnsupportedError) as error:
        Session(program, REQUIRED)
    assert error.value.findings[0].what == f"the loop 'A.f' cannot be native: {reason}"


def test_constants_in_the_body_are_supported() -> None:
    """Run a loop with a constant inside of the body, where no pass would put it."""
    s = Sketch()
    x = s.input("float64", (3,))
    inside = Value("inside", "float64", (3,))
    s.inside.ops.append(Constant(inside, np.array([1.0, 2.0, 4.0])))
    prepared = s.program(s.carry(x, lambda v: s.inside.op("Add", v, inside)))
    plain = Program("p", prepared.inputs, tuple(s.b.ops), prepared.outputs)
    inputs = {"x": np.array([0.5, -1.0, 3.0])}
    y = Session(plain, REQUIRED).run(inputs)["y0"]
    np.testing.assert_array_equal(y, Session(plain, STANDARD).run(inputs)["y0"], strict=True)


def many_symbolic_extents() -> Program:
    """Use more symbolic extents than an array may have axes."""
    s = Sketch()
    arrays = [s.input("float64", (f"n{k}", f"m{k}"), f"x{k}") for k in range(20)]
    return s.program(*(s.carry(each, lambda v: s.inside.op("Neg", v)) for each in arrays))


INPUTS = {
    **{"x": np.array([1.5, -2.0, 0.25]), "w": np.array([3.0, 0.5]), "flag": np.array(True)},
    **{"rows": np.arange(20.0).reshape(5, 4), "shape": np.array([3])},
    **{f"x{k}": np.arange(3.0 * k).reshape(k, 3) for k in range(20)},
}
"""Inputs of the programs by name."""


@pytest.mark.parametrize(
    "make",
    [
        *(
            many_symbolic_extents,
            two_symbolic_extents,
            renamed_extent_inside,
            renamed_extent_outside,
        ),
        *(renamed_extent_of_rows, inner_rows, reduced, expanded),
    ],
)
def test_symbolic_extents_are_supported(make: Callable[[], Program]) -> None:
    """Check that loops with several or renamed symbolic extents are native."""
    program = make()
    feeds = {e.value.name: INPUTS[e.value.name] for e in program.inputs}
    if make is expanded:
        feeds["x"] = np.array(0.5)
    outputs, expected = (Session(program, where).run(feeds) for where in (REQUIRED, STANDARD))
    for name, array in expected.items():
        np.testing.assert_allclose(outputs[name], array, rtol=1e-14, strict=True)
