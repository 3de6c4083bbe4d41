"""Rows of the table of operations say what is so: each trait is tried on samples of every operation.

The samples run through numpy (`ops.meaning`) and ONNX Runtime, with numbers that are hard: zeros of
both signs, infinities, nan, the ends of each dtype.
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
from mdf_loop.ops.inference import _inferred, infer
from mdf_loop.ops.meaning import evaluate
from mdf_loop.ops.onnx_schema import operator_names, schema
from mdf_loop.ops.registry import (
    Bits,
    Row,
    no,
    own_names,
    register,
    registered,
    rows,
    yes,
)
from mdf_loop.pipeline import LEGAL, prepare
from tests.ops.op_running import program_of, run
from tests.ops.operator_samples import SAMPLES, F, Sample

CONTROL = {"If", "Loop", "Scan", "SequenceMap"}
WHOLE = ("int64", "int32")
FLOATS = ("float64", "float32")
HARD = [0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 3.0, 1e300, -1e300, 5e-324, np.inf, -np.inf, np.nan]
HARD_WHOLE = [0, 1, -1, 2, -3, 7, 2**62, -(2**62), 2**63 - 1, -(2**63), 2**53 + 1, 100]


def named(test: Any) -> list[str]:
    """The operations with a sample whose row passes a test."""
    return sorted(row.name for row in rows() if row.name in SAMPLES and test(row))


def hard(dtype: str, size: int, seed: int) -> Array:
    """Numbers that are hard, in another order for each seed."""
    kind = np.dtype(dtype).kind
    pool = np.array(HARD_WHOLE if kind in "iu" else HARD)
    if kind == "b":
        pool = np.array([True, False])
    if dtype == "int32":
        pool = np.clip(pool, -(2**31), 2**31 - 1)
    with np.errstate(all="ignore"):
        return np.random.default_rng(seed).choice(pool, size).astype(dtype)


def operands(sample: Sample, dtype: str, seed: int | None = None) -> list[Array | None]:
    """The operands of a sample; with a seed those of the dtype under test hold hard numbers."""
    made = []
    for given in sample.inputs:
        array = given.array(dtype) if isinstance(given, F) else given
        if isinstance(given, F) and seed is not None:
            array = hard(dtype, array.size, seed + len(made)).reshape(array.shape)
        made.append(array)
    return made


def taken(name: str, dtypes: tuple[str, ...]) -> list[str]:
    """The dtypes among these that the operation takes."""
    return [dtype for dtype in dtypes if _types(name, dtype) is not None]


def _types(name: str, dtype: str) -> Any:
    sample = SAMPLES[name]
    arrays = operands(sample, dtype)
    entries = [None if a is None else (dtype_name(a), a.shape) for a in arrays]
    known = {k: a for k, a in enumerate(arrays) if a is not None}
    try:
        return infer(name, entries, sample.attributes, known, sample.n_outputs)
    except Exception:  # noqa: BLE001 - onnx has none for this dtype
        return None


def reference(name: str, arrays: list[Array | None]) -> list[Array] | None:
    """What the operation means; None where onnx's reference has no answer."""
    sample = SAMPLES[name]
    try:
        return evaluate(name, arrays, sample.attributes, sample.n_outputs)
    except Exception:  # noqa: BLE001 - the reference lacks it or some dtype of it
        return None


def run_legal(program: Program, arrays: list[Array | None]) -> list[Array]:
    """What ONNX Runtime gives, for a program in operations that it has."""
    return run(prepare(program, LEGAL), arrays)


def op_of(name: str, dtype: str) -> tuple[Op, dict[Value, Array]]:
    """The operation of a sample, with its operands by value."""
    sample = SAMPLES[name]
    arrays = operands(sample, dtype)
    values = [
        None if a is None else Value(f"x{k}", dtype_name(a), a.shape) for k, a in enumerate(arrays)
    ]
    made = _types(name, dtype) or [("float64", None)] * sample.n_outputs
    outputs = tuple(Value(f"y{k}", *entry) for k, entry in enumerate(made))
    known = {v: a for v, a in zip(values, arrays, strict=True) if v is not None and a is not None}
    return Op(name, tuple(values), outputs, sample.attributes), known


# --- which rows there are -------------------------------------------------------------------------


def test_every_operator_has_a_row() -> None:
    of_onnx = {row.name for row in rows() if row.schema is None}
    assert of_onnx == set(operator_names()) - CONTROL


def test_a_row_of_an_own_operation_says_what_onnx_says_of_its_own() -> None:
    for row in map(row_of, own_names()):
        assert row.types is not None, row.name
        assert row.meaning is not None, row.name
        assert row.schema.name == row.name not in operator_names()
        assert row.schema.domain.startswith("mdf_loop."), row.name


