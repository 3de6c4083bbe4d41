"""Protection of expansions to empty arrays from errors of ONNX Runtime."""

from __future__ import annotations

import numpy as np
import pytest

from mdf_loop.build import Builder
from mdf_loop.emit.onnx_model import to_onnx
from mdf_loop.ir import Program, Shape
from mdf_loop.onnx_session import inference_session
from mdf_loop.passes.legalize.protect_expands import protect_expands
from tests.passes.sketch import same_bits, straight, text


def expanded(own: Shape, *extents: int, known: bool = True) -> Program:
    """Expand elements to extents that are known, or to those of an input."""
    b = Builder()
    x = b.new("float64", own, "x")
    s = b.constant(np.array(extents)) if known else b.new("int64", (len(extents),), "s")
    y = b.op("Neg", b.op("Expand", b.op("Neg", x), s))
    return straight(b, (x,) if known else (x, s), y=y)


def test_the_new_axis_is_squeezed() -> None:
    program = expanded((1, 3), 0, 3)
    assert text(protect_expands(program))[4:-2] == [
        "  %Expand_2: int64[3] = [1, 0, 3]",
        "  %Expand:Expand: float64[1, 0, 3] = Expand(%Neg, %Expand_2)",
        "  %const_3: int64[1] = [0]",
        "  %Expand: float64[0, 3] = Squeeze(%Expand:Expand, %const_3)",
    ]


@pytest.mark.parametrize(
    ("own", "extents"),
    [
        ((1,), (0,)),
        ((1, 1), (0, 1)),
        ((1, 3), (0, 3)),
        ((2, 1), (0,)),
        (("n", 1), (1, 0)),
        (("n",), (0,)),
    ],
)
def test_onnx_runtime_returns_an_empty_array(
    own: tuple[int | str, ...], extents: tuple[int, ...]
) -> None:
    program = expanded(own, *extents)
    x = np.ones([1 if isinstance(extent, str) else extent for extent in own])
    same_bits(protect_expands, program, x=x)
    session = inference_session(to_onnx(protect_expands(program)).SerializeToString(), None)
    assert session.run(None, {"x": x})[0].shape == np.broadcast_shapes(x.shape, extents)


def test_computed_extents() -> None:
    program = expanded((1, 3), 5, 3, known=False)
    for rows in (0, 1, 5):
        same_bits(protect_expands, program, x=np.ones((1, 3)), s=np.array([rows, 3]))


@pytest.mark.parametrize(
    "program", [expanded((1, 3), 4, 3), expanded((3,), 0, 3), expanded((), 0), expanded((0,), 1, 0)]
)
def test_other_expands_are_unchanged(program: Program) -> None:
    assert protect_expands(program) is program
