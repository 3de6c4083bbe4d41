"""Operations of constants have the dtypes, shapes and bits of the same operations of inputs.

Each operation of the registry is compiled twice, with constants as operands and with inputs of the same
numbers. Both programs run in the same form, by ONNX Runtime and by the interpreter.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from mdf_loop.build import Builder
from mdf_loop.errors import LoopError, OperandError, RunError, UnsupportedError
from mdf_loop.ir import Input, Output, Program, Value
from mdf_loop.ir.types import dtype_name
from mdf_loop.ops.registry import row_of, rows
from mdf_loop.pipeline import prepare
from mdf_loop.run.backend import PROGRAM_BACKENDS
from tests.ops.folding_cases import DTYPES, MORE_CALLS, Call, calls
from tests.ops.operator_samples import SAMPLES, F
from tests.placements import STANDARD
from tests.random_programs.agreement import array_differences

FORMS = ("onnxruntime", "interpreter")
NAMES = sorted(row.name for row in rows() if row.name in SAMPLES and not row.is_random)
FEW_DTYPES = ("float64", "float32", "int64")
"""Dtypes for operations that are decomposed, which takes the compiler longer."""


def dtypes_of(name: str) -> tuple[str, ...]:
    """Return the dtypes to test an operation with: one if its operands have dtypes of their own."""
    if not any(isinstance(operand, F) for operand in SAMPLES[name].inputs):
        return ("float64",)
    return FEW_DTYPES if row_of(name).decomposition else DTYPES


def program_of(
    name: str, group: Sequence[Call], *, are_constants: bool
) -> tuple[Program, Mapping[str, np.ndarray]]:
    """Return a program with one operation for each call, and the arrays of its inputs."""
    b = Builder()
    inputs: dict[Value, np.ndarray] = {}

    def operand(array: np.ndarray | None) -> Value | None:
        if array is None:
            return None
        if are_constants:
            return b.constant(array)
        value = b.new(dtype_name(array), array.shape, "x")
        inputs[value] = array
        return value

    outputs = []
    for k, call in enumerate(group):
        results = b.multi(
            name, *map(operand, call.operands), output_count=call.output_count, **call.attributes
        )
        outputs += [Output(f"y{k}_{place}", value) for place, value in enumerate(results)]
    program = Program("p", tuple(map(Input, inputs)), tuple(b.ops), tuple(outputs))
    return program, {value.name: array for value, array in inputs.items()}


def outcome(name: str, group: Sequence[Call], form: str, *, are_constants: bool) -> Any:
    """Return the outputs by name, or the error of the compilation or the run."""
    backend = PROGRAM_BACKENDS[form]
    try:
        program, feeds = program_of(name, group, are_constants=are_constants)
        return backend.load(prepare(program, backend.pass_order), STANDARD).run(feeds)
    except LoopError as error:
        return error


def differences(name: str, group: Sequence[Call], form: str) -> list[str]:
    """Return sentences about results that differ between constant operands and inputs.

    A form that refuses the inputs has no results to compare with. If a call of a group fails, the calls are
    compared one by one.
    """
    of_inputs = outcome(name, group, form, are_constants=False)
    if isinstance(of_inputs, OperandError | UnsupportedError) and len(group) == 1:
        return []
    of_constants = outcome(name, group, form, are_constants=True)
    errors = [isinstance(each, LoopError) for each in (of_inputs, of_constants)]
    if any(errors) and len(group) > 1:
        return [text for call in group for text in differences(name, [call], form)]
    operands = [None if a is None else a.tolist() for a in group[0].operands]
    if any(errors):
        texts = [f"{operands}: {of_constants!r}, not {of_inputs!r}"]
        return [] if all(errors) else texts
    return [
        f"{form} {key}: {text}"
        for key, array in of_inputs.items()
        for text in array_differences(of_constants[key], array, None)
    ]


def assert_equal(name: str, group: Sequence[Call]) -> None:
    texts = [text for form in FORMS for text in differences(name, group, form)]
    assert not texts, "\n".join(texts[:5])


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_constants_equal_inputs(name: str) -> None:
    for dtype in dtypes_of(name):
        assert_equal(name, calls(name, dtype))


@pytest.mark.slow
@pytest.mark.parametrize("name", MORE_CALLS)
def test_constants_equal_inputs_in_further_calls(name: str) -> None:
    assert_equal(name, MORE_CALLS[name])


@pytest.mark.parametrize(
    ("name", "operands", "attributes"),
    [
        ("OneHot", (np.array([1]), np.array(2), np.array([0.25, np.inf])), {}),
        ("ReduceSumSquare", (np.array([[3, 2]], np.int32), np.array([1])), {"keepdims": 0}),
        ("ReduceMax", (np.array([[1, np.nan]]), np.array([1])), {"keepdims": 0}),
        ("ArgMax", (np.array([[1, np.nan, 3]]),), {"axis": 1}),
        ("Exp", (np.array([0.1, 0.7, -2.3]),), {}),
        ("Range", (np.array(0.1), np.array(5.0), np.array(0.1)), {}),
    ],
)
def test_constants_equal_inputs_in_special_calls(name: str, operands: Any, attributes: Any) -> None:
    assert_equal(name, [Call(operands, attributes)])


# --- limits of constant folding ------------------------------------------------------------------


def is_folded(name: str, *operands: Any, **attributes: Any) -> bool:
    b = Builder()
    values = [b.constant(np.array(operand)) for operand in operands]
    return b.constant_of(b.op(name, *values, **attributes)) is not None


def test_exact_operations_are_folded() -> None:
    assert is_folded("Add", 0.1, 0.2)
    assert is_folded("Sqrt", 2.0)
    assert is_folded("Cast", 2.5, to=7)
    assert is_folded("Gather", [1.5, 2.5], 1)
    assert is_folded("ReduceSum", [1, 2])
    assert is_folded("Pow", 2, 70)


def test_operations_that_runtimes_round_differently_are_left_to_the_run() -> None:
    assert not is_folded("Exp", 0.1)
    assert not is_folded("Pow", 2.0, 0.5)
    assert not is_folded("ReduceSum", [0.1, 0.2])
    assert not is_folded("ReduceMean", [1, 2])
    assert not is_folded("Max", 0.0, -0.0)
    assert not is_folded("Cast", 0.1, to=8)


def test_required_constants_are_computed_at_compile_time() -> None:
    b = Builder()
    one = b.op("Exp", b.constant(np.array(0.0)))
    total = b.op("Add", one, one)
    assert b.constant_of(total) is None
    assert b.evaluated(total) == 2.0
    assert b.evaluated(b.op("Add", one, b.new("float64", (), "x"))) is None
    assert b.evaluated(b.op("RandomNormal", shape=(1,))) is None


def test_constants_that_no_kernel_takes_are_computed_by_numpy() -> None:
    call = Call((np.array([3, 9, 4], np.uint64),), {})
    refused = outcome("ArgMax", [call], "onnxruntime", are_constants=False)
    assert "ONNX Runtime has no uint64 kernel for onnx::ArgMax" in str(refused)
    assert outcome("ArgMax", [call], "onnxruntime", are_constants=True)["y0_0"] == 1


def test_an_error_of_constant_operands_is_raised_at_run_time() -> None:
    call = Call((np.arange(3.0), np.array(5)), {})
    for form in FORMS:
        errors = [
            outcome("Gather", [call], form, are_constants=are_constants)
            for are_constants in (True, False)
        ]
        assert isinstance(errors[0], RunError)
        assert str(errors[0]) == str(errors[1])