def test_a_row_that_says_nothing_says_the_worst() -> None:
    row, op = row_of("Unheard"), Op("Unheard", (), ())
    assert row.may_fail(op, lambda _: None)
    assert row.bits is Bits.OPEN
    assert not any((row.elementwise, row.moves, row.never_negative(op), row.has_kernel(op)))
    assert row.batched is None is row.composed


def test_a_row_stands_there_once() -> None:
    with registered(Row(name="Cube")), pytest.raises(AssertionError, match="Cube has a row"):
        register(Row(name="Cube"))
    assert row_of("Cube").may_fail is yes


def test_random_is_what_onnx_calls_not_deterministic() -> None:
    schemas = [schema(name) for name in operator_names()]
    drawn = {schema.name for schema in schemas if schema.non_deterministic} - CONTROL
    drawn -= {"AffineGrid"}  # it draws nothing
    assert {row.name for row in rows() if row.random} == {*drawn, "Draw"}  # while a model is read


# --- what they do to numbers ----------------------------------------------------------------------


@pytest.mark.parametrize("name", named(lambda row: row.elementwise))
def test_elementwise_is_the_same_for_each_element(name: str) -> None:
    for dtype in taken(name, (*FLOATS, *WHOLE, "bool")):
        count = len(SAMPLES[name].inputs)
        given = [
            hard(a.dtype, 12, seed=k).reshape(3, 4)[tuple(slice(0, n) for n in (3, 4 if k else 1))]
            for k, a in enumerate(operands(SAMPLES[name], dtype))
            if a is not None
        ]
        if row_of(name).may_fail is not no:
            given[1:] = [np.abs(np.nan_to_num(a)) % 5 + 1 for a in given[1:]]
        whole = reference(name, given)  # type: ignore[arg-type]
        if whole is None:
            continue
        full = np.broadcast_arrays(*given)
        assert whole[0].shape == full[0].shape
        for place in np.ndindex(full[0].shape):
            alone = reference(name, [a[place] for a in full])
            if alone is not None:
                np.testing.assert_array_equal(alone[0], whole[0][place], f"{name} {dtype} {count}")


@pytest.mark.parametrize("name", named(lambda row: row.moves is not None))
def test_what_moves_gives_numbers_of_its_operands_or_zero(name: str) -> None:
    for dtype in taken(name, ("float64", "int64")):
        op, known = op_of(name, dtype)
        arrays = operands(SAMPLES[name], dtype)
        if name != "Cast":
            made = reference(name, arrays)
            if made is None:
                continue
            moved = row_of(name).moves
            assert moved is not None
            values = [op.inputs[position] for position in moved(op)]
            pool = [known[value].ravel() for value in values if value is not None]
            assert np.isin(made[0], np.concatenate([[0], *pool])).all()


@pytest.mark.parametrize("name", named(lambda row: row.bits is not Bits.OPEN))
def test_what_is_rounded_once_is_the_exact_result_rounded(name: str) -> None:
    """float64 has more than twice the digits of float32: what it gives, rounded, is that."""
    for seed in range(4):
        arrays = operands(SAMPLES[name], "float32", seed)
        wide = [a.astype(np.float64) if a is not None and a.dtype == "f4" else a for a in arrays]
        if not taken(name, ("float32",)) or "to" in SAMPLES[name].attributes:
            return
        with np.errstate(all="ignore"):
            narrow, exact = reference(name, arrays), reference(name, wide)  # type: ignore[arg-type]
            if narrow is None or exact is None:
                return
            np.testing.assert_array_equal(narrow[0], np.asarray(exact[0]).astype(narrow[0].dtype))


@pytest.mark.parametrize("name", named(lambda row: row.bits is Bits.FIXED))
def test_what_is_fixed_has_the_same_bits_in_onnxruntime(name: str) -> None:
    sample = SAMPLES[name]
    for dtype in taken(name, FLOATS):
        fixed = [k for k, given in enumerate(sample.inputs) if not isinstance(given, F)]
        arrays = operands(sample, dtype, seed=5)
        expected = reference(name, arrays)
        if expected is None:
            continue
        program = program_of(name, arrays, sample.n_outputs, constant=fixed, **sample.attributes)
        if program.ops and any(isinstance(op, Op) for op in program.ops):
            made = run_legal(program, arrays)
            for got, want in zip(made, expected, strict=True):
                zeros = name == "Where"  # ONNX Runtime's gives 0.0 for -0.0
                assert np.array_equal(got, want, equal_nan=want.dtype.kind == "f")
                if want.dtype.kind == "f" and not zeros:
                    real = ~np.isnan(want)
                    assert np.array_equal(np.signbit(got)[real], np.signbit(want)[real]), name


