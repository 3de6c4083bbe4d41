"""Gather and scatter with computed indices: all axes, all dtypes, and indices out of range."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mdf_loop.build import Builder
from mdf_loop.errors import RunError
from mdf_loop.ir import Input, Loop, Output, Program, Recorded, Scanned, Value
from mdf_loop.pipeline import ONNXRUNTIME, prepare
from mdf_loop.run.onnxruntime.session import Session
from tests.native.one_loop import Sketch
from tests.placements import REQUIRED, STANDARD

DATA = np.arange(1.0, 13.0).reshape(3, 4)


def loop_over_rows(op_type: str, *rows: np.ndarray, **attributes: Any) -> Program:
    """Return a loop that applies an operation to one row of each operand per iteration."""
    b = Builder()
    body = b.body()
    inputs = [b.new(str(array.dtype), array.shape, f"x{k}") for k, array in enumerate(rows)]
    scanned_inputs = tuple(
        Scanned(value, body.new(value.dtype, value.shape[1:], "row")) for value in inputs
    )
    i, condition_in = body.new("int64", (), "i"), body.new("bool", (), "go")
    with body.at("$.here"):
        recorded_row = body.op(
            op_type, *(scanned_input.row for scanned_input in scanned_inputs), **attributes
        )
    stack = b.new(recorded_row.dtype, (len(rows[0]), *(recorded_row.shape or ())), "stack")
    trip_count, ops = b.constant(np.array(len(rows[0]))), tuple(body.ops)
    b.append(
        Loop(
            "A",
            trip_count,
            None,
            i,
            condition_in,
            None,
            (),
            (Recorded(recorded_row, stack),),
            ops,
            scanned_inputs,
        )
    )
    unprepared_program = Program(
        "p", tuple(map(Input, inputs)), tuple(b.ops), (Output("y", stack),)
    )
    return prepare(unprepared_program, ONNXRUNTIME)


def native_and_standard(op_type: str, *rows: np.ndarray, **attributes: Any) -> list[Any]:
    """Return the array or the error findings of the native loop and of the standard loop."""
    program = loop_over_rows(op_type, *rows, **attributes)
    outcomes: list[Any] = []
    for placement in (REQUIRED, STANDARD):
        try:
            arrays = {f"x{k}": array for k, array in enumerate(rows)}
            outcomes.append(Session(program, placement).run(arrays)["y"])
        except RunError as error:
            outcomes.append(error.findings)
    return outcomes


def one_iteration(*entries: object) -> np.ndarray:
    return np.array([entries])


OUT_OF_RANGE = [
    ("GatherElements", one_iteration([0, 1, 3, 0]), {"axis": 0}),
    ("GatherElements", one_iteration([0, -5], [1, 2]), {"axis": 1}),
    ("GatherND", one_iteration([0, 3], [3, 0]), {}),
    ("GatherND", one_iteration([2], [-4]), {}),
    ("ScatterElements", one_iteration([0, -4, 5, 1]), {"axis": 0}),
    ("ScatterND", one_iteration([2, 4], [9, 9]), {}),
    ("ScatterND", one_iteration([-4]), {}),
]


@pytest.mark.parametrize(("op_type", "positions", "attributes"), OUT_OF_RANGE)
def test_native_and_standard_index_errors_are_equal(
    op_type: str, positions: np.ndarray, attributes: dict[str, Any]
) -> None:
    operands = [DATA[np.newaxis], positions]
    if op_type == "ScatterElements":
        operands.append(np.ones(positions.shape))
    elif op_type == "ScatterND":
        operands.append(np.ones((*positions.shape[:-1], *DATA.shape[positions.shape[-1] :])))
    native_outcome, expected = native_and_standard(op_type, *operands, **attributes)
    assert not isinstance(expected, np.ndarray)
    assert native_outcome == expected


@pytest.mark.parametrize("numbers", [[0], [1, 0], [-1, -2, 0]])
def test_gather_of_a_short_carried_array(numbers: list[int]) -> None:
    sketch = Sketch()
    x = sketch.input("int64", (len(numbers),))

    def chosen(enter: Value) -> Value:
        return sketch.inside.op("GatherElements", enter, sketch.inside.op("Cast", x, to=6), axis=0)

    program = sketch.program(sketch.carry(x, chosen))
    arrays = {"x": np.array(numbers)}
    native_array = Session(program, REQUIRED).run(arrays)["y0"]
    np.testing.assert_array_equal(
        native_array, Session(program, STANDARD).run(arrays)["y0"], strict=True
    )


DTYPES = ("float64", "float32", "int64", "int32", "uint8", "bool")


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("index", ["int64", "int32"])
def test_gather_and_scatter_elements_along_an_axis(dtype: str, axis: int, index: str) -> None:
    rng = np.random.default_rng(3)
    array = rng.integers(0, 2 if dtype == "bool" else 100, (4, 3, 5)).astype(dtype)
    extent = array.shape[1:][axis]
    positions = rng.integers(-extent, extent, (4, 2, 3)).astype(index)
    updates = rng.integers(0, 2, positions.shape).astype(dtype)
    for operands in (
        ("GatherElements", array, positions),
        ("ScatterElements", array, positions, updates),
    ):
        native_rows, expected = native_and_standard(*operands, axis=axis)
        np.testing.assert_array_equal(native_rows, expected, strict=True)


@pytest.mark.parametrize(("count", "batch"), [(1, 0), (2, 0), (3, 0), (1, 1), (2, 1)])
@pytest.mark.parametrize("dtype", DTYPES)
def test_gather_and_scatter_nd(dtype: str, count: int, batch: int) -> None:
    rng = np.random.default_rng(4)
    array = rng.integers(0, 2 if dtype == "bool" else 100, (4, 3, 5, 2)).astype(dtype)
    extents = array.shape[1 + batch :][:count]
    positions = np.stack([rng.integers(-extent, extent, (4, 3, 2)) for extent in extents], axis=-1)
    native_rows, expected = native_and_standard("GatherND", array, positions, batch_dims=batch)
    np.testing.assert_array_equal(native_rows, expected, strict=True)
    if not batch:
        updates = rng.integers(0, 2, (4, 3, 2, *array.shape[1 + count :])).astype(dtype)
        native_rows, expected = native_and_standard("ScatterND", array, positions, updates)
        np.testing.assert_array_equal(native_rows, expected, strict=True)


@pytest.mark.parametrize("reduction", ["add", "mul", "max", "min"])
@pytest.mark.parametrize("dtype", ["float64", "float32", "int64", "int32"])
def test_scatter_reduces_duplicate_indices(dtype: str, reduction: str) -> None:
    rng = np.random.default_rng(5)
    array = rng.integers(-9, 9, (4, 3, 5)).astype(dtype)
    positions, updates = rng.integers(0, 3, (4, 6, 2)), rng.integers(-9, 9, (4, 6, 2)).astype(dtype)
    if dtype.startswith("float"):
        array[0, 0, 0] = updates[0, 3, 1] = np.nan
    native_rows, expected = native_and_standard(
        "ScatterElements", array, positions, updates, axis=0, reduction=reduction
    )
    np.testing.assert_array_equal(native_rows, expected, strict=True)
    rows = rng.integers(0, 3, (4, 6, 1))
    row_updates = rng.integers(-9, 9, (4, 6, 5)).astype(dtype)
    if dtype.startswith("float"):
        row_updates[0, :3, 2] = np.nan
    native_rows, expected = native_and_standard(
        "ScatterND", array, rows, row_updates, reduction=reduction
    )
    np.testing.assert_array_equal(native_rows, expected, strict=True)
