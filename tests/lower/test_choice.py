"""A choice executes one of its branches; a constant condition is evaluated at compile time."""

from __future__ import annotations

import numpy as np
import pytest

from mdf_loop.errors import (
    ArityError,
    JoinError,
    OperandError,
    Poisoned,
    RecordShapeError,
    RunError,
)
from mdf_loop.ir import Carried, Loop, Value
from mdf_loop.ir.shape_join import join_shapes
from mdf_loop.lower.builder import ModelBuilder
from mdf_loop.lower.choice import BranchNames, choose
from mdf_loop.run.interpret import interpret
from mdf_loop.run.onnxruntime.session import Session
from tests.models.choices import choices, everywhere, program, repeat
from tests.placements import STANDARD


class ChoiceInputs:
    """Builder with a bool and two vectors."""

    def __init__(self, dtype: str = "float64") -> None:
        self.b = ModelBuilder()
        self.go = self.b.new("bool", (), "go")
        self.x = self.b.new(dtype, (2,), "x")
        self.y = self.b.new(dtype, (2,), "y")
        self.inputs = (self.go, self.x, self.y)

    def program(self, **outputs: Value):
        return program(self.b, self.inputs, **outputs)


def values(go: bool, x: object = (1.0, 2.0), y: object = (3.0, 5.0)) -> dict[str, np.ndarray]:
    return {"go": np.array(go), "x": np.array(x), "y": np.array(y)}


def test_one_branch_is_computed_and_reads_outer_values() -> None:
    g = ChoiceInputs()
    total, first = choose(
        g.b,
        g.go,
        lambda b: [b.op("Add", g.x, g.y), g.x],
        lambda b: [b.op("Sub", g.x, g.y), b.op("Neg", g.y)],
        "chosen",
    )
    p = g.program(total=total, first=first)
    true_outputs, false_outputs = everywhere(p, **values(True)), everywhere(p, **values(False))
    assert (true_outputs["total"].tolist(), true_outputs["first"].tolist()) == ([4, 7], [1, 2])
    assert (false_outputs["total"].tolist(), false_outputs["first"].tolist()) == (
        [-2, -3],
        [-3, -5],
    )


@pytest.mark.parametrize("go", [True, False])
def test_a_known_condition_reads_one_branch(go: bool) -> None:
    g = ChoiceInputs()

    def unread(b: ModelBuilder) -> list[Value]:
        raise AssertionError("this branch is never taken")

    def read(b: ModelBuilder) -> list[Value]:
        return [b.op("Neg", g.x)]

    branches = (read, unread) if go else (unread, read)
    (choice_value,) = choose(g.b, g.b.constant(go), *branches, "chosen")
    p = g.program(chosen=choice_value)
    assert choices(p) == []
    assert everywhere(p, **values(not go))["chosen"].tolist() == [-1, -2]


def test_constants_of_a_branch_are_added_to_the_program() -> None:
    g = ChoiceInputs()
    two = np.array([2.0, 2.0])
    (y,) = choose(
        g.b,
        g.go,
        lambda b: [b.op("Mul", g.x, b.constant(two))],
        lambda b: [b.constant(two)],
        "y",
    )
    z = g.b.op("Sub", y, g.b.constant(two))
    p = g.program(z=z)
    assert everywhere(p, **values(True))["z"].tolist() == [0, 2]
    assert everywhere(p, **values(False))["z"].tolist() == [0, 0]


def test_an_unselected_branch_cannot_fail() -> None:
    g = ChoiceInputs("int64")
    (quotient,) = choose(g.b, g.go, lambda b: [b.op("Div", g.x, g.y)], lambda b: [g.x], "quotient")
    p = g.program(quotient=quotient)
    assert everywhere(p, **values(False, (7, 8), (0, 0)))["quotient"].tolist() == [7, 8]
    assert everywhere(p, **values(True, (7, 8), (2, 4)))["quotient"].tolist() == [3, 2]


def test_the_error_of_the_selected_branch_states_its_place() -> None:
    g = ChoiceInputs("int64")
    index = g.b.new("int64", (), "k")
    with g.b.at("$.choice"):
        (element,) = choose(
            g.b,
            g.go,
            lambda b: [b.op("Gather", g.x, index)],
            lambda b: [b.constant(np.array(0))],
            "element",
        )
    p = program(g.b, (*g.inputs, index), element=element)
    session = Session(p, STANDARD)
    feeds = values(False, (7, 8), (0, 0)) | {"k": np.array(9)}
    assert session.run(feeds)["element"] == 0
    with pytest.raises(RunError, match="position 9 does not exist") as caught:
        session.run(feeds | {"go": np.array(True)})
    assert caught.value.findings[0].where == "$.choice"


