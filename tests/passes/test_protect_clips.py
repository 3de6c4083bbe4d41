"""Protection of a `Clip` that reads a `Relu` from a faulty fusion in ONNX Runtime."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest

import mdf_loop
from mdf_loop.build import Builder
from mdf_loop.ir import Program
from mdf_loop.passes.legalize.protect_clips import protect_clips
from tests.passes.sketch import same_bits, straight, text

X = np.array([-0.0, 0.0, 0.2, 7.0, -3.0, np.nan, np.inf, -np.inf])


def clipped(dtype: str = "float64", *, between: str = "", has_bound: bool = True) -> Program:
    """Build y = Clip(Relu(x), 0.5, 6), with an operation between them, or without the lower bound."""
    b = Builder()
    x = b.new(dtype, ("n",), "x")
    rectified = b.op("Relu", x)
    read = b.op(between, rectified) if between else rectified
    low, high = (b.constant(np.array(bound, dtype)) for bound in (0.5, 6))
    return straight(b, (x,), y=b.op("Clip", read, low if has_bound else None, high))


def test_a_clip_of_a_relu_is_protected() -> None:
    lines = text(protect_clips(clipped()))
    assert "  %Relu: float64[n] = Relu(%x)" in lines
    assert lines[-3:-1] == [
        "  %Clip:Max: float64[n] = Max(%Relu)",
        "  %Clip: float64[n] = Clip(%Clip:Max, %const, %const_2)",
    ]
    same_bits(protect_clips, clipped(), x=X)


def test_a_relu_behind_operations_without_effect_is_protected() -> None:
    assert "Max(%Identity)" in "".join(text(protect_clips(clipped(between="Identity"))))


@pytest.mark.parametrize(
    "program", [clipped("float32"), clipped(between="Neg"), clipped(has_bound=False)]
)
def test_programs_without_the_faulty_fusion_are_unchanged(program: Program) -> None:
    assert protect_clips(program) is program


@pytest.mark.parametrize("dtype", ["double", "float"])
@pytest.mark.parametrize("native", ["auto", "off"])
def test_an_imported_graph_and_its_saved_file_run(dtype: str, native: str) -> None:
    model = onnx.parser.parse_model(f"""<ir_version: 9, opset_import: ["" : 17]>
        f ({dtype}[n] x) => ({dtype}[n] y, {dtype}[n] last) {{
            low = Constant <value = {dtype} {{0.5}}> () r = Relu (x) y = Clip (r, low)
            M = Constant <value = int64 {{3}}> () yes = Constant <value = bool {{1}}> ()
            last = Loop (M, yes, x) <body = b (int64 i, bool go, {dtype}[n] c) => (bool on, {dtype}[n] d) {{
                on = Identity (go) s = Relu (c) d = Clip (s, low) }}> }}""")
    x = X[:-2].astype(np.float64 if dtype == "double" else np.float32)
    compiled = mdf_loop.compile(mdf_loop.from_onnx(model), native=native)
    expected = np.where(np.isnan(x), x, np.maximum(x, 0.5))
    session = onnxruntime.InferenceSession(compiled.to_onnx({"x": x}).SerializeToString())
    for y, last in (tuple(compiled.run({"x": x}).values()), session.run(["y", "last"], {"x": x})):
        np.testing.assert_array_equal(y, expected)
        np.testing.assert_array_equal(last, expected)
