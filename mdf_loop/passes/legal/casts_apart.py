"""Casts of casts that ONNX Runtime would make one cast of, which has other numbers.

    i: int64 = Cast(x)                     i: int64 = Cast(x)
    y: int32 = Cast(i)           ->        j: int64 = Max(i)
                                           y: int32 = Cast(j)

Three billions are a number of int64, of which int32 has the last bits; a float of three billions it
makes the smallest int32. So a cast to whole numbers that reads a cast is kept apart from it, other than
where one is as good as both. Keeps: results bit for bit.

Source: onnxruntime 1.32, which removes casts that it takes for lossless (RemoveDuplicateCastTransformer).
"""

from __future__ import annotations

import numpy as np

from mdf_loop.build import Builder
from mdf_loop.ir import Op, Program, Value, walk
from mdf_loop.ir.types import kind_of, numpy_dtype
from mdf_loop.ops.compositions.words import operand
from mdf_loop.passes.rewrite import rewrite

_REMOVED = ("float64", "float32", "float16", "int64", "uint64", "int32", "uint32")
"""The dtypes between two casts without which ONNX Runtime tries to do; it has `Max` of all of them."""


def casts_apart(program: Program) -> Program:
    """The program with something between casts that must not become one."""
    casts = {op.outputs[0]: op for op in walk(program.ops) if isinstance(op, Op) and _is_cast(op)}

    def rule(b: Builder, op: Op) -> tuple[Value, ...] | None:
        if not _is_cast(op):
            return None
        between, target = operand(op), op.outputs[0].dtype
        first = casts.get(between)
        if first is None or between.dtype not in _REMOVED:
            return None
        if _are_one(operand(first).dtype, between.dtype, target):
            return None
        return (b.op("Cast", b.op("Max", between), **op.attributes),)

    return rewrite(program, rule)


def _is_cast(op: Op) -> bool:
    return op.op_type == "Cast"


def _are_one(source: str, between: str, target: str) -> bool:
    """Whether a cast by way of another dtype is surely what the cast itself gives, and is made that."""
    if kind_of(target) not in "iu" or source == "bool":
        return True
    return kind_of(between) != "f" and np.can_cast(
        numpy_dtype(source), numpy_dtype(between), "safe"
    )
