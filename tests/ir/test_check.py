"""The verifier of the IR: a program that violates each rule, and reports of all violations at once."""

from __future__ import annotations

import numpy as np
import pytest
from msgspec.structs import replace

from mdf_loop.build import Builder
from mdf_loop.errors import (
    CarryTypeError,
    Finding,
    LoopError,
    Poisoned,
    ScopeError,
    raise_findings,
)
from mdf_loop.ir import (
    Branch,
    Carried,
    If,
    Input,
    Loop,
    Op,
    Output,
    Program,
    Recorded,
    Scanned,
    Value,
    bodies,
    captures,
    walk,
    with_bodies,
)
from mdf_loop.ir.check import check
from tests.passes.sketch import Sketch


def valid_program() -> Program:
    """Return a valid program: x' = x + a in three iterations, with x recorded."""
    b = Builder()
    a, x0 = b.new("float64", (2,), "a"), b.new("float64", (2,), "x0")
    n, true = b.constant(np.array(3), name="n"), b.constant(np.array(True), name="true")
    body = b.body()
    i, go, x = (
        body.new("int64", (), "i"),
        body.new("bool", (), "go"),
        body.new("float64", (2,), "x"),
    )
    leave = body.op("Add", x, a)
    final, trace = b.new("float64", (2,), "final"), b.new("float64", (3, 2), "trace")
    loop = Loop(
        name="A.f",
        trip_count=n,
        condition=true,
        iteration=i,
        condition_in=go,
        condition_out=true,
        carried=(Carried(x0, x, leave, final),),
        recorded=(Recorded(x, trace),),
        ops=tuple(body.ops),
        where="$.graphs[0].nodes['A'].functions['f']",
    )
    b.append(loop)
    return Program(
        "p", (Input(a), Input(x0)), tuple(b.ops), (Output("y", final), Output("t", trace))
    )


def loop_of(program: Program) -> Loop:
    return next(op for op in program.ops if isinstance(op, Loop))


def replace_loop(program: Program, **fields: object) -> Program:
    loop = replace(loop_of(program), **fields)
    return replace(program, ops=tuple(loop if isinstance(op, Loop) else op for op in program.ops))


def test_a_valid_program_has_no_findings() -> None:
    assert check(valid_program()) == ()


def program_with_leave(dtype: str, shape: tuple[int, ...]) -> Program:
    program = valid_program()
    loop = loop_of(program)
    b = Builder()
    other = b.new(dtype, shape, "other")
    carried = replace(loop.carried[0], body_output=other)
    op = Op("Cast", (loop.carried[0].body_input,), (other,))
    return replace_loop(program, carried=(carried,), ops=(*loop.ops, op))


@pytest.mark.parametrize(
    ("program", "kind", "words"),
    [
        (
            program_with_leave("int64", (2,)),
            "CarryTypeError",
            "'x': float64[2] becomes 'other': int64[2]",
        ),
        (
            program_with_leave("float64", (3,)),
            "CarryShapeError",
            "'x': float64[2] becomes 'other': float64[3]",
        ),
        (program_with_leave("float64", ()), "CarryShapeError", "body output 1"),
    ],
)
def test_carried_values_keep_dtype_and_shape(program: Program, kind: str, words: str) -> None:
    (finding,) = check(program)
    assert finding.kind == kind
    assert words in finding.what
    assert finding.where == "$.graphs[0].nodes['A'].functions['f']"
    assert finding.hint


def test_dynamic_shapes_allow_a_carried_value_to_change() -> None:
    assert check(replace_loop(program_with_leave("float64", (3,)), has_dynamic_shapes=True)) == ()


def test_condition_is_one_bool_and_trip_count_one_integer() -> None:
    program = valid_program()
    x = loop_of(program).carried[0].initial
    kinds = {f.kind for f in check(replace_loop(program, trip_count=x, condition=x))}
    assert kinds == {"TripCountError", "ConditionError"}


def test_a_body_condition_must_be_a_bool() -> None:
    program = valid_program()
    enter = loop_of(program).carried[0].body_input
    (finding,) = check(replace_loop(program, condition_out=enter))
    assert finding.kind == "ConditionError"
    assert "body's condition" in finding.what


def test_a_loop_without_count_and_condition_is_a_violation() -> None:
    program = valid_program()
    (neither,) = check(replace_loop(program, trip_count=None, condition=None))
    (always,) = check(replace_loop(program, trip_count=None))
    assert neither.kind == always.kind == "EndlessLoopError"
    assert "neither" in neither.what
    assert "always true" in always.what
    assert check(replace_loop(program, trip_count=None, max_iterations=5)) == ()


