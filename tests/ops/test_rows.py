"""Test each trait of a row of operations on samples of every operation.

The samples run through numpy (`ops.numpy_evaluation`) and ONNX Runtime, with difficult numbers: zeros of both signs,
infinities, nan, the ends of each dtype.
"""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np
import pytest

from mdf_loop.errors import UnsupportedError
from mdf_loop.ir import Array, Op, Program, Value
from mdf_loop.ir.types import dtype_name
from mdf_loop.ops import row_of
from mdf_loop.ops.inference import _infer_types, infer
from mdf_loop.ops.numpy_evaluation import evaluate
from mdf_loop.ops.onnx_schema import operator_names, schema
from mdf_loop.ops.registry import (
    Reproducibility,
    Row,
    always,
    domain_operation_names,
    never,
    register,
    registered,
    rows,
)
from mdf_loop.pipeline import LEGAL, prepare
from tests.ops.op_running import program_of, run
from tests.ops.operator_samples import SAMPLES, F, Sample

CONTROL = {"If", "Loop", "Scan", "SequenceMap"}
WHOLE = ("int64", "int32")
FLOATS = ("float64", "float32")
DIFFICULT_NUMBERS = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    -2.5,
    3.0,
    1e300,
    -1e300,
    5e-324,
    np.inf,
    -np.inf,
    np.nan,
]
DIFFICULT_INTEGERS = [0, 1, -1, 2, -3, 7, 2**62, -(2**62), 2**63 - 1, -(2**63), 2**53 + 1, 100]


def operations_with(test: Any) -> list[str]:
    """Return the operations with a sample whose row passes a test."""
    return sorted(row.name for row in rows() if row.name in SAMPLES and test(row))


def difficult_numbers(dtype: str, size: int, seed: int) -> Array:
    """Return difficult numbers in an order of the seed."""
    kind = np.dtype(dtype).kind
    pool = np.array(DIFFICULT_INTEGERS if kind in "iu" else DIFFICULT_NUMBERS)
    if kind == "b":
        pool = np.array([True, False])
    if dtype == "int32":
        pool = np.clip(pool, -(2**31), 2**31 - 1)
    with np.errstate(all="ignore"):
        return np.random.default_rng(seed).choice(pool, size).astype(dtype)


def operands(sample: Sample, dtype: str, seed: int | None = None) -> list[Array | None]:
    """Return the operands of a sample, with difficult numbers in the dtype under test if there is a seed."""
    arrays = []
    for operand in sample.inputs:
        array = operand.array(dtype) if isinstance(operand, F) else operand
        if isinstance(operand, F) and seed is not None:
            array = difficult_numbers(dtype, array.size, seed + len(arrays)).reshape(array.shape)
        arrays.append(array)
    return arrays


def accepted_dtypes(name: str, dtypes: tuple[str, ...]) -> list[str]:
    """Return the subset of `dtypes` that the operation accepts."""
    return [dtype for dtype in dtypes if _types(name, dtype) is not None]


def _types(name: str, dtype: str) -> Any:
    sample = SAMPLES[name]
    arrays = operands(sample, dtype)
    entries = [None if a is None else (dtype_name(a), a.shape) for a in arrays]
    known_arrays = {k: a for k, a in enumerate(arrays) if a is not None}
    try:
        return infer(name, entries, sample.attributes, known_arrays, sample.output_count)
    except Exception:  # noqa: BLE001 - onnx has none for this dtype
        return None


def reference(name: str, arrays: list[Array | None]) -> list[Array] | None:
    """Return the result of an operation in numpy, or None if onnx's reference has none."""
    sample = SAMPLES[name]
    try:
        return evaluate(name, arrays, sample.attributes, sample.output_count)
    except Exception:  # noqa: BLE001 - The reference lacks the operator or the dtype.
        return None


def run_legal(program: Program, arrays: list[Array | None]) -> list[Array]:
    """Run a program on ONNX Runtime, after decomposition into its operations."""
    return run(prepare(program, LEGAL), arrays)


def op_of(name: str, dtype: str) -> tuple[Op, dict[Value, Array]]:
    """Return the operation of a sample, with its operands by value."""
    sample = SAMPLES[name]
    arrays = operands(sample, dtype)
    values = [
        None if a is None else Value(f"x{k}", dtype_name(a), a.shape) for k, a in enumerate(arrays)
    ]
    types = _types(name, dtype) or [("float64", None)] * sample.output_count
    outputs = tuple(Value(f"y{k}", *entry) for k, entry in enumerate(types))
    known = {v: a for v, a in zip(values, arrays, strict=True) if v is not None and a is not None}
    return Op(name, tuple(values), outputs, sample.attributes), known


