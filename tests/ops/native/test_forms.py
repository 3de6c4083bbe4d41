"""Compare every native form of an operation, in every dtype, with the kernel of ONNX Runtime.

The tests find new forms in the registry of operations.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
import pytest

from mdf_loop.build import Builder
from mdf_loop.errors import RunError
from mdf_loop.ir import Input, Loop, Output, Program, Recorded, Scanned, Value
from mdf_loop.pipeline import ONNXRUNTIME, prepare
from mdf_loop.run.interpret import interpret
from mdf_loop.run.onnxruntime.session import Session
from tests.placements import REQUIRED, STANDARD
from tests.soak import some
from tests.strategies.native_operations import Call, calls, combined, hard, same_bits

TOLERANCE_BY_DTYPE = {"float64": 1e-12, "float32": 2e-6}
"""Relative tolerance of functions that libraries round differently."""


CANCELLATION_ERROR = {"Gelu": 1e-6}
"""Absolute error of the float32 kernel of ONNX Runtime where terms cancel."""

SUPPORTED_CALLS = calls()


def parametrize_calls(cases: Iterable[Call]) -> pytest.MarkDecorator:
    """Parametrize a test by all calls of usual dtypes and a sample of the others."""
    all_calls, rare_marks = list(cases), [pytest.mark.slow, pytest.mark.soak]
    usual_params = [pytest.param(call, id=str(call)) for call in all_calls if call.is_usual]
    other_calls = some([call for call in all_calls if not call.is_usual], 10)
    return pytest.mark.parametrize(
        "call",
        [
            *usual_params,
            *(pytest.param(call, id=str(call), marks=rare_marks) for call in other_calls),
        ],
    )


def loop_over_rows(call: Call, arrays: list[np.ndarray]) -> Program:
    """Return a loop that applies a call to one row of each array per iteration."""
    b = Builder()
    inputs = [
        b.new(dtype, array.shape, f"x{k}")
        for k, (dtype, array) in enumerate(zip(call.dtypes, arrays, strict=True))
    ]
    row_count = arrays[0].shape[0]
    body = b.body()
    i, condition_in = body.new("int64", (), "i"), body.new("bool", (), "go")
    scanned_inputs = tuple(
        Scanned(value, body.new(value.dtype, value.shape[1:], "row")) for value in inputs
    )
    with body.at("$.here"):
        row = call.append_to(body, *(scanned_input.row for scanned_input in scanned_inputs))
    stack = b.new(row.dtype, (row_count, *(row.shape or ())), "stack")
    trip_count = b.constant(np.array(row_count))
    ops = tuple(body.ops)
    b.append(
        Loop(
            "loop",
            trip_count,
            None,
            i,
            condition_in,
            None,
            (),
            (Recorded(row, stack),),
            ops,
            scanned_inputs,
            where="$",
        )
    )
    return prepared_program(b, inputs, stack)


def prepared_program(b: Builder, inputs: list[Value], stack: Value) -> Program:
    unprepared_program = Program(
        "p", tuple(map(Input, inputs)), tuple(b.ops), (Output("y", stack),)
    )
    return prepare(unprepared_program, ONNXRUNTIME)


def native_and_standard(call: Call, arrays: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows of the native loop and of the standard loop."""
    program_of_call = loop_over_rows(call, arrays)
    feeds = {f"x{k}": array for k, array in enumerate(arrays)}
    feeds = {
        program_input.value.name: feeds[program_input.value.name]
        for program_input in program_of_call.inputs
    }
    native_rows = Session(program_of_call, REQUIRED).run(feeds)["y"]
    return native_rows, Session(program_of_call, STANDARD).run(feeds)["y"]


def operands(call: Call) -> list[np.ndarray]:
    """Return combinations of special numbers that the call accepts, one array per operand."""
    arrays = combined(call.dtypes)
    mask = np.ones(arrays[0].shape, bool)
    if call.divides:
        mask = arrays[1] != 0
    elif call.raises_integers:
        mask = arrays[1] >= 0
    elif call.is_open:
        mask = abs(arrays[0]) < 2.0**31
    return [array[mask] for array in arrays]


def array_operands(call: Call) -> list[np.ndarray]:
    """Return all combinations of special numbers in rows; an operand that must be scalar has one per row."""
    if not any(map(call.is_single, range(len(call.dtypes)))):
        return [array[np.newaxis] for array in operands(call)]
    first_dtype, *other_dtypes = call.dtypes
    number_arrays = combined(tuple(other_dtypes)) if other_dtypes else []
    row_count = number_arrays[0].size if number_arrays else 1
    return [np.tile(hard(first_dtype), (row_count, 1)), *number_arrays]


def compare(call: Call, native: np.ndarray, expected: np.ndarray, *, exact: bool) -> None:
    if call.loses_signs:
        native, expected = native + 0, expected + 0
    if exact or native.dtype.kind != "f":
        assert same_bits(native, expected)
        return
    tolerance = TOLERANCE_BY_DTYPE[str(native.dtype)]
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(
            native, expected, rtol=tolerance, atol=CANCELLATION_ERROR.get(call.name, 1e-37)
        )


