"""Guards of integer division by -1, where the kernels of ONNX Runtime crash for the smallest integer."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mdf_loop
from mdf_loop.build import Builder
from mdf_loop.errors import RunError
from mdf_loop.ir import Carried, Input, Loop, Op, Output, Program, walk
from mdf_loop.ir.check import check
from mdf_loop.ir.text import print_program
from mdf_loop.ir.types import element_type
from mdf_loop.passes.legalize.guard_integer_division import guard_integer_division
from mdf_loop.pipeline import LEGAL, prepare
from mdf_loop.run.interpret import interpret
from mdf_loop.run.onnxruntime.session import Session
from tests.ops.op_running import legal_run, program_of, run
from tests.placements import STANDARD

TRAPPING = ("int32", "int64")
DIVISIONS = ("Div", "Mod")


def operator_names(program: Program) -> list[str]:
    return [op.op_type for op in walk(program.ops) if isinstance(op, Op)]


def lowest(dtype: str) -> int:
    return int(np.iinfo(dtype).min)


# --- the hole -------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("expression", ["x // k", "x % k", "numpy.floor_divide(x, k)"])
def test_the_smallest_integer_divided_by_minus_one_is_no_crash(expression: str) -> None:
    """Divide in a separate process, which a crash would end."""
    script = textwrap.dedent(f"""
        import mdf_loop, numpy as np
        ports = {{name: {{"shape": [3], "type": "int64"}} for name in ("x", "k")}}
        node = {{"input_ports": ports, "output_ports": {{"y": {{"value": "{expression}"}}}}}}
        graph = {{"g": {{"nodes": {{"A": node}}, "edges": {{}}}}}}
        compiled = mdf_loop.compile(graph)
        x, k = np.array([-(2**63), -(2**63), 7]), np.array([-1, 2, -1])
        print(compiled.run({{"x": x, "k": k}})["y"].tolist())
    """)
    process = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    x, k = np.array([lowest("int64"), lowest("int64"), 7]), np.array([-1, 2, -1])
    with np.errstate(all="ignore"):
        expected = x % k if "%" in expression else x // k
    assert process.stdout.strip() == str(expected.tolist())


@pytest.mark.parametrize("dtype", TRAPPING)
@pytest.mark.parametrize("op_type", DIVISIONS)
def test_overflow_wraps_as_in_numpy(op_type: str, dtype: str) -> None:
    low = lowest(dtype)
    x = np.array([low, low, low, low + 1, 7, -7, 0], dtype)
    y = np.array([-1, low, 2, -1, -1, 2, -1], dtype)
    program = program_of(op_type, [x, y])
    (quotient,) = run(prepare(program, LEGAL), [x, y])
    (expected,) = interpret(program, {"x0": x, "x1": y}).values()
    np.testing.assert_array_equal(quotient, expected)
    assert quotient[0] == (low if op_type == "Div" else 0)


@pytest.mark.parametrize("dtype", ["int8", "int16"])
@pytest.mark.parametrize("op_type", DIVISIONS)
def test_small_dtypes_need_no_guard(op_type: str, dtype: str) -> None:
    x, y = np.array([lowest(dtype), 7], dtype), np.array([-1, -1], dtype)
    program = program_of(op_type, [x, y])
    assert "Where" not in operator_names(prepare(program, LEGAL))
    (quotient,) = run(prepare(program, LEGAL), [x, y])
    assert quotient.tolist() == ([lowest(dtype), -7] if op_type == "Div" else [0, 0])


# --- what is made ---------------------------------------------------------------------------------


def test_golden_of_a_quotient() -> None:
    x = np.array([1, 2])
    program = program_of("Div", [x, x], shapes=[(2,), (2,)])
    assert print_program(prepare(program, LEGAL)).splitlines() == [
        "program(%x0: int64[2], %x1: int64[2])",
        "  %const: int64[] = 1",
        "  %const_2: int64[] = -1",
        "  %op:Div:Equal: bool[2] = Equal(%x1, %const_2)",
        "  %op:Div:Where: int64[2] = Where(%op:Div:Equal, %const, %x1)",
        "  %op:Div:Div: int64[2] = Div(%x0, %op:Div:Where)",
        "  %op:Div:Where_2: int64[2] = Where(%op:Div:Equal, %const_2, %const)",
        "  %op:Div: int64[2] = Mul(%op:Div:Div, %op:Div:Where_2)",
        "  output y0 = %op:Div",
    ]


def test_golden_of_a_remainder() -> None:
    x = np.array([1, 2])
    program = program_of("Mod", [x, x], shapes=[(2,), (2,)])
    assert print_program(prepare(program, LEGAL)).splitlines() == [
        "program(%x0: int64[2], %x1: int64[2])",
        "  %const: int64[] = 1",
        "  %const_2: int64[] = -1",
        "  %op:Mod:Equal: bool[2] = Equal(%x1, %const_2)",
        "  %op:Mod:Where: int64[2] = Where(%op:Mod:Equal, %const, %x1)",
        "  %op:Mod: int64[2] = Mod(%x0, %op:Mod:Where)",
        "  output y0 = %op:Mod",
    ]


@pytest.mark.parametrize("op_type", DIVISIONS)
def test_the_pass_is_idempotent(op_type: str) -> None:
    x = np.array([1, 2])
    legal = prepare(program_of(op_type, [x, x]), LEGAL)
    assert prepare(legal, LEGAL) is legal
    assert check(legal) == ()


@pytest.mark.parametrize("op_type", DIVISIONS)
@pytest.mark.parametrize("scalar", [True, False])
def test_a_divisor_known_to_be_minus_one(op_type: str, *, scalar: bool) -> None:
    x, y = np.array([lowest("int64"), 7]), np.array(-1) if scalar else np.array([-1, 2])
    program = program_of(op_type, [x, y], constant=[1])
    legal = prepare(program, LEGAL)
    assert prepare(legal, LEGAL) is legal
    (quotient,) = run(legal, [x, y])
    np.testing.assert_array_equal(quotient, *interpret(program, {"x0": x}).values())
    if scalar:
        assert operator_names(legal) == ["Neg" if op_type == "Div" else "Mod"]


@pytest.mark.slow
def test_a_large_divisor_that_holds_minus_one() -> None:
    """Check a large constant divisor, which ONNX Runtime folds on loading although the compiler does not."""
    script = """
