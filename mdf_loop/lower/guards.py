"""Guards: run-time checks of values, with a clear error message."""

from __future__ import annotations

import numpy as np

from mdf_loop.errors import ExpressionError, LoopError
from mdf_loop.ir import Value
from mdf_loop.lower.builder import ModelBuilder
from mdf_loop.ops.build_helpers import all_true, cast


def guard_value(b: ModelBuilder, value: Value, ok: Value, sentence: str) -> Value:
    """Return a copy of `value` that makes a run fail unless all elements of `ok` are true.

    The error of a run that reads the copy has the message `sentence`.
    """
    if b.read_condition is not None:
        ok = b.op("Or", ok, b.op("Not", b.read_condition))
    return b.guard(value, all_true(b, ok), sentence)


def check_fits_int64(b: ModelBuilder, value: Value, name: str) -> Value:
    """Return a float with a run-time check that the function `name` can convert the float to int64."""
    wide_value = cast(b, value, "float32") if value.dtype in ("float16", "bfloat16") else value
    lower_limit, upper_limit = (
        b.constant(np.array(end, wide_value.dtype)) for end in (-(2.0**63), 2.0**63)
    )
    ok = b.op(
        "And",
        b.op("GreaterOrEqual", wide_value, lower_limit),
        b.op("Less", wide_value, upper_limit),
    )
    sentence = f"{name} makes no whole number of nan, infinity or what has more than 64 bits"
    return check_value(b, value, ok, ExpressionError(sentence))


def check_value(b: ModelBuilder, value: Value, ok: Value, error: LoopError) -> Value:
    """Return `value` with a check of `ok`, at compile time if possible, else at run time."""
    constant_ok = b.constant_of(ok)
    if constant_ok is None:
        return guard_value(b, value, ok, error.findings[0].what)
    if not np.all(constant_ok):
        raise error
    return value
