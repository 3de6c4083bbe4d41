"""Operations that read one value as several operands, for example as the data and as the indices."""

from __future__ import annotations

import numpy as np
import pytest

import mdf_loop
from mdf_loop.errors import LoopError, UnsupportedError
from mdf_loop.ir import Op, Program, Value, is_fixed
from mdf_loop.ops import row_of
from mdf_loop.ops.native.code import NotNative
from mdf_loop.ops.native.moves import has_known_positions, positions_of
from mdf_loop.ops.registry import Reproducibility
from mdf_loop.run.interpret import interpret
from mdf_loop.run.onnxruntime.session import Session
from tests.native.one_loop import Sketch
from tests.ops.operator_samples import I
from tests.placements import REQUIRED, STANDARD, kernels_checked
from tests.soak import some
from tests.strategies.same_operands import OPERATORS, SameOperands, sample_calls

MASK = np.array([True, False, True])

CALLS = [
    SameOperands("Compress", (0, 1), (MASK, MASK), {"axis": 0}),
    SameOperands("Tile", (0, 1), (I(3), I(3)), {}),
    SameOperands("Tile", (0, 1), (I(0), I(0)), {}),
    SameOperands("Gather", (0, 1), (I(1, 0, 2), I(1, 0, 2)), {}),
    SameOperands("GatherElements", (0, 1), (I(2, 0, -1), I(2, 0, -1)), {}),
    SameOperands("Concat", (0, 1), (I(1, 2), I(1, 2)), {"axis": 0}),
    SameOperands("Pad", (0, 1), (I(1, 2), I(1, 2)), {}),
    SameOperands("Slice", (0, 1, 3), (I(0), I(0), I(1), I(0)), {}),
    SameOperands("Where", (0, 1), (MASK, MASK, np.array(False)), {}),
    SameOperands("ScatterElements", (0, 1, 2), (I(1, 2, 0),) * 3, {}),
    SameOperands("Reshape", (0, 1), (I(1), I(1)), {}),
]


def loop_of_call(call: SameOperands) -> Program:
    """Return a loop of three iterations that records the outputs of a call, or their shapes and sums."""
    sketch, shape = Sketch(), call.shared.shape
    rows = sketch.input(str(call.shared.dtype), (3, *shape))
    b = sketch.inside
    stacks = []
    for output in call.call(b, sketch.scan(rows, shape)):
        if is_fixed(output.shape):
            stacks.append(sketch.record(output))
            continue
        output_sum = b.op("ReduceSum", b.op("Cast", output, to=11), keepdims=0)
        stacks += [sketch.record(b.op("Shape", output)), sketch.record(output_sum)]
    return sketch.program(*stacks)


def assert_as_standard(call: SameOperands) -> None:
    """Check that the native loop equals the standard loop, unless it is unsupported."""
    arrays = {"x": np.stack([call.shared] * 3)}
    try:
        program = loop_of_call(call)
        expected = Session(program, STANDARD).run(arrays)
    except LoopError:
        return  # only the interpreter supports these operands
    try:
        with kernels_checked():
            results = Session(program, REQUIRED).run(arrays)
    except UnsupportedError:
        return
    is_exact = row_of(call.op_type).reproducibility is not Reproducibility.RUNTIME_DEPENDENT
    for name, array in expected.items():
        tolerance = 0 if is_exact else 1e-12
        np.testing.assert_allclose(results[name], array, tolerance, tolerance, strict=True)


@pytest.mark.parametrize("call", CALLS, ids=lambda call: f"{call.op_type}{call.arrays[0].tolist()}")
def test_one_value_as_data_and_as_indices(call: SameOperands) -> None:
    expected = interpret(loop_of_call(call), arrays := {"x": np.stack([call.shared] * 3)})
    standard_outputs = Session(loop_of_call(call), STANDARD).run(arrays)
    for name, array in expected.items():
        np.testing.assert_array_equal(standard_outputs[name], array, strict=True)
    assert_as_standard(call)


@pytest.mark.slow
@pytest.mark.soak
@pytest.mark.parametrize("op_type", some(OPERATORS, 4))
def test_every_operator_with_one_value_as_several_operands(op_type: str) -> None:
    for dtype in ("float64", "int64", "bool"):
        for call in sample_calls(op_type, dtype):
            assert_as_standard(call)


@pytest.mark.parametrize(("op_type", "array"), [("Compress", MASK), ("Tile", I(2))])
def test_indices_equal_to_the_moved_array_are_not_constant(op_type: str, array: np.ndarray) -> None:
    x, y = Value("x", str(array.dtype), array.shape), Value("y", str(array.dtype), ("n",))
    op = Op(op_type, (x, x), (y,))
    assert not has_known_positions(op, lambda _: None)
    with pytest.raises(NotNative, match=f"it has onnx::{op_type} of what is computed"):
        positions_of(op, lambda _: array.shape, lambda _: None)


def test_an_array_masked_by_itself_in_a_model_over_time() -> None:
    node = {
        "parameters": {
            "x": {"default_initial_value": [False, True, False], "value": "numpy.logical_not(x)"}
        },
        "output_ports": {"y": {"value": "numpy.size(x[x])"}},
    }
    model = {"m": {"graphs": {"g": {"nodes": {"n": node}}}}}
    for native_option in ("off", "auto"):
        results = mdf_loop.compile(model, native=native_option).run(steps=50_000, progress=False)
        np.testing.assert_array_equal(results["y"], np.tile([2, 1], 25_000))


@pytest.mark.parametrize(
    "call",
    [
        SameOperands("ScatterElements", (1, 2), (np.zeros((2, 3), np.int64), I(1), I(1)), {}),
        SameOperands("ScatterND", (1, 2), (np.zeros((2, 3), np.int64), I(1), I(1)), {}),
    ],
    ids=lambda call: call.op_type,
)
def test_operands_whose_shapes_do_not_fit_have_no_machine_code(call: SameOperands) -> None:
    with pytest.raises(UnsupportedError, match="operands whose shapes do not fit"):
        Session(loop_of_call(call), REQUIRED)
