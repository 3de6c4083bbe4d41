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
    i, condition_in = body.new("int64", (), "i"), body.new("bool", (), "go")
    enter_values = [body.new(value.dtype, value.shape, "enter") for value in inputs]
    leave_values = step(body, enter_values)
    final_values = [b.new(value.dtype, value.shape, "final") for value in inputs]
    carried_values, three_iterations = (
        tuple(map(Carried, inputs, enter_values, leave_values, final_values)),
        b.constant(np.array(3)),
    )
    b.append(
        Loop(
            "A.f",
            three_iterations,
            None,
            i,
            condition_in,
            None,
            carried_values,
            (),
            tuple(body.ops),
        )
    )
    outputs = tuple(Output(f"y{k}", value) for k, value in enumerate(final_values))
    return prepare(Program("p", tuple(map(Input, inputs)), tuple(b.ops), outputs), ONNXRUNTIME)


def integers(b: Builder, *numbers: int) -> Value:
    return b.constant(np.array(numbers))


def first_half_of_another(b: Builder, values: list[Value]) -> list[Value]:
    array, _ = values
    return [b.op("Add", array, array), b.op("Slice", array, integers(b, 0), integers(b, 2))]


def second_half_of_another(b: Builder, values: list[Value]) -> list[Value]:
    array, _ = values
    return [b.op("Add", array, array), b.op("Slice", array, integers(b, 2), integers(b, 4))]


def shape_of_another(b: Builder, values: list[Value]) -> list[Value]:
    array, matrix = values
    return [b.op("Reshape", matrix, integers(b, 4)), b.op("Reshape", array, integers(b, 2, 2))]


def row_of_another(b: Builder, values: list[Value]) -> list[Value]:
    array, _ = values
    row = b.op("Gather", array, b.constant(np.array(1)), axis=0)
    return [b.op("Transpose", array, perm=(1, 0)), row]


def shifted(b: Builder, values: list[Value]) -> list[Value]:
    """Shift a delay line by one element and insert the newest element at the front."""
    (array,) = values
    newest_element = b.op("ReduceMax", array, axes=(0,), keepdims=1)
    older_elements = b.op("Slice", array, integers(b, 0), integers(b, 3))
    return [
        b.op(
            "Concat", b.op("Mul", newest_element, b.constant(np.array(0.5))), older_elements, axis=0
        )
    ]


def lower_part(b: Builder, values: list[Value]) -> list[Value]:
    (matrix,) = values
    return [b.op("Trilu", matrix, upper=0)]


def zero_border(b: Builder, values: list[Value]) -> list[Value]:
    (matrix,) = values
    inner_matrix = b.op("Slice", matrix, integers(b, 1, 1), integers(b, -1, -1))
    return [b.op("Pad", inner_matrix, integers(b, 1, 1, 1, 1))]


def unchanged(b: Builder, values: list[Value]) -> list[Value]:
    (matrix,) = values
    return [b.op("Trilu", matrix, b.constant(np.array(9)))]


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


@pytest.mark.parametrize(("step", "shapes"), [(step, shapes) for step, *shapes in STEPS])
def test_carried_arrays_are_updated_simultaneously(
    step: Step, shapes: list[tuple[int, ...]]
) -> None:
    """Check that an updated carried array does not overwrite memory that another update still reads."""
    program = carried_by(step, *shapes)
    inputs = {
        f"x{k}": np.arange(1.0 + k, 1 + k + np.prod(s)).reshape(s) for k, s in enumerate(shapes)
    }
    outputs, expected = (
        Session(program, placement).run(inputs) for placement in (REQUIRED, STANDARD)
    )
    for name, array in expected.items():
        np.testing.assert_array_equal(outputs[name], array, strict=True)


def many_live_arrays(b: Builder, values: list[Value]) -> list[Value]:
    (array,) = values
    products = [b.op("Mul", array, b.constant(np.array(1.0 + k))) for k in range(8)]
    maxima = [b.op("ReduceMax", product, axes=(0,), keepdims=1) for product in products]
    joined_maxima = b.op("Concat", *maxima, axis=0)
    return [
        b.op("Concat", *(b.op("Add", product, joined_maxima) for product in products[:1]), axis=0)
    ]


def test_equal_programs_share_compiled_code() -> None:
    """Check that equal programs share compiled code, so the text contains no memory addresses of Python."""
    Session(carried_by(many_live_arrays, (8,)), REQUIRED)
    cached_code = kernel._COMPILED_CODE.values()
    for _ in range(5):
        Session(carried_by(many_live_arrays, (8,)), REQUIRED)
    assert set(map(id, kernel._COMPILED_CODE.values())) == set(map(id, cached_code))


@pytest.mark.parametrize("rows", range(1, 9))
def test_each_kernel_function_has_index_tables_of_its_own(rows: int) -> None:
    """Check a loop whose counting function and main function have index tables with equal names."""
    b = Builder()
    inputs = [b.new("float64", shape, "x") for shape in ((9, 9), (10, 10))]
    initial_condition = b.new("bool", (), "go_on")
    body = b.body()
    i, condition_in = body.new("int64", (), "i"), body.new("bool", (), "go")
    enter_values = [body.new(value.dtype, value.shape, "enter") for value in inputs]
    leave_values = [body.op("Transpose", value, perm=(1, 0)) for value in enter_values]
    final_values = [b.new(value.dtype, value.shape, "final") for value in inputs]
    stacks = [Recorded(i, b.new("int64", ("rows",), "stack")) for _ in range(rows)]
    may_continue = body.op("Less", i, b.constant(np.array(2)))
    carried_values, ops = (
        tuple(map(Carried, inputs, enter_values, leave_values, final_values)),
        tuple(body.ops),
    )
    b.append(
        Loop(
            "A.f",
            None,
            initial_condition,
            i,
            condition_in,
            may_continue,
            carried_values,
            tuple(stacks),
            ops,
        )
    )
    output_values = [*final_values, *(recorded_value.stack for recorded_value in stacks)]
    outputs = tuple(Output(f"y{k}", value) for k, value in enumerate(output_values))
    program_inputs = tuple(map(Input, (*inputs, initial_condition)))
    program = prepare(Program("p", program_inputs, tuple(b.ops), outputs), ONNXRUNTIME)
    input_names = [program_input.value.name for program_input in program.inputs]
    arrays = [np.arange(81.0).reshape(9, 9), np.arange(100.0).reshape(10, 10), np.array(True)]
    native_outputs = Session(program, REQUIRED).run(dict(zip(input_names, arrays, strict=True)))
    for k, array in enumerate(arrays[:2]):
        np.testing.assert_array_equal(native_outputs[f"y{k}"], array.T)