# --- registered rows ------------------------------------------------------------------------------


def test_every_operator_has_a_row() -> None:
    of_onnx = {row.name for row in rows() if row.schema is None}
    assert of_onnx == set(operator_names()) - CONTROL


def test_a_row_of_a_domain_operation_has_schema_types_and_meaning() -> None:
    for row in map(row_of, domain_operation_names()):
        assert row.type_rule is not None, row.name
        assert row.numpy_function is not None, row.name
        assert row.schema.name == row.name not in operator_names()
        assert row.schema.domain.startswith("mdf_loop."), row.name


def test_an_empty_row_has_the_worst_case() -> None:
    row, op = row_of("Unheard"), Op("Unheard", (), ())
    assert row.may_fail(op, lambda _: None)
    assert row.reproducibility is Reproducibility.RUNTIME_DEPENDENT
    assert not any(
        (row.is_elementwise, row.moved_operands, row.never_negative(op), row.has_kernel(op))
    )
    assert row.batching_rule is None is row.decomposition


def test_a_row_is_registered_once() -> None:
    with registered(Row(name="Cube")), pytest.raises(AssertionError, match="Cube has a row"):
        register(Row(name="Cube"))
    assert row_of("Cube").may_fail is always


def test_random_operations_are_those_onnx_calls_nondeterministic() -> None:
    schemas = [schema(name) for name in operator_names()]
    drawn = {schema.name for schema in schemas if schema.non_deterministic} - CONTROL
    drawn -= {"AffineGrid"}  # AffineGrid draws nothing.
    # Draw exists only while a model is read.
    assert {row.name for row in rows() if row.is_random} == {*drawn, "Draw"}


# --- numerical traits -----------------------------------------------------------------------------


@pytest.mark.parametrize("name", operations_with(lambda row: row.is_elementwise))
def test_elementwise_is_the_same_for_each_element(name: str) -> None:
    for dtype in accepted_dtypes(name, (*FLOATS, *WHOLE, "bool")):
        count = len(SAMPLES[name].inputs)
        arrays = [
            difficult_numbers(a.dtype, 12, seed=k).reshape(3, 4)[
                tuple(slice(0, n) for n in (3, 4 if k else 1))
            ]
            for k, a in enumerate(operands(SAMPLES[name], dtype))
            if a is not None
        ]
        if row_of(name).may_fail is not never:
            arrays[1:] = [np.abs(np.nan_to_num(a)) % 5 + 1 for a in arrays[1:]]
        whole = reference(name, arrays)  # type: ignore[arg-type]
        if whole is None:
            continue
        full = np.broadcast_arrays(*arrays)
        assert whole[0].shape == full[0].shape
        for index in np.ndindex(full[0].shape):
            alone = reference(name, [a[index] for a in full])
            if alone is not None:
                np.testing.assert_array_equal(alone[0], whole[0][index], f"{name} {dtype} {count}")


@pytest.mark.parametrize("name", operations_with(lambda row: row.moved_operands is not None))
def test_moving_operations_return_elements_of_operands_or_zero(name: str) -> None:
    for dtype in accepted_dtypes(name, ("float64", "int64")):
        op, known_arrays = op_of(name, dtype)
        arrays = operands(SAMPLES[name], dtype)
        if name != "Cast":
            results = reference(name, arrays)
            if results is None:
                continue
            moved_operands = row_of(name).moved_operands
            assert moved_operands is not None
            values = [op.inputs[position] for position in moved_operands(op)]
            pool = [known_arrays[value].ravel() for value in values if value is not None]
            assert np.isin(results[0], np.concatenate([[0], *pool])).all()


@pytest.mark.parametrize(
    "name",
    operations_with(lambda row: row.reproducibility is not Reproducibility.RUNTIME_DEPENDENT),
)
def test_results_rounded_once_are_the_rounded_exact_result(name: str) -> None:
    """Compare with rounded float64 results, exact since float64 has more than twice the digits of float32."""
    for seed in range(4):
        arrays = operands(SAMPLES[name], "float32", seed)
        widened = [a.astype(np.float64) if a is not None and a.dtype == "f4" else a for a in arrays]
        if not accepted_dtypes(name, ("float32",)) or "to" in SAMPLES[name].attributes:
            return
        with np.errstate(all="ignore"):
            narrow, exact = reference(name, arrays), reference(name, widened)  # type: ignore[arg-type]
            if narrow is None or exact is None:
                return
            np.testing.assert_array_equal(narrow[0], np.asarray(exact[0]).astype(narrow[0].dtype))


