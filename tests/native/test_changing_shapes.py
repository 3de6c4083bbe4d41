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
    s = Sketch()
    x = s.input("float64", ("n",))
    twice = s.carry(x, lambda v: s.inside.op("Concat", s.varied(v), v, axis=0), ("e",))
    return with_trip_input(s, twice, has_dynamic_shapes=True)


def growing_along_the_middle_axis() -> Program:
    """Append along the middle axis of an array; the extents of the other axes stay known."""
    s = Sketch()
    x = s.input("int64", (2, "n", 3))
    one = s.inside.op(
        "Expand", s.inside.op("Reshape", s.i, numbers(s, 1, 1, 1)), numbers(s, 2, 1, 3)
    )
    longer = s.carry(x, lambda v: s.inside.op("Concat", v, one, axis=1), (2, "e", 3))
    return with_trip_input(s, longer, has_dynamic_shapes=True)


def shrinking() -> Program:
    s = Sketch()
    return with_trip_input(s, s.carry(s.input("float64", ("n",)), lambda v: rest_of(s, v), ("e",)))


def exchanged() -> Program:
    """Exchange two carried arrays of different shapes in each iteration, and reverse one of them."""
    s = Sketch()
    x, y = s.input("float64", ("n",)), s.input("float64", ("m",), "w")
    one, other = (s.inside.new("float64", (name,), name) for name in ("one", "other"))
    finals = [s.b.new("float64", (name,), name) for name in ("end", "other_end")]
    backward = numbers(s, -1)
    turned = s.inside.op("Slice", one, backward, numbers(s, -(2**62)), numbers(s, 0), backward)
    s.carried += [Carried(x, one, other, finals[0]), Carried(y, other, turned, finals[1])]
    return with_trip_input(s, *finals)


def growing_from_one_element() -> Program:
    """Carry an array that starts as a constant with one element and grows by one element per iteration."""
    s = Sketch()
    first = s.b.constant(np.array([0.5]))
    more = s.inside.op("Cast", s.inside.op("Reshape", s.i, numbers(s, 1)), to=11)
    return with_trip_input(
        s, s.carry(first, lambda v: s.inside.op("Concat", v, more, axis=0), ("e",))
    )


def until_long() -> Program:
    """Double the carried array until a condition ends the loop, and record the lengths."""
    s = Sketch()
    x, flag = s.input("float64", ("n",)), s.input("bool", (), "flag")
    enter = s.inside.new("float64", ("e",), "enter")
    leave = s.inside.op("Concat", enter, s.inside.op("Neg", enter), axis=0)
    size = s.inside.op("Size", leave)
    final = s.b.new("float64", ("end",), "final")
    s.carried.append(Carried(x, enter, leave, final))
    sizes = s.record(size, "rows")
    goes_on = s.inside.op("Less", size, s.b.constant(np.array(20)))
    return with_trip_input(s, final, sizes, condition=flag, condition_out=goes_on)


def until_empty() -> Program:
    """Drop the first element until the condition ends the loop at an empty array, and record no rows."""
    s = Sketch()
    x, flag = s.input("float64", ("n",)), s.input("bool", (), "flag")
    enter = s.inside.new("float64", ("e",), "enter")
    leave = rest_of(s, enter)
    final = s.b.new("float64", ("end",), "final")
    s.carried.append(Carried(x, enter, leave, final))
    goes_on = s.inside.op("Greater", s.inside.op("Size", leave), s.b.constant(np.array(0)))
    return with_trip_input(s, final, condition=flag, condition_out=goes_on)


def growing_in_an_inner_loop() -> Program:
    """Grow an array in an inner loop, which starts from the same array in each outer iteration."""
    s = Sketch()
    x, y = s.input("float64", ("n",)), s.input("float64", ("m",), "w")
    inner = s.inside.body()
    j, go, enter = (
        inner.new(dtype, shape, name)
        for dtype, shape, name in (
            ("int64", (), "j"),
            ("bool", (), "go"),
            ("float64", ("f",), "in"),
        )
    )
    leave = inner.op("Concat", enter, y, axis=0)
    final = s.inside.new("float64", ("g",), "inner_final")
    carried = (Carried(x, enter, leave, final),)
    s.inside.append(Loop("A.g", s.i, None, j, go, None, carried, (), tuple(inner.ops)))
    total = s.inside.op("ReduceSum", final, keepdims=0)
    sums = s.record(total, "rows")
    return with_trip_input(s, sums, s.carry(y, lambda v: s.inside.op("Mul", final, total), ("e",)))


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
        names = {"n": extent, "m": 2}
        arrays = {"trip": np.array(trip), "flag": np.array(flag)}
        for entry in program.inputs:
            value = entry.value
            if value.shape:
                shape = [names.get(str(e), e) for e in value.shape]
                rows = np.arange(float(np.prod(shape, dtype=int))).reshape(shape) + 0.5
                arrays[value.name] = rows.astype(value.dtype)
        feeds = {entry.value.name: arrays[entry.value.name] for entry in program.inputs}
        with kernels_checked():
            outputs = Session(program, REQUIRED).run(feeds)
        expected = Session(program, STANDARD).run(feeds)
        for name, array in expected.items():
            assert outputs[name].shape == array.shape
            assert same_bits(outputs[name], array) or np.allclose(outputs[name], array, 1e-14, 0)
        if "flag" not in feeds:
            break


