"""Constant and variable conditions, joins (R4.01 to R4.09), from MindSpore's document."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import mdf_loop
from mdf_loop.classification import classify
from mdf_loop.errors import (
    ArityError,
    CarryShapeError,
    ConditionError,
    JoinError,
    LoopError,
    RunError,
)
from mdf_loop.ir import If, Loop, walk
from mdf_loop.ir.shape_join import join_shapes
from tests.models.control import Control, Graph, body, choose, give, model, repeat


@pytest.fixture
def run(run_everywhere):
    def one(source: Any, inputs: Any = None, **options: Any) -> Any:
        results = run_everywhere(source, inputs, engine=False, **options)
        return {name.removeprefix("m."): array for name, array in results.items()}

    return one


def operations_of_kind(source: Any, kind: type, **inputs: Any) -> list[Any]:
    return [op for op in walk(mdf_loop.read(source, inputs).ops) if isinstance(op, kind)]


def error_message(source: Any, kind: type[LoopError], inputs: Any, **options: Any) -> str:
    with pytest.raises(kind) as caught:
        mdf_loop.compile(source, device="cpu", **options).run(inputs)
    return caught.value.findings[0].what


INT = {"x": np.int32(0), "y": np.int32(1)}


# --- R4.01 ----------------------------------------------------------------------------------------

ROWS = [
    ("for i in range(0, 10)", None, {}, "constant"),
    ("self.flag", "flag", {}, "constant"),
    ("x + 1 < 10", "limit + 1 < 10", {}, "constant"),
    ("len(my_list) < 10", "len(z) < 10", {"z": [1.0, 2.0]}, "constant"),
    ("x < y", "x < y", {"x": 1, "y": 2}, "variable"),
    ("x in list", "x == 1 or x == 2", {"x": 1}, "variable"),
    ("an operation on constants", "abs(limit) > 9", {}, "constant"),
    ("a graph input", "x", {"x": True}, "variable"),
    ("mutable(...)", "x > 3", {"x": 4}, "variable"),
    ("mixed operands", "x + limit > 3", {"x": 1}, "variable"),
]


@pytest.mark.parametrize(("expression", "cond", "inputs", "kind"), ROWS)
def test_r4_01_constant_and_variable(expression: str, cond: Any, inputs: Any, kind: str) -> None:
    if cond is None:
        decides: Control = repeat(body("i go n", {"go": "go", "m": "n + i"}), [0], M=10)
    else:
        decides = choose(cond, give(r="1"), give(r="0"))
    m = model({"y": "decides"}, decides=decides)
    node = m["graph"]["nodes"]["m"]
    node["parameters"] = {"flag": {"value": True}, "limit": {"value": 7}}
    node["input_ports"] = {name: {} for name in inputs}
    (condition,) = classify(m, inputs)
    assert condition.kind == kind
    assert ("depends on input" in condition.why) == (kind == "variable")


# --- R4.02: for and while under constant conditions -------------------------------------------------


def adding(cond: str = "x + i < y") -> dict[str, Any]:
    """Return a body that computes `out + x if x + i < y else out + y`, and adds 1."""
    return {"picked": choose(cond, give(r="out + x"), give(r="out + y"))}


def for_loop(**args: Any) -> Control:
    return repeat(
        body("i go out", {"go": "go", "next": "picked + 1"}, **adding()), ["zero"], **args
    )


def int_model(outputs: Any, **functions: Any) -> dict[str, Any]:
    """Return a model with a constant 0 of the dtype of the other operands, as in MindSpore."""
    return model(outputs, zero="0 * x", **functions)


def test_r4_02_a_for_loop_equals_the_unrolled_program(run) -> None:
    loop = int_model({"out": "loop"}, loop=for_loop(M=3))
    steps = {
        f"out_{k + 1}": choose(
            f"x + {k} < y", give(r=f"out_{k} + x + 1"), give(r=f"out_{k} + y + 1")
        )
        for k in range(3)
    }
    unrolled = int_model({"out": "out_3"}, out_0="zero", **steps)
    assert run(loop, INT)["out"] == run(unrolled, INT)["out"] == 5
    assert len(operations_of_kind(unrolled, If, **INT)) == 3
    assert [len(operations_of_kind(loop, kind, **INT)) for kind in (Loop, If)] == [1, 1]


def test_r4_02_a_while_loop_of_constants_equals_the_for_loop(run) -> None:
    step = body(
        "n go i out", {"more": "i + 1 < 3", "i_next": "i + 1", "next": "picked + 1"}, **adding()
    )
    m = model({"out": "loop[1]"}, loop=repeat(step, [0, "x"], cond="0 < 3"))
    assert run(m, INT)["out"] == 5


def test_r4_02_a_constant_false_while_does_nothing(run) -> None:
    step = body("n go out", {"more": "out < 3", "next": "out + 1"})
    m = model({"out": "loop", "n": "loop.iterations"}, loop=repeat(step, ["x"], cond="3 < 0"))
    m["graph"]["nodes"]["m"]["input_ports"].pop("loop", None)
    assert run(m, {"x": 1.5}) == {"out": 1.5, "n": 0}


# --- R4.03: if under a constant condition -----------------------------------------------------------


def test_r4_03_an_unselected_constant_branch_is_not_checked(run) -> None:
    m = model({"out": "picked + 1"}, x="0", y="1", picked=choose("x < y + 1", give("x"), give("z")))
    assert run(m, {"z": np.array([0, 1], np.int32)}) == {"out": 1}
    assert operations_of_kind(m, If, z=np.array([0, 1], np.int32)) == []


def test_r4_03_an_invalid_unselected_branch_is_ignored(run) -> None:
    m = model({"out": "picked"}, picked=choose("2 > 1", give(r="z"), give("nobody", r="z +")))
    m["graph"]["nodes"]["m"]["input_ports"] = {"z": {}}
    assert run(m, {"z": 4.0}) == {"out": 4}


# --- R4.04: if under a variable condition -----------------------------------------------------------

SINGLE_IF = model({"out": "picked + 1"}, picked=choose("x < y", give("x"), give("z")))
Z = np.array([1, 2], np.int32)


def test_r4_04_shapes_that_do_not_join_are_refused() -> None:
    message = error_message(SINGLE_IF, JoinError, {**INT, "z": Z})
    assert message == (
        "Cannot join the values of 'm.picked' from the then branch of 'm.picked' (int32[]) and the "
        "else branch of 'm.picked' (int32[2]): Shape Join Failed: shape1 = (), shape2 = (2)"
    )


def test_r4_04_dynamic_shapes_are_those_of_the_branch(run) -> None:
    small = run(SINGLE_IF, {**INT, "z": Z}, shapes="dynamic")["out"]
    large = run(SINGLE_IF, {"x": np.int32(3), "y": np.int32(1), "z": Z}, shapes="dynamic")["out"]
    assert (small.tolist(), large.tolist()) == (1, [2, 3])
    assert small.dtype == large.dtype == np.int32


# --- R4.05: while under a variable condition ----------------------------------------------------------


def test_r4_05_a_while_with_a_variable_condition_is_one_loop(run) -> None:
    step = body(
        "n go i out", {"more": "i + 1 < 3", "i_next": "i + 1", "next": "picked + 1"}, **adding()
    )
    m = model({"out": "loop[1]"}, loop=repeat(step, ["i", "x"], cond="i < 3"))
    inputs = {**INT, "i": np.int32(0)}
    assert run(m, inputs)["out"] == 5
    assert [len(operations_of_kind(m, kind, **inputs)) for kind in (Loop, If)] == [1, 1]
    assert run(m, {**INT, "i": np.int32(5)})["out"] == 0


# --- R4.06: lists ---------------------------------------------------------------------------------------


def test_r4_06_a_list_is_indexed_at_run_time(run) -> None:
    """Index a list by the iteration number, an error in MindSpore; the expected sum is 8."""
    step = body(
        "n go i j out",
        {"more": "i + 1 < 3", "i_next": "i + 1", "j_next": "j + 1", "next": "picked + nums[j]"},
        **adding(),
    )
    m = model({"out": "loop[2]"}, nums="[1, 2, 3]", loop=repeat(step, ["i", 0, "x"], cond="i < 3"))
    whole = {"x": 0, "y": 1, "i": 0}
    assert run(m, whole)["out"] == 8
    with pytest.raises(RunError):
        mdf_loop.compile(m, device="cpu").run({**whole, "i": -2})


# --- R4.07: a shape that changes from iteration to iteration -------------------------------------------


def growing() -> dict[str, Any]:
    step = body(
        "n go i out",
        {"more": "i + 1 < 3", "i_next": "i + 1", "next": "wider"},
        wider=Control("onnx::Unsqueeze", {"data": "out", "axes": "[-1]"}, {}),
    )
    return model({"out": "loop[1]"}, loop=repeat(step, ["i", "x"], cond="i < 3"))


def test_r4_07_the_error_of_a_changing_shape_names_both_shapes() -> None:
    message = error_message(growing(), CarryShapeError, {"i": 0, "x": np.array([0], np.int32)})
    assert message.endswith("Shape Join Failed: shape1 = (1), shape2 = (1, 1)")


def test_r4_07_a_dynamic_shape_may_grow(run) -> None:
    out = run(growing(), {"i": 0, "x": np.array([7], np.int32)}, shapes="dynamic")["out"]
    assert out.tolist() == [[[[7]]]]


# --- R4.08: the rules -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("first", "second", "joined"),
    [
        ((3, 4), (3, 4), (3, 4)),
        ((3, "n"), (3, 4), (3, "?1")),
        (None, (3, 4), None),
        ((3, "n"), (3, "n", "m"), None),
        ((1,), (), (1,)),
    ],
)
def test_r4_08_shapes_join_by_the_rules(first: Any, second: Any, joined: Any) -> None:
    """Check examples of shape joins; `tests/ir/test_shape_join.py` has the whole table."""
    assert join_shapes(first, second) == join_shapes(second, first) == joined


def test_r4_08_a_choice_joins_by_the_rules(run) -> None:
    m = model({"out": "picked"}, picked=choose("x < y", give("x"), give("z")))
    for x, expected in ((0, [0]), (5, [7])):
        inputs = {"x": np.int32(x), "y": np.int32(1), "z": np.array([7], np.int32)}
        assert run(m, inputs)["out"].tolist() == expected


# --- R4.09: the messages ----------------------------------------------------------------------------------


def test_r4_09_dtypes_that_do_not_join() -> None:
    m = model({"out": "picked"}, picked=choose("x < y", give("x"), give("z")))
    message = error_message(m, JoinError, {**INT, "z": np.float32(1)})
    assert message.endswith("Type Join Failed: dtype1 = int32, dtype2 = float32")


def test_r4_09_a_value_of_one_branch_only() -> None:
    m = model({"out": "picked[0]"}, picked=choose("x < y", give(out="x", more="x"), give(out="y")))
    message = error_message(m, ArityError, INT)
    assert message.startswith(
        "'more' is not defined in the else branch of 'm.picked', but defined in the then branch"
    )


def test_r4_09_a_condition_of_more_than_one_element() -> None:
    m = model({"out": "picked"}, picked=choose("z > 1", give("x"), give("y")))
    message = error_message(m, ConditionError, {**INT, "z": Z})
    assert message == (
        "the condition of 'm.picked' must be one value, not bool[2]: the truth value of an array "
        "with more than one element is ambiguous"
    )


@pytest.mark.slow
def test_r4_09_many_iterations_are_no_recursion(run) -> None:
    """Run 5000 iterations and 12 nested choices; MindSpore refuses more than 1000 calls."""
    m = model(
        {"out": "loop"}, loop=repeat(body("i go n", {"go": "go", "m": "n + 1"}), ["x"], M=5000)
    )
    assert run(m, {"x": 0}) == {"out": 5000}
    nested: Graph = give(r="x")
    for k in range(12):
        nested = Graph({"r": "c"}, {"c": choose(f"x > {k}", nested, give(r=f"-{k + 1}"))})
    m = model({"out": "picked"}, picked=choose("x > 12", nested, give(r="-13")))
    assert [int(run(m, {"x": x})["out"]) for x in (13, 12, 0)] == [13, -13, -13]
