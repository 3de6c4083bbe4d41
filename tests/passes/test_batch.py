"""Batching of whole programs: loops, choices, outputs, names, refusals."""

from __future__ import annotations

import numpy as np
import pytest
from msgspec.structs import replace

from mdf_loop.errors import CarryShapeError, UnknownNameError, UnsupportedError
from mdf_loop.ir import Input, Loop, Op, Program, loops
from mdf_loop.ir.check import check
from mdf_loop.passes.batching.batch import batch
from mdf_loop.pipeline import SIMPLIFY, prepare
from tests.passes.batch_models import LoopBuilder, Model, checked_batch, text

# --- what is scanned ------------------------------------------------------------------------------


@pytest.mark.parametrize("names", [["v"], ["w"], ["v", "w"]])
@pytest.mark.parametrize("backward", [False, True])
def test_rows_of_each_member_are_scanned(names: list[str], backward: bool) -> None:
    m = Model()
    loop = LoopBuilder(m.b, m.b.constant(np.array(2)))
    x = loop.carry(m.s, "x")
    kick, other = loop.scan(m.v, "kick", backward=backward), loop.scan(m.w, "other")
    loop.leave(loop.body.op("Add", loop.body.op("Mul", x, kick), other))
    loop.record(kick, "kicks")
    built_loop = loop.done()
    batched = checked_batch(
        m.program(x=built_loop.carried[0].final, kicks=built_loop.recorded[0].stack), *names
    )
    (after,) = loops(batched)
    assert [scanned.axis for scanned in after.scanned] == [int(n in names) for n in ("v", "w")]


# --- before and after -----------------------------------------------------------------------------


def simple() -> Program:
    m = Model()
    loop = LoopBuilder(m.b, m.n)
    x = loop.carry(m.v, "x")
    loop.leave(loop.body.op("Mul", x, m.s))
    loop.record(x, "trace")
    loop.done()
    return m.program(trace=loop.recorded[0].stack, port=m.w)


def test_a_batched_program() -> None:
    original = simple()
    inputs = "%w: float64[2], %s: float64[], %n: int64[]"
    assert text(original) == [
        f"program(%v: float64[2], {inputs})",
        "  loop %i < %n",
        "    carry %x: float64[2] from %v to %Mul giving %x_end",
        "    %Mul: float64[2] = Mul(%x, %s)",
        "    record %x giving %trace: float64[time, 2]",
        "  output trace = %trace",
        "  output port = %w",
    ]
    assert text(batch(original, ["v"])) == [
        f"program(%v: float64[batch, 2], {inputs})",
        "  %s_2: int64[2] = [0, 1]",
        "  %s:Unsqueeze: float64[1, 1] = Unsqueeze(%s, %s_2)",
        "  loop %i < %n",
        "    carry %x: float64[batch, 2] from %v to %Mul giving %x_end",
        "    %Mul: float64[batch, 2] = Mul(%x, %s:Unsqueeze)",
        "    record %x giving %trace_2: float64[time, batch, 2]",
        "  output trace = %trace_2 members along axis 1",
        "  output port = %w",
    ]


def test_a_program_without_batched_names_is_unchanged() -> None:
    program = simple()
    assert batch(program, []) is program


def test_the_extent_has_a_unique_name() -> None:
    m = Model()
    occupied = m.b.new("float64", ("batch",), "u")
    program = replace(
        m.program(y=m.b.op("Neg", m.v)), inputs=(Input(m.v), Input(occupied), Input(m.w))
    )
    assert batch(program, ["v"]).inputs[0].value.type == "float64[batch_2, 2]"
    assert batch(program, ["v"], size="member").inputs[0].value.type == "float64[member, 2]"


def test_an_unknown_input_is_refused() -> None:
    with pytest.raises(UnknownNameError, match="the program has no input 'x'") as caught:
        batch(simple(), ["x"])
    assert "hint: its inputs are v, w, s, n" in str(caught.value)


def test_a_batched_input_has_no_default() -> None:
    program = simple()
    inputs = tuple(replace(entry, default=np.array([1.0, 2.0])) for entry in program.inputs[:2])
    inputs = batch(replace(program, inputs=inputs + program.inputs[2:]), ["v"]).inputs
    assert inputs[0].default is None
    assert inputs[1].default is not None


@pytest.mark.parametrize("names", [("v",), ("s",), ("v", "s"), ("w",)])
def test_a_loop(names: tuple[str, ...]) -> None:
    program = simple()
    checked_batch(program, *names)
    checked_batch(program, *names, n=np.array(0))


# --- loops ----------------------------------------------------------------------------------------


def test_a_carried_value_with_a_common_initial_value() -> None:
    m = Model()
    loop = LoopBuilder(m.b, m.n)
    x, y, z = loop.carry(m.v, "x"), loop.carry(m.w, "y"), loop.carry(m.w, "z")
    loop.leave(y, loop.body.op("Add", x, m.s), loop.body.op("Neg", z))
    loop.record(y, "ys")
    loop.record(z, "zs")
    loop.done()
    program = m.program(
        x=loop.carried[0].final,
        z=loop.carried[2].final,
        ys=loop.recorded[0].stack,
        zs=loop.recorded[1].stack,
    )
    for names in (("v",), ("s",), ("w",), ("v", "w", "s")):
        checked_batch(program, *names)
    inside = next(op for op in batch(program, ["s"]).ops if isinstance(op, Loop))
    assert [carried.body_input.shape for carried in inside.carried] == [("batch", 2)] * 2 + [(2,)]
    assert inside.recorded[1].row.shape == (2,)
    assert inside.name == "A.f"
    assert inside.where.endswith("['f']")


