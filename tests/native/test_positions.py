"""Elements by positions that are computed: all axes, all dtypes, and positions that do not exist."""

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


def rows_of(op_type: str, *rows: np.ndarray, **attributes: Any) -> Program:
    """A loop that scans operands, a row for each iteration, and records what the operation gives."""
    b = Builder()
    inside = b.body()
    inputs = [b.new(str(a.dtype), a.shape, f"x{k}") for k, a in enumerate(rows)]
    scanned = tuple(Scanned(v, inside.new(v.dtype, v.shape[1:], "row")) for v in inputs)
    i, go = inside.new("int64", (), "i"), inside.new("bool", (), "go")
    with inside.at("$.here"):
        made = inside.op(op_type, *(each.row for each in scanned), **attributes)
    stack = b.new(made.dtype, (len(rows[0]), *(made.shape or ())), "stack")
    trip, ops = b.constant(np.array(len(rows[0]))), tuple(inside.ops)
    b.append(Loop("A", trip, None, i, go, None, (), (Recorded(made, stack),), ops, scanned))
    raw = Program("p", tuple(map(Input, inputs)), tuple(b.ops), (Output("y", stack),))
    return prepare(raw, ONNXRUNTIME)


def both(op_type: str, *rows: np.ndarray, **attributes: Any) -> list[Any]:
    """What machine code gives, and what the standard loop gives: an array, or what an error says."""
    program = rows_of(op_type, *rows, **attributes)
    made: list[Any] = []
    for placement in (REQUIRED, STANDARD):
        try:
            arrays = {f"x{k}": array for k, array in enumerate(rows)}
            made.append(Session(program, placement).run(arrays)["y"])
        except RunError as error:
            made.append(error.findings)
    return made


def whole(*given: object) -> np.ndarray:
    return np.array([given])


OUTSIDE = [
    ("GatherElements", whole([0, 1, 3, 0]), {"axis": 0}),
    ("GatherElements", whole([0, -5], [1, 2]), {"axis": 1}),
    ("GatherND", whole([0, 3], [3, 0]), {}),
    ("GatherND", whole([2], [-4]), {}),
    ("ScatterElements", whole([0, -4, 5, 1]), {"axis": 0}),
    ("ScatterND", whole([2, 4], [9, 9]), {}),
    ("ScatterND", whole([-4]), {}),
]


@pytest.mark.parametrize(("op_type", "positions", "attributes"), OUTSIDE)
def test_positions_that_do_not_exist(
    op_type: str, positions: np.ndarray, attributes: dict[str, Any]
) -> None:
    operands = [DATA[np.newaxis], positions]
    if op_type == "ScatterElements":
        operands.append(np.ones(positions.shape))
    elif op_type == "ScatterND":
        operands.append(np.ones((*positions.shape[:-1], *DATA.shape[positions.shape[-1] :])))
    made, expected = both(op_type, *operands, **attributes)
    assert not isinstance(expected, np.ndarray)
    assert made == expected


@pytest.mark.parametrize("numbers", [[0], [1, 0], [-1, -2, 0]])
def test_a_few_numbers_chosen_by_computed_positions(numbers: list[int]) -> None:
    s = Sketch()
    x = s.given("int64", (len(numbers),))

    def chosen(enter: Value) -> Value:
        return s.inside.op("GatherElements", enter, s.inside.op("Cast", x, to=6), axis=0)

    program = s.program(s.carry(x, chosen))
    arrays = {"x": np.array(numbers)}
    made = Session(program, REQUIRED).run(arrays)["y0"]
    np.testing.assert_array_equal(made, Session(program, STANDARD).run(arrays)["y0"], strict=True)


DTYPES = ("float64", "float32", "int64", "int32", "uint8", "bool")


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("index", ["int64", "int32"])
def test_along_an_axis(dtype: str, axis: int, index: str) -> None:
    rng = np.random.default_rng(3)
    data = rng.integers(0, 2 if dtype == "bool" else 100, (4, 3, 5)).astype(dtype)
    extent = data.shape[1:][axis]
    positions = rng.integers(-extent, extent, (4, 2, 3)).astype(index)
    new = rng.integers(0, 2, positions.shape).astype(dtype)
    for given in (("GatherElements", data, positions), ("ScatterElements", data, positions, new)):
        made, expected = both(*given, axis=axis)
        np.testing.assert_array_equal(made, expected, strict=True)


@pytest.mark.parametrize(("count", "batch"), [(1, 0), (2, 0), (3, 0), (1, 1), (2, 1)])
@pytest.mark.parametrize("dtype", DTYPES)
def test_by_rows_of_positions(dtype: str, count: int, batch: int) -> None:
    rng = np.random.default_rng(4)
    data = rng.integers(0, 2 if dtype == "bool" else 100, (4, 3, 5, 2)).astype(dtype)
    extents = data.shape[1 + batch :][:count]
    positions = np.stack([rng.integers(-e, e, (4, 3, 2)) for e in extents], axis=-1)
    made, expected = both("GatherND", data, positions, batch_dims=batch)
    np.testing.assert_array_equal(made, expected, strict=True)
    if not batch:
        new = rng.integers(0, 2, (4, 3, 2, *data.shape[1 + count :])).astype(dtype)
        made, expected = both("ScatterND", data, positions, new)
        np.testing.assert_array_equal(made, expected, strict=True)


@pytest.mark.parametrize("reduction", ["add", "mul", "max", "min"])
@pytest.mark.parametrize("dtype", ["float64", "float32", "int64", "int32"])
def test_several_for_one_place_are_joined(dtype: str, reduction: str) -> None:
    rng = np.random.default_rng(5)
    data = rng.integers(-9, 9, (4, 3, 5)).astype(dtype)
    positions, new = rng.integers(0, 3, (4, 6, 2)), rng.integers(-9, 9, (4, 6, 2)).astype(dtype)
    if dtype.startswith("float"):
        data[0, 0, 0] = new[0, 3, 1] = np.nan
    made, expected = both("ScatterElements", data, positions, new, axis=0, reduction=reduction)
    np.testing.assert_array_equal(made, expected, strict=True)
    rows = rng.integers(0, 3, (4, 6, 1))
    parts = rng.integers(-9, 9, (4, 6, 5)).astype(dtype)
    if dtype.startswith("float"):
        parts[0, :3, 2] = np.nan
    made, expected = both("ScatterND", data, rows, parts, reduction=reduction)
    np.testing.assert_array_equal(made, expected, strict=True)