import numpy as np
from tests.ops.op_running import legal_run
x, y = np.full(70_000, -(2**63)), np.full(70_000, -1)
(made,) = legal_run("Div", [x, y], constant=[0, 1])
assert (made == x).all()
"""
    root = Path(__file__).parents[2]
    subprocess.run([sys.executable, "-c", script], check=True, cwd=root)


# --- where nothing is added -----------------------------------------------------------------------


@pytest.mark.parametrize("op_type", DIVISIONS)
@pytest.mark.parametrize(
    ("constant", "arrays"),
    [
        ([1], ([5, lowest("int64")], [2, -3])),
        ([1], ([5, lowest("int64")], [0, 1])),
        ([0], ([5, -5], [-1, -1])),
    ],
)
def test_a_constant_that_excludes_the_case_leaves_the_division(op_type, constant, arrays) -> None:
    program = program_of(op_type, [np.array(a) for a in arrays], constant=constant)
    assert guard_integer_division(program) is program


@pytest.mark.parametrize(
    ("op_type", "dtype", "attributes"),
    [
        *(("Div", dtype, {}) for dtype in ("float64", "float32", "uint32", "uint64")),
        *(("Mod", dtype, {}) for dtype in ("uint32", "uint64")),
        *(("Mod", dtype, {"fmod": 1}) for dtype in ("float64", "int32", "int16")),
    ],
)
def test_divisions_that_cannot_trap_stay(op_type, dtype, attributes) -> None:
    x = np.array([5, 6], dtype)
    assert "Where" not in operator_names(prepare(program_of(op_type, [x, x], **attributes), LEGAL))


def _div_lines(build) -> list[str]:
    """Return the `Div(..., ...)` lines of the program that `build` makes of inputs x: int64[n], k: int64[]."""
    b = Builder()
    x, k = b.new("int64", ("n",), "x"), b.new("int64", (), "k")
    with b.at("$.here", "op"):
        y = b.op("Div", *build(b, x, k))
    program = Program("p", (Input(x), Input(k)), tuple(b.ops), (Output("y", y),))
    return operator_names(guard_integer_division(program))


def test_sizes_need_no_guard_since_they_are_never_minus_one() -> None:
    assert "Mul" not in _div_lines(lambda b, x, _: (x, b.op("Size", x)))
    assert "Mul" not in _div_lines(lambda b, x, _: (b.op("Shape", x), x))
    assert "Mul" not in _div_lines(
        lambda b, x, _: (x, b.op("Gather", b.op("Shape", x), b.constant(np.array(0)), axis=0))
    )


def test_integers_cast_to_a_wider_dtype_need_no_guard() -> None:
    def cast(b, value, dtype):
        return b.op("Cast", value, to=element_type(dtype))

    assert "Mul" not in _div_lines(lambda b, x, k: (cast(b, cast(b, x, "int32"), "int64"), k))
    assert "Mul" not in _div_lines(lambda b, x, k: (x, cast(b, cast(b, k, "uint32"), "int64")))
    assert "Mul" in _div_lines(lambda b, x, k: (x, cast(b, cast(b, k, "int32"), "int64")))
    assert "Mul" in _div_lines(lambda b, x, k: (x, cast(b, cast(b, k, "uint64"), "int64")))
    assert "Mul" in _div_lines(lambda b, x, k: (x, cast(b, cast(b, k, "float64"), "int64")))


def test_a_selection_of_constants_other_than_minus_one_needs_no_guard() -> None:
    two = np.array(2)

    def chosen(b, x, k):
        return x, b.op("Where", b.op("Less", k, b.constant(two)), b.constant(two), b.op("Size", x))

    assert "Mul" not in _div_lines(chosen)

    def half_safe(b, x, k):
        return x, b.op("Where", b.op("Equal", k, b.constant(np.array(-1))), k, b.constant(two))

    assert "Mul" in _div_lines(half_safe)


def _loop(build) -> Program:
    """Build a loop of three iterations: x = build(body, x, i, k)."""
    b = Builder()
    x0, k = b.new("int64", (3,), "x0"), b.new("int64", (3,), "x1")
    body = b.body()
    x, i = body.new("int64", (3,), "x"), body.new("int64", (), "i")
    with body.at("$.here", "op"):
        step = build(body, x, i, k)
    go, last = b.new("bool", (), "go"), b.new("int64", (3,), "last")
    trip = b.constant(np.array(3))
    carried = (Carried(x0, x, step, last),)
    b.append(Loop("loop", trip, None, i, go, None, carried, (), tuple(body.ops)))
    return Program("p", (Input(x0), Input(k)), tuple(b.ops), (Output("y0", last),))


def test_a_loop_invariant_divisor_is_checked_before_the_loop() -> None:
    program = _loop(lambda b, x, _, k: b.op("Add", b.op("Div", x, k), b.op("Mod", x, k)))
    legal = prepare(program, LEGAL)
    assert check(legal) == ()
    assert prepare(legal, LEGAL) is legal
    (loop,) = (operation for operation in legal.ops if isinstance(operation, Loop))
    before = [op.op_type for op in legal.ops if isinstance(op, Op)]
    assert before == ["Equal", "Where", "Where"]  # of both divisions
    assert [op.op_type for op in loop.ops if isinstance(op, Op)] == ["Div", "Mul", "Mod", "Add"]
    arrays = [np.array([lowest("int64"), 100, 7]), np.array([-1, -3, -1])]
    expected = interpret(program, {"x0": arrays[0], "x1": arrays[1]})["y0"]
    np.testing.assert_array_equal(run(legal, arrays)[0], expected)


def test_a_counter_of_iterations_is_never_the_smallest_number() -> None:
    program = _loop(lambda b, x, i, k: b.op("Add", x, b.op("Div", i, k)))
    assert prepare(program, LEGAL) is program


@pytest.mark.parametrize("dtype", ["int64", "uint64"])
def test_the_remainder_of_fmod_is_exact_for_64_bits(dtype: str) -> None:
    """Check 64-bit remainders, which ONNX Runtime's own kernel computes in float64."""
    x = np.array([2**60 + 1, 2**62 + 5, 7, 0], dtype)
    y = np.array([3, 2**31 + 1, 2, 5], dtype)
    if dtype == "int64":
        x = np.concatenate([x, -x, [lowest(dtype)]])
        y = np.concatenate([y, y, [-1]])
    program = program_of("Mod", [x, y], fmod=1)
    legal = prepare(program, LEGAL)
    assert prepare(legal, LEGAL) is legal
    np.testing.assert_array_equal(run(legal, [x, y])[0], np.fmod(x, y))
    with pytest.raises(RunError, match="a whole number was divided by zero"):
        Session(legal, STANDARD).run({"x0": x, "x1": np.zeros_like(y)})