@pytest.mark.parametrize("name", named(lambda row: row.never_negative is not no))
def test_what_is_never_negative_gives_no_sign(name: str) -> None:
    for dtype in taken(name, (*FLOATS, *WHOLE)):
        op, _ = op_of(name, dtype)
        made = reference(name, operands(SAMPLES[name], dtype, seed=3))
        if row_of(name).never_negative(op) and made is not None:
            numbers = made[0][~np.isnan(made[0])] if made[0].dtype.kind == "f" else made[0]
            assert not np.any(numbers < 0)
            assert numbers.dtype.kind != "f" or not np.signbit(numbers).any()


@pytest.mark.parametrize("name", named(lambda row: row.by_shape))
def test_what_asks_for_shapes_reads_no_number(name: str) -> None:
    first, second = (reference(name, operands(SAMPLES[name], "float64", seed)) for seed in (1, 2))
    assert first is not None
    assert second is not None
    np.testing.assert_array_equal(first[0], second[0])


@pytest.mark.parametrize("name", named(lambda row: row.as_signed))
def test_bits_of_uint64_are_those_of_int64(name: str) -> None:
    signed = operands(SAMPLES[name], "int64", seed=2)
    unsigned = [
        a.view(np.uint64) if isinstance(given, F) and a is not None else a
        for a, given in zip(signed, SAMPLES[name].inputs, strict=True)
    ]
    first, second = reference(name, signed), reference(name, unsigned)
    assert first is not None
    if second is not None:
        np.testing.assert_array_equal(first[0].view(np.uint64), second[0])


# --- types and failures ---------------------------------------------------------------------------


@pytest.mark.parametrize("name", named(lambda row: row.typed_by_types))
def test_no_value_changes_the_types(name: str) -> None:
    sample = SAMPLES[name]
    for dtype in taken(name, ("float64", "int64", "bool")):
        arrays = operands(sample, dtype)
        entries = [None if a is None else (dtype_name(a), a.shape) for a in arrays]
        known = {k: a for k, a in enumerate(arrays) if a is not None}
        told = _inferred(name, entries, sample.attributes, known, sample.n_outputs)
        assert told == infer(name, entries, sample.attributes, {}, sample.n_outputs)


def _cannot_fail(row: Row) -> bool:
    if row.name not in SAMPLES or row.random:
        return False
    op, known = op_of(row.name, "float64")
    return not row.may_fail(op, lambda value: _fixed(row.name, op, known, value))


def _fixed(name: str, op: Op, known: dict[Value, Array], value: Value | None) -> Array | None:
    """Operands that are none of the dtype under test are known."""
    place = next((k for k, v in enumerate(op.inputs) if v is value), None)
    free = place is None or isinstance(SAMPLES[name].inputs[place], F)
    return None if free or value is None else known[value]


@pytest.mark.parametrize("name", named(_cannot_fail))
def test_what_cannot_fail_gives_a_result_for_every_number(name: str) -> None:
    sample = SAMPLES[name]
    fixed = [k for k, given in enumerate(sample.inputs) if not isinstance(given, F)]
    for dtype in taken(name, (*FLOATS, "int64", "bool")):
        op, known = op_of(name, dtype)
        if row_of(name).may_fail(op, lambda v, op=op, known=known: _fixed(name, op, known, v)):
            continue
        for seed in range(3):
            arrays = operands(sample, dtype, seed)
            program = program_of(
                name, arrays, sample.n_outputs, constant=fixed, **sample.attributes
            )
            if any(isinstance(operation, Op) for operation in program.ops):
                with contextlib.suppress(UnsupportedError):  # for a dtype: refused before it runs
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
"""Attributes, the operand that decides, what it may be for data [3, 2], what it may not be."""


@pytest.mark.parametrize("name", INDICES)
def test_what_decides_must_be_known_and_right(name: str) -> None:
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
    x, y, made = (Value(word, "int64", ()) for word in "xym")
    op = Op(name, (x, y), (made,))
    known = None if operand is None else np.array(operand)
    assert row_of(name).may_fail(op, lambda v: known if v is y else None) is fails
    real = Op(name, (x, y), (Value("m", "float64", ()),))
    assert not row_of(name).may_fail(real, lambda _: None)


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
    (made,) = evaluate("GatherElements", [x, indices], {"axis": 1}, 1)
    np.testing.assert_array_equal(made, [[2.0, 0.0]])
    with pytest.raises(IndexError, match="an index is not on axis 1, which has 3 elements"):
        evaluate("GatherElements", [x, np.array([[-4]])], {"axis": 1}, 1)