@pytest.mark.parametrize(
    "name", operations_with(lambda row: row.reproducibility is Reproducibility.FIXED)
)
def test_fixed_results_have_the_same_bits_in_onnxruntime(name: str) -> None:
    sample = SAMPLES[name]
    for dtype in accepted_dtypes(name, FLOATS):
        fixed = [k for k, operand in enumerate(sample.inputs) if not isinstance(operand, F)]
        arrays = operands(sample, dtype, seed=5)
        expected = reference(name, arrays)
        if expected is None:
            continue
        program = program_of(name, arrays, sample.output_count, constant=fixed, **sample.attributes)
        if program.ops and any(isinstance(op, Op) for op in program.ops):
            actual = run_legal(program, arrays)
            for got, want in zip(actual, expected, strict=True):
                zeros = name == "Where"  # ONNX Runtime returns 0.0 for -0.0.
                assert np.array_equal(got, want, equal_nan=want.dtype.kind == "f")
                if want.dtype.kind == "f" and not zeros:
                    is_number = ~np.isnan(want)
                    assert np.array_equal(
                        np.signbit(got)[is_number], np.signbit(want)[is_number]
                    ), name


@pytest.mark.parametrize("name", operations_with(lambda row: row.never_negative is not never))
def test_never_negative_results_have_no_sign_bit(name: str) -> None:
    for dtype in accepted_dtypes(name, (*FLOATS, *WHOLE)):
        op, _ = op_of(name, dtype)
        results = reference(name, operands(SAMPLES[name], dtype, seed=3))
        if row_of(name).never_negative(op) and results is not None:
            numbers = (
                results[0][~np.isnan(results[0])] if results[0].dtype.kind == "f" else results[0]
            )
            assert not np.any(numbers < 0)
            assert numbers.dtype.kind != "f" or not np.signbit(numbers).any()


@pytest.mark.parametrize("name", operations_with(lambda row: row.reads_only_shapes))
def test_operations_by_shape_read_no_elements(name: str) -> None:
    first, second = (reference(name, operands(SAMPLES[name], "float64", seed)) for seed in (1, 2))
    assert first is not None
    assert second is not None
    np.testing.assert_array_equal(first[0], second[0])


@pytest.mark.parametrize("name", operations_with(lambda row: row.treats_uint64_as_int64))
def test_bits_of_uint64_are_those_of_int64(name: str) -> None:
    signed = operands(SAMPLES[name], "int64", seed=2)
    unsigned = [
        a.view(np.uint64) if isinstance(operand, F) and a is not None else a
        for a, operand in zip(signed, SAMPLES[name].inputs, strict=True)
    ]
    first, second = reference(name, signed), reference(name, unsigned)
    assert first is not None
    if second is not None:
        np.testing.assert_array_equal(first[0].view(np.uint64), second[0])


# --- types and failures ---------------------------------------------------------------------------


@pytest.mark.parametrize("name", operations_with(lambda row: row.types_ignore_values))
def test_types_do_not_depend_on_values(name: str) -> None:
    sample = SAMPLES[name]
    for dtype in accepted_dtypes(name, ("float64", "int64", "bool")):
        arrays = operands(sample, dtype)
        entries = [None if a is None else (dtype_name(a), a.shape) for a in arrays]
        known_arrays = {k: a for k, a in enumerate(arrays) if a is not None}
        known_types = _infer_types(
            name, entries, sample.attributes, known_arrays, sample.output_count
        )
        assert known_types == infer(name, entries, sample.attributes, {}, sample.output_count)


def _cannot_fail(row: Row) -> bool:
    if row.name not in SAMPLES or row.is_random:
        return False
    op, known_arrays = op_of(row.name, "float64")
    return not row.may_fail(op, lambda value: _fixed(row.name, op, known_arrays, value))


def _fixed(name: str, op: Op, known: dict[Value, Array], value: Value | None) -> Array | None:
    """Return the operands that do not have the dtype under test, which are constants."""
    place = next((k for k, v in enumerate(op.inputs) if v is value), None)
    free = place is None or isinstance(SAMPLES[name].inputs[place], F)
    return None if free or value is None else known[value]