def test_a_body_value_does_not_exist_outside() -> None:
    program = valid_program()
    inner = loop_of(program).carried[0].body_output
    (finding,) = check(replace(program, outputs=(Output("y", inner),)))
    assert finding.kind == "ScopeError"
    assert "Add" in finding.what


def test_a_value_is_defined_once_and_used_afterwards() -> None:
    program = valid_program()
    backwards = replace(program, ops=tuple(reversed(program.ops)))
    assert {f.kind for f in check(backwards)} == {"ScopeError"}
    twice = replace(program, ops=(*program.ops, program.ops[0]))
    assert any("made twice" in f.what for f in check(twice))


def test_two_values_with_one_name() -> None:
    program = valid_program()
    other = Builder().new("float64", (), "a")
    findings = check(replace(program, inputs=(*program.inputs, Input(other))))
    assert any("2 values are called 'a'" in f.what for f in findings)


def test_one_error_reports_all_findings() -> None:
    program = replace_loop(program_with_leave("int64", (2,)), trip_count=None, condition=None)
    with pytest.raises(LoopError) as caught:
        raise_findings(check(program))
    assert len(caught.value.findings) == 2
    assert str(caught.value).count("hint:") == 2


def test_findings_of_one_kind_raise_the_error_class_of_the_kind() -> None:
    with pytest.raises(CarryTypeError) as caught:
        raise_findings(check(program_with_leave("int64", (2,))))
    assert isinstance(caught.value, TypeError)
    raise_findings(())


def test_the_text_of_an_error_has_its_place_and_hint() -> None:
    error = ScopeError("the port 'x' is bound to nothing", "$.graphs[0]", "name it")
    assert error.report == (
        "ScopeError: the port 'x' is bound to nothing\n  at $.graphs[0]\n  hint: name it"
    )
    assert str(Finding("ScopeError", "what")) == "ScopeError: what"
    assert not issubclass(Poisoned, LoopError)


def test_captures_are_computed_through_nested_bodies() -> None:
    program = valid_program()
    assert [v.name for v in captures(loop_of(program))] == ["a", "true"]
    assert sum(1 for _ in walk(program.ops)) == len(program.ops) + 1


# --- choices -----------------------------------------------------------------------------------


def choice_program(**changes: object) -> Program:
    """Return a program with a choice: y = -x if go else a."""
    b = Builder()
    go, x, a = b.new("bool", (), "go"), b.new("float64", (2,), "x"), b.new("float64", (2,), "a")
    then = b.body()
    negative = then.op("Neg", x)
    y = b.new("float64", (2,), "y")
    branches = Branch(tuple(then.ops), (negative,)), Branch((), (a,))
    original = If("A.y", go, *branches, (y,), "$.graphs[0].nodes['A']")
    operation = replace(original, **changes)  # type: ignore[arg-type]
    inputs = tuple(Input(value) for value in (go, x, a))
    return Program("p", inputs, (operation,), (Output("y", operation.outputs[0]),))


def choice_of(program: Program) -> If:
    return next(op for op in program.ops if isinstance(op, If))


def other_value(dtype: str = "float64", shape: tuple[int, ...] | None = (2,)) -> Value:
    return Value("other", dtype, shape)


def cast_branch(program: Program, value: Value) -> Branch:
    return Branch((Op("Cast", (program.inputs[1].value,), (value,)),), (value,))


def test_a_valid_choice_has_no_findings() -> None:
    assert check(choice_program()) == ()


def test_the_condition_of_a_choice_is_one_bool() -> None:
    program = choice_program()
    x = program.inputs[1].value
    choosing = replace(choice_of(program), condition=x)
    (finding,) = check(replace(program, ops=(choosing,)))
    assert finding.kind == "ConditionError"
    assert finding.what == "the condition of 'A.y' must be bool[], not float64[2]"
    assert finding.where == "$.graphs[0].nodes['A']"


@pytest.mark.parametrize(
    ("dtype", "shape"), [("int64", (2,)), ("float64", (3,)), ("float64", ()), ("float64", (1, 2))]
)
def test_branches_have_the_dtype_and_the_shape_of_the_output(dtype, shape) -> None:
    program = choice_program()
    other = other_value(dtype, shape)
    invalid = replace(choice_of(program), then=cast_branch(program, other))
    (finding,) = check(replace(program, ops=(invalid,)))
    assert finding.kind == "OperandError"
    assert finding.what == (
        f"'y' is float64[2], but if the condition of 'A.y' is true it is 'other': {other.type}"
    )
    assert finding.hint


