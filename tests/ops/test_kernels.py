"""Compare the table of kernels with ONNX Runtime itself."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from mdf_loop.errors import OperandError
from mdf_loop.ir import Op
from mdf_loop.ops import kernels, onnx_schema, row_of
from mdf_loop.ops.kernels import has_kernel
from mdf_loop.ops.opset import opset_of_op
from mdf_loop.ops.registry import domain_operation_names, never, rows
from tests.ops.op_running import only_op, program_of, run
from tests.ops.operator_samples import NOT_TENSORS, SAMPLES, F

DTYPES = ("float64", "float32", "int64", "int32", "bool")


def sample_op(op_type: str, dtype: str) -> Op | None:
    """Return the sample of an operator in a dtype, or None if ONNX does not define it."""
    sample = SAMPLES[op_type]
    arrays = [x.array(dtype) if isinstance(x, F) else x for x in sample.inputs]
    arrays = [None if a is None else np.asarray(a) for a in arrays]
    attributes = {k: v for k, v in sample.attributes.items() if k != "reduction"}
    try:
        program = program_of(op_type, arrays, sample.output_count, **attributes)
    except OperandError:
        return None
    return only_op(program, op_type)


def runtime_has_kernel(op: Op) -> bool:
    """Return True if ONNX Runtime loads the operation, whatever the table of kernels says."""
    inputs = tuple(None if v is None else v.dtype for v in op.inputs)
    outputs = tuple(v.dtype for v in op.outputs)
    return kernels._can_load_kernel(
        op.op_type, inputs, outputs, kernels._HashableAttributes(op.attributes), opset_of_op(op)
    )


DOMAIN_OPERATIONS = set(domain_operation_names())
"""Operations that ONNX lacks, which the runtime cannot have."""


def test_every_operator_with_tensors_has_a_sample():
    assert set(SAMPLES) | NOT_TENSORS == {*onnx_schema.operator_names(), *DOMAIN_OPERATIONS}


WITH_KNOWN_KERNEL = {row.name for row in rows() if row.has_kernel is not never}
KNOWN = sorted(WITH_KNOWN_KERNEL - DOMAIN_OPERATIONS - {"Constant"})


@pytest.mark.parametrize("op_type", KNOWN)
def test_kernels_of_the_table_exist(op_type):
    checked = 0
    for dtype in DTYPES:
        op = sample_op(op_type, dtype)
        if op is not None and row_of(op_type).has_kernel(op):
            assert runtime_has_kernel(op), f"{op_type} in {dtype}"
            checked += 1
    assert checked


@pytest.mark.parametrize(
    ("op_type", "dtype", "there"),
    [
        ("Tan", "float64", False),
        ("Tan", "float32", True),
        ("Exp", "float64", True),
        ("Conv", "float64", False),
        ("Relu", "int64", False),
        ("Relu", "int32", True),
        ("Gemm", "int64", False),
        ("Where", "bool", False),
        ("Max", "int16", False),
        ("LSTM", "float64", False),
        ("LSTM", "float32", True),
        ("GRU", "float64", False),
        ("Shrink", "float64", False),
        ("Shrink", "float32", True),
        ("ScatterND", "float64", True),
    ],
)
def test_has_kernel(op_type, dtype, there):
    op = sample_op(op_type, dtype)
    assert op is not None
    assert has_kernel(op) is there


@pytest.mark.parametrize("op_type", ["ScatterND", "ScatterElements"])
def test_sums_of_float16_have_no_kernel(op_type):
    arrays = [x.array("float16") if isinstance(x, F) else x for x in SAMPLES[op_type].inputs]
    for attributes, there in (({}, True), ({"reduction": "add"}, False)):
        assert has_kernel(only_op(program_of(op_type, arrays, **attributes), op_type)) is there


@pytest.mark.parametrize("fmod", [0, 1])
def test_kernels_depend_on_attributes(fmod):
    x = np.array([5.5, -5.5])
    op = only_op(program_of("Mod", [x, x], fmod=fmod), "Mod")
    assert has_kernel(op) is bool(fmod)


def test_the_runtime_is_probed_once():
    op = sample_op("Softplus", "float64")
    assert op is not None
    has_kernel(op)
    cache_before = kernels._can_load_kernel.cache_info()
    has_kernel(op)
    cache_after = kernels._can_load_kernel.cache_info()
    assert (cache_after.misses, cache_after.hits) == (cache_before.misses, cache_before.hits + 1)


def test_common_operations_need_no_probe():
    cache_before = kernels._can_load_kernel.cache_info()
    for op_type in ("Add", "Exp", "MatMul", "Gather", "Slice", "Where", "Cast", "ReduceSum"):
        op = sample_op(op_type, "float64")
        assert op is not None
        assert has_kernel(op)
    assert kernels._can_load_kernel.cache_info() == cache_before


@pytest.mark.slow
def test_the_runtime_is_not_imported_before_a_probe():
    code = "import sys, mdf_loop.pipeline; sys.exit('onnxruntime' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_other_faults_are_not_missing_kernels():
    op = only_op(program_of("LRN", [np.ones((1, 4, 2, 2), np.float32)], size=2), "LRN")
    assert has_kernel(op)  # The session reports "size must be odd".


class TestTrapsOfTheRuntime:
    """Kernels that load but fail or compute wrong numbers, which rows mark as `wrong_kernel`.

    A failure of these tests is good news.
    """

    @pytest.mark.parametrize("op_type", ["LSTM", "GRU"])
    def test_recurrent_networks_in_float64_fail(self, op_type):
        sample = SAMPLES[op_type]
        arrays = [x.array("float64") for x in sample.inputs]
        program = program_of(op_type, arrays, sample.output_count, **sample.attributes)
        with pytest.raises(Exception, match="does not support double yet"):
            run(program, arrays)

    def test_mod_of_floats_without_fmod_fails(self):
        x = np.array([5.5, -5.5])
        with pytest.raises(Exception, match="fmod"):
            run(program_of("Mod", [x, np.abs(x)]), [x, np.abs(x)])

    def test_shrink_computes_in_float32(self):
        x = np.array([1.9])
        assert run(program_of("Shrink", [x]), [x])[0][0] == float(np.float32(1.9))

    def test_whole_powers_go_through_float64(self):
        three, n = np.array([3]), np.array(39)
        assert run(program_of("Pow", [three, n]), [three, n])[0][0] == float(3**39) != 3**39