@pytest.mark.parametrize(
    ("then", "otherwise", "joined"),
    [
        ((2,), (2,), "[2]"),
        ((2,), (3,), "[d]"),
        ((2, 4), (3, 4), "[d, 4]"),
        (("n",), ("n",), "[n]"),
        (("n",), ("m",), "[d]"),
        (("n",), (2,), "[d]"),
        ((2,), (), "[*]"),
        (None, (2,), "[*]"),
    ],
)
def test_shapes_are_joined(then, otherwise, joined) -> None:
    b = ModelBuilder()
    go, x, y = b.new("bool", (), "go"), b.new("int64", then, "x"), b.new("int64", otherwise, "y")
    (choice_value,) = choose(b, go, lambda _: [x], lambda _: [y], "chosen")
    assert choice_value.type == f"int64{joined}"


@pytest.mark.parametrize("other", [[7.0, 8.0, 9.0], [[7.0]], 7.0])
def test_branches_of_different_shapes(other: object) -> None:
    g = ChoiceInputs()
    (choice_value,) = choose(
        g.b, g.go, lambda b: [b.op("Neg", g.x)], lambda b: [b.constant(np.array(other))], "chosen"
    )
    p = g.program(chosen=choice_value)
    assert everywhere(p, **values(True))["chosen"].tolist() == [-1, -2]
    assert everywhere(p, **values(False))["chosen"].tolist() == other


def test_an_output_of_branches_of_different_shapes_has_an_unknown_shape() -> None:
    g = ChoiceInputs()
    (choice_value,) = choose(
        g.b, g.go, lambda b: [g.x], lambda b: [b.op("Concat", g.x, g.y, axis=0)], "chosen"
    )
    p = g.program(double=g.b.op("Add", choice_value, choice_value))
    assert everywhere(p, **values(True))["double"].tolist() == [2, 4]
    assert everywhere(p, **values(False))["double"].tolist() == [2, 4, 6, 10]


@pytest.mark.parametrize("dtype", ["bool", "string", "int32", "float32", "uint8", "float16"])
def test_branches_of_every_dtype(dtype: str) -> None:
    b = ModelBuilder()
    numbers = np.array([0, 1]), np.array([1, 1])
    x, y = (a.astype(str).astype(object) if dtype == "string" else a.astype(dtype) for a in numbers)
    go = b.new("bool", (), "go")
    left, right = b.new(dtype, (2,), "x"), b.new(dtype, (2,), "y")
    (choice_value,) = choose(b, go, lambda _: [left], lambda _: [right], "chosen")
    p = program(b, (go, left, right), chosen=choice_value)
    feeds = {"x": x, "y": y}
    assert everywhere(p, go=True, **feeds)["chosen"].tolist() == x.tolist()
    assert everywhere(p, go=False, **feeds)["chosen"].tolist() == y.tolist()


def test_branches_must_have_one_dtype() -> None:
    g = ChoiceInputs()
    whole = g.b.new("int64", (2,), "whole")
    with (
        pytest.raises(OperandError) as caught,
        g.b.at("$.graphs[0].nodes['A']"),
    ):
        choose(g.b, g.go, lambda b: [g.x, g.x], lambda b: [g.x, whole], "rate")
    assert caught.value.report == (
        "JoinError: Cannot join the values of 'rate' from the then branch (float64[2]) and the "
        "else branch (int64[2]): Type Join Failed: dtype1 = float64, dtype2 = int64\n"
        "  at $.graphs[0].nodes['A']\n"
        "  hint: make both whole numbers, or give both a point (6.0)"
    )


def test_branches_must_have_equal_numbers_of_outputs() -> None:
    g = ChoiceInputs()
    with pytest.raises(ArityError, match="the then branch gives 2, the else branch 1"):
        choose(g.b, g.go, lambda b: [g.x, g.x], lambda b: [g.x], "rate")


def test_branches_of_two_python_numbers_are_a_python_number() -> None:
    g = ChoiceInputs()
    weak_one, weak_two = (g.b.constant(np.array(k), weak=True) for k in (1, 2))
    strong = g.b.constant(np.array(1))
    (plain,) = choose(g.b, g.go, lambda b: [weak_one], lambda b: [weak_two], "plain")
    (mixed,) = choose(g.b, g.go, lambda b: [weak_one], lambda b: [strong], "mixed")
    assert g.b.is_weak(plain)
    assert not g.b.is_weak(mixed)


