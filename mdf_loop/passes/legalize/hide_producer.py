"""Insertion of a `Max` of one operand between operations that ONNX Runtime must not fuse.

    a = Producer(x)                        a = Producer(x)
    y = Reader(a)                 ->       b = Max(a)
                                           y = Reader(b)

`Max` of one operand changes nothing, and ONNX Runtime does not remove it. Preserves: results bit for bit.
"""

from __future__ import annotations

from collections.abc import Callable

from mdf_loop.build import Builder
from mdf_loop.ir import Op, Program, Value
from mdf_loop.ops.decompositions.build_helpers import operand
from mdf_loop.ops.noop_elimination import removable_operand
from mdf_loop.passes.rewrite import rewrite


def hide_producer(
    program: Program, producer_type: str, position_of: Callable[[Op], int | None]
) -> Program:
    """Insert a `Max` of one operand between operations that ONNX Runtime must not fuse.

    ONNX Runtime first removes operations that change nothing, so a producer before such operations is hidden,
    too.

    Args:
        program: The program.
        producer_type: The operator of the producers.
        position_of: Function that returns the position of the operand to hide, or None for other operations.
    """
    producers: dict[Value, Op] = {}

    def is_produced(b: Builder, value: Value) -> bool:
        producer = producers.get(value)
        if producer is None or producer.op_type == producer_type:
            return producer is not None
        source = removable_operand(producer, b.constant_of)
        return source is not None and is_produced(b, source)

    def rule(b: Builder, op: Op) -> tuple[Value, ...] | None:
        producers[op.outputs[0]] = op
        hidden_position = position_of(op)
        if hidden_position is None or not is_produced(b, operand(op, hidden_position)):
            return None
        new_inputs = list(op.inputs)
        new_inputs[hidden_position] = b.op("Max", operand(op, hidden_position))
        return (b.op(op.op_type, *new_inputs, **op.attributes),)

    return rewrite(program, rule)
