"""Guards: a run fails with a sentence of ours where something is not as it must be."""

from __future__ import annotations

import numpy as np

from mdf_loop.errors import ExpressionError, LoopError
from mdf_loop.ir import Value
from mdf_loop.lower.builder import ModelBuilder
from mdf_loop.ops.words import all_true, cast


def guarded(b: ModelBuilder, value: Value, ok: Value, sentence: str) -> Value:
    """`value`, but the run fails with `sentence` unless all of `ok` is true, where it is read."""
    if b.read is not None:
        ok = b.op("Or", ok, b.op("Not", b.read))
    return b.guard(value, all_true(b, ok), sentence)


def whole(b: ModelBuilder, value: Value, name: str) -> Value:
    """A number with a point that Python's `name` makes a whole one: it has at most 64 bits."""
    wide = cast(b, value, "float32") if value.dtype in ("float16", "bfloat16") else value
    low, high = (b.constant(np.array(end, wide.dtype)) for end in (-(2.0**63), 2.0**63))
    ok = b.op("And", b.op("GreaterOrEqual", wide, low), b.op("Less", wide, high))
    sentence = f"{name} makes no whole number of nan, infinity or what has more than 64 bits"
    return ensured(b, value, ok, ExpressionError(sentence))


def ensured(b: ModelBuilder, value: Value, ok: Value, error: LoopError) -> Value:
    """`value`; the error is raised now if `ok` is known to be false, else by the run."""
    known = b.constant_of(ok)
    if known is None:
        return guarded(b, value, ok, error.findings[0].what)
    if not np.all(known):
        raise error
    return value
