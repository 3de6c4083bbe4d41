"""Forward mode compared with reverse mode and central differences, and forward over reverse mode."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from msgspec.structs import replace

from mdf_loop.build import Builder
from mdf_loop.errors import UnsupportedError
from mdf_loop.ir import Loop, Program, Value
from mdf_loop.ir.check import check
from mdf_loop.lower.builder import ModelBuilder
from mdf_loop.lower.choice import choose
from mdf_loop.ops.build_helpers import cast, scalar
from mdf_loop.passes.gradient.differentiate import cotangent_name, differentiate
from mdf_loop.passes.gradient.forward import jacobian_forward, tangent_name, tangents, unit_tangents
from mdf_loop.run.interpret import interpret
from mdf_loop.run.members import move_members_first
from tests.models.choices import program, repeat
from tests.passes.gradient import stored_cases
from tests.passes.gradient.both_ways import VALUE, Arrays, assert_agree, on_runtime
from tests.passes.gradient.written import ARRAYS, WriteOutputs, X, number, objective_program, step
from tests.soak import times
from tests.strategies.differentiable import GIVEN, differentiable


def replace_loop_fields(b: Builder, **fields: object) -> None:
    """Replace fields of the loop that was appended last."""
    loop = b.ops.pop()
    assert isinstance(loop, Loop)
    b.append(replace(loop, **fields))  # type: ignore[arg-type]


# --- every kind of loop ----------------------------------------------------------------------------


def for_loop(b: ModelBuilder, x: Value, w: Value) -> Sequence[Value]:
    """Build a loop that captures a weight and records."""
    finals, stacks = repeat(b, 4, [x], lambda b, i, v: [step(b, v[0], w), b.op("Exp", v[0])], 1)
    return [*finals, *stacks]


def no_iterations(b: ModelBuilder, x: Value, w: Value) -> Sequence[Value]:
    finals, stacks = repeat(b, 0, [x], lambda b, i, v: [step(b, v[0], w), b.op("Exp", v[0])], 1)
    return [*finals, *stacks]


def while_loop(b: ModelBuilder, x: Value, w: Value) -> Sequence[Value]:
    conditions: list[Value] = []

    def body(b: Builder, i: Value, v: Sequence[Value]) -> Sequence[Value]:
        smaller = b.op("Mul", step(b, v[0], w), number(b, 0.5))
        size = b.op("ReduceSum", b.op("Mul", smaller, smaller), keepdims=0)
        conditions.append(b.op("Greater", size, number(b, 1e-3)))
        return [smaller]

    finals, _ = repeat(b, 0, [x], body, 0, b.constant(np.array(True)))
    replace_loop_fields(b, trip_count=None, condition_out=conditions[0])
    return finals


def nested(b: ModelBuilder, x: Value, w: Value) -> Sequence[Value]:
    def inner(b: Builder, v: Value) -> Value:
        (final,), _ = repeat(b, 2, [v], lambda b, j, u: [b.op("Mul", step(b, u[0], w), v)])
        return final

    return repeat(b, 3, [x], lambda b, i, v: [inner(b, v[0])])[0]


def scans(b: ModelBuilder, x: Value, w: Value) -> Sequence[Value]:
    """Build forward and backward scans along both axes."""
    rows = b.op("Mul", w, x)
    scanned = [(rows, axis, back) for axis in (0, 1) for back in (False, True)]

    def body(b: Builder, i: Value, v: Sequence[Value]) -> Sequence[Value]:
        state = v[0]
        for k, row in enumerate(v[1:]):
            state = b.op("Tanh", b.op("Mul", b.op("Add", state, row), number(b, 0.7 + 0.1 * k)))
        return [state, b.op("Mul", state, v[1])]

    finals, stacks = repeat(b, 2, [x], body, 1, None, scanned)
    return [*finals, *stacks]


def numbered(b: ModelBuilder, x: Value, w: Value) -> Sequence[Value]:
    """Build a loop whose iterations are numbered from 5, and which indexes rows by `i - 5`."""
    first = b.constant(np.array(5))

    def body(b: Builder, i: Value, v: Sequence[Value]) -> Sequence[Value]:
        row = b.op("Gather", w, b.op("Sub", i, scalar(b, 5, "int64")), axis=0)
        return [b.op("Sin", b.op("Mul", b.op("Mul", v[0], row), cast(b, i, "float64")))]

    finals, _ = repeat(b, 3, [x], body)
    replace_loop_fields(b, first_iteration=first)
    return finals


def choice_in_loop(b: ModelBuilder, x: Value, w: Value) -> Sequence[Value]:
    def body(b: ModelBuilder, i: Value, v: Sequence[Value]) -> Sequence[Value]:
        odd = b.op("Equal", b.op("Mod", i, scalar(b, 2, "int64")), scalar(b, 1, "int64"))
        ways = (lambda b: [step(b, v[0], w), v[0]], lambda b: [b.op("Mul", v[0], x), x])
        first, second = choose(b, odd, *ways, "choice")
        return [b.op("Add", first, b.op("Sin", second))]

    return repeat(b, 4, [x], body)[0]  # type: ignore[arg-type]


def guarded(b: ModelBuilder, x: Value, w: Value) -> Sequence[Value]:
    ok = b.op("Less", b.op("ReduceSum", x, keepdims=0), number(b, 100.0))

    def body(b: Builder, i: Value, v: Sequence[Value]) -> Sequence[Value]:
        inside = b.op("Less", b.op("ReduceSum", v[0], keepdims=0), number(b, 100.0))
        return [b.guard(step(b, v[0], w), inside, "never said")]

    return repeat(b, 2, [b.guard(x, ok, "never said")], body)[0]


def with_integer_counter(b: ModelBuilder, x: Value, w: Value) -> Sequence[Value]:
    """Build a loop with a counter, which has no tangent, and a carried value that begins as a constant."""
    start, still = b.constant(np.array(1)), b.constant(np.ones(3))

    def body(b: Builder, i: Value, v: Sequence[Value]) -> Sequence[Value]:
        more = b.op("Mul", v[2], cast(b, v[1], "float64"))
        return [step(b, v[0], w), b.op("Add", v[1], i), b.op("Add", more, v[0])]

    finals, _ = repeat(b, 3, [x, start, still], body)
    return [finals[0], finals[2]]


WRITTEN = [
    for_loop,
    no_iterations,
    while_loop,
    nested,
    scans,
    numbered,
    choice_in_loop,
    guarded,
    with_integer_counter,
]


@pytest.mark.parametrize("written", WRITTEN, ids=lambda f: f.__name__)
def test_forward_mode_of_loops_agrees(written: WriteOutputs) -> None:
    assert_agree(objective_program(written), ARRAYS, ["x", "w"])


@pytest.mark.parametrize("written", WRITTEN, ids=lambda f: f.__name__)
def test_the_hessian_of_loops(written: WriteOutputs) -> None:
    """Compute the Hessian by one program, on both engines."""
    names = [cotangent_name(name) for name in ARRAYS]
    many = jacobian_forward(
        differentiate(objective_program(written), VALUE, ["x", "w"]), ARRAYS, names
    )
    assert check(many) == ()
    for engine in (interpret, on_runtime):
        tangents_of_units = move_members_first(
            many,
            engine(
                many, {**ARRAYS, **unit_tangents({tangent_name(n): a for n, a in ARRAYS.items()})}
            ),
            12,
        )
        hessian = np.concatenate(
            [tangents_of_units[tangent_name(n)].reshape(12, -1) for n in names], axis=1
        )
        np.testing.assert_allclose(hessian, hessian.T, rtol=1e-9, atol=1e-10)


JUMPS = {4, 13, 31}
"""Seeds of programs that are discontinuous at their inputs, where central differences are no reference."""


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(times(28, 50)))
def test_forward_mode_of_random_programs_agrees(seed: int) -> None:
    assert_agree(differentiable(seed), GIVEN, list(GIVEN), smooth=seed not in JUMPS)


# --- stored cases -----------------------------------------------------------------------------------

DEAR = {"hodgkin_huxley", "fn_over_time"}
"""Stored cases that are slow in the interpreter. `make soak` and the tests of the runtime run them."""

CASES = [
    pytest.param(name, marks=[pytest.mark.slow, pytest.mark.soak])
    if name in DEAR | {"fn_initial_state"}
    else name
    for name in stored_cases.names()
    if name not in DEAR or times(0, 1)
]


@pytest.mark.parametrize("name", CASES)
def test_forward_mode_of_stored_cases_agrees(name: str) -> None:
    case = stored_cases.load(name)
    primal, arrays, targets = stored_cases.program_of(case)
    wrt = list(targets.values())
    assert_agree(primal, arrays, wrt, smooth="kink" not in name)
    if "expected_hessian" in case:
        _assert_hessian(case["expected_hessian"], primal, arrays, targets)


def _assert_hessian(
    expected: dict[str, dict[str, object]],
    derived: Program,
    arrays: Arrays,
    targets: dict[str, str],
) -> None:
    wrt = list(targets.values())
    slopes = [cotangent_name(name) for name in wrt]
    many = jacobian_forward(differentiate(derived, VALUE, wrt), wrt, slopes)
    units = unit_tangents({tangent_name(name): np.asarray(arrays[name], float) for name in wrt})
    count = len(next(iter(units.values())))
    columns = move_members_first(many, interpret(many, {**arrays, **units}), count)
    rows = [np.asarray([expected[a][c] for a in targets]).ravel() for c in targets]
    for name, row in zip(slopes, rows, strict=True):
        np.testing.assert_allclose(columns[tangent_name(name)].ravel(), row, rtol=1e-7)


# --- kinks, choices, what does not change -----------------------------------------------------------


def of_x(written: Callable[[Builder, Value], Value]) -> Program:
    b = ModelBuilder()
    x = b.new("float64", (3,), "x")
    return program(b, [x], y=written(b, x))


@pytest.mark.parametrize("word", ["Sqrt", "Log", "Reciprocal"])
def test_an_unselected_operand_does_not_reach_the_tangent(word: str) -> None:
    """Check that infinity and NaN of an unselected operand do not reach the tangent."""

    def written(b: Builder, x: Value) -> Value:
        return b.op("Where", b.op("Greater", x, number(b, 0.0)), b.op(word, x), x)

    derived = tangents(of_x(written), ["x"], ["y"])
    feeds = {"x": np.array([0.0, -1.0, 4.0]), tangent_name("x"): np.array([2.0, 3.0, 1.0])}
    with np.errstate(all="ignore"):
        tangent = interpret(derived, feeds)[tangent_name("y")]
    slope = {"Sqrt": 0.25, "Log": 0.25, "Reciprocal": -1 / 16}[word]
    np.testing.assert_allclose(tangent, [2.0, 3.0, slope])
    np.testing.assert_allclose(on_runtime(derived, feeds)[tangent_name("y")], tangent)


def test_a_zero_gradient_has_a_second_derivative() -> None:
    """Differentiate `where(x > -1, exp(x) - 1, 0) ** 2` at 0, where it is a parabola of slope 0."""
    b = ModelBuilder()
    x = b.new("float64", (), "x")
    curve = b.op("Sub", b.op("Exp", x), number(b, 1.0))
    y = b.op("Where", b.op("Greater", x, number(b, -1.0)), curve, number(b, 0.0))
    primal = program(b, [x], value=b.op("Mul", y, y))
    outputs = assert_agree(primal, {"x": np.array(0.0)}, ["x"])
    assert outputs[cotangent_name("x")] == 0
    assert outputs[tangent_name(cotangent_name("x"))] != 0


def test_inactive_values_have_tangents_of_zero() -> None:
    b = ModelBuilder()
    x, z = b.new("float64", (3,), "x"), b.new("float64", ("n",), "z")
    primal = program(b, [x, z], y=b.op("Floor", x), u=b.op("Sin", z))
    derived = tangents(primal, ["x"], ["y", "u"])
    feeds = {"x": X, "z": np.ones(2), tangent_name("x"): np.ones(3)}
    outputs = interpret(derived, feeds)
    assert outputs[tangent_name("y")].tolist() == [0, 0, 0]
    assert outputs[tangent_name("u")].tolist() == [0, 0]


def test_forward_mode_of_a_growing_array() -> None:
    """Differentiate a list that grows in each iteration."""
    b = ModelBuilder()
    x = b.new("float64", ("n",), "x")

    def body(b: Builder, i: Value, v: Sequence[Value]) -> Sequence[Value]:
        return [b.op("Concat", v[0], b.op("Mul", v[0], v[0]), axis=0)]

    finals, _ = repeat(b, 2, [x], body)
    final = replace(finals[0], shape=("more",))
    loop = b.ops.pop()
    assert isinstance(loop, Loop)
    (c,) = loop.carried
    enter = replace(c, final=final)
    b.append(replace(loop, carried=(enter,), has_dynamic_shapes=True))
    derived = tangents(program(b, [x], y=final), ["x"], ["y"])
    outputs = interpret(derived, {"x": np.array([3.0]), tangent_name("x"): np.array([1.0])})
    assert outputs[tangent_name("y")].tolist() == [1.0, 6.0, 6.0, 108.0]


# --- refused ----------------------------------------------------------------------------------------


def test_sequences_are_refused_in_both_modes() -> None:
    b = ModelBuilder()
    x = b.new("float64", (3,), "x")
    listed = b.op("SequenceConstruct", x, b.op("Sin", x))
    y = b.op("SequenceAt", listed, b.constant(np.array(1)))
    primal = program(b, [x], value=y)
    with pytest.raises(UnsupportedError, match=r"onnx::Sequence.* has no derivative"):
        tangents(primal, ["x"], [VALUE])
    with pytest.raises(UnsupportedError, match=r"onnx::Sequence.* has no derivative"):
        differentiate(primal, VALUE, ["x"])


def test_operations_without_a_rule_are_refused() -> None:
    primal = of_x(lambda b, x: b.op("Bernoulli", x))
    with pytest.raises(UnsupportedError, match="onnx::Bernoulli has no derivative here"):
        tangents(primal, ["x"], ["y"])


def test_integers_are_refused() -> None:
    primal = of_x(lambda b, x: cast(b, x, "int64"))
    with pytest.raises(
        UnsupportedError, match=r"'y' is int64\[3\], which does not change a little"
    ):
        tangents(primal, ["x"], ["y"])
