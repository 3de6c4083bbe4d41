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
    sketch = Sketch()
    return sketch.program(
        sketch.carry(sketch.input("string"), lambda v: sketch.inside.op("Identity", v))
    )


def float16_dtype() -> Program:
    sketch = Sketch()
    x = sketch.input("float16", (3,))
    return sketch.program(sketch.carry(x, lambda v: sketch.inside.op("Neg", v)))


def changing_axes() -> Program:
    sketch = Sketch()
    x = sketch.input("float64", ("n",))
    new_axis = sketch.b.constant(np.array([0]))
    final_value = sketch.carry(
        x, lambda v: sketch.inside.op("Unsqueeze", v, new_axis), ("m",), final=("f",)
    )
    return sketch.program(final_value, has_dynamic_shapes=True)


def wrong_declared_shape() -> Program:
    """Declare a carried shape of 3 elements, although concatenation doubles the array."""
    sketch = Sketch()
    x = sketch.input("float64", (3,))
    final_value = sketch.carry(x, lambda v: sketch.inside.op("Concat", v, v, axis=0), final=("m",))
    return sketch.program(final_value, has_dynamic_shapes=True)


def inner_rows() -> Program:
    """Record rows in an inner loop until a condition ends the inner loop."""
    sketch = Sketch()
    x, flag = sketch.input("float64", (3,)), sketch.input("bool", (), "flag")
    inner_body = sketch.inside.body()
    j, condition_in = inner_body.new("int64", (), "j"), inner_body.new("bool", (), "go")
    row = inner_body.op("Add", x, inner_body.op("Cast", j, to=11))
    stack = sketch.inside.new("float64", ("rows", 3), "rows")
    three_iterations = sketch.b.constant(np.array(3))
    ops, recorded_values = tuple(inner_body.ops), (Recorded(row, stack),)
    sketch.inside.append(
        Loop("A.g", three_iterations, flag, j, condition_in, flag, (), recorded_values, ops)
    )
    row_sum = sketch.inside.op("ReduceSum", stack, sketch.b.constant(np.array([0])), keepdims=0)
    return sketch.program(sketch.carry(x, lambda v: sketch.inside.op("Add", v, row_sum)))


def many_axes() -> Program:
    sketch = Sketch()
    x = sketch.input("float64", tuple(f"n{k}" for k in range(16)))
    return sketch.program(sketch.carry(x, lambda v: sketch.inside.op("Neg", v)))


def unknown_rank() -> Program:
    sketch = Sketch()
    x = sketch.input("float64", None)
    return sketch.program(sketch.carry(x, lambda v: sketch.inside.op("Neg", v)))


def rows_of_unknown_rank() -> Program:
    sketch = Sketch()
    row = sketch.scan(sketch.input("float64", None))
    return sketch.program(sketch.record(sketch.inside.op("Neg", row)))


def two_symbolic_extents() -> Program:
    sketch = Sketch()
    x, y = sketch.input("float64", ("n",)), sketch.input("float64", ("m",), "w")
    return sketch.program(
        *(
            sketch.carry(initial_value, lambda v: sketch.inside.op("Neg", v))
            for initial_value in (x, y)
        )
    )


def reduced() -> Program:
    sketch = Sketch()
    x = sketch.input("float64", ("n",))
    return sketch.program(
        sketch.carry(
            x, lambda v: sketch.inside.op("Sub", v, sketch.inside.op("ReduceSum", v, keepdims=0))
        )
    )


def expanded() -> Program:
    """Expand a number to a shape that is an input of the program."""
    sketch = Sketch()
    x, shape = sketch.input(), sketch.input("int64", (1,), "shape")
    number = sketch.inside.op("Cast", sketch.i, to=11)
    return sketch.program(
        sketch.record(sketch.inside.op("Expand", sketch.inside.op("Add", x, number), shape))
    )


def renamed_extent_inside() -> Program:
    sketch = Sketch()
    x = sketch.input("float64", ("n",))
    return sketch.program(sketch.carry(x, lambda v: sketch.inside.op("Add", v, v), ("m",)))


def renamed_extent_outside() -> Program:
    sketch = Sketch()
    x = sketch.input("float64", ("n",))
    return sketch.program(sketch.carry(x, lambda v: sketch.inside.op("Add", v, v), final=("m",)))


def renamed_extent_of_rows() -> Program:
    sketch = Sketch()
    row = sketch.scan(sketch.input("float64", (5, "n"), "rows"), ("m",))
    return sketch.program(sketch.record(sketch.inside.op("Neg", row)))


def rows_of_fixed_and_symbolic_extent() -> Program:
    """Declare rows of 4 elements, although the scanned array has the symbolic extent `n`."""
    sketch = Sketch()
    row = sketch.scan(sketch.input("float64", (5, "n"), "rows"), (4,))
    return sketch.program(sketch.record(sketch.inside.op("Neg", row)))


def wrong_declared_rows() -> Program:
    """Declare recorded rows of 3 elements, although an inner loop makes the rows shorter."""
    sketch = Sketch()
    x, two = sketch.input("float64", (3,)), sketch.b.constant(np.array(2))
    inner_body = sketch.inside.body()
    j, condition_in = inner_body.new("int64", (), "j"), inner_body.new("bool", (), "go")
    enter_value = inner_body.new("float64", (3,), "row")
    zero, one = sketch.b.constant(np.array([0])), sketch.b.constant(np.array([1]))
    end = inner_body.op("Reshape", inner_body.op("Sub", two, j), one)
    leave_value = inner_body.op("Slice", enter_value, zero, end, zero)
    final_value, stack = (
        sketch.inside.new("float64", ("f",), "f"),
        sketch.inside.new("float64", (2, 3), "rows"),
    )
    carried_values, recorded_values = (
        (Carried(x, enter_value, leave_value, final_value),),
        (Recorded(enter_value, stack),),
    )
    inner_loop = Loop(
        "A.g",
        two,
        None,
        j,
        condition_in,
        None,
        carried_values,
        recorded_values,
        tuple(inner_body.ops),
        has_dynamic_shapes=True,
    )
    sketch.inside.append(inner_loop)
    return sketch.program(sketch.record(sketch.inside.op("Neg", stack)))


