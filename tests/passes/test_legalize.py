from __future__ import annotations

import re

import numpy as np
import pytest

from mdf_loop.build import Builder
from mdf_loop.errors import UnsupportedError
from mdf_loop.ir import Carried, Input, Loop, Op, Output, Program, walk
from mdf_loop.ir.check import check
from mdf_loop.ir.text import print_program
from mdf_loop.ops.kernels import has_kernel
from mdf_loop.passes.legalize.kernel_needed import main_dtype
from mdf_loop.pipeline import LEGAL, prepare
from tests.ops.op_running import in_a_loop, legal_run, only_op, program_of, run

X = np.array([0.5, -0.25])


def test_an_operation_without_a_kernel_is_decomposed():
    program = program_of("Cosh", [X], shapes=[("n",)])
    assert print_program(prepare(program, LEGAL)).splitlines() == [
        "program(%x0: float64[n])",
        "  %op:Cosh:Abs: float64[n] = Abs(%x0)",
        "  %const: float64[] = 700.0",
        "  %op:Cosh:Min: float64[n] = Min(%op:Cosh:Abs, %const)",
        "  %op:Cosh:Exp: float64[n] = Exp(%op:Cosh:Min)",
        "  %op:Cosh:Sub: float64[n] = Sub(%op:Cosh:Abs, %op:Cosh:Min)",
        "  %op:Cosh:Exp_2: float64[n] = Exp(%op:Cosh:Sub)",
        "  %const_2: float64[] = 0.5",
        "  %op:Cosh:Mul: float64[n] = Mul(%const_2, %op:Cosh:Exp)",
        "  %op:Cosh:Mul_2: float64[n] = Mul(%op:Cosh:Mul, %op:Cosh:Exp_2)",
        "  %op:Cosh:Div: float64[n] = Div(%const_2, %op:Cosh:Exp)",
        "  %op:Cosh: float64[n] = Add(%op:Cosh:Mul_2, %op:Cosh:Div)",
        "  output y0 = %op:Cosh",
    ]


def test_an_operation_of_a_small_dtype_is_promoted():
    x = np.array([300, -300], np.int16)
    program = program_of("Max", [x, x])
    assert print_program(prepare(program, LEGAL)).splitlines() == [
        "program(%x0: int16[2], %x1: int16[2])",
        "  %op:Max:Cast: int32[2] = Cast(%x0, to=6)",
        "  %op:Max:Cast_2: int32[2] = Cast(%x1, to=6)",
        "  %op:Max:Max: int32[2] = Max(%op:Max:Cast, %op:Max:Cast_2)",
        "  %op:Max: int16[2] = Cast(%op:Max:Max, to=5)",
        "  output y0 = %op:Max",
    ]


@pytest.mark.parametrize("op_type", ["Exp", "Tanh", "Softmax", "Relu"])
def test_a_program_with_kernels_is_returned_unchanged(op_type):
    program = program_of(op_type, [X])
    assert prepare(program, LEGAL) is program
    inside = in_a_loop(op_type, X)
    assert prepare(inside, LEGAL) is inside


def test_the_passes_are_idempotent():
    legal = prepare(in_a_loop("Tan", X), LEGAL)
    assert prepare(legal, LEGAL) is legal


@pytest.mark.parametrize("op_type", ["Tan", "Erf", "Selu", "Softplus", "Hardmax", "Shrink"])
def test_bodies_are_legalized(op_type):
    legal = prepare(in_a_loop(op_type, X), LEGAL)
    assert check(legal) == ()
    assert all(has_kernel(op) for op in walk(legal.ops) if isinstance(op, Op))
    (loop,) = (op for op in legal.ops if isinstance(op, Loop))
    assert all(op.where == "$.here" for op in loop.ops if isinstance(op, Op))


def test_outputs_keep_their_names():
    program = program_of("Tan", [X])
    legal = prepare(program, LEGAL)
    assert legal.outputs == program.outputs
    assert legal.inputs == program.inputs


def test_decompositions_of_decompositions():
    """Decompose an LSTM in float64 into a loop with an activation that has no kernel either."""
    arrays = [np.ones((2, 1, 1)), np.ones((1, 4, 1)), np.ones((1, 4, 1))]
    names = ("HardSigmoid", "Softsign", "Softplus")
    program = program_of("LSTM", arrays, 3, hidden_size=1, activations=names)
    legal = prepare(program, LEGAL)
    used = {op.op_type for op in walk(legal.ops) if isinstance(op, Op)}
    assert used.isdisjoint({*names, "LSTM"})
    assert check(legal) == ()


def test_a_network_inside_a_loop_is_an_inner_loop():
    """Run x = RNN(x, w, r) twice from x = x0."""
    x0, weight = np.array([0.5, -0.25, 1.0]).reshape(3, 1, 1), np.full((1, 1, 1), 0.75)
    b = Builder()
    start = b.new("float64", x0.shape, "x0")
    body = b.body()
    x = body.new("float64", x0.shape, "x")
    w, shape = b.constant(weight), b.constant(np.array(x0.shape))
    with body.at("$.here", "net"):
        rows, _ = body.multi("RNN", x, w, w, output_count=2, hidden_size=1)
        step = body.op("Reshape", rows, shape)
    i, go, final = b.new("int64", (), "i"), b.new("bool", (), "go"), b.new("float64", x0.shape, "y")
    carried = (Carried(start, x, step, final),)
    trip = b.constant(np.array(2))
    b.append(Loop("outer", trip, None, i, go, None, carried, (), tuple(body.ops)))
    legal = prepare(Program("p", (Input(start),), tuple(b.ops), (Output("y", final),)), LEGAL)
    assert check(legal) == ()
    (outer,) = (op for op in legal.ops if isinstance(op, Loop))
    assert [op.where for op in outer.ops if isinstance(op, Loop)] == ["$.here"]
    expected = x0
    for _ in range(2):
        expected = legal_run("RNN", [expected, weight, weight], 2, hidden_size=1)[0].reshape(
            x0.shape
        )
    np.testing.assert_allclose(run(legal, [x0])[0], expected, rtol=1e-15)


def test_an_error_names_operator_dtype_place_and_remedy():
    arrays = [np.ones((1, 1, 3, 3)), np.zeros((1, 5))]
    with pytest.raises(UnsupportedError) as caught:
        prepare(program_of("MaxRoiPool", arrays, pooled_shape=(1, 1)), LEGAL)
    assert caught.value.report == (
        "UnsupportedError: ONNX Runtime has no float64 kernel for onnx::MaxRoiPool: regions of "
        "varying size have no composition\n"
        "  at $.here\n"
        "  hint: use precision='float32'"
    )


def test_an_error_about_another_dtype():
    x = np.array([1, 2], np.uint64)
    sentence = re.escape("ONNX Runtime has no uint64 kernel for onnx::ReduceMax")
    with pytest.raises(UnsupportedError, match=sentence) as caught:
        prepare(program_of("ReduceMax", [x]), LEGAL)
    assert "hint: use another dtype" in str(caught.value)


@pytest.mark.parametrize(
    ("op_type", "arrays", "dtype"),
    [
        ("Where", [np.array([True]), X[:1], X[:1]], "float64"),
        ("Gather", [X, np.array([0])], "float64"),
        ("OneHot", [np.array([0]), np.array(3), np.array([0.0, 1.0])], "float64"),
        ("Less", [X, X], "float64"),
        ("ReduceSum", [X.astype(np.float32)], "float32"),
    ],
)
def test_the_dtype_an_operation_computes_in(op_type, arrays, dtype):
    assert main_dtype(only_op(program_of(op_type, arrays), op_type)) == dtype
