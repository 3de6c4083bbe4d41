"""Transposition of scanned arrays, so that every scan reads the first axis."""

from __future__ import annotations

import numpy as np
import pytest

from mdf_loop.ir import Program, Scanned
from mdf_loop.passes.scan_axis_first import scan_axis_first
from mdf_loop.pipeline import ONNXRUNTIME, prepare
from mdf_loop.run.onnxruntime.session import Session
from tests.passes.sketch import Sketch, same_bits, text
from tests.placements import REQUIRED, STANDARD

INPUTS = {"n": np.array(3), "x0": np.array([1.0, -0.5]), "a": np.array([2.0, np.inf])}


def scanning(axis: int, shape: tuple[int | str, ...], *, backward: bool = False) -> Program:
    """Build a loop that scans an input."""
    s = Sketch()
    rows = s.b.new("float64", shape, "kicks")
    row = s.body.new("float64", (*shape[:axis], *shape[axis + 1 :]), "kick")
    loop = s.loop(
        s.body.op("Add", s.x, s.a),
        s.body.op("Neg", row),
        scanned=(Scanned(rows, row, axis, backward),),
    )
    return s.program(rows, y=loop.carried[0].final, rows=loop.recorded[0].stack)


def test_scanned_axes_move_to_the_front() -> None:
    program = scanning(1, (2, 4))
    assert text(scan_axis_first(program))[2:6] == [
        "  %kicks along axis 1: float64[4, 2] = Transpose(%kicks, perm=(1, 0))",
        "  loop %i < %n",
        "    carry %x: float64[2] from %x0 to %Add giving %final",
        "    scan %kick: float64[2] of %kicks along axis 1 axis 0",
    ]
    same_bits(scan_axis_first, program, **INPUTS, kicks=np.arange(8.0).reshape(2, 4))


@pytest.mark.native
@pytest.mark.parametrize("backward", [True, False])
@pytest.mark.parametrize(("axis", "shape"), [(1, (2, 4)), (1, (1, 4, 2)), (2, (1, 2, "rows"))])
def test_transposed_scans_are_native(axis: int, shape: tuple[int, ...], backward: bool) -> None:
    program = prepare(scanning(axis, shape, backward=backward), ONNXRUNTIME)
    fixed_shape = tuple(5 if extent == "rows" else extent for extent in shape)
    feeds = {**INPUTS, "kicks": np.arange(float(np.prod(fixed_shape))).reshape(fixed_shape)}
    actual, expected = (Session(program, where).run(feeds) for where in (REQUIRED, STANDARD))
    for name, array in expected.items():
        np.testing.assert_array_equal(actual[name], array, strict=True)


def test_scans_of_the_first_axis_are_unchanged() -> None:
    program = scanning(0, (4, 2))
    assert scan_axis_first(program) is program