def large_product() -> Program:
    """Use a `Gemm` that decomposes to a large matrix product."""
    sketch = Sketch()
    x, weights = sketch.input("float64", (1, 2000)), sketch.input("float64", (2000, 1000), "w")
    return sketch.program(sketch.record(sketch.inside.op("Gemm", sketch.varied(x), weights)))


def operator_without_machine_code() -> Program:
    sketch = Sketch()
    x = sketch.input("float64", (2, 3, 3))
    two = sketch.b.constant(np.array([2]))
    values, _ = sketch.inside.multi("TopK", sketch.varied(x), two, output_count=2)
    return sketch.program(sketch.record(values))


def unknown_inner_extent() -> Program:
    """Multiply matrices whose inner extent is unknown."""
    sketch = Sketch()
    x, y = sketch.input("float64", (3, "n")), sketch.input("float64", ("n", 2), "w")
    return sketch.program(sketch.record(sketch.inside.op("MatMul", sketch.varied(x), y)))


def possibly_broadcast() -> Program:
    """Multiply arrays of two symbolic extents, which may be equal or need broadcasting."""
    sketch = Sketch()
    x, y = sketch.input("float64", ("n",)), sketch.input("float64", ("m",), "w")
    return sketch.program(sketch.record(sketch.inside.op("Mul", sketch.varied(x), y), "rows"))


def steps_of_a_slice() -> Program:
    sketch = Sketch()
    x, step = sketch.input("float64", ("n",)), sketch.input("int64", (1,), "step")
    zero, slice_end = (sketch.b.constant(np.array([number])) for number in (0, 2**62))
    return sketch.program(
        sketch.record(sketch.inside.op("Slice", sketch.varied(x), zero, slice_end, zero, step))
    )


def separate_reduced_axes() -> Program:
    sketch = Sketch()
    x, axes = sketch.input("float64", ("n", 3, 2)), sketch.b.constant(np.array([0, 2]))
    return sketch.program(sketch.record(sketch.inside.op("ReduceSum", sketch.varied(x), axes)))


def bounds_are_arrays() -> Program:
    """Use an array as a bound of `Clip`, which the runtime refuses at run time."""
    sketch = Sketch()
    x, lower_bounds = sketch.input("float64", (3,)), sketch.input("float64", (3,), "low")
    return sketch.program(sketch.carry(x, lambda v: sketch.inside.op("Clip", v, lower_bounds)))


def too_many_slopes() -> Program:
    sketch = Sketch()
    x, slopes = sketch.input("float32", ()), sketch.input("float32", (3,), "slopes")
    return sketch.program(sketch.carry(x, lambda v: sketch.inside.op("PRelu", v, slopes)))


def slopes_of_higher_rank() -> Program:
    sketch = Sketch()
    x, slopes = sketch.input("float32", (3,)), sketch.input("float32", (2, 3), "slopes")
    return sketch.program(sketch.carry(x, lambda v: sketch.inside.op("PRelu", v, slopes)))


def branches_of_different_shapes() -> Program:
    sketch = Sketch()
    x, y = sketch.input("float64", (3,)), sketch.input("float64", (2,), "w")
    flag, z = sketch.input("bool", (), "flag"), sketch.inside.new("float64", None, "z")
    sketch.inside.append(If("if", flag, Branch((), (x,)), Branch((), (y,)), (z,)))
    return sketch.program(sketch.record(z))


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
    sketch = Sketch()
    x = sketch.input("float64", (3,))
    body_constant = Value("inside", "float64", (3,))
    sketch.inside.ops.append(Constant(body_constant, np.array([1.0, 2.0, 4.0])))
    prepared_program = sketch.program(
        sketch.carry(x, lambda v: sketch.inside.op("Add", v, body_constant))
    )
    plain_program = Program(
        "p", prepared_program.inputs, tuple(sketch.b.ops), prepared_program.outputs
    )
    inputs = {"x": np.array([0.5, -1.0, 3.0])}
    y = Session(plain_program, REQUIRED).run(inputs)["y0"]
    np.testing.assert_array_equal(
        y, Session(plain_program, STANDARD).run(inputs)["y0"], strict=True
    )


def many_symbolic_extents() -> Program:
    """Use more symbolic extents than an array may have axes."""
    sketch = Sketch()
    arrays = [sketch.input("float64", (f"n{k}", f"m{k}"), f"x{k}") for k in range(20)]
    return sketch.program(
        *(
            sketch.carry(initial_value, lambda v: sketch.inside.op("Neg", v))
            for initial_value in arrays
        )
    )


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
    feeds = {
        program_input.value.name: INPUTS[program_input.value.name]
        for program_input in program.inputs
    }
    if make is expanded:
        feeds["x"] = np.array(0.5)
    outputs, expected = (
        Session(program, placement).run(feeds) for placement in (REQUIRED, STANDARD)
    )
    for name, array in expected.items():
        np.testing.assert_allclose(outputs[name], array, rtol=1e-14, strict=True)