@pytest.mark.parametrize("dtype", ["float32", "int32", "float16", "uint8"])
def test_a_python_number_takes_the_dtype_of_the_other_branch(dtype: str) -> None:
    g = ChoiceInputs(dtype)
    weak_two = g.b.constant(np.array(2), weak=True)
    x = g.b.op("ReduceMax", g.x, keepdims=0)
    (left,) = choose(g.b, g.go, lambda b: [weak_two], lambda b: [x], "left")
    (right,) = choose(g.b, g.go, lambda b: [x], lambda b: [weak_two], "right")
    p = g.program(left=left, right=right)
    numbers = np.array([1, 5], dtype)
    assert {left.dtype, right.dtype} == {dtype}
    assert everywhere(p, go=True, x=numbers, y=numbers) == {"left": 2, "right": 5}


def test_a_python_float_is_refused_beside_an_integer_branch() -> None:
    g = ChoiceInputs("int32")
    half_value = g.b.constant(np.array(0.5), weak=True)
    x = g.b.op("ReduceMax", g.x, keepdims=0)
    with pytest.raises(JoinError, match="Type Join Failed: dtype1 = float64, dtype2 = int32"):
        choose(g.b, g.go, lambda b: [half_value], lambda b: [x], "rate")
    large = g.b.constant(np.array(2**40), weak=True)
    with pytest.raises(JoinError, match="Type Join Failed: dtype1 = int32, dtype2 = int64"):
        choose(g.b, g.go, lambda b: [x], lambda b: [large], "rate")


def test_computed_python_numbers_take_the_dtype_of_the_other_branch() -> None:
    g = ChoiceInputs("float32")
    weak_one, weak_two = (g.b.constant(np.array(k), weak=True) for k in (1, 2))
    x = g.b.op("ReduceMax", g.x, keepdims=0)
    (plain,) = choose(g.b, g.go, lambda b: [weak_one], lambda b: [weak_two], "plain")
    (choice_value,) = choose(g.b, g.go, lambda b: [plain], lambda b: [x], "chosen")
    numbers = np.array([4, 5], np.float32)
    assert choice_value.dtype == "float32"
    assert everywhere(g.program(chosen=choice_value), go=True, x=numbers, y=numbers) == {
        "chosen": 1
    }


def test_shapes_that_do_not_join_are_refused() -> None:
    g = ChoiceInputs()
    three = g.b.constant(np.zeros(3))
    words = BranchNames(("conditions 'c1'", "'default'"), lambda k: f"p[{k}]")
    with pytest.raises(JoinError) as caught:
        choose(g.b, g.go, lambda b: [g.x], lambda b: [three], "p", names=words, join=join_shapes)
    assert caught.value.findings[0].what == (
        "Cannot join the values of 'p[0]' from conditions 'c1' (float64[2]) and 'default' "
        "(float64[3]): Shape Join Failed: shape1 = (2), shape2 = (3)"
    )


def test_a_scalar_gets_the_axis_of_the_other_branch() -> None:
    g = ChoiceInputs()
    one = g.b.op("Slice", g.x, *(g.b.constant(np.array([k])) for k in (0, 1)))
    peak = g.b.op("ReduceMax", g.x, keepdims=0)
    (choice_value,) = choose(
        g.b, g.go, lambda b: [one], lambda b: [peak], "chosen", join=join_shapes
    )
    assert choice_value.type == "float64[1]"
    p = g.program(chosen=choice_value)
    assert everywhere(p, **values(True))["chosen"].tolist() == [1]
    assert everywhere(p, **values(False))["chosen"].tolist() == [2]


def test_errors_of_both_branches_are_reported() -> None:
    g = ChoiceInputs()

    def wrong(b: ModelBuilder) -> list[Value]:
        raise OperandError(f"wrong {len(g.b.findings.items)}")

    with pytest.raises(Poisoned):
        choose(g.b, g.go, wrong, wrong, "rate")
    assert [finding.what for finding in g.b.findings.items] == ["wrong 0", "wrong 1"]


# --- with loops --------------------------------------------------------------------------------


def odd(b: ModelBuilder, i: Value) -> Value:
    rest = b.op("Mod", i, b.constant(np.array(2)))
    return b.op("Equal", rest, b.constant(np.array(1)))


def test_a_choice_in_a_loop_passes_a_carried_value_through() -> None:
    """Increase x in odd iterations and pass y through in the others."""
    g = ChoiceInputs()

    def body(b: ModelBuilder, i: Value, entering: object) -> list[Value]:
        x, y = entering
        grown = choose(b, odd(b, i), lambda b: [b.op("Add", x, g.y), x], lambda b: [x, y], "grown")
        return [*grown, grown[0], b.op("Identity", i)]

    (x, y), (rows, numbers) = repeat(g.b, 5, [g.x, g.y], body, rows=2)
    p = g.program(fx=x, fy=y, rows=rows, numbers=numbers)
    results = everywhere(p, **values(True))
    assert results["fx"].tolist() == [7, 12]
    assert results["fy"].tolist() == [4, 7]
    assert results["rows"].tolist() == [[1, 2], [4, 7], [4, 7], [7, 12], [7, 12]]
    assert results["numbers"].tolist() == [0, 1, 2, 3, 4]