def test_a_carried_value_that_is_reset() -> None:
    m = Model()
    loop = LoopBuilder(m.b, m.n)
    x, y = loop.carry(m.v, "x"), loop.carry(m.v, "y")
    loop.record(loop.body.op("Add", x, y), "sums")
    loop.leave(m.b.constant(np.array([7.0, 8.0])), m.w)
    loop.done()
    checked_batch(m.program(sums=loop.recorded[0].stack, y=loop.carried[1].final), "v")


def test_iteration_number_and_count() -> None:
    m = Model()
    loop = LoopBuilder(m.b, m.n)
    x = loop.carry(m.s, "x")
    number = loop.body.op("Cast", loop.i, to=11)
    loop.leave(loop.body.op("Add", x, number))
    loop.record(number, "numbers")
    count = m.b.new("int64", (), "count")
    loop.done(iteration_count=count)
    program = m.program(
        x=loop.carried[0].final, numbers=loop.recorded[0].stack, count=count, port=m.s
    )
    batched = checked_batch(program, "s")
    assert {o.name: o.value.shape for o in batched.outputs}["x"] == ("batch",)


def test_a_loop_in_a_loop() -> None:
    m = Model()
    outer = LoopBuilder(m.b, m.n)
    x = outer.carry(m.v, "x")
    inner = LoopBuilder(outer.body, outer.i, "A.g")
    y = inner.carry(x, "y")
    inner.leave(inner.body.op("Mul", y, m.s))
    inner.record(y, "ys")
    inner.done()
    total = outer.body.op("ReduceSum", inner.recorded[0].stack, m.b.constant(np.array([0])))
    total = outer.body.op("Squeeze", total, m.b.constant(np.array([0])))
    outer.leave(outer.body.op("Add", inner.carried[0].final, total))
    outer.record(total, "totals")
    outer.done()
    program = m.program(x=outer.carried[0].final, totals=outer.recorded[0].stack)
    for names in (("v",), ("s",), ("v", "s")):
        checked_batch(program, *names)
        checked_batch(program, *names, n=np.array(0))


def test_a_condition_common_to_all_members() -> None:
    m = Model()
    loop = LoopBuilder(m.b, m.n)
    x, k = loop.carry(m.v, "x"), loop.carry(m.w, "k")
    body = loop.body
    increased = body.op("Add", k, m.b.constant(np.array([1.0, 1.0])))
    loop.leave(body.op("Mul", x, m.s), increased)
    largest = body.op("ReduceMax", increased, keepdims=0)
    loop.record(x, "xs")
    go = body.op("Less", largest, m.b.constant(np.array(4.0)))
    last = m.b.new("bool", (), "last")
    loop.done(condition=m.truth(True), condition_out=go, last_condition=last)
    program = m.program(x=loop.carried[0].final, xs=loop.recorded[0].stack, last=last)
    checked_batch(program, "v", "s")
    checked_batch(program, "w")


def test_an_unread_condition_may_differ() -> None:
    m = Model()
    loop = LoopBuilder(m.b, m.n)
    x = loop.carry(m.s, "x")
    loop.leave(loop.body.op("Neg", x))
    loop.done(condition_out=loop.body.op("Less", x, m.s))
    checked_batch(m.program(x=loop.carried[0].final), "s")


def test_a_carried_value_with_other_axes_later_is_refused() -> None:
    m = Model()
    loop = LoopBuilder(m.b, m.n)
    x = loop.carry(m.s, "x")
    loop.leave(loop.body.op("Add", x, m.w))
    loop.done(has_dynamic_shapes=True)
    with pytest.raises(CarryShapeError, match="'x' changes its number of axes"):
        batch(m.program(x=loop.carried[0].final), ["s"])


def test_one_error_lists_all_refused_operations() -> None:
    m = Model()
    with m.b.at("$.first"):
        first = m.b.op("NonZero", m.v)
        after = m.b.op("Neg", first)
    loop = LoopBuilder(m.b, m.n)
    x = loop.carry(m.v, "x")
    with loop.body.at("$.second"):
        last = loop.body.op("ReduceSum", loop.body.op("NonZero", x))
    loop.leave(x)
    loop.record(last, "lasts")
    loop.done()
    program = m.program(after=after, lasts=loop.recorded[0].stack)
    with pytest.raises(UnsupportedError) as caught:
        batch(program, ["v"])
    assert [finding.where for finding in caught.value.findings] == ["$.first", "$.second"]


def test_expanded_invariants_are_computed_before_the_loop() -> None:
    m = Model()
    loop = LoopBuilder(m.b, m.n)
    x = loop.carry(m.v, "x")
    body = loop.body
    step = body.op("Mul", body.op("Add", x, m.w), m.b.constant(np.array([0.5, 0.25])))
    loop.leave(body.op("Sub", body.op("Add", step, m.s), m.w))
    loop.done()
    program = m.program(x=loop.carried[0].final)
    for names in (("v",), ("v", "s"), ("s",)):
        batched = checked_batch(program, *names)
        (batched_loop,) = (operation for operation in batched.ops if isinstance(operation, Loop))
        assert [op.op_type for op in batched_loop.ops if isinstance(op, Op)] == [
            "Add",
            "Mul",
            "Add",
            "Sub",
        ]
        for op in batched_loop.ops:
            shapes = {v.shape for v in op.inputs} - {(1, 1)}  # type: ignore[union-attr]
            assert all(shape[1:] != (1,) for shape in shapes), op


def test_optimizing_before_or_after_batching_is_the_same() -> None:
    program = simple()
    for first in (program, prepare(program, SIMPLIFY)):
        assert check(prepare(batch(first, ["v", "s"]), SIMPLIFY)) == ()
