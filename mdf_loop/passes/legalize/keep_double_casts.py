"""Protection of consecutive casts, whose merge by ONNX Runtime would change the results.

    i: int64 = Cast(x)                     i: int64 = Cast(x)
    y: int32 = Cast(i)           ->        j: int64 = Max(i)
                                           y: int32 = Cast(j)

For x = 3e9, the two casts return the last 32 bits of the int64, while one cast from float returns the
smallest int32. So `Max` separates a cast to integers from a cast before it, unless a single
cast has the same results. Preserves: results bit for bit.

    d: float64 = Cast(x: float32)          d: float64 = Cast(x)
    y: float32 = Cast(d)         ->        (y is x)

A lossless cast and the cast back to the first dtype are replaced by their source. ONNX Runtime also removes
such casts of an input, but does not update the loops and choices that read the result.

ONNX Runtime first removes operations that change nothing. So two casts are also treated as neighbours if
only such operations are between them.

Source: onnxruntime 1.32, RemoveDuplicateCastTransformer, which removes casts that it classifies as lossless.
"""

from __future__ import annotations

import numpy as np
from msgspec.structs import replace

from mdf_loop.build import Builder
from mdf_loop.ir import Op, Program, Value
from mdf_loop.ir.types import kind_of, numpy_dtype
from mdf_loop.ops.decompositions.build_helpers import operand
from mdf_loop.ops.kernels import has_kernel
from mdf_loop.ops.noop_elimination import NOOP_OPERATORS, removable_operand
from mdf_loop.passes.rewrite import rewrite

_REMOVED_DTYPES = ("float64", "float32", "float16", "int64", "uint64", "int32", "uint32")
"""Intermediate dtypes that ONNX Runtime tries to remove.

ONNX Runtime has a `Max` kernel for each of these dtypes.
"""


def keep_double_casts(program: Program) -> Program:
    """Prevent ONNX Runtime from merging consecutive casts if the results would change."""
    return rewrite(program, _CastSeparator().rule)


class _CastSeparator:
    """Rewrite rule that separates or removes consecutive casts before ONNX Runtime merges them."""

    def __init__(self) -> None:
        self.producers: dict[Value, Op] = {}

    def rule(self, b: Builder, op: Op) -> tuple[Value, ...] | None:
        """Return the value that replaces a cast, or None to keep the cast."""
        self.producers[op.outputs[0]] = op
        if op.op_type != "Cast":
            return None
        ops_from_cast = self._path_from_cast(b, operand(op))
        if ops_from_cast is None:
            return None
        *move_ops, first_cast = ops_from_cast
        cast_operand, middle_dtype = operand(first_cast), first_cast.outputs[0].dtype
        is_only_moved = all(move_op.op_type in NOOP_OPERATORS for move_op in move_ops)
        if (
            is_only_moved
            and cast_operand.dtype == op.outputs[0].dtype
            and _is_lossless(cast_operand.dtype, middle_dtype)
        ):
            if all(_has_kernel_for(move, cast_operand) for move in move_ops):
                return (_apply_moves(b, cast_operand, move_ops),)
            return None
        if middle_dtype not in _REMOVED_DTYPES or _is_one_cast_equal(
            cast_operand.dtype, middle_dtype, op.outputs[0].dtype
        ):
            return None
        return (b.op("Cast", b.op("Max", operand(op)), **op.attributes),)

    def _path_from_cast(self, b: Builder, current_value: Value) -> list[Op] | None:
        """Return the chain of operations from a preceding cast to a value, last first, or None.

        None means that no cast precedes the value, or that an operation between them changes numbers.
        """
        ops_since_cast: list[Op] = []
        while (op := self.producers.get(current_value)) is not None:
            ops_since_cast.append(op)
            if op.op_type == "Cast":
                return ops_since_cast
            unchanged_operand = removable_operand(op, b.constant_of)
            if unchanged_operand is None:
                return None
            current_value = unchanged_operand
        return None


def _has_kernel_for(move: Op, source: Value) -> bool:
    """Return True if an ONNX Runtime kernel exists for `move` with the dtype of `source`."""
    typed_inputs = (replace(operand(move), dtype=source.dtype), *move.inputs[1:])
    typed_outputs = (replace(move.outputs[0], dtype=source.dtype),)
    return has_kernel(replace(move, inputs=typed_inputs, outputs=typed_outputs))


def _apply_moves(b: Builder, source: Value, moves: list[Op]) -> Value:
    """Append copies of operations (such as Slice or Expand), the first of which reads `source`."""
    for move in reversed(moves):
        source = b.op(move.op_type, source, *move.inputs[1:], **move.attributes)
    return source


def _is_one_cast_equal(source: str, middle_dtype: str, target: str) -> bool:
    """Return True if casting directly to `target` equals casting via `middle_dtype`."""
    if kind_of(target) not in "iu" or source == "bool":
        return True
    return kind_of(middle_dtype) != "f" and _is_lossless(source, middle_dtype)


def _is_lossless(source: str, target: str) -> bool:
    """Return True if a cast between two dtypes preserves every value.

    NumPy also calls the cast of 64-bit integers to float64 safe, which rounds.
    """
    if source in ("int64", "uint64") and kind_of(target) == "f":
        return False
    return bool(np.can_cast(numpy_dtype(source), numpy_dtype(target), "safe"))
