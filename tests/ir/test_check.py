"""Every rule of the IR has a program that breaks it; all findings come at once."""

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


def good() -> Program:
    """x' = x + a, three times; records x."""
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


def the_loop(program: Program) -> Loop:
    return next(op for op in program.ops if isinstance(op, Loop))


def with_loop(program: Program, **fields: object) -> Program:
    loop = replace(the_loop(program), **fields)
    return replace(program, ops=tuple(loop if isinstance(op, Loop) else op for op in program.ops))


def test_a_good_program_has_no_findings() -> None:
    assert check(good()) == ()


def leaving(dtype: str, shape: tuple[int, ...]) -> Program:
    program = good()
    loop = the_loop(program)
    b = Builder()
    other = b.new(dtype, shape, "other")
    carried = replace(loop.carried[0], leave=other)
    op = Op("Cast", (loop.carried[0].enter,), (other,))
    return with_loop(program, carried=(carried,), ops=(*loop.ops, op))


@pytest.mark.parametrize(
    ("program", "kind", "words"),
    [
        (leaving("int64", (2,)), "CarryTypeError", "'x': float64[2] becomes 'other': int64[2]"),
        (
            leaving("float64", (3,)),
            "CarryShapeError",
            "'x': float64[2] becomes 'other': float64[3]",
        ),
        (leaving("float64", ()), "CarryShapeError", "body output 1"),
    ],
)
def test_carried_values_keep_dtype_and_shape(program: Program, kind: str, words: str) -> None:
    (finding,) = check(program)
    assert finding.kind == kind
    assert words in finding.what
    assert finding.where == "$.graphs[0].nodes['A'].functions['f']"
    assert finding.hint


def test_dynamic_shapes_allow_a_carried_value_to_change() -> None:
    assert check(with_loop(leaving("float64", (3,)), dynamic_shapes=True)) == ()


def test_condition_and_trip_count_are_one_truth_value_and_one_whole_number() -> None:
    program = good()
    x = the_loop(program).carried[0].initial
    kinds = {f.kind for f in check(with_loop(program, trip_count=x, condition=x))}
    assert kinds == {"TripCountError", "ConditionError"}


def test_a_body_condition_must_be_a_truth_value() -> None:
    program = good()
    enter = the_loop(program).carried[0].enter
    (finding,) = check(with_loop(program, condition_out=enter))
    assert finding.kind == "ConditionError"
    assert "body's condition" in finding.what


def test_a_loop_must_be_able_to_end() -> None:
    program = good()
    (neither,) = check(with_loop(program, trip_count=None, condition=None))
    (always,) = check(with_loop(program, trip_count=None))
    assert neither.kind == always.kind == "EndlessLoopError"
    assert "neither" in neither.what
    assert "always true" in always.what
    assert check(with_loop(program, trip_count=None, bound=5)) == ()


def test_a_body_value_does_not_exist_outside() -> None:
    program = good()
    inner = the_loop(program).carried[0].leave
    (finding,) = check(replace(program, outputs=(Output("y", inner),)))
    assert finding.kind == "ScopeError"
    assert "Add" in finding.what


def test_a_value_is_used_after_it_is_made_and_made_once() -> None:
    program = good()
    backwards = replace(program, ops=tuple(reversed(program.ops)))
    assert {f.kind for f in check(backwards)} == {"ScopeError"}
    twice = replace(program, ops=(*program.ops, program.ops[0]))
    assert any("made twice" in f.what for f in check(twice))


def test_two_values_with_one_name() -> None:
    program = good()
    other = Builder().new("float64", (), "a")
    found = check(replace(program, inputs=(*program.inputs, Input(other))))
    assert any("2 values are called 'a'" in f.what for f in found)


def test_all_findings_come_in_one_error() -> None:
    program = with_loop(leaving("int64", (2,)), trip_count=None, condition=None)
    with pytest.raises(LoopError) as caught:
        raise_findings(check(program))
    assert len(caught.value.findings) == 2
    assert str(caught.value).count("hint:") == 2


def test_findings_of_one_kind_raise_their_own_class() -> None:
    with pytest.raises(CarryTypeError) as caught:
        raise_findings(check(leaving("int64", (2,))))
    assert isinstance(caught.value, TypeError)
    raise_findings(())


def test_an_error_reads_what_where_hint() -> None:
    error = ScopeError("the port 'x' is bound to nothing", "$.graphs[0]", "name it")
    assert str(error) == (
        "ScopeError: the port 'x' is bound to nothing\n  at $.graphs[0]\n  hint: name it"
    )
    assert str(Finding("ScopeError", "what")) == "ScopeError: what"
    assert not issubclass(Poisoned, LoopError)


def test_captures_are_computed_through_nested_bodies() -> None:
    program = good()
    assert [v.name for v in captures(the_loop(program))] == ["a", "true"]
    assert sum(1 for _ in walk(program.ops)) == len(program.ops) + 1


# --- choices -----------------------------------------------------------------------------------


