"""Application of a rewrite rule to all operations or loops of a program, at any nesting depth.

    rule: y = Tan(x)  ->  s = Sin(x); c = Cos(x); y = Div(s, c)

    program(%x)                          program(%x)
      %y = Tan(%x)                         %y:Sin = Sin(%x)
      %z = Neg(%y)             ->          %y:Cos = Cos(%x)
                                           %y = Div(%y:Sin, %y:Cos)
                                           %z = Neg(%y)

The last new operation defines the old value itself, so that the readers of the value are unchanged. Readers
change only if a rule returns a value that existed before (an input, a constant).
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
"""Function that returns a replacement for each output (None if unused), or None to keep the operation."""


def rewrite(program: Program, rule: Rule) -> Program:
    """Apply a rewrite rule to all operations of a program, and return the new program.

    An operation is kept if `rule` returns None.
    """
    b = Builder.for_rewrite_of(program)
    substitutions: dict[Value, Value] = {}
    _rewrite_scope(b, program.ops, rule, substitutions)
    rewritten_ops = tuple(b.ops)
    if rewritten_ops == program.ops:
        return program
    rewritten_outputs = substitute(program.outputs, substitutions)
    return replace(program, ops=rewritten_ops, outputs=rewritten_outputs)


LoopRule: TypeAlias = Callable[[Builder, Loop], Loop]
"""Function that returns the replacement of a loop, and appends the operations before the loop."""


def rewrite_loops(program: Program, rule: LoopRule) -> Program:
    """Apply a rewrite rule to all loops of a program, outermost loops first."""
    b = Builder.for_rewrite_of(program)
    _rewrite_loops(b, program.ops, rule)
    return replace(program, ops=tuple(b.ops))


def _rewrite_loops(b: Builder, ops: Iterable[Operation], rule: LoopRule) -> None:
    for operation in ops:
        if isinstance(operation, Constant):
            b.adopt(operation)
            continue
        if isinstance(operation, Loop):
            operation = rule(b, operation)
        inner_ops = []
        for body in bodies(operation):
            body_builder = b.body()
            _rewrite_loops(body_builder, body.ops, rule)
            inner_ops.append(tuple(body_builder.ops))
        b.ops.append(with_bodies(operation, inner_ops))


def _rewrite_scope(
    b: Builder, ops: Iterable[Operation], rule: Rule, substitutions: dict[Value, Value]
) -> None:
    for operation in ops:
        operation = substitute(operation, substitutions)
        if isinstance(operation, Constant):
            b.adopt(operation)
        elif isinstance(operation, Op):
            _rewrite_op(b, operation, rule, substitutions)
        else:
            inner_ops = [_rewrite_body(b, body, rule, substitutions) for body in bodies(operation)]
            b.append(with_bodies(substitute(operation, substitutions), inner_ops))


def _rewrite_body(
    b: Builder, body: Body, rule: Rule, substitutions: dict[Value, Value]
) -> tuple[Operation, ...]:
    body_builder = b.body()
    _rewrite_scope(body_builder, body.ops, rule, substitutions)
    return tuple(body_builder.ops)


def _rewrite_op(b: Builder, op: Op, rule: Rule, substitutions: dict[Value, Value]) -> None:
    first_new_op_index = len(b.ops)
    with b.at(op.where, op.outputs[0].name):
        replacements = rule(b, op)
    if replacements is None:
        b.ops.append(op)
        return
    new_ops = [
        operation for operation in b.ops[first_new_op_index:] if not isinstance(operation, Constant)
    ]
    new_values = {value for operation in new_ops for value in results(operation)}
    old_value_by_new: dict[Value, Value] = {}
    for old_value, new_value in zip(op.outputs, replacements, strict=True):
        if new_value is None:
            continue
        if new_value in new_values and new_value not in old_value_by_new:
            old_value_by_new[new_value] = old_value
        else:
            substitutions[old_value] = old_value_by_new.get(new_value, new_value)
    if old_value_by_new:
        b.ops[first_new_op_index:] = [
            substitute(operation, old_value_by_new) for operation in b.ops[first_new_op_index:]
        ]