@pytest.mark.parametrize("shape", [("n",), None])
def test_outputs_of_a_choice_may_have_unknown_extents(shape) -> None:
    program = choice_program(outputs=(Value("y", "float64", shape),))
    wide = replace(choice_of(program), then=cast_branch(program, other_value(shape=(3,))))
    assert check(replace(program, ops=(wide,))) == ()


def test_all_violations_of_a_choice_are_reported() -> None:
    program = choice_program()
    x = program.inputs[1].value
    invalid = replace(
        choice_of(program),
        condition=x,
        then=cast_branch(program, other_value("int64")),
        otherwise=Branch((), ()),
    )
    findings = check(replace(program, ops=(invalid,)))
    assert [f.kind for f in findings] == ["ConditionError", "OperandError", "ArityError"]
    assert "if its condition is false there are 0" in findings[-1].what


def test_a_value_of_a_branch_does_not_exist_outside_or_in_the_other() -> None:
    program = choice_program()
    old = choice_of(program)
    inner = old.then.outputs[0]
    (outside,) = check(replace(program, outputs=(Output("y", inner),)))
    crossed = replace(old, otherwise=Branch((), (inner,)))
    (across,) = check(replace(program, ops=(crossed,)))
    assert outside.kind == across.kind == "ScopeError"
    assert across.what == "'Neg' is used where it does not exist"
    assert across.where == "$.graphs[0].nodes['A']"


def test_captures_of_a_choice_are_the_captures_of_its_branches() -> None:
    program = choice_program()
    operation = choice_of(program)
    assert [v.name for v in captures(operation)] == ["x", "a"]
    assert captures(operation.then.ops[0]) == ()
    assert list(walk(program.ops)) == [operation, *operation.then.ops]


def test_bodies_can_be_replaced() -> None:
    operation = choice_of(choice_program())
    first, second = bodies(operation)
    assert (first.inputs, second.ops) == ((), ())
    assert with_bodies(operation, [first.ops, second.ops]) is operation
    exchanged = with_bodies(operation, [second.ops, first.ops])
    assert (exchanged.then.ops, exchanged.otherwise.ops) == ((), first.ops)
    assert exchanged.then.outputs == operation.then.outputs
    assert bodies(first.ops[0]) == ()
    assert with_bodies(first.ops[0], []) is first.ops[0]


# --- scanned values -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rows", "row", "axis", "sentence"),
    [
        (("float64", ()), ("float64", ()), 0, "has no rows along axis 0 to scan"),
        (("float64", (4,)), ("float64", ()), 1, "has no rows along axis 1 to scan"),
        (("sequence(float64)", None), ("float64", ()), 0, "has no rows along axis 0 to scan"),
        (
            ("float64", (4, 2)),
            ("float32", (2,)),
            0,
            "the rows of 'rows' along axis 0 are float64[2]",
        ),
        (
            ("float64", (4, 2)),
            ("float64", (2,)),
            1,
            "the rows of 'rows' along axis 1 are float64[4]",
        ),
    ],
)
def test_scanned_rows_without_the_axis(rows, row, axis: int, sentence: str) -> None:
    s = Sketch()
    rows_value = s.b.new(*rows, "rows")
    loop = s.loop(s.x, scanned=(Scanned(rows_value, s.body.new(*row, "row"), axis),))
    inputs = tuple(map(Input, (s.n, s.x0, rows_value)))
    findings = check(Program("p", inputs, tuple(s.b.ops), (Output("x", loop.carried[0].final),)))
    assert [sentence in finding.what for finding in findings] == [True]


def test_scanned_rows_are_read_outside_and_their_row_inside() -> None:
    s = Sketch()
    inside, row = s.body.op("Neg", s.x), s.body.new("float64", (), "row")
    loop = s.loop(inside, scanned=(Scanned(inside, row),))
    inputs = tuple(map(Input, (s.n, s.x0)))
    outputs = (Output("x", loop.carried[0].final), Output("row", row))
    findings = check(Program("p", inputs, tuple(s.b.ops), outputs))
    assert [finding.kind for finding in findings] == ["ScopeError", "ScopeError"]