def test_recorded_rows_of_different_shapes_fail_as_in_the_standard_loop() -> None:
    s = Sketch()
    x = s.input("float64", ("n",))
    enter = s.inside.new("float64", ("e",), "enter")
    final = s.b.new("float64", ("end",), "final")
    s.carried.append(Carried(x, enter, rest_of(s, enter), final))
    s.recorded.append(Recorded(enter, s.b.new("float64", (3, "e"), "stack"), "path"))
    program = s.program(final, s.recorded[0].stack)
    for placement in (REQUIRED, STANDARD):
        with pytest.raises(
            RecordShapeError, match=r"\[4\] at first, but \[3\] in a later iteration"
        ):
            Session(program, placement).run({"x": np.ones(4)})
    for placement in (REQUIRED, STANDARD):  # all rows are empty and have equal shapes
        assert Session(program, placement).run({"x": np.ones(0)})["y1"].shape == (3, 0)


def test_a_backward_slice_from_before_the_first_element() -> None:
    """Check that the slice begins at the first element, as in ONNX; the Python slice would be empty."""
    s = Sketch()
    x = s.input("float64", (1,))
    v = s.inside.new("float64", ("e",), "v")
    backward = [numbers(s, number) for number in (-4, -(2**62), 0, -1)]
    part = s.record(s.inside.op("Slice", v, *backward), "rows")
    s.carried.append(Carried(x, v, x, s.b.new("float64", ("f",), "end")))
    program = with_trip_input(s, part)
    feeds = {"x": np.array([3.5]), "trip": np.array(2)}
    feeds = {e.value.name: feeds[e.value.name] for e in program.inputs}
    for outputs in (
        Session(program, REQUIRED).run(feeds),
        Session(program, STANDARD).run(feeds),
        interpret(program, feeds),
    ):
        assert next(iter(outputs.values())).tolist() == [[3.5], [3.5]]


@pytest.mark.parametrize("extent", [1, "n"])
def test_unknown_extents_are_0_without_iterations(extent: int | str) -> None:
    """Check the row shape of a slice whose first extent is known to the kernel but not to the program."""
    s = Sketch()
    x = s.input("float64", (extent, 2))
    ends = [s.inside.op("Reshape", s.i, numbers(s, 1)), numbers(s, 2), numbers(s, 1)]
    column = s.inside.op("Gather", s.inside.op("Slice", x, *ends), numbers(s, 0), axis=1)
    program = with_trip_input(s, s.record(column, "rows"))
    for trips, shape in ((0, (0, 0, 1)), (1, (1, 1, 1))):
        feeds = {"x": np.zeros((1, 2)), "trip": np.array(trips)}
        results = [Session(program, p).run(feeds)["y0"] for p in (STANDARD, REQUIRED)]
        assert {np.shape(r) for r in (*results, interpret(program, feeds)["y0"])} == {shape}


def test_a_single_element_of_an_array_with_a_symbolic_extent() -> None:
    """Declare the output with shape `(1,)` although its operand has the symbolic extent `n`."""
    s = Sketch()
    x = s.input("float64", ("n",))
    test = s.inside.op("Less", s.varied(x), x)
    s.inside.op("Cast", test, to=11)
    cast = s.inside.ops[-1]
    number = replace(cast.outputs[0], shape=(1,))
    s.inside.ops[-1] = replace(cast, outputs=(number,))
    program = with_trip_input(s, s.record(number, "rows"))
    feeds = {"x": np.array([2.0]), "trip": np.array(3)}
    expected = interpret(program, feeds)["y0"]
    assert same_bits(Session(program, NATIVE).run(feeds)["y0"], expected)
