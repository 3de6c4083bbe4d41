"""Support for carried values that may be absent, but only before the first iteration.

    enter: optional(sequence(float32))        enter: optional(sequence(float32))
    leave: sequence(float32)            ->    leave: Optional(leave)
    final: sequence(float32)                  final: OptionalGetElement(final)

Source: ONNX operators, Loop-16 (its test with an optional sequence), in which the types may differ.
"""

from __future__ import annotations

from msgspec.structs import replace

from mdf_loop.ir import Value
from mdf_loop.ir.types import optional_of
from mdf_loop.lower.builder import ModelBuilder
from mdf_loop.reading.body import LoweredBody


def wrap_optional_outputs(b: ModelBuilder, body: LoweredBody) -> LoweredBody:
    """Wrap the outputs of a loop body as optional values where the carried inputs are optional."""
    body_builder = b.body()
    carried_outputs = tuple(
        body_builder.op("Optional", carried_output)
        if carried_input.dtype == optional_of(carried_output.dtype)
        else carried_output
        for carried_input, carried_output in zip(
            body.carried_inputs, body.carried_outputs, strict=True
        )
    )
    return (
        replace(body, carried_outputs=carried_outputs, ops=(*body.ops, *body_builder.ops))
        if body_builder.ops
        else body
    )


def unwrap_final(b: ModelBuilder, final: Value, body_output: Value) -> Value:
    """Return the element of an optional final value of a loop, or any other value unchanged.

    A run fails if the value is absent.
    """
    is_wrapped = final.dtype == optional_of(body_output.dtype)
    return b.op("OptionalGetElement", final) if is_wrapped else final
