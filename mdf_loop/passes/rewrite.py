"""Replace operations of a program, one by one, at any depth.

    rule: y = Tan(x)  ->  s = Sin(x); c = Cos(x); y = Div(s, c)

    program(%x)                          program(%x)
      %y = Tan(%x)                         %y:Sin = Sin(%x)
      %z = Neg(%y)             ->          %y:Cos = Cos(%x)
                                           %y = Div(%y:Sin, %y:Cos)
                                           %z = Neg(%y)

What a rule makes takes the place of the old value itself, so names stay, and with them loops,
later operations and outputs. Only where a rule answers with a value that was there before
(an input, a constant) do the readers change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeAlias

from msgspec.structs import replace

from mdf_loop.build import Builder
from mdf_loop.ir import (
    Body,
    Constant,
    Loop,
    Op,
    Operation,
    Program,
    Value,
    bodies,
    results,
    with_bodies,
)
from mdf_loop.ir.substitute import substitute

Rule: TypeAlias = Callable[[Builder, Op], tuple[Value | None, ...] | None]
"""What replaces an operation, output by output (None for one not wanted); None keeps it."""


def rewrite(program: Program, rule: Rule) -> Program:
    """The program with every operation for which `rule` has an answer replaced by it."""
    b = Builder.resume(program)
    swaps: dict[Value, Value] = {}
    _scope(b, program.ops, rule, swaps)
    ops = tuple(b.ops)
    if ops == program.ops:
        return program
    outputs = substitute(program.outputs, swaps)
    return replace(program, ops=ops, outputs=outputs)


LoopRule: TypeAlias = Callable[[Builder, Loop], Loop]
"""The loop that stands for one; what is computed before it is appended to the builder."""


def rewrite_loops(program: Program, rule: LoopRule) -> Program:
    """The program with every loop as `rule` makes it, from outside in."""
    b = Builder.resume(program)
    _loops(b, program.ops, rule)
    return replace(program, ops=tuple(b.ops))


def _loops(b: Builder, ops: Iterable[Operation], rule: LoopRule) -> None:
    for operation in ops:
        if isinstance(operation, Constant):
            b.adopt(operation)
            continue
        if isinstance(operation, Loop):
            operation = rule(b, operation)
        inner = []
        for body in bodies(operation):
            inside = b.body()
            _loops(inside, body.ops, rule)
            inner.append(tuple(inside.ops))
        b.ops.append(with_bodies(operation, inner))


def _scope(b: Builder, ops: Iterable[Operation], rule: Rule, swaps: dict[Value, Value]) -> None:
    for operation in ops:
        operation = substitute(operation, swaps)
        if isinstance(operation, Constant):
            b.adopt(operation)
        elif isinstance(operation, Op):
            _op(b, operation, rule, swaps)
        else:
            inner = [_body(b, body, rule, swaps) for body in bodies(operation)]
            b.append(with_bodies(substitute(operation, swaps), inner))


def _body(b: Builder, body: Body, rule: Rule, swaps: dict[Value, Value]) -> tuple[Operation, ...]:
    inside = b.body()
    _scope(inside, body.ops, rule, swaps)
    return tuple(inside.ops)


def _op(b: Builder, op: Op, rule: Rule, swaps: dict[Value, Value]) -> None:
    before = len(b.ops)
    with b.at(op.where, op.outputs[0].name):
        answer = rule(b, op)
    if answer is None:
        b.ops.append(op)
        return
    fresh = [operation for operation in b.ops[before:] if not isinstance(operation, Constant)]
    made = {value for operation in fresh for value in results(operation)}
    renamed: dict[Value, Value] = {}
    for old, new in zip(op.outputs, answer, strict=True):
        if new is None:
            continue
        if new in made and new not in renamed:
            renamed[new] = old
        else:
            swaps[old] = renamed.get(new, new)
    if renamed:
        b.ops[before:] = [substitute(operation, renamed) for operation in b.ops[before:]]
