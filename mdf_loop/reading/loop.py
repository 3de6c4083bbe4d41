"""Conversion of a loop in the document to operations, with all arguments of the loop.

Source: ONNX Loop-13 and the MDF forms of `loop_forms`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from msgspec.structs import replace

from mdf_loop.document.document import Document
from mdf_loop.document.parts import FunctionOrParameter, Node
from mdf_loop.errors import (
    ConditionError,
    EndlessLoopError,
    ExpressionError,
    OperandError,
    Poisoned,
)
from mdf_loop.ir import Value
from mdf_loop.lower import Scope, Term, lower_expression, tensor
from mdf_loop.lower.builder import ModelBuilder
from mdf_loop.lower.operators import truth
from mdf_loop.reading.body import BodyScopes
from mdf_loop.reading.delays import read_delays
from mdf_loop.reading.loop_forms import LOOP_ARGUMENTS, LoopForm, order_initial_values, parse_loop
from mdf_loop.reading.loop_writer import LoopArguments, LoopWriter
from mdf_loop.reading.names_read import refuse_unread
from mdf_loop.reading.port_types import cast_initial_value
from mdf_loop.reading.readers import FunctionResults, register_reader
from mdf_loop.reading.recordings import refuse_unrecorded
from mdf_loop.reading.signature import Signature, find_signature
from mdf_loop.reading.slices import read_slices
from mdf_loop.reading.trip_count import lower_trip_count
from mdf_loop.reading.unrolled import unroll_loop


@register_reader("onnx::Loop")
def read_loop(
    b: ModelBuilder,
    item: FunctionOrParameter,
    node: Node,
    where: str,
    scope: Scope,
    document: Document,
) -> FunctionResults:
    """Append the operations of a Function or Parameter that is a loop, and return its results."""
    loop_form = parse_loop(item, node, where, document)
    initial_arguments = (argument for argument in item.args or {} if argument.startswith("arg_"))
    error_phrases = (f"the loop '{item.id}'", "its body does")
    refuse_unread(item, node, where, (*LOOP_ARGUMENTS, *initial_arguments), document, error_phrases)
    return read_loop_form(
        b, loop_form, lambda count: find_signature(loop_form, node, count), scope, document
    )


def read_loop_form(
    b: ModelBuilder,
    form: LoopForm,
    signature: Callable[[int], Signature],
    scope: Scope,
    document: Document,
) -> FunctionResults:
    """Append the operations of a loop, given its parsed arguments, and return the loop's results.

    `signature` returns the body's signature for a number of carried values.
    """
    captured_values = _lower_captured_values(b, form, scope)
    loop_arguments = _lower_arguments(b, form, scope)
    loop_signature = signature(len(loop_arguments.initial_values))
    refuse_unrecorded(
        form.recordings, loop_signature.recorded_outputs, loop_signature.carried_outputs
    )
    loop_arguments = replace(
        loop_arguments,
        initial_values=_cast_initial_values(b, form, loop_signature, loop_arguments.initial_values),
    )
    writer = LoopWriter(
        b, form, loop_arguments, loop_signature, BodyScopes(scope, captured_values), document
    )
    unrolled_loop = unroll_loop(writer)
    return writer.write() if unrolled_loop is None else unrolled_loop


def _lower_captured_values(b: ModelBuilder, form: LoopForm, scope: Scope) -> dict[str, Term]:
    """Convert the further arguments of a loop, which its body reads by name, to program values."""
    captured_values: dict[str, Term] = {}
    for captured_name, expression in form.bindings.items():
        with b.at(f"{form.where}.args.{captured_name}"):
            if expression is None:
                raise ExpressionError(
                    f"the loop's argument '{captured_name}' has no value",
                    hint="give it a value, or leave it out",
                )
            captured_values[captured_name] = lower_expression(b, expression, scope, captured_name)
    return captured_values


def _cast_initial_values(
    b: ModelBuilder, form: LoopForm, signature: Signature, initial: tuple[Value, ...]
) -> tuple[Value, ...]:
    """Cast plain initial numbers to the dtypes that the body's input ports state."""
    input_ports = {port.id: port for node in form.body.nodes for port in node.input_ports}
    return tuple(
        cast_initial_value(b, input_ports[input_name], initial_value)
        if input_name in input_ports
        else initial_value
        for initial_value, input_name in zip(initial, signature.carried_inputs, strict=True)
    )


ArgumentT = TypeVar("ArgumentT")


def _lower_arguments(b: ModelBuilder, form: LoopForm, scope: Scope) -> LoopArguments:
    """Convert all arguments of a loop to program values.

    Errors in several arguments are raised together.

    A wrong trip count or condition is replaced by a placeholder, so that errors in the body are found too.
    """
    condition = _read_argument(b, form, "cond", lambda: _lower_condition(b, form, scope), True)
    slices = read_slices(b, form.slices, scope)
    trip_count = _read_argument(b, form, "M", lambda: lower_trip_count(b, form, scope, slices), 0)
    initial_values = _read_argument(
        b, form, "v_initial", lambda: _lower_initial_values(b, form, scope), None
    )
    delays = read_delays(b, form.delays, scope)
    if trip_count is None and condition is None and b.options.max_iterations is None:
        raise EndlessLoopError(
            f"the loop '{form.name}' has neither a trip count (M) nor a condition (cond): "
            "it would never end",
            form.where,
            "give M or cond, or set a bound for this run with max_iterations (--max-iterations)",
        )
    return LoopArguments(trip_count, condition, initial_values, slices, delays)


def _read_argument(
    b: ModelBuilder, form: LoopForm, name: str, compute: Callable[[], ArgumentT], stand_in: Any
) -> ArgumentT:
    """Compute a loop argument, or record its error and return a placeholder constant.

    Raise Poisoned if the argument is wrong and `stand_in` is None.
    """
    with b.findings.catch(), b.at(f"{form.where}.args.{name}", f"{form.name}.{name}"):
        return compute()
    if stand_in is None:
        raise Poisoned
    placeholder: ArgumentT = b.constant(np.array(stand_in))
    return placeholder


def _lower_initial_values(b: ModelBuilder, form: LoopForm, scope: Scope) -> tuple[Value, ...]:
    """Convert the initial values of the loop's carried values to program values."""
    initial_values: list[Value] = []
    for k, expression in enumerate(order_initial_values(form)):
        term = lower_expression(b, expression, scope, f"v_initial.{k}")
        initial_values += (
            [tensor(b, element) for element in term] if isinstance(term, tuple) else [term]
        )
    return tuple(initial_values)


def _lower_condition(b: ModelBuilder, form: LoopForm, scope: Scope) -> Value | None:
    """Convert the initial condition of a loop to one truth value, or return None without a condition."""
    if form.condition is None:  # a condition in the middle of the body is always tested
        return b.constant(np.array(True)) if form.has_mid_exit else None
    condition = tensor(b, lower_expression(b, form.condition, scope, "cond"))
    try:
        return truth(b, condition)
    except OperandError:
        raise ConditionError(
            f"the condition of '{form.name}' must be one truth value, not {condition.type}",
            hint="reduce it to one element, e.g. numpy.max(...)",
        ) from None