@pytest.mark.parametrize("name", operations_with(_cannot_fail))
def test_operations_that_cannot_fail_accept_every_number(name: str) -> None:
    sample = SAMPLES[name]
    fixed = [k for k, operand in enumerate(sample.inputs) if not isinstance(operand, F)]
    for dtype in accepted_dtypes(name, (*FLOATS, "int64", "bool")):
        op, known_arrays = op_of(name, dtype)
        if row_of(name).may_fail(
            op, lambda v, op=op, known_arrays=known_arrays: _fixed(name, op, known_arrays, v)
        ):
            continue
        for seed in range(3):
            arrays = operands(sample, dtype, seed)
            program = program_of(
                name, arrays, sample.output_count, constant=fixed, **sample.attributes
            )
            if any(isinstance(operation, Op) for operation in program.ops):
                # A dtype may be refused before the run.
                with contextlib.suppress(UnsupportedError):
                    run_legal(program, arrays)


INDICES = {
    "Gather": ({}, 1, [0, 2, -3], [3, -4]),
    "GatherElements": ({"axis": 0}, 1, [[0, 2]], [[0, 3]]),
    "GatherND": ({}, 1, [[0, 1], [-1, 0]], [[0, 2], [3, 0]]),
    "ScatterElements": ({"axis": 0}, 1, [[0, 2]], [[0, -4]]),
    "ScatterND": ({}, 1, [[2, 1]], [[2, 2]]),
    "TopK": ({"axis": 0}, 1, [3], [4]),
    "CumSum": ({}, 1, [1], [2]),
    "Split": ({"axis": 0}, 1, [1, 2], None),
    "Tile": ({}, 1, [2, 1], None),
    "Reshape": ({}, 1, [2, 3], None),
    "Expand": ({}, 1, [1, 3, 2], None),
    "Unsqueeze": ({}, 1, [0], None),
}
"""Attributes, the position of the index operand, valid indices for data [3, 2], invalid indices."""


@pytest.mark.parametrize("name", INDICES)
def test_index_operands_must_be_known_and_valid(name: str) -> None:
    attributes, place, right, wrong = INDICES[name]
    data, fixed = Value("x", "float64", (3, 2)), Value("i", "int64", None)
    op = Op(name, (data, fixed), (Value("y", "float64", None),), attributes)
    row = row_of(name)
    assert row.may_fail(op, lambda _: None)
    assert not row.may_fail(op, lambda v: np.array(right) if v is op.inputs[place] else None)
    if wrong is not None:
        assert row.may_fail(op, lambda v: np.array(wrong) if v is op.inputs[place] else None)
    open_data = Value("x", "float64", ("n", 2))
    opened = Op(name, (open_data, fixed), op.outputs, attributes)
    if name not in ("Tile", "Unsqueeze", "CumSum"):
        assert row.may_fail(opened, lambda v: np.array(right) if v is fixed else None)


@pytest.mark.parametrize(
    ("name", "operand", "fails"),
    [
        ("Div", [1, -2], False),
        ("Div", [1, 0], True),
        ("Div", None, True),
        ("Mod", [3], False),
        ("Mod", [0], True),
        ("Pow", [2, 0], False),
        ("Pow", [-1], True),
    ],
)
def test_arithmetic_of_whole_numbers_may_fail(name: str, operand: Any, fails: bool) -> None:
    x, y, z = (Value(word, "int64", ()) for word in "xym")
    op = Op(name, (x, y), (z,))
    known = None if operand is None else np.array(operand)
    assert row_of(name).may_fail(op, lambda v: known if v is y else None) is fails
    operation = Op(name, (x, y), (Value("m", "float64", ()),))
    assert not row_of(name).may_fail(operation, lambda _: None)


def test_a_slice_fails_by_its_steps_and_axes_alone() -> None:
    values = [Value(word, "int64", (1,)) for word in ("x", "starts", "ends", "axes", "steps")]
    op = Op("Slice", tuple(values), (Value("y", "int64", None),))
    row, axes, steps = row_of("Slice"), values[3], values[4]
    assert not row.may_fail(op, lambda v: np.array([1]) if v in (axes, steps) else None)
    assert row.may_fail(op, lambda v: np.array([1]) if v is steps else None)
    assert row.may_fail(op, lambda v: np.array([0]) if v in (axes, steps) else None)
    assert not row.may_fail(Op("Slice", tuple(values[:3]), op.outputs), lambda _: None)


def test_an_element_is_gathered_where_other_axes_have_fewer_indices() -> None:
    x = np.arange(6.0).reshape(2, 3)
    indices = np.array([[2, -3]])
    (elements,) = evaluate("GatherElements", [x, indices], {"axis": 1}, 1)
    np.testing.assert_array_equal(elements, [[2.0, 0.0]])
    with pytest.raises(IndexError, match="an index is not on axis 1, which has 3 elements"):
        evaluate("GatherElements", [x, np.array([[-4]])], {"axis": 1}, 1)