@parametrize_calls(SUPPORTED_CALLS)
def test_calls_with_arrays(call: Call) -> None:
    native_rows, expected = native_and_standard(call, array_operands(call))
    compare(call, native_rows, expected, exact=call.is_exact)


CALLS_OF_SEVERAL_OPERANDS = [
    call for call in SUPPORTED_CALLS if len(call.dtypes) > 1 and call.is_exact
]


@parametrize_calls(CALLS_OF_SEVERAL_OPERANDS)
def test_calls_with_arrays_and_scalars(call: Call) -> None:
    """Make each operand the only scalar among arrays, and the only array among scalars."""
    operand_pools = [hard(dtype) for dtype in call.dtypes]
    if call.divides:
        operand_pools[1] = operand_pools[1][operand_pools[1] != 0]
    row_count, rng = max(map(len, operand_pools)), np.random.default_rng(0)
    for chosen_operand in range(len(operand_pools)):
        for is_chosen_scalar in (True, False):
            scalar_flags = [
                (k == chosen_operand) == is_chosen_scalar for k in range(len(operand_pools))
            ]
            if any(call.is_single(k) for k in range(len(operand_pools))):
                continue
            if call.is_shaped_by_first and scalar_flags[0]:
                continue
            arrays = [
                rng.choice(pool, row_count if is_scalar else (row_count, len(pool)))
                for pool, is_scalar in zip(operand_pools, scalar_flags, strict=True)
            ]
            width = min(
                array.shape[1]
                for array, is_scalar in zip(arrays, scalar_flags, strict=True)
                if not is_scalar
            )
            arrays = [
                array if is_scalar else array[:, :width]
                for array, is_scalar in zip(arrays, scalar_flags, strict=True)
            ]
            native_rows, expected = native_and_standard(call, arrays)
            compare(call, native_rows, expected, exact=True)


@parametrize_calls(SUPPORTED_CALLS)
def test_calls_with_scalars(call: Call) -> None:
    native_rows, expected = native_and_standard(call, operands(call))
    compare(call, native_rows, expected, exact=call.is_exact or "float32" not in call.dtypes)


EXACT_FUNCTIONS = {
    **{"Tan": np.tan, "Asin": np.arcsin, "Acos": np.arccos, "Atan": np.arctan},
    **{"Sinh": np.sinh, "Cosh": np.cosh, "Asinh": np.arcsinh, "Acosh": np.arccosh},
    **{
        "Atanh": np.arctanh,
        "Erf": np.vectorize(math.erf),
        "Softplus": lambda x: np.logaddexp(0, x),
    },
}


@pytest.mark.parametrize("name", EXACT_FUNCTIONS)
@pytest.mark.parametrize("lanes", [True, False])
def test_functions_of_float32_are_rounded_once(name: str, lanes: bool) -> None:
    rng = np.random.default_rng(5)
    low, high = (1, 30) if name == "Acosh" else (-1, 1) if name[0] == "A" else (-8, 8)
    x = rng.uniform(low, high, 500).astype(np.float32)
    call = Call(name, ("float32",), places=(0,))
    arrays = [x[np.newaxis] if lanes else x]
    native_row = (
        Session(loop_over_rows(call, arrays), REQUIRED).run({"x0": arrays[0]})["y"].reshape(-1)
    )
    expected = EXACT_FUNCTIONS[name](x.astype(np.float64))
    assert np.all(
        abs(native_row - expected) <= 0.501 * np.spacing(abs(expected.astype(np.float32)))
    )


@parametrize_calls(calls(lambda call: call.divides))
@pytest.mark.parametrize("shape", [(3,), (1, 3)])
def test_division_by_zero_is_the_standard_outcome(call: Call, shape: tuple[int, ...]) -> None:
    arrays = [np.ones(shape, dtype) for dtype in call.dtypes]
    arrays[1][..., -1] = 0
    program_of_call = loop_over_rows(call, arrays)
    feeds = {f"x{k}": array for k, array in enumerate(arrays)}
    outcomes = []
    for placement in (REQUIRED, STANDARD):
        try:
            outcomes.append(Session(program_of_call, placement).run(feeds)["y"].tolist())
        except RunError as error:
            outcomes.append(error.findings)
    assert outcomes[0] == outcomes[1]


@parametrize_calls(call for call in SUPPORTED_CALLS if call.is_fixed)
def test_fixed_bits_equal_the_interpreter(call: Call) -> None:
    arrays = array_operands(call)
    program_of_call = loop_over_rows(call, arrays)
    feeds = {f"x{k}": array for k, array in enumerate(arrays)}
    with np.errstate(all="ignore"):
        expected = interpret(program_of_call, feeds)["y"]
    native_rows = Session(program_of_call, REQUIRED).run(feeds)["y"]
    assert same_bits(native_rows, expected)
