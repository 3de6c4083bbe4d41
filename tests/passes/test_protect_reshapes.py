"""Protection of computed `Reshape` shapes from the optimizer of ONNX Runtime, and the errors of shapes."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest

import mdf_loop
from mdf_loop.build import Builder
from mdf_loop.emit.onnx_model import to_onnx
from mdf_loop.errors import RunError
from mdf_loop.ir import Program
from mdf_loop.ops.build_helpers import ints
from mdf_loop.passes.legalize.protect_reshapes import protect_reshapes
from tests.passes.sketch import same_bits, straight, text


def reshaped(**attributes: int) -> Program:
    """Build y = Reshape(x, Concat(0, n)): the first extent stays, and the other one is computed."""
    b = Builder()
    x, n = b.new("float64", ("a", "b", "c"), "x"), b.new("int64", (1,), "n")
    shape = b.op("Concat", ints(b, 0), n, axis=0)
    return straight(b, (x, n), y=b.op("Reshape", x, shape, **attributes))


def test_a_computed_shape_is_protected() -> None:
    assert text(protect_reshapes(reshaped()))[2:-1] == [
        "  %Concat: int64[2] = Concat(%const, %n, axis=0)",
        "  %Reshape:Max: int64[2] = Max(%Concat)",
        "  %Reshape: float64[d, d_2] = Reshape(%x, %Reshape:Max)",
    ]
    same_bits(protect_reshapes, reshaped(), x=np.arange(24.0).reshape(2, 3, 4), n=np.array([12]))


def test_a_shape_behind_operations_without_effect_is_protected() -> None:
    b = Builder()
    x, n = b.new("float64", ("a",), "x"), b.new("int64", (1,), "n")
    copy = b.op("Identity", b.op("Concat", ints(b, 2), n, axis=0))
    program = straight(b, (x, n), y=b.op("Reshape", x, copy))
    assert "Max(%Identity)" in "".join(text(protect_reshapes(program)))


def test_a_reshape_with_allowzero_is_unchanged() -> None:
    program = reshaped(allowzero=1)
    assert protect_reshapes(program) is program


def test_arrays_without_elements_are_reshaped() -> None:
    model = to_onnx(protect_reshapes(reshaped())).SerializeToString()
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    (y,) = session.run(None, {"x": np.zeros((0, 3, 4)), "n": np.array([12])})
    assert y.shape == (0, 12)


# --- in a model -------------------------------------------------------------------------------------


def model(value: str) -> dict[str, object]:
    ports = {"x": {"type": "float64", "shape": [6]}, "n": {"type": "int64", "shape": []}}
    node = {"input_ports": ports, "output_ports": {"y": {"value": value}}}
    return {"m": {"graphs": {"g": {"nodes": {"A": node}}}}}


@pytest.mark.parametrize("value", ["(2, n)", "(n, 2)", "(n,)", "(n, len(x) // 2, 1)"])
@pytest.mark.parametrize("n", [5, 0, 7])
def test_an_incompatible_extent_is_an_error(value: str, n: int) -> None:
    compiled = mdf_loop.compile(model(f"numpy.reshape(x, {value})"))
    with pytest.raises(RunError, match=r"an array of shape \[6\] cannot become one of shape"):
        compiled.run({"x": np.arange(6.0), "n": n})


@pytest.mark.parametrize(
    ("value", "n", "shape"),
    [("(2, n)", 3, (2, 3)), ("(n, 3, 1)", -1, (2, 3, 1)), ("(n,)", 6, (6,))],
)
def test_a_compatible_extent(value: str, n: int, shape: tuple[int, ...]) -> None:
    x = np.arange(6.0)
    y = mdf_loop.compile(model(f"numpy.reshape(x, {value})")).run({"x": x, "n": n})["y"]
    np.testing.assert_array_equal(y, x.reshape(shape))


def test_onnx_reshape_with_a_computed_extent() -> None:
    node = {
        "input_ports": {"x": {"type": "float64", "shape": [6]}, "n": {"type": "int64"}},
        "functions": {
            "f": {
                "function": "onnx::Reshape",
                "args": {"data": "x", "shape": "numpy.array([2, n])"},
            }
        },
        "output_ports": {"y": {"value": "f"}},
    }
    compiled = mdf_loop.compile({"m": {"graphs": {"g": {"nodes": {"A": node}}}}})
    assert compiled.run({"x": np.arange(6.0), "n": 3})["y"].shape == (2, 3)
    with pytest.raises(RunError, match=r"cannot become one of shape \[2, 4\]"):
        compiled.run({"x": np.arange(6.0), "n": 4})
