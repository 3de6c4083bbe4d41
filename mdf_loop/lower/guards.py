"""Guards: a run fails with a sentence of ours where something is not as it must be.

ONNX has no assertion; an index that does not exist is one in every runtime.
"""

from __future__ import annotations

import numpy as np

from mdf_loop.build import Builder
from mdf_loop.errors import ExpressionError, LoopError
from mdf_loop.ir import Value
from mdf_loop.lower.terms import cast, ints, kind
from mdf_loop.onnx_types import inside, is_sequence, numpy_dtype

GUARD = "guard: "
"""Marks the place of a guard; the sentence for the user follows it."""


def guarded(b: Builder, value: Value, ok: Value, sentence: str) -> Value:
    """`value`, but the run fails with `sentence` unless all of `ok` is true, where it is read."""
    if b.read is not None:
        ok = b.op("Or", ok, b.op("Not", b.read))
    if ok.shape != ():
        flat = cast(b, b.op("Reshape", ok, ints(b, -1)), "int32")
        ok = cast(b, b.op("ReduceMin", flat, keepdims=0), "bool")
    with b.at(f"{b.where} {GUARD}{sentence}", "guard"):
        index = cast(b, b.op("Not", ok), "int64")
        if is_sequence(value.dtype):
            return _guarded_sequence(b, value, index)
        if kind(value) == "U":
            return b.op("Gather", b.op("Unsqueeze", value, ints(b, 0)), index, axis=0)
        zero = b.op("Gather", b.constant(np.zeros(1, value.dtype)), index, axis=0)
        return b.op("Or" if value.dtype == "bool" else "Add", value, zero)


def _guarded_sequence(b: Builder, value: Value, index: Value) -> Value:
    """The sequence with a member more, which is taken away again: at its place, if that is 0."""
    dtype = inside(value.dtype)
    member = b.constant(np.array("" if dtype == "string" else 0, numpy_dtype(dtype)))
    more = b.op("SequenceInsert", value, member)
    return b.op("SequenceErase", more, b.op("Add", b.op("SequenceLength", value), index))


def whole(b: Builder, value: Value, name: str) -> Value:
    """A number with a point that Python's `name` makes a whole one: it has at most 64 bits."""
    wide = cast(b, value, "float32") if value.dtype in ("float16", "bfloat16") else value
    low, high = (b.constant(np.array(end, wide.dtype)) for end in (-(2.0**63), 2.0**63))
    ok = b.op("And", b.op("GreaterOrEqual", wide, low), b.op("Less", wide, high))
    sentence = f"{name} makes no whole number of nan, infinity or what has more than 64 bits"
    return ensured(b, value, ok, ExpressionError(sentence))


def ensured(b: Builder, value: Value, ok: Value, error: LoopError) -> Value:
    """`value`; the error is raised now if `ok` is known to be false, else by the run."""
    known = b.constant_of(ok)
    if known is None:
        return guarded(b, value, ok, error.findings[0].what)
    if not np.all(known):
        raise error
    return value
