"""Inputs of `onnx::` function calls, found by name and cast to dtypes that the operator accepts.

An omitted input is the value of the same name in the node, as in MDF's engine. Inputs that must share a
dtype are cast: numbers of the document adapt, and floats are widened.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
from onnx import defs

from mdf_loop.errors import OperandError
from mdf_loop.ir import Value
from mdf_loop.ir.types import is_tensor, kind_of, numpy_dtype, onnx_type_text
from mdf_loop.lower.builder import ModelBuilder
from mdf_loop.lower.expression import is_omitted, lower_expression
from mdf_loop.lower.scope import Scope
from mdf_loop.lower.sequences import STATIC_RESULTS, as_sequence
from mdf_loop.lower.terms import OperatorResults, Term, common_dtype, tensor
from mdf_loop.ops import onnx_schema
from mdf_loop.ops.build_helpers import cast, ints, kind

VARIADIC = defs.OpSchema.FormalParameterOption.Variadic
"""Kind of an input that accepts any number of values."""

_OPTIONAL = defs.OpSchema.FormalParameterOption.Optional
_VECTOR_INPUTS = frozenset(
    {
        *("axes", "shape", "pads", "starts", "ends", "steps", "repeats", "split", "scales"),
        *("sizes", "roi", "K", "output_shape", "ConstantOfShape.input"),
    }
)
"""Inputs that are vectors in ONNX, for which a document may write one number."""


def inputs_of(
    b: ModelBuilder, schema: defs.OpSchema, args: Mapping[str, Any], scope: Scope
) -> list[Value | None]:
    """Return the operands of an `onnx::` function call, in the order of the operator's schema."""
    inputs: list[Value | None] = []
    type_groups: list[str] = []
    for parameter in schema.inputs:
        if parameter.option == VARIADIC:
            variadic_values = _variadic_inputs(b, schema, args, scope)
            type_groups += [parameter.type_str] * len(variadic_values)
            inputs += variadic_values
            continue
        term = _read_argument(b, parameter, args, scope)
        if term is None and parameter.option != _OPTIONAL and schema.name != "OptionalHasElement":
            raise OperandError(
                f"onnx::{schema.name} needs the argument '{parameter.name}'",
                hint=f"add '{parameter.name}' to the args of the function",
            )
        inputs.append(_to_input(b, schema, parameter, term))
        type_groups.append(parameter.type_str)
    while inputs and inputs[-1] is None:
        inputs.pop()
    if schema.name not in STATIC_RESULTS:
        onnx_schema.refuse_wrong_kinds(schema.name, inputs)
    return _unify_group_dtypes(b, schema, inputs, type_groups)


def _read_argument(
    b: ModelBuilder, parameter: defs.OpSchema.FormalParameter, args: Mapping[str, Any], scope: Scope
) -> Term | None:
    if parameter.name in args:
        expression = args[parameter.name]
        return (
            None
            if is_omitted(expression)
            else lower_expression(b, expression, scope, parameter.name)
        )
    return scope.find_in_node(parameter.name)


def _to_input(
    b: ModelBuilder,
    schema: defs.OpSchema,
    parameter: defs.OpSchema.FormalParameter,
    term: Term | None,
) -> Value | None:
    if term is None:
        return None
    if all(type_name.startswith("seq(") for type_name in parameter.types):
        return as_sequence(b, term)
    value = tensor(b, term)
    if not is_tensor(value.dtype):
        return value
    is_vector = (
        parameter.name in _VECTOR_INPUTS or f"{schema.name}.{parameter.name}" in _VECTOR_INPUTS
    )
    # One number for SplitToSequence is the length of each part.
    is_vector = is_vector and schema.name != "SplitToSequence"
    if is_vector and value.shape is not None and len(value.shape) != 1:
        value = b.op("Reshape", value, ints(b, -1))
    # Exporters write this shape, and every runtime accepts it.
    if schema.name == "Range" and value.shape == (1,):
        value = b.op("Reshape", value, ints(b))
    allowed_types = parameter.types
    return (
        value
        if onnx_type_text(value.dtype) in allowed_types
        else _fit_dtype(b, value, allowed_types)
    )


_DTYPE_PREFERENCE = ("int64", "float64", "float32", "int32", "bool")


