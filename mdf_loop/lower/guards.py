"""Run-time checks of values, with clear error messages."""

from __future__ import annotations

import numpy as np

from mdf_loop.errors import ExpressionError, LoopError
from mdf_loop.ir import Value
from mdf_loop.lower.builder import ModelBuilder
from mdf_loop.ops.build_helpers import all_true, cast


def guard_value(b: ModelBuilder, value: Value, is_valid: Value, sentence: str) -> Value:
    """Return a copy of a value whose use fails at run time unless all of `is_valid` is true.

    The error of a run that reads the copy has the message `sentence`.
    """
    if b.read_condition is not None:
        is_valid = b.op("Or", is_valid, b.op("Not", b.read_condition))
    return b.guard(value, all_true(b, is_valid), sentence)


def check_fits_int64(b: ModelBuilder, value: Value, name: str) -> Value:
    """Return a float with a run-time check that it can be converted to int64.

    Errors name the function `name` that converts it.
    """
    widened_value = cast(b, value, "float32") if value.dtype in ("float16", "bfloat16") else value
    lower_limit, upper_limit = (
        b.constant(np.array(int64_limit, widened_value.dtype))
        for int64_limit in (-(2.0**63), 2.0**63)
    )
    is_valid = b.op(
        "And",
        b.op("GreaterOrEqual", widened_value, lower_limit),
        b.op("Less", widened_value, upper_limit),
    )
    error_message = f"{name} makes no whole number of nan, infinity or what has more than 64 bits"
    return check_value(b, value, is_valid, ExpressionError(error_message))


def check_value(b: ModelBuilder, value: Value, is_valid: Value, error: LoopError) -> Value:
    """Return a value with a check of `is_valid`, at compile time if possible, else at run time."""
    constant_validity = b.constant_of(is_valid)
    if constant_validity is None:
        return guard_value(b, value, is_valid, error.findings[0].what)
    if not np.all(constant_validity):
        raise error
    return value
