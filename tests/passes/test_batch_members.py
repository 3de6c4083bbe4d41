"""Batching of loops with per-member early exit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from mdf_loop.build import Builder
from mdf_loop.errors import UnsupportedError
from mdf_loop.ir import Branch, If, Loop, Value, walk
from mdf_loop.passes.batching.batch import batch
from mdf_loop.passes.legalize.mask_finished_members import mask_loop
from tests.passes.batch_models import LoopBuilder, Model, checked_batch, text


def number(b: Builder, x: float) -> Value:
    return b.constant(np.array(x))


def below(b: Builder, x: Value, bound: float) -> Value:
    return b.op("Less", x, number(b, bound))


def stopping(
    m: Model,
    *,
    first: Any = True,
    bound: float = 2.0,
    trip: Value | None = None,
    most: int | None = None,
) -> tuple[LoopBuilder, dict[str, Value]]:
    """Build `while go: x, v, k = x + 1, v * 2, k - 1; go = x < bound`, from x = s, with all its results."""
    loop = LoopBuilder(m.b, trip)
    x, v = loop.carry(m.s, "x"), loop.carry(m.v, "y")
    k = loop.carry(m.b.constant(np.array(7)), "k")
    body = loop.body
    increased = body.op("Add", x, number(body, 1.0))
    less = body.op("Sub", k, body.constant(np.array(1)))
    loop.leave(increased, body.op("Mul", v, number(body, 2.0)), less)
    reports = {
        "iteration_count": m.b.new("int64", (), "count"),
        "last_condition": m.b.new("bool", (), "last"),
    }
    condition = first if isinstance(first, Value | None) else m.truth(first)
    out = below(body, increased, bound)
    loop.done(condition=condition, condition_out=out, **reports, max_iterations=most)
    finals = {carried.name: carried.final for carried in loop.carried}
    return loop, {**finals, **reports}


def test_a_while_loop_gets_per_member_exit() -> None:
    m = Model()
    loop = LoopBuilder(m.b, None)
    x = loop.carry(m.s, "x")
    increased = loop.body.op("Add", x, number(loop.body, 0.5))
    loop.leave(increased)
    reports = {"iteration_count": m.b.new("int64", (), "count")}
    out = below(loop.body, increased, 2.0)
    loop.done(condition=below(m.b, m.s, 1.0), condition_out=out, **reports)
    batched = checked_batch(
        m.program(x_end=loop.carried[0].final, count=reports["iteration_count"]), "s"
    )
    assert text(batched)[-8:-2] == [
        "  loop %i while %Less_2 for each batch",
        "    carry %x: float64[batch] from %s to %Add giving %x_end",
        "    %Add: float64[batch] = Add(%x, %const_6)",
        "    %Less: bool[batch] = Less(%Add, %const_7)",
        "    continue if %Less",
        "    count giving %count",
    ]
    b = Builder.for_rewrite_of(batched)
    (own,) = (op for op in batched.ops if isinstance(op, Loop))
    plain = mask_loop(b, own, lambda value: None)
    assert text(replace(batched, ops=(*b.ops, plain)))[-16:-2] == [
        "  loop %i while %A.f:Cast_6",
        "    carry %x: float64[batch] from %s to %A.f:Where giving %x_end",
        "    carry %go: bool[batch] from %Less_2 to %A.f:And giving %go_end",
        "    carry %iterations: int64[batch] from %A.f:Mul to %A.f:Add giving %count",
        "    %Add: float64[batch] = Add(%x, %const_6)",
        "    %Less: bool[batch] = Less(%Add, %const_7)",
        "    %A.f:And: bool[batch] = And(%go, %Less)",
        "    %A.f:Where: float64[batch] = Where(%go, %Add, %x)",
        "    %A.f:Cast: int32[batch] = Cast(%A.f:And, to=6)",
        "    %A.f:ReduceSum: int32[] = ReduceSum(%A.f:Cast, keepdims=0)",
        "    %A.f:Cast_2: bool[] = Cast(%A.f:ReduceSum, to=9)",
        "    %A.f:Cast_4: int64[batch] = Cast(%go, to=7)",
        "    %A.f:Add: int64[batch] = Add(%iterations, %A.f:Cast_4)",
        "    continue if %A.f:Cast_2",
    ]


@pytest.mark.parametrize("bound", [-5.0, 0.5, 2.0, 40.0])
@pytest.mark.parametrize("names", [("s",), ("s", "v")])
@pytest.mark.parametrize("trip", [None, 0, 1, 2, 100])
def test_all_results_of_a_loop(names: tuple[str, ...], bound: float, trip: int | None) -> None:
    m = Model()
    _, outputs = stopping(m, bound=bound, trip=None if trip is None else m.n)
    checked_batch(m.program(**outputs), *names, **({} if trip is None else {"n": np.array(trip)}))


@pytest.mark.parametrize("names", [("n",), ("n", "s"), ("n", "v")])
@pytest.mark.parametrize("first", [True, False, None])
def test_each_member_has_its_own_trip_count(names: tuple[str, ...], first: bool | None) -> None:
    m = Model()
    _, outputs = stopping(m, first=first, bound=1.5, trip=m.n)
    checked_batch(m.program(**outputs), *names)


def test_a_trip_count_that_is_not_positive() -> None:
    m = Model()
    _, outputs = stopping(m, first=None, trip=m.b.op("Sub", m.n, m.b.constant(np.array(2))))
    checked_batch(m.program(**outputs), "n")


@pytest.mark.parametrize("trip", [None, 3])
def test_a_condition_that_is_false_at_first(trip: int | None) -> None:
    m = Model()
    positive = m.b.op("Greater", m.s, number(m.b, 0.0))
    _, outputs = stopping(m, first=positive, trip=None if trip is None else m.n)
    checked_batch(m.program(**outputs), "s", n=np.array(3))


def test_an_initial_condition_without_a_body_condition() -> None:
    """Check that members whose initial condition is true run all iterations."""
    m = Model()
    loop = LoopBuilder(m.b, m.n)
    x = loop.carry(m.w, "x")
    loop.leave(loop.body.op("Add", x, x))
    count = m.b.new("int64", (), "count")
    positive = m.b.op("Greater", m.s, number(m.b, 0.0))
    loop.done(condition=positive, condition_out=loop.go, iteration_count=count)
    checked_batch(m.program(x=loop.carried[0].final, count=count), "s")


def test_a_body_condition_after_the_last_iteration() -> None:
    m = Model()
    _, outputs = stopping(m, first=None, bound=3.5, trip=m.n)
    checked_batch(m.program(**outputs), "s", n=np.array(3))
    checked_batch(m.program(**outputs), "s", n=np.array(0))


def test_the_iteration_bound_applies_to_each_member() -> None:
    m = Model()
    _, outputs = stopping(m, bound=3.5, most=3)
    checked_batch(m.program(**outputs), "s")


@pytest.mark.parametrize("kind", ["while", "trip count"])
def test_each_member_has_its_own_number_of_rows(kind: str) -> None:
    m = Model()
    loop = LoopBuilder(m.b, m.n if kind == "trip count" else None)
    x = loop.carry(m.s, "x")
    increased = loop.body.op("Add", x, number(loop.body, 1.0))
    loop.leave(increased)
    loop.record(x, "xs")
    loop.record(loop.i, "numbers")
    loop.record(m.w, "ws")
    if kind == "while":
        loop.done(condition=m.truth(True), condition_out=below(loop.body, increased, 2.0))
    else:
        loop.done()
    stacks = {recorded.name: recorded.stack for recorded in loop.recorded}
    program = m.program(**stacks)
    checked_batch(program, "s" if kind == "while" else "n")
    if kind == "trip count":
        checked_batch(program, "n", "s", "w")


def test_rows_that_are_read_are_refused() -> None:
    m = Model()
    loop = LoopBuilder(m.b, None)
    x = loop.carry(m.s, "x")
    increased = loop.body.op("Add", x, number(loop.body, 1.0))
    loop.leave(increased)
    loop.record(x, "xs")
    loop.done(condition=m.truth(True), condition_out=below(loop.body, increased, 2.0))
    total = m.b.op("ReduceSum", loop.recorded[0].stack)
    sentence = (
        r"'xs' has a row for each iteration of 'A\.f', and each member of the sweep would need its "
        "own number of rows"
    )
    with pytest.raises(UnsupportedError, match=sentence):
        batch(m.program(total=total), ["s"])


def test_a_value_that_changes_its_shape_is_refused() -> None:
    m = Model()
    loop = LoopBuilder(m.b, None)
    x, k = loop.carry(m.v, "x"), loop.carry(m.s, "k")
    increased = loop.body.op("Add", k, number(loop.body, 1.0))
    loop.leave(loop.body.op("Concat", x, x, axis=0), increased)
    out = below(loop.body, increased, 2.0)
    loop.done(condition=m.truth(True), condition_out=out, has_dynamic_shapes=True)
    sentence = (
        r"'x' may change its shape in 'A\.f', and each member of the sweep would need its own number "
        "of iterations"
    )
    with pytest.raises(UnsupportedError, match=sentence):
        batch(m.program(x=loop.carried[0].final), ["s"])


def test_a_sequence_is_refused() -> None:
    m = Model()
    loop = LoopBuilder(m.b, None)
    empty = m.b.op("SequenceEmpty", dtype=11)
    x, s = loop.carry(m.s, "x"), loop.carry(empty, "s")
    increased = loop.body.op("Add", x, number(loop.body, 1.0))
    loop.leave(increased, loop.body.op("SequenceInsert", s, increased))
    loop.done(condition=m.truth(True), condition_out=below(loop.body, increased, 2.0))
    program = m.program(s=loop.carried[1].final)
    with pytest.raises(UnsupportedError, match=r"'s' is sequence\(float64\) in 'A\.f', and each"):
        batch(program, ["s"])


@pytest.mark.parametrize("names", [("s",), ("s", "v"), ("n",), ("n", "s")])
def test_a_loop_in_a_loop(names: tuple[str, ...]) -> None:
    """Nest two loops that stop when x exceeds a limit, or after n iterations."""
    m = Model()
    outer = LoopBuilder(m.b, m.n)
    x, c = outer.carry(m.s, "x"), outer.carry(m.b.constant(np.array(0)), "c")
    inner = LoopBuilder(outer.body, None, "A.g")
    y = inner.carry(x, "y")
    increased = inner.body.op("Add", y, number(inner.body, 0.75))
    inner.leave(increased)
    count = outer.body.new("int64", (), "inner_count")
    whole = outer.body.op("Ceil", x)
    condition = outer.body.op("Less", x, whole)
    inner.done(
        condition=condition,
        condition_out=inner.body.op("Less", increased, whole),
        iteration_count=count,
    )
    far = outer.body.op("Mul", inner.carried[0].final, number(outer.body, 1.5))
    outer.leave(far, outer.body.op("Add", c, count))
    outer.done(condition=m.truth(True), condition_out=below(outer.body, far, 9.0))
    program = m.program(**{carried.name: carried.final for carried in outer.carried})
    for n in (0, 2, 50):
        checked_batch(program, *names, **({} if "n" in names else {"n": np.array(n)}))


def test_a_body_that_fails_after_the_last_iteration() -> None:
    """Let each member divide by a number that is 0 only after its last iteration."""
    m = Model()
    loop = LoopBuilder(m.b, None)
    k = loop.carry(m.n, "k")
    zero = loop.body.constant(np.array(0))
    divided = loop.body.op("Div", loop.body.constant(np.array(60)), k)
    place = loop.body.op("Sub", k, loop.body.constant(np.array(1)))
    table = m.b.constant(np.array([5.0, 6.0, 7.0]))
    element = loop.body.op("Gather", table, place, axis=0)
    safe = loop.body.guard(element, loop.body.op("Greater", k, zero), "k is not positive")
    q, f = loop.carry(m.n, "q"), loop.carry(m.s, "f")
    assert q is not f
    loop.leave(place, divided, safe)
    loop.done(condition=m.truth(True), condition_out=loop.body.op("Greater", place, zero))
    checked_batch(m.program(**{carried.name: carried.final for carried in loop.carried}), "n")


def test_an_inner_loop_that_would_be_endless_for_a_finished_member() -> None:
    m = Model()
    outer = LoopBuilder(m.b, None)
    x = outer.carry(m.s, "x")
    inner = LoopBuilder(outer.body, None, "A.g")
    y = inner.carry(number(m.b, 0.0), "y")
    step = inner.body.op("Sub", number(inner.body, 2.0), x)  # 0 when x is 2
    increased = inner.body.op("Add", y, step)
    inner.leave(increased)
    inner.done(condition=m.truth(True), condition_out=below(inner.body, increased, 1.0))
    far = outer.body.op("Ceil", outer.body.op("Add", x, number(outer.body, 0.6)))
    outer.leave(outer.body.op("Min", far, number(outer.body, 2.0)))
    outer.done(
        condition=m.truth(True), condition_out=below(outer.body, outer.carried[0].body_output, 2.0)
    )
    checked_batch(m.program(x=outer.carried[0].final, y=outer.carried[0].final), "s")


def test_each_member_chooses_a_branch_in_the_body() -> None:
    m = Model()
    loop = LoopBuilder(m.b, None)
    x, v = loop.carry(m.s, "x"), loop.carry(m.v, "y")
    body = loop.body
    then, otherwise = body.body(), body.body()
    left, right = then.op("Neg", v), otherwise.op("Mul", v, m.w)
    selected = body.new("float64", (2,), "made")
    positive = body.op("Greater", x, number(body, 0.0))
    branches = Branch(tuple(then.ops), (left,)), Branch(tuple(otherwise.ops), (right,))
    body.append(If("A.h", positive, *branches, (selected,)))
    increased = body.op("Add", x, number(body, 0.5))
    loop.leave(increased, selected)
    loop.done(condition=m.truth(True), condition_out=below(body, increased, 1.7))
    checked_batch(m.program(**{carried.name: carried.final for carried in loop.carried}), "s", "w")


@pytest.mark.parametrize(
    "dtype", ["bool", "int8", "uint16", "uint32", "uint64", "float16", "float32"]
)
def test_finished_members_keep_values_of_all_dtypes(dtype: str) -> None:
    m = Model()
    loop = LoopBuilder(m.b, None)
    x = loop.carry(m.s, "x")
    element = {
        "bool": 9,
        "int8": 3,
        "uint16": 4,
        "uint32": 12,
        "uint64": 13,
        "float16": 10,
        "float32": 1,
    }
    k = loop.carry(m.b.op("Cast", m.s, to=element[dtype]), "k")
    increased = loop.body.op("Add", x, number(loop.body, 1.0))
    loop.leave(increased, loop.body.op("Cast", loop.body.op("Abs", increased), to=element[dtype]))
    assert k.dtype == dtype
    loop.done(condition=m.truth(True), condition_out=below(loop.body, increased, 4.0))
    finals = {carried.name: carried.final for carried in loop.carried}
    checked_batch(m.program(**finals), "s")


def test_a_plain_loop_has_no_per_member_exit() -> None:
    m = Model()
    loop = LoopBuilder(m.b, m.n)
    x = loop.carry(m.s, "x")
    loop.leave(loop.body.op("Neg", x))
    loop.done()
    batched = checked_batch(m.program(x=loop.carried[0].final), "s")
    assert all(op.member_axis is None for op in walk(batched.ops) if isinstance(op, Loop))
