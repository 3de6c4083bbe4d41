"""Carried arrays whose shape changes from one iteration to the next: what the standard loop gives, or its error."""

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


def ended(s: Sketch, *made: Value, **more: object) -> Program:
    """As many iterations as is asked for."""
    return s.program(*made, trip_count=s.given("int64", (), "trip"), **more)


def growing() -> Program:
    s = Sketch()
    x = s.given("float64", ("n",))
    twice = s.carry(x, lambda v: s.inside.op("Concat", s.varied(v), v, axis=0), ("e",))
    return ended(s, twice, dynamic_shapes=True)


def in_the_middle() -> Program:
    """Rows of a matrix become longer; how many there are stays known."""
    s = Sketch()
    x = s.given("int64", (2, "n", 3))
    one = s.inside.op(
        "Expand", s.inside.op("Reshape", s.i, numbers(s, 1, 1, 1)), numbers(s, 2, 1, 3)
    )
    longer = s.carry(x, lambda v: s.inside.op("Concat", v, one, axis=1), (2, "e", 3))
    return ended(s, longer, dynamic_shapes=True)


def shrinking() -> Program:
    s = Sketch()
    return ended(s, s.carry(s.given("float64", ("n",)), lambda v: rest_of(s, v), ("e",)))


def exchanged() -> Program:
    """Two arrays take each other's place, and each other's shape; one of them is turned round too."""
    s = Sketch()
    x, y = s.given("float64", ("n",)), s.given("float64", ("m",), "w")
    one, other = (s.inside.new("float64", (name,), name) for name in ("one", "other"))
    finals = [s.b.new("float64", (name,), name) for name in ("end", "other_end")]
    backward = numbers(s, -1)
    turned = s.inside.op("Slice", one, backward, numbers(s, -(2**62)), numbers(s, 0), backward)
    s.carried += [Carried(x, one, other, finals[0]), Carried(y, other, turned, finals[1])]
    return ended(s, *finals)


def from_one_number() -> Program:
    """What begins as a constant of one number."""
    s = Sketch()
    first = s.b.constant(np.array([0.5]))
    more = s.inside.op("Cast", s.inside.op("Reshape", s.i, numbers(s, 1)), to=11)
    return ended(s, s.carry(first, lambda v: s.inside.op("Concat", v, more, axis=0), ("e",)))


def until_it_is_long() -> Program:
    """A condition ends it, and lengths are recorded."""
    s = Sketch()
    x, flag = s.given("float64", ("n",)), s.given("bool", (), "flag")
    enter = s.inside.new("float64", ("e",), "enter")
    leave = s.inside.op("Concat", enter, s.inside.op("Neg", enter), axis=0)
    size = s.inside.op("Size", leave)
    final = s.b.new("float64", ("end",), "final")
    s.carried.append(Carried(x, enter, leave, final))
    sizes = s.record(size, "rows")
    goes_on = s.inside.op("Less", size, s.b.constant(np.array(20)))
    return ended(s, final, sizes, condition=flag, condition_out=goes_on)


def until_it_is_empty() -> Program:
    """A condition ends it, and no rows are recorded."""
    s = Sketch()
    x, flag = s.given("float64", ("n",)), s.given("bool", (), "flag")
    enter = s.inside.new("float64", ("e",), "enter")
    leave = rest_of(s, enter)
    final = s.b.new("float64", ("end",), "final")
    s.carried.append(Carried(x, enter, leave, final))
    goes_on = s.inside.op("Greater", s.inside.op("Size", leave), s.b.constant(np.array(0)))
    return ended(s, final, condition=flag, condition_out=goes_on)


def in_a_loop_inside() -> Program:
    """What a loop inside makes longer begins anew each time; what is carried around has the last length."""
    s = Sketch()
    x, y = s.given("float64", ("n",)), s.given("float64", ("m",), "w")
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
    return ended(s, sums, s.carry(y, lambda v: s.inside.op("Mul", final, total), ("e",)))


PROGRAMS = [
    *(growing, in_the_middle, shrinking, exchanged, from_one_number),
    *(until_it_is_long, until_it_is_empty, in_a_loop_inside),
]