def _fit_dtype(b: ModelBuilder, value: Value, allowed: Collection[str]) -> Value:
    """Return a constant cast losslessly to a dtype that an operator accepts, if there is one.

    Other values are returned unchanged.
    """
    constant_array = b.constant_of(value)
    if constant_array is None or kind_of(value.dtype) == "U":
        return value
    candidate_dtypes = (
        (b.float_dtype, *_DTYPE_PREFERENCE) if kind_of(value.dtype) != "b" else _DTYPE_PREFERENCE
    )
    for dtype in candidate_dtypes:
        if onnx_type_text(dtype) not in allowed:
            continue
        if np.array_equal(
            constant_array.astype(dtype).astype(constant_array.dtype), constant_array
        ):
            return cast(b, value, dtype)
    return value


def _variadic_inputs(
    b: ModelBuilder, schema: defs.OpSchema, args: Mapping[str, Any], scope: Scope
) -> list[Value]:
    """Return the operands of a variadic input of an ONNX operator, with lists flattened.

    The operands are all arguments that are neither attributes nor other inputs.
    """
    other_input_names = {
        parameter.name for parameter in schema.inputs if parameter.option != VARIADIC
    } | set(schema.attributes)
    operands: list[Value] = []
    for argument_name, expression in args.items():
        if argument_name in other_input_names:
            continue
        term = lower_expression(b, _parse_name_list(expression), scope, argument_name)
        terms = (
            term if isinstance(term, tuple) and not isinstance(term, OperatorResults) else (term,)
        )
        operands += [tensor(b, operand_term) for operand_term in terms]
    if not operands:
        raise OperandError(f"onnx::{schema.name} needs at least one argument")
    return operands


def _parse_name_list(expression: Any) -> Any:
    """Return the list in a text such as `"['a', 'b']"`, or the expression unchanged.

    MDF's importers write such texts.
    """
    parsed_names = _quoted_texts(expression) if isinstance(expression, str) else None
    return expression if parsed_names is None else parsed_names


def _quoted_texts(expression: str) -> list[str] | None:
    """Parse the text of a list such as `['a', 'b']`, and return its elements, or None if invalid."""
    try:
        parsed_list = ast.literal_eval(expression.strip())
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return None
    is_text_list = isinstance(parsed_list, list | tuple) and all(
        isinstance(member, str) for member in parsed_list
    )
    return list(parsed_list) if is_text_list and parsed_list else None


def _unify_group_dtypes(
    b: ModelBuilder, schema: defs.OpSchema, inputs: list[Value | None], type_groups: list[str]
) -> list[Value | None]:
    """Cast operands that an ONNX operator requires to have equal dtypes to one dtype.

    Numbers of the document adapt, and floats are widened.
    """
    for type_group in dict.fromkeys(type_groups):
        group_indices = [
            k
            for k, operand in enumerate(inputs)
            if operand is not None and type_groups[k] == type_group
        ]
        group_values = [operand for k in group_indices if (operand := inputs[k]) is not None]
        if len({operand.dtype for operand in group_values}) <= 1 or any(
            operand.dtype == "string" for operand in group_values
        ):
            continue
        common_group_dtype = _group_dtype(b, group_values)
        if common_group_dtype is None:
            type_names = ", ".join(operand.type for operand in group_values)
            raise OperandError(
                f"onnx::{schema.name} needs values of one dtype, got {type_names}",
                hint="use onnx::Cast, or write whole numbers with a point (2.0)",
            )
        for k in group_indices:
            group_operand = inputs[k]
            assert group_operand is not None
            inputs[k] = cast(b, group_operand, common_group_dtype)
    return inputs


def _group_dtype(b: ModelBuilder, group_values: list[Value]) -> str | None:
    typed_values = [
        value for value in group_values if b.constant_of(value) is None and not b.is_weak(value)
    ]
    typed_kinds = {kind(value) for value in typed_values}
    if len(typed_kinds) > 1:
        return None
    dtype = common_dtype(b, typed_values or group_values)
    for value in group_values:
        constant_array = b.constant_of(value)
        if constant_array is None:
            continue
        is_float = kind(value) == "f"
        round_trip_array = constant_array.astype(numpy_dtype(dtype)).astype(constant_array.dtype)
        is_exact = np.array_equal(round_trip_array, constant_array, equal_nan=is_float)
        if not is_exact and not (is_float and kind_of(dtype) == "f"):
            return None
    return dtype
