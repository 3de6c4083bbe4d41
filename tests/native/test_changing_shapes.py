"""Carried arrays whose shape changes between iterations: native results and errors equal the standard ones."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from msgspec.structs import replace

from mdf_loop.errors import RecordShapeError
from mdf_loop.ir import Carried, Loop, Program, Recorded, Value
from mdf_loop.run.interpret import interpret
from mdf_loop.run.onnxruntime.session import Session
from tests.native.one_loop import Sketch
from tests.placements import NATIVE, REQUIRED, STANDARD, kernels_checked
from tests.strategies.native_operations import same_bits


def numbers(s: Sketch, *values: int) -> Value:
    return s.b.constant(np.array(values))


def rest_of(s: Sketch, v: Value) -> Value:
    return s.inside.op("Slice", v, numbers(s, 1), numbers(s, 2**62), numbers(s, 0))


def with_trip_input(s: Sketch, *output_values: Value, **more: object) -> Program:
    """Return the program with an additional input `trip`, the number of iterations."""
    return s.program(*output_values, trip_count=s.input("int64", (), "trip"), **more)


def growing() -> Program:
    sketch = Sketch()
    x = sketch.input("float64", ("n",))
    doubled_array = sketch.carry(
        x, lambda v: sketch.inside.op("Concat", sketch.varied(v), v, axis=0), ("e",)
    )
    return with_trip_input(sketch, doubled_array, has_dynamic_shapes=True)


def growing_along_the_middle_axis() -> Program:
    """Append along the middle axis of an array; the extents of the other axes stay known."""
    sketch = Sketch()
    x = sketch.input("int64", (2, "n", 3))
    appended_plane = sketch.inside.op(
        "Expand",
        sketch.inside.op("Reshape", sketch.i, numbers(sketch, 1, 1, 1)),
        numbers(sketch, 2, 1, 3),
    )
    extended_array = sketch.carry(
        x, lambda v: sketch.inside.op("Concat", v, appended_plane, axis=1), (2, "e", 3)
    )
    return with_trip_input(sketch, extended_array, has_dynamic_shapes=True)


def shrinking() -> Program:
    sketch = Sketch()
    return with_trip_input(
        sketch, sketch.carry(sketch.input("float64", ("n",)), lambda v: rest_of(sketch, v), ("e",))
    )


def exchanged() -> Program:
    """Exchange two carried arrays of different shapes in each iteration, and reverse one of them."""
    sketch = Sketch()
    x, y = sketch.input("float64", ("n",)), sketch.input("float64", ("m",), "w")
    first_array, second_array = (
        sketch.inside.new("float64", (name,), name) for name in ("one", "other")
    )
    final_values = [sketch.b.new("float64", (name,), name) for name in ("end", "other_end")]
    minus_one = numbers(sketch, -1)
    reversed_array = sketch.inside.op(
        "Slice", first_array, minus_one, numbers(sketch, -(2**62)), numbers(sketch, 0), minus_one
    )
    sketch.carried += [
        Carried(x, first_array, second_array, final_values[0]),
        Carried(y, second_array, reversed_array, final_values[1]),
    ]
    return with_trip_input(sketch, *final_values)


def growing_from_one_element() -> Program:
    """Carry an array that starts as a constant with one element and grows by one element per iteration."""
    sketch = Sketch()
    first_element = sketch.b.constant(np.array([0.5]))
    next_element = sketch.inside.op(
        "Cast", sketch.inside.op("Reshape", sketch.i, numbers(sketch, 1)), to=11
    )
    return with_trip_input(
        sketch,
        sketch.carry(
            first_element, lambda v: sketch.inside.op("Concat", v, next_element, axis=0), ("e",)
        ),
    )


def until_long() -> Program:
    """Double the carried array until a condition ends the loop, and record the lengths."""
    sketch = Sketch()
    x, flag = sketch.input("float64", ("n",)), sketch.input("bool", (), "flag")
    enter_value = sketch.inside.new("float64", ("e",), "enter")
    leave_value = sketch.inside.op(
        "Concat", enter_value, sketch.inside.op("Neg", enter_value), axis=0
    )
    element_count = sketch.inside.op("Size", leave_value)
    final_value = sketch.b.new("float64", ("end",), "final")
    sketch.carried.append(Carried(x, enter_value, leave_value, final_value))
    recorded_counts = sketch.record(element_count, "rows")
    condition_out = sketch.inside.op("Less", element_count, sketch.b.constant(np.array(20)))
    return with_trip_input(
        sketch, final_value, recorded_counts, condition=flag, condition_out=condition_out
    )


def until_empty() -> Program:
    """Drop the first element until the condition ends the loop at an empty array, and record no rows."""
    sketch = Sketch()
    x, flag = sketch.input("float64", ("n",)), sketch.input("bool", (), "flag")
    enter_value = sketch.inside.new("float64", ("e",), "enter")
    leave_value = rest_of(sketch, enter_value)
    final_value = sketch.b.new("float64", ("end",), "final")
    sketch.carried.append(Carried(x, enter_value, leave_value, final_value))
    condition_out = sketch.inside.op(
        "Greater", sketch.inside.op("Size", leave_value), sketch.b.constant(np.array(0))
    )
    return with_trip_input(sketch, final_value, condition=flag, condition_out=condition_out)


def growing_in_an_inner_loop() -> Program:
    """Grow an array in an inner loop, which starts from the same array in each outer iteration."""
    sketch = Sketch()
    x, y = sketch.input("float64", ("n",)), sketch.input("float64", ("m",), "w")
    inner_body = sketch.inside.body()
    j, condition_in, enter_value = (
        inner_body.new(dtype, shape, name)
        for dtype, shape, name in (
            ("int64", (), "j"),
            ("bool", (), "go"),
            ("float64", ("f",), "in"),
        )
    )
    leave_value = inner_body.op("Concat", enter_value, y, axis=0)
    final_value = sketch.inside.new("float64", ("g",), "inner_final")
    carried_values = (Carried(x, enter_value, leave_value, final_value),)
    sketch.inside.append(
        Loop(
            "A.g", sketch.i, None, j, condition_in, None, carried_values, (), tuple(inner_body.ops)
        )
    )
    element_sum = sketch.inside.op("ReduceSum", final_value, keepdims=0)
    sums = sketch.record(element_sum, "rows")
    return with_trip_input(
        sketch,
        sums,
        sketch.carry(y, lambda v: sketch.inside.op("Mul", final_value, element_sum), ("e",)),
    )


PROGRAMS = [
    *(growing, growing_along_the_middle_axis, shrinking, exchanged, growing_from_one_element),
    *(until_long, until_empty, growing_in_an_inner_loop),
]


@pytest.mark.parametrize("trip", [-1, 0, 1, 2, 5])
@pytest.mark.parametrize("extent", [0, 1, 3, 8])
@pytest.mark.parametrize("make", PROGRAMS, ids=lambda make: make.__name__)
def test_native_results_equal_standard_results(
    make: Callable[[], Program], extent: int, trip: int
) -> None:
    for flag in (True, False):
        program = make()
        extent_by_name = {"n": extent, "m": 2}
        arrays = {"trip": np.array(trip), "flag": np.array(flag)}
        for program_input in program.inputs:
            value = program_input.value
            if value.shape:
                shape = [extent_by_name.get(str(extent), extent) for extent in value.shape]
                rows = np.arange(float(np.prod(shape, dtype=int))).reshape(shape) + 0.5
                arrays[value.name] = rows.astype(value.dtype)
        feeds = {
            program_input.value.name: arrays[program_input.value.name]
            for program_input in program.inputs
        }
        with kernels_checked():
            outputs = Session(program, REQUIRED).run(feeds)
        expected = Session(program, STANDARD).run(feeds)
        for name, array in expected.items():
            assert outputs[name].shape == array.shape
            assert same_bits(outputs[name], array) or np.allclose(outputs[name], array, 1e-14, 0)
        if "flag" not in feeds:
            break


def test_recorded_rows_of_different_shapes_fail_as_in_the_standard_loop() -> None:
    sketch = Sketch()
    x = sketch.input("float64", ("n",))
    enter_value = sketch.inside.new("float64", ("e",), "enter")
    final_value = sketch.b.new("float64", ("end",), "final")
    sketch.carried.append(Carried(x, enter_value, rest_of(sketch, enter_value), final_value))
    sketch.recorded.append(
        Recorded(enter_value, sketch.b.new("float64", (3, "e"), "stack"), "path")
    )
    program = sketch.program(final_value, sketch.recorded[0].stack)
    for placement in (REQUIRED, STANDARD):
        with pytest.raises(
            RecordShapeError, match=r"\[4\] at first, but \[3\] in a later iteration"
        ):
            Session(program, placement).run({"x": np.ones(4)})
    for placement in (REQUIRED, STANDARD):  # all rows are empty and have equal shapes
        assert Session(program, placement).run({"x": np.ones(0)})["y1"].shape == (3, 0)


def test_a_backward_slice_from_before_the_first_element() -> None:
    """Check that the slice begins at the first element, as in ONNX; the Python slice would be empty."""
    sketch = Sketch()
    x = sketch.input("float64", (1,))
    v = sketch.inside.new("float64", ("e",), "v")
    slice_operands = [numbers(sketch, number) for number in (-4, -(2**62), 0, -1)]
    slice_rows = sketch.record(sketch.inside.op("Slice", v, *slice_operands), "rows")
    sketch.carried.append(Carried(x, v, x, sketch.b.new("float64", ("f",), "end")))
    program = with_trip_input(sketch, slice_rows)
    feeds = {"x": np.array([3.5]), "trip": np.array(2)}
    feeds = {
        program_input.value.name: feeds[program_input.value.name]
        for program_input in program.inputs
    }
    for outputs in (
        Session(program, REQUIRED).run(feeds),
        Session(program, STANDARD).run(feeds),
        interpret(program, feeds),
    ):
        assert next(iter(outputs.values())).tolist() == [[3.5], [3.5]]


@pytest.mark.parametrize("extent", [1, "n"])
def test_unknown_extents_are_0_without_iterations(extent: int | str) -> None:
    """Check the row shape of a slice whose first extent is known to the kernel but not to the program."""
    sketch = Sketch()
    x = sketch.input("float64", (extent, 2))
    slice_operands = [
        sketch.inside.op("Reshape", sketch.i, numbers(sketch, 1)),
        numbers(sketch, 2),
        numbers(sketch, 1),
    ]
    column = sketch.inside.op(
        "Gather", sketch.inside.op("Slice", x, *slice_operands), numbers(sketch, 0), axis=1
    )
    program = with_trip_input(sketch, sketch.record(column, "rows"))
    for trip_count, shape in ((0, (0, 0, 1)), (1, (1, 1, 1))):
        feeds = {"x": np.zeros((1, 2)), "trip": np.array(trip_count)}
        row_stacks = [
            Session(program, placement).run(feeds)["y0"] for placement in (STANDARD, REQUIRED)
        ]
        assert {np.shape(rows) for rows in (*row_stacks, interpret(program, feeds)["y0"])} == {
            shape
        }


def test_a_single_element_of_an_array_with_a_symbolic_extent() -> None:
    """Declare the output with shape `(1,)` although its operand has the symbolic extent `n`."""
    sketch = Sketch()
    x = sketch.input("float64", ("n",))
    comparison = sketch.inside.op("Less", sketch.varied(x), x)
    sketch.inside.op("Cast", comparison, to=11)
    cast = sketch.inside.ops[-1]
    number = replace(cast.outputs[0], shape=(1,))
    sketch.inside.ops[-1] = replace(cast, outputs=(number,))
    program = with_trip_input(sketch, sketch.record(number, "rows"))
    feeds = {"x": np.array([2.0]), "trip": np.array(3)}
    expected = interpret(program, feeds)["y0"]
    assert same_bits(Session(program, NATIVE).run(feeds)["y0"], expected)
