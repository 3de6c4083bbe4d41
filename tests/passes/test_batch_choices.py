"""Batching of choices: all runs choose the same branch, or each chooses its own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mdf_loop.build import Builder
from mdf_loop.errors import UnsupportedError
from mdf_loop.ir import Branch, If, Program, Value, walk
from mdf_loop.passes.batching.batch import batch
from tests.passes.batch_models import LoopBuilder, Model, arrays, checked_batch
from tests.passes.batch_running import assert_same


def choice(m: Model, condition: Value, **captured: Value) -> Program:
    """Build `if condition: a = v * s, b = w else: a = -w, b = v`."""
    then, otherwise = m.b.body(), m.b.body()
    doubled, turned = then.op("Mul", m.v, m.s), otherwise.op("Neg", m.w)
    outputs = tuple(m.b.new("float64", (2,), name) for name in "ab")
    m.b.append(
        If(
            "A",
            condition,
            Branch(tuple(then.ops), (doubled, m.w)),
            Branch(tuple(otherwise.ops), (turned, m.v)),
            outputs,
            "$.graphs[0].nodes['A']",
        )
    )
    return m.program(a=outputs[0], b=outputs[1], **captured)


@pytest.mark.parametrize("names", [("v",), ("s",), ("v", "s"), ("w",)])
@pytest.mark.parametrize("n", [0, 5])
def test_all_runs_choose_the_same_branch(names: tuple[str, ...], n: int) -> None:
    m = Model()
    program = choice(m, m.b.op("Greater", m.n, m.b.constant(np.array(2))))
    batched = checked_batch(program, *names, n=np.array(n))
    assert any(isinstance(operation, If) for operation in batched.ops)


@pytest.mark.parametrize("names", [("s",), ("s", "v"), ("s", "w")])
def test_each_run_chooses_its_own_branch(names: tuple[str, ...]) -> None:
    m = Model()
    program = choice(m, m.b.op("Greater", m.s, m.b.constant(np.array(0.0))))
    batched = checked_batch(program, *names)
    assert not any(isinstance(operation, If) for operation in walk(batched.ops))


def one_branch(op_type: str, *operands: str, **attributes: Any) -> Program:
    """Build `s > 0 ? op(...) : itself` on values of the model."""
    m = Model()
    condition = m.b.op("Greater", m.s, m.b.constant(np.array(0.0)))
    table = {"v": m.v, "n": m.n, "s": m.s, "seven": m.b.constant(np.array(7))}
    table["shape"] = m.b.constant(np.array([1, 2]))
    then = m.b.body()
    with then.at("$.branch"):
        quotient = then.op(op_type, *(table[name] for name in operands), **attributes)
    otherwise = m.b.body()
    other = otherwise.op("Mul", zeros_like(otherwise, quotient), zeros_like(otherwise, quotient))
    out = m.b.new(quotient.dtype, quotient.shape, "out")
    branches = Branch(tuple(then.ops), (quotient,)), Branch(tuple(otherwise.ops), (other,))
    m.b.append(If("A", condition, *branches, (out,), "$.graphs[0].nodes['A']"))
    return m.program(out=out)


def zeros_like(b: Builder, value: Value) -> Value:
    return b.constant(np.full(tuple(int(d) for d in value.shape or ()), 3).astype(value.dtype))


def test_a_branch_that_may_fail_runs_only_for_runs_that_choose_it() -> None:
    """Check that other runs, which would index outside of the array or divide by 0, do not fail."""
    for op_type, first, n in (("Gather", "v", [1, 5, 0]), ("Div", "seven", [2, 0, 3])):
        feeds = arrays(s=np.array([0.3, -0.7, 1.1]), n=np.array(n))
        assert_same(one_branch(op_type, first, "n"), feeds, ("s", "n"))


def test_an_endless_loop_runs_only_for_runs_that_choose_it() -> None:
    """Use a loop that ends if it starts from 0, but never ends if it starts from 1."""
    m = Model()
    then = m.b.body()
    loop = LoopBuilder(then, None)
    x = loop.carry(m.s, "x")
    more = loop.body.op("Mul", x, loop.body.constant(np.array(0.5)))
    loop.leave(more)
    small = loop.body.op("Greater", more, loop.body.constant(np.array(0.1)))
    endless = loop.body.op("Less", more, loop.body.constant(np.array(-0.0)))
    loop.done(condition=m.truth(True), condition_out=loop.body.op("Or", small, endless))
    out = m.b.new("float64", (), "out")
    branches = Branch(tuple(then.ops), (loop.carried[0].final,)), Branch((), (m.s,))
    positive = m.b.op("Greater", m.s, m.b.constant(np.array(0.0)))
    m.b.append(If("A", positive, *branches, (out,), "$.here"))
    checked_batch(m.program(out=out), "s")


def test_a_branch_that_may_fail_is_refused_if_its_shape_is_unknown() -> None:
    m = Model()
    condition = m.b.op("Greater", m.s, m.b.constant(np.array(0.0)))
    then = m.b.body()
    length = then.op("Unsqueeze", m.n, then.constant(np.array([0])))
    expanded = then.op("Expand", m.s, length)
    out = m.b.new("float64", None, "out")
    m.b.append(If("A", condition, Branch(tuple(then.ops), (expanded,)), Branch((), (m.v,)), (out,)))
    with pytest.raises(UnsupportedError) as caught:
        batch(m.program(out=out), ["s"])
    assert (
        "'A' chooses for each of many values, which computes both branches, "
        "and onnx::Expand in one of them may fail" in str(caught.value)
    )


def test_a_branch_that_cannot_fail_may_have_an_unknown_shape() -> None:
    checked_batch(one_branch("Div", "n", "seven"), "s")
    checked_batch(one_branch("Reshape", "v", "shape"), "s", "v")
    checked_batch(one_branch("Div", "s", "s"), "s")


def test_branches_of_two_shapes_are_refused_if_each_run_chooses() -> None:
    m = Model()
    condition = m.b.op("Greater", m.s, m.b.constant(np.array(0.0)))
    out = m.b.new("float64", None, "out")
    branches = Branch((), (m.v,)), Branch((), (m.s,))
    m.b.append(If("A", condition, *branches, (out,), "$.here"))
    with pytest.raises(UnsupportedError, match=r"in two shapes, float64\[2\] and float64\[\]"):
        batch(m.program(out=out), ["s"])


def test_a_choice_in_a_loop() -> None:
    m = Model()
    loop = LoopBuilder(m.b, m.n)
    x = loop.carry(m.v, "x")
    body = loop.body
    then, otherwise = body.body(), body.body()
    up, down = then.op("Add", x, m.w), otherwise.op("Sub", x, m.s)
    out = body.new("float64", (2,), "out")
    even = body.op("Equal", body.op("Mod", loop.i, m.b.constant(np.array(2))), m.n)
    branches = Branch(tuple(then.ops), (up,)), Branch(tuple(otherwise.ops), (down,))
    body.append(If("A", even, *branches, (out,)))
    loop.leave(out)
    loop.record(out, "outs")
    loop.done()
    program = m.program(outs=loop.recorded[0].stack)
    for names in (("v",), ("s",), ("w", "v")):
        checked_batch(program, *names)
    checked_batch(program, "n")