# --- the rest stays -------------------------------------------------------------------------------


@pytest.mark.parametrize("op_type", DIVISIONS)
def test_a_division_by_zero_is_an_error_as_before(op_type: str) -> None:
    x = np.array([1, 2])
    program = prepare(program_of(op_type, [x, x]), LEGAL)
    with pytest.raises(RunError, match="a whole number was divided by zero") as caught:
        Session(program, STANDARD).run({"x0": x, "x1": np.array([1, 0])})
    assert "$.here" in str(caught.value)


INTEGERS = st.one_of(
    st.integers(-3, 3), st.sampled_from([-(2**63), 2**63 - 1]), st.integers(-(2**63), 2**63 - 1)
)


@pytest.mark.slow
@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.lists(st.tuples(INTEGERS, INTEGERS.filter(bool)), min_size=1, max_size=8))
def test_random_integers_divide_as_in_numpy(pairs) -> None:
    x, y = (np.array(column, np.int64) for column in zip(*pairs, strict=True))
    for op_type in DIVISIONS:
        expected = interpret(program_of(op_type, [x, y]), {"x0": x, "x1": y})["y0"]
        np.testing.assert_array_equal(legal_run(op_type, [x, y])[0], expected)


def test_a_model_divides_by_an_input_in_a_sweep() -> None:
    ports = {"k": {"shape": [1], "type": "int64"}}
    node = {
        "input_ports": ports,
        "parameters": {"x": {"value": [-(2**63)]}},
        "output_ports": {"q": {"value": "x // k"}, "r": {"value": "x % k"}},
    }
    compiled = mdf_loop.compile({"g": {"nodes": {"A": node}, "edges": {}}})
    results = compiled.run(sweep={"k": [[-1], [2]]})
    assert results["q"].ravel().tolist() == [-(2**63), -(2**62)]
    assert results["r"].ravel().tolist() == [0, 0]
