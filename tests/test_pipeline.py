"""Order of passes for each target."""

from __future__ import annotations

import ast
from pathlib import Path

import numpy as np
import pytest

import mdf_loop
from mdf_loop.build import Builder
from mdf_loop.errors import UnsupportedError
from mdf_loop.ir import Op, Value
from mdf_loop.ir.check import check
from mdf_loop.ops import names as op_names
from mdf_loop.ops import row_of
from mdf_loop.passes.legalize.repeat_loops_with_nan import repeat_loops_with_nan
from mdf_loop.passes.rewrite import rewrite
from mdf_loop.passes.scan_axis_first import scan_axis_first
from mdf_loop.pipeline import (
    CHECK,
    INTERPRET,
    LEGAL,
    LOADED,
    ONNXRUNTIME,
    PORTABLE,
    SIMPLIFY,
    fixed_point,
    passes_of_evaluation,
    passes_over_time,
    prepare,
    run_passes_in_turn,
)
from mdf_loop.run.backend import PROGRAM_BACKENDS
from tests.ops.op_running import in_a_loop, program_of
from tests.passes.sketch import straight, text

PACKAGE = Path(mdf_loop.__file__).parent
X = np.array([0.5, -0.25])


def names(order) -> list[str]:
    return [apply.__name__ for apply in order]


def test_check_and_run_have_the_same_passes() -> None:
    assert CHECK == ONNXRUNTIME == PROGRAM_BACKENDS["onnxruntime"].pass_order
    assert (*SIMPLIFY, scan_axis_first, *LEGAL) == ONNXRUNTIME
    assert (*SIMPLIFY, *LEGAL, repeat_loops_with_nan) == PORTABLE


def test_passes_of_evaluations_and_of_runs_over_time() -> None:
    assert names(passes_of_evaluation()) == ["report_loops"]
    assert names(passes_of_evaluation({"x"})) == [
        "report_needed_loops",
        "eliminate_dead_code",
        "batch",
    ]
    assert names(passes_over_time()) == []
    pass_names = names(passes_over_time({"x"}, thinned=True))
    assert pass_names == [
        "subsample_recordings",
        "eliminate_dead_code",
        "batch",
        "refuse_ragged_outputs",
    ]


def test_prepare_applies_all_passes() -> None:
    program = in_a_loop("Tan", X)
    steps = dict(run_passes_in_turn(program, (*passes_of_evaluation(), *ONNXRUNTIME)))
    prepared = prepare(program, ONNXRUNTIME, passes_of_evaluation())
    assert text(steps[names(ONNXRUNTIME)[-1]]) == text(prepared)
    assert check(prepared) == ()


def test_unread_operations_need_no_kernel() -> None:
    b = Builder()
    x, rois = b.new("float64", (1, 1, 2, 2), "x"), b.new("float64", (1, 5), "rois")
    b.op("MaxRoiPool", x, rois, pooled_shape=(1, 1))
    program = straight(b, (x, rois), y=x)
    with pytest.raises(UnsupportedError, match="no float64 kernel for onnx::MaxRoiPool"):
        prepare(program, LEGAL)
    assert text(prepare(program, ONNXRUNTIME))[1:] == ["  output y = %x"]


def test_swept_inputs_have_a_leading_batch_axis() -> None:
    program = program_of("Tan", [X, X][:1])
    prepared = prepare(program, ONNXRUNTIME, passes_of_evaluation({"x0"}))
    assert prepared.inputs[0].value.type == "float64[batch, 2]"


def test_loaded_programs_have_no_bfloat16_inputs() -> None:
    assert names(LOADED) == ["cast_bfloat16_io"]
    half_value = program_of("Neg", [X.astype(np.float32)], shapes=[(2,)])
    assert prepare(half_value, LOADED) is half_value


def test_passes_without_a_fixed_point_end_with_an_error() -> None:
    def replace_tan(b: Builder, op: Op) -> tuple[Value, ...] | None:
        return (b.op("Tan", *op.inputs),) if op.op_type == "Tan" else None

    endless = fixed_point(lambda program: rewrite(program, replace_tan))
    with pytest.raises(UnsupportedError, match="no float64 kernel for onnx::Tan") as refusal:
        endless(in_a_loop("Tan", X))
    assert refusal.value.findings[0].where == "$.here"


# --- the interpreter ------------------------------------------------------------------------------


def test_the_interpreter_runs_the_program_without_passes() -> None:
    assert INTERPRET == ()
    program = in_a_loop("Tan", X)
    assert prepare(program, INTERPRET) is program


def test_decompositions_are_not_used_as_reference_implementations() -> None:
    """Check that reference implementations are independent of decompositions.

    Only loop reductions, legalization, native code and derivatives read decompositions.
    """
    references = [
        meaning for name in op_names() if (meaning := row_of(name).numpy_function) is not None
    ]
    assert not [f for f in references if f.__module__.startswith("mdf_loop.ops.decompositions")]
    readers = [
        path.relative_to(PACKAGE).as_posix()
        for path in PACKAGE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute) and node.attr == "decomposition"
    ]
    assert set(readers) - {"ops/registry.py"} == {
        "lower/loop_reductions.py",
        "native/decompose.py",
        "ops/derivatives/sweep.py",
        "ops/native/composed.py",
        "passes/legalize/decompose.py",
        "passes/legalize/kernel_needed.py",
        "passes/legalize/promote_unsupported_dtypes.py",
    }