def test_the_iteration_number_as_an_output_of_a_branch() -> None:
    g = ChoiceInputs()

    def body(b: ModelBuilder, i: Value, entering: object) -> list[Value]:
        (k,) = choose(b, odd(b, i), lambda b: [i], lambda b: [b.op("Neg", i)], "k")
        return [*entering, k]

    _, (rows,) = repeat(g.b, 5, [], body, rows=1)
    assert everywhere(g.program(rows=rows), **values(True))["rows"].tolist() == [0, 1, -2, 3, -4]


def test_a_loop_in_a_branch() -> None:
    g = ChoiceInputs()

    def several(b: ModelBuilder) -> list[Value]:
        finals, rows = repeat(b, 3, [g.x], lambda b, i, v: [b.op("Add", v[0], g.y)] * 2, rows=1)
        return [*finals, *rows]

    def once(b: ModelBuilder) -> list[Value]:
        total = b.op("Add", g.x, g.y)
        return [total, b.op("Unsqueeze", total, b.constant(np.array([0])))]

    last, rows = choose(g.b, g.go, several, once, "sum")
    p = g.program(last=last, rows=rows)
    true_outputs, false_outputs = everywhere(p, **values(True)), everywhere(p, **values(False))
    assert (true_outputs["last"].tolist(), true_outputs["rows"].shape) == ([10, 17], (3, 2))
    assert (false_outputs["last"].tolist(), false_outputs["rows"].tolist()) == ([4, 7], [[4, 7]])


def test_choices_in_choices_in_loops_in_choices() -> None:
    """Check the four cases of two bools, chosen in every iteration of a loop."""
    g = ChoiceInputs()
    less = g.b.op("Less", g.b.op("ReduceMax", g.x, keepdims=0), g.b.constant(np.array(2.5)))

    def body(b: ModelBuilder, i: Value, entering: object) -> list[Value]:
        (x,) = entering

        def inner(number: float):
            return lambda b: choose(
                b,
                less,
                lambda b: [b.op("Add", x, b.constant(np.array(number)))],
                lambda b: [x],
                "inner",
            )

        return list(choose(b, odd(b, i), inner(1.0), inner(10.0), "outer"))

    def looping(b: ModelBuilder) -> list[Value]:
        return repeat(b, 3, [g.x], body)[0]

    (choice_value,) = choose(g.b, g.go, looping, lambda b: [g.y], "chosen")
    p = g.program(chosen=choice_value)
    assert len(choices(p)) == 4
    assert everywhere(p, **values(True))["chosen"].tolist() == [22, 23]
    assert everywhere(p, **values(True, (1.0, 3.0)))["chosen"].tolist() == [1, 3]
    assert everywhere(p, **values(False))["chosen"].tolist() == [3, 5]


def test_recorded_rows_of_different_shapes_are_an_error() -> None:
    g = ChoiceInputs()

    def body(b: ModelBuilder, i: Value, entering: object) -> list[Value]:
        longer = b.op("Concat", g.x, g.y, axis=0)
        return list(choose(b, odd(b, i), lambda b: [longer], lambda b: [g.x], "row"))

    _, (rows,) = repeat(g.b, 2, [], body, rows=1)
    p = g.program(rows=rows)
    with pytest.raises(RecordShapeError):
        interpret(p, values(True))
    with pytest.raises(RecordShapeError, match=r"has shape \[2\] at first, but \[4\]"):
        Session(p, STANDARD).run(values(True))


def test_a_choice_as_condition_of_a_while_loop() -> None:
    """Double x until x exceeds 20, or 10 in an odd iteration."""
    g = ChoiceInputs()
    body = g.b.body()
    i, go = body.new("int64", (), "i"), body.new("bool", (), "go")
    x = body.new("float64", (2,), "x_in")
    doubled = body.op("Add", x, x)
    top = body.op("ReduceMax", doubled, keepdims=0)

    def below(limit: float):
        return lambda b: [b.op("Less", top, b.constant(np.array(limit)))]

    (more,) = choose(body, odd(body, i), below(10.0), below(20.0), "more")
    final, count = g.b.new("float64", (2,), "final"), g.b.new("int64", (), "count")
    carried = (Carried(g.x, x, doubled, final),)
    g.b.append(
        Loop("l", None, g.go, i, go, more, carried, (), tuple(body.ops), iteration_count=count)
    )
    results = everywhere(g.program(final=final, count=count), **values(True))
    assert (results["final"].tolist(), results["count"]) == ([16, 32], 4)
