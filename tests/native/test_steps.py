"""Native loops that compute whole arrays in steps: carried arrays may read each other."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from mdf_loop.build import Builder
from mdf_loop.ir import Carried, Input, Loop, Output, Program, Recorded, Value
from mdf_loop.native import kernel
from mdf_loop.pipeline import ONNXRUNTIME, prepare
from mdf_loop.run.onnxruntime.session import Session
from tests.placements import REQUIRED, STANDARD

Step = Callable[[Builder, list[Value]], list[Value]]


def carried_by(step: Step, *shapes: tuple[int, ...]) -> Program:
    """Return a loop of three iterations that carries arrays of these shapes."""
    b = Builder()
    inputs = [b.new("float64", shape, f"x{k}") for k, shape in enumerate(shapes)]
    body = b.body()
    i, go = body.new("int64", (), "i"), body.new("bool", (), "go")
    enters = [body.new(v.dtype, v.shape, "enter") for v in inputs]
    leaves = step(body, enters)
    finals = [b.new(v.dtype, v.shape, "final") for v in inputs]
    carried, three_iterations = (
        tuple(map(Carried, inputs, enters, leaves, finals)),
        b.constant(np.array(3)),
    )
    b.append(Loop("A.f", three_iterations, None, i, go, None, carried, (), tuple(body.ops)))
    outputs = tuple(Output(f"y{k}", value) for k, value in enumerate(finals))
    return prepare(Program("p", tuple(map(Input, inputs)), tuple(b.ops), outputs), ONNXRUNTIME)


def integers(b: Builder, *numbers: int) -> Value:
    return b.constant(np.array(numbers))


def first_half_of_another(b: Builder, values: list[Value]) -> list[Value]:
    a, _ = values
    return [b.op("Add", a, a), b.op("Slice", a, integers(b, 0), integers(b, 2))]


def second_half_of_another(b: Builder, values: list[Value]) -> list[Value]:
    a, _ = values
    return [b.op("Add", a, a), b.op("Slice", a, integers(b, 2), integers(b, 4))]


def shape_of_another(b: Builder, values: list[Value]) -> list[Value]:
    a, c = values
    return [b.op("Reshape", c, integers(b, 4)), b.op("Reshape", a, integers(b, 2, 2))]


def row_of_another(b: Builder, values: list[Value]) -> list[Value]:
    a, _ = values
    row = b.op("Gather", a, b.constant(np.array(1)), axis=0)
    return [b.op("Transpose", a, perm=(1, 0)), row]


def shifted(b: Builder, values: list[Value]) -> list[Value]:
    """Shift a delay line by one element and insert the newest element at the front."""
    (a,) = values
    newest = b.op("ReduceMax", a, axes=(0,), keepdims=1)
    older = b.op("Slice", a, integers(b, 0), integers(b, 3))
    return [b.op("Concat", b.op("Mul", newest, b.constant(np.array(0.5))), older, axis=0)]


def lower_part(b: Builder, values: list[Value]) -> list[Value]:
    (a,) = values
    return [b.op("Trilu", a, upper=0)]


def zero_border(b: Builder, values: list[Value]) -> list[Value]:
    (a,) = values
    less = b.op("Slice", a, integers(b, 1, 1), integers(b, -1, -1))
    return [b.op("Pad", less, integers(b, 1, 1, 1, 1))]


def unchanged(b: Builder, values: list[Value]) -> list[Value]:
    (a,) = values
    return [b.op("Trilu", a, b.constant(np.array(9)))]


STEPS = [
    *(
        (step, shape)
        for step in (lower_part, zero_border, unchanged)
        for shape in ((3, 3), (70, 70))
    ),
    (first_half_of_another, (4,), (2,)),
    (second_half_of_another, (4,), (2,)),
    (shape_of_another, (4,), (2, 2)),
    (row_of_another, (2, 2), (2,)),
    (shifted, (4,)),
]


@pytest.mark.parametrize(("step", "shapes"), [(s, shapes) for s, *shapes in STEPS])
def test_carried_arrays_are_updated_simultaneously(
    step: Step, shapes: list[tuple[int, ...]]
) -> None:
    """Check that an updated carried array does not overwrite memory that another update still reads."""
    program = carried_by(step, *shapes)
    inputs = {
        f"x{k}": np.arange(1.0 + k, 1 + k + np.prod(s)).reshape(s) for k, s in enumerate(shapes)
    }
    outputs, expected = (Session(program, where).run(inputs) for where in (REQUIRED, STANDARD))
    for name, array in expected.items():
        np.testing.assert_array_equal(outputs[name], array, strict=True)


def many_live_arrays(b: Builder, values: list[Value]) -> list[Value]:
    (a,) = values
    parts = [b.op("Mul", a, b.constant(np.array(1.0 + k))) for k in range(8)]
    ends = [b.op("ReduceMax", part, axes=(0,), keepdims=1) for part in parts]
    joined = b.op("Concat", *ends, axis=0)
    return [b.op("Concat", *(b.op("Add", part, joined) for part in parts[:1]), axis=0)]


def test_equal_programs_share_compiled_code() -> None:
    """Check that equal programs share compiled code, so the text contains no memory addresses of Python."""
    Session(carried_by(many_live_arrays, (8,)), REQUIRED)
    before = kernel._COMPILED.values()
    for _ in range(5):
        Session(carried_by(many_live_arrays, (8,)), REQUIRED)
    assert set(map(id, kernel._COMPILED.values())) == set(map(id, before))


@pytest.mark.parametrize("rows", range(1, 9))
def test_each_kernel_function_has_index_tables_of_its_own(rows: int) -> None:
    """Check a loop whose counting function and main function have index tables with equal names."""
    b = Builder()
    inputs = [b.new("float64", shape, "x") for shape in ((9, 9), (10, 10))]
    go_on = b.new("bool", (), "go_on")
    body = b.body()
    i, go = body.new("int64", (), "i"), body.new("bool", (), "go")
    enters = [body.new(v.dtype, v.shape, "enter") for v in inputs]
    leaves = [body.op("Transpose", v, perm=(1, 0)) for v in enters]
    finals = [b.new(v.dtype, v.shape, "final") for v in inputs]
    stacks = [Recorded(i, b.new("int64", ("rows",), "stack")) for _ in range(rows)]
    may_continue = body.op("Less", i, b.constant(np.array(2)))
    carried, ops = tuple(map(Carried, inputs, enters, leaves, finals)), tuple(body.ops)
    b.append(Loop("A.f", None, go_on, i, go, may_continue, carried, tuple(stacks), ops))
    output_values = [*finals, *(each.stack for each in stacks)]
    outputs = tuple(Output(f"y{k}", value) for k, value in enumerate(output_values))
    program_inputs = tuple(map(Input, (*inputs, go_on)))
    program = prepare(Program("p", program_inputs, tuple(b.ops), outputs), ONNXRUNTIME)
    names = [entry.value.name for entry in program.inputs]
    arrays = [np.arange(81.0).reshape(9, 9), np.arange(100.0).reshape(10, 10), np.array(True)]
    native_outputs = Session(program, REQUIRED).run(dict(zip(names, arrays, strict=True)))
    for k, array in enumerate(arrays[:2]):
        np.testing.assert_array_equal(native_outputs[f"y{k}"], array.T)