@pytest.mark.parametrize("trip", [-1, 0, 1, 2, 5])
@pytest.mark.parametrize("extent", [0, 1, 3, 8])
@pytest.mark.parametrize("make", PROGRAMS, ids=lambda make: make.__name__)
def test_shapes_that_change(make: Callable[[], Program], extent: int, trip: int) -> None:
    for flag in (True, False):
        program = make()
        names = {"n": extent, "m": 2}
        given = {"trip": np.array(trip), "flag": np.array(flag)}
        for entry in program.inputs:
            value = entry.value
            if value.shape:
                shape = [names.get(str(e), e) for e in value.shape]
                rows = np.arange(float(np.prod(shape, dtype=int))).reshape(shape) + 0.5
                given[value.name] = rows.astype(value.dtype)
        feeds = {entry.value.name: given[entry.value.name] for entry in program.inputs}
        with kernels_checked():
            made = Session(program, REQUIRED).run(feeds)
        expected = Session(program, STANDARD).run(feeds)
        for name, array in expected.items():
            assert made[name].shape == array.shape
            assert same_bits(made[name], array) or np.allclose(made[name], array, 1e-14, 0)
        if "flag" not in feeds:
            break


def test_rows_of_what_changes_fail_as_in_the_standard_loop() -> None:
    s = Sketch()
    x = s.given("float64", ("n",))
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
    for placement in (REQUIRED, STANDARD):  # none has elements: all rows are alike
        assert Session(program, placement).run({"x": np.ones(0)})["y1"].shape == (3, 0)


def test_a_backward_slice_from_before_the_first_element() -> None:
    """It begins at the first element, as in ONNX; Python's slice is empty."""
    s = Sketch()
    x = s.given("float64", (1,))
    v = s.inside.new("float64", ("e",), "v")
    backward = [numbers(s, number) for number in (-4, -(2**62), 0, -1)]
    part = s.record(s.inside.op("Slice", v, *backward), "rows")
    s.carried.append(Carried(x, v, x, s.b.new("float64", ("f",), "end")))
    program = ended(s, part)
    feeds = {"x": np.array([3.5]), "trip": np.array(2)}
    feeds = {e.value.name: feeds[e.value.name] for e in program.inputs}
    for made in (
        Session(program, REQUIRED).run(feeds),
        Session(program, STANDARD).run(feeds),
        interpret(program, feeds),
    ):
        assert next(iter(made.values())).tolist() == [[3.5], [3.5]]


@pytest.mark.parametrize("extent", [1, "n"])
def test_extents_that_the_program_does_not_say_are_0_without_rows(extent: int | str) -> None:
    """The code knows that the slice keeps the first axis, of which the program says nothing."""
    s = Sketch()
    x = s.given("float64", (extent, 2))
    ends = [s.inside.op("Reshape", s.i, numbers(s, 1)), numbers(s, 2), numbers(s, 1)]
    column = s.inside.op("Gather", s.inside.op("Slice", x, *ends), numbers(s, 0), axis=1)
    program = ended(s, s.record(column, "rows"))
    for trips, shape in ((0, (0, 0, 1)), (1, (1, 1, 1))):
        feeds = {"x": np.zeros((1, 2)), "trip": np.array(trips)}
        results = [Session(program, p).run(feeds)["y0"] for p in (STANDARD, REQUIRED)]
        assert {np.shape(r) for r in (*results, interpret(program, feeds)["y0"])} == {shape}


def test_one_number_of_an_array_whose_extent_is_known_later() -> None:
    """The result is one number, as the program says; its operand has an extent that a name has."""
    s = Sketch()
    x = s.given("float64", ("n",))
    test = s.inside.op("Less", s.varied(x), x)
    s.inside.op("Cast", test, to=11)
    cast = s.inside.ops[-1]
    number = replace(cast.outputs[0], shape=(1,))
    s.inside.ops[-1] = replace(cast, outputs=(number,))
    program = ended(s, s.record(number, "rows"))
    feeds = {"x": np.array([2.0]), "trip": np.array(3)}
    expected = interpret(program, feeds)["y0"]
    assert same_bits(Session(program, NATIVE).run(feeds)["y0"], expected)
