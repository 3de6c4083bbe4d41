"""Lanes: as many as there are, none too."""

from __future__ import annotations

import numpy as np
import pytest

from mdf_loop.build import Builder
from mdf_loop.ir import Carried, Input, Loop, Output, Program, Recorded, Shape
from mdf_loop.pipeline import ONNXRUNTIME, prepare
from mdf_loop.run.onnxruntime.session import Session
from tests.placements import REQUIRED, STANDARD


def doubled(shape: Shape) -> Program:
    """Lanes and a single number, both doubled in each of some iterations."""
    b = Builder()
    x, s, trip = b.new("float64", shape, "x"), b.new("float64", (), "s"), b.new("int64", (), "trip")
    inside = b.body()
    i, go = inside.new("int64", (), "i"), inside.new("bool", (), "go")
    enters = [inside.new(v.dtype, v.shape, "enter") for v in (x, s)]
    leaves = [inside.op("Add", v, v) for v in enters]
    finals = [b.new(v.dtype, v.shape, "final") for v in (x, s)]
    rows = [Recorded(v, b.new(v.dtype, ("rows", *(v.shape or ())), "rows")) for v in leaves]
    carried = tuple(map(Carried, (x, s), enters, leaves, finals))
    count = b.new("int64", (), "count")
    ops = tuple(inside.ops)
    b.append(Loop("A.f", trip, None, i, go, None, carried, tuple(rows), ops, count=count))
    made = [*finals, *(each.stack for each in rows), count]
    outputs = tuple(Output(f"y{k}", value) for k, value in enumerate(made))
    program = Program("p", tuple(map(Input, (x, s, trip))), tuple(b.ops), outputs)
    return prepare(program, ONNXRUNTIME)


@pytest.mark.parametrize("count", [0, 1, 2, 7, 8, 15, 31, 32, 33, 1000])
@pytest.mark.parametrize("known", [True, False])
def test_any_number_of_lanes(count: int, known: bool) -> None:
    """Of no lanes single numbers are left."""
    program = doubled((count if known else "n",))
    given = {"x": np.arange(count) - 2.5, "s": np.array(0.75), "trip": np.array(3)}
    made = Session(program, REQUIRED).run(given)
    expected = Session(program, STANDARD).run(given)
    for name, array in expected.items():
        np.testing.assert_array_equal(made[name], array, strict=True)
    assert made["y1"] == 6.0