def choice(**changes: object) -> Program:
    """y = -x if go else a."""
    b = Builder()
    go, x, a = b.new("bool", (), "go"), b.new("float64", (2,), "x"), b.new("float64", (2,), "a")
    then = b.body()
    negative = then.op("Neg", x)
    y = b.new("float64", (2,), "y")
    branches = Branch(tuple(then.ops), (negative,)), Branch((), (a,))
    made = If("A.y", go, *branches, (y,), "$.graphs[0].nodes['A']")
    operation = replace(made, **changes)  # type: ignore[arg-type]
    inputs = tuple(Input(value) for value in (go, x, a))
    return Program("p", inputs, (operation,), (Output("y", operation.outputs[0]),))


def the_choice(program: Program) -> If:
    return next(op for op in program.ops if isinstance(op, If))


def leaf(dtype: str = "float64", shape: tuple[int, ...] | None = (2,)) -> Value:
    return Value("other", dtype, shape)


def casting(program: Program, value: Value) -> Branch:
    return Branch((Op("Cast", (program.inputs[1].value,), (value,)),), (value,))


def test_a_good_choice_has_no_findings() -> None:
    assert check(choice()) == ()


def test_the_condition_of_a_choice_is_one_truth_value() -> None:
    program = choice()
    x = program.inputs[1].value
    choosing = replace(the_choice(program), condition=x)
    (finding,) = check(replace(program, ops=(choosing,)))
    assert finding.kind == "ConditionError"
    assert finding.what == "the condition of 'A.y' must be bool[], not float64[2]"
    assert finding.where == "$.graphs[0].nodes['A']"


@pytest.mark.parametrize(
    ("dtype", "shape"), [("int64", (2,)), ("float64", (3,)), ("float64", ()), ("float64", (1, 2))]
)
def test_branches_give_the_dtype_and_the_shape_of_the_value(dtype, shape) -> None:
    program = choice()
    other = leaf(dtype, shape)
    wrong = replace(the_choice(program), then=casting(program, other))
    (finding,) = check(replace(program, ops=(wrong,)))
    assert finding.kind == "OperandError"
    assert finding.what == (
        f"'y' is float64[2], but if the condition of 'A.y' is true it is 'other': {other.type}"
    )
    assert finding.hint


@pytest.mark.parametrize("shape", [("n",), None])
def test_a_value_may_leave_open_what_its_branches_give(shape) -> None:
    program = choice(outputs=(Value("y", "float64", shape),))
    wide = replace(the_choice(program), then=casting(program, leaf(shape=(3,))))
    assert check(replace(program, ops=(wide,))) == ()


def test_all_that_is_wrong_with_a_choice_is_found_at_once() -> None:
    program = choice()
    x = program.inputs[1].value
    wrong = replace(
        the_choice(program),
        condition=x,
        then=casting(program, leaf("int64")),
        otherwise=Branch((), ()),
    )
    found = check(replace(program, ops=(wrong,)))
    assert [f.kind for f in found] == ["ConditionError", "OperandError", "ArityError"]
    assert "if its condition is false there are 0" in found[-1].what


def test_a_value_of_a_branch_does_not_exist_outside_or_in_the_other() -> None:
    program = choice()
    old = the_choice(program)
    inner = old.then.leaves[0]
    (outside,) = check(replace(program, outputs=(Output("y", inner),)))
    crossed = replace(old, otherwise=Branch((), (inner,)))
    (across,) = check(replace(program, ops=(crossed,)))
    assert outside.kind == across.kind == "ScopeError"
    assert across.what == "'Neg' is used where it does not exist"
    assert across.where == "$.graphs[0].nodes['A']"


def test_captures_of_a_choice_are_those_of_its_branches() -> None:
    program = choice()
    made = the_choice(program)
    assert [v.name for v in captures(made)] == ["x", "a"]
    assert captures(made.then.ops[0]) == ()
    assert list(walk(program.ops)) == [made, *made.then.ops]


def test_bodies_can_be_exchanged() -> None:
    made = the_choice(choice())
    first, second = bodies(made)
    assert (first.inputs, second.ops) == ((), ())
    assert with_bodies(made, [first.ops, second.ops]) is made
    turned = with_bodies(made, [second.ops, first.ops])
    assert (turned.then.ops, turned.otherwise.ops) == ((), first.ops)
    assert turned.then.leaves == made.then.leaves
    assert bodies(first.ops[0]) == ()
    assert with_bodies(first.ops[0], []) is first.ops[0]


# --- what is scanned ----------------------------------------------------------------------------


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
def test_rows_that_are_none(rows, row, axis: int, sentence: str) -> None:
    s = Sketch()
    made = s.b.new(*rows, "rows")
    loop = s.loop(s.x, scanned=(Scanned(made, s.body.new(*row, "row"), axis),))
    inputs = tuple(map(Input, (s.n, s.x0, made)))
    findings = check(Program("p", inputs, tuple(s.b.ops), (Output("x", loop.carried[0].final),)))
    assert [sentence in finding.what for finding in findings] == [True]


def test_rows_are_read_outside_and_given_inside() -> None:
    s = Sketch()
    inside, row = s.body.op("Neg", s.x), s.body.new("float64", (), "row")
    loop = s.loop(inside, scanned=(Scanned(inside, row),))
    inputs = tuple(map(Input, (s.n, s.x0)))
    outputs = (Output("x", loop.carried[0].final), Output("row", row))
    found = check(Program("p", inputs, tuple(s.b.ops), outputs))
    assert [finding.kind for finding in found] == ["ScopeError", "ScopeError"]
