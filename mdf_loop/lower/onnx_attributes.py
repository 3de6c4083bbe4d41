"""Attributes of `onnx::` function calls, which must be known at compile time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from onnx import defs

from mdf_loop.errors import LoopError, OperandError, Poisoned
from mdf_loop.ir import Array, Value
from mdf_loop.ir.types import TypeAttribute, element_type, is_dtype, tensor_dtypes
from mdf_loop.lower.builder import ModelBuilder
from mdf_loop.lower.expression import lower_expression
from mdf_loop.lower.scope import Scope
from mdf_loop.lower.terms import tensor

_DTYPE_ATTRIBUTES = ("dtype", "to")
"""Attributes with the ONNX number of a dtype. A document may write the name of the dtype instead."""


def attributes_of(
    b: ModelBuilder, schema: defs.OpSchema, args: Mapping[str, Any], scope: Scope
) -> dict[str, Any]:
    """Return the attributes of an `onnx::` function call, converted to the schema's types."""
    attributes: dict[str, Any] = {}
    for name, attribute_schema in schema.attributes.items():
        if name in args:
            expression = args[name]
        elif scope.is_in_node(name):
            expression = name
        else:
            continue
        if expression is not None:
            attributes[name] = _read_attribute(b, schema, attribute_schema, expression, scope)
    return attributes


def _read_attribute(
    b: ModelBuilder,
    schema: defs.OpSchema,
    attribute_schema: defs.OpSchema.Attribute,
    expression: Any,
    scope: Scope,
) -> Any:
    attribute_types = defs.OpSchema.AttrType
    if attribute_schema.type == attribute_types.TYPE_PROTO:
        return _type_attribute(schema, attribute_schema, expression)
    if (
        isinstance(expression, str)
        and attribute_schema.name in _DTYPE_ATTRIBUTES
        and expression in tensor_dtypes()
    ):
        return element_type(expression)
    if attribute_schema.type in (attribute_types.STRING, attribute_types.STRINGS):
        return _text_attribute(b, schema, attribute_schema, expression, scope)
    constant_array = _known_array(b, expression, scope)
    if constant_array is None or constant_array.dtype.kind not in "biuf":
        raise OperandError(
            f"the attribute '{attribute_schema.name}' of onnx::{schema.name} must be known when the model "
            f"is compiled, not {expression!r}",
            hint="give it as a number or a parameter with a fixed value",
        )
    if attribute_schema.type == attribute_types.TENSOR:
        return np.atleast_1d(constant_array) if schema.name == "ConstantOfShape" else constant_array
    return _plain_attribute(schema, attribute_schema, constant_array)


def is_known(b: ModelBuilder, name: str, args: Mapping[str, Any], scope: Scope) -> bool:
    """Return True if an argument of an `onnx::` function is known at compile time, or absent."""
    expression = args.get(name, name)
    is_present = name in args or scope.is_in_node(name)
    return not is_present or expression is None or _known_array(b, expression, scope) is not None


def _known_array(b: ModelBuilder, expression: Any, scope: Scope) -> Array | None:
    try:
        return b.evaluated(tensor(b, lower_expression(b, expression, scope)))
    except LoopError:
        return None


def _type_attribute(
    schema: defs.OpSchema, attribute_schema: defs.OpSchema.Attribute, expression: Any
) -> TypeAttribute:
    if not isinstance(expression, str) or not is_dtype(expression):
        raise OperandError(
            f"the attribute '{attribute_schema.name}' of onnx::{schema.name} is a type, not {expression!r}",
            hint="e.g. float32 or sequence(float32)",
        )
    return TypeAttribute(expression)


def _text_attribute(
    b: ModelBuilder,
    schema: defs.OpSchema,
    attribute_schema: defs.OpSchema.Attribute,
    expression: Any,
    scope: Scope,
) -> Any:
    """Return a text attribute of an `onnx::` call, which is quoted, bare or the name of a parameter."""
    if isinstance(expression, str):
        expression = _named_text(b, expression, scope, attribute_schema.name)
    is_list = attribute_schema.type == defs.OpSchema.AttrType.STRINGS
    if is_list and isinstance(expression, str):
        expression = expression.strip("[]() ").split(",")
    texts = expression if is_list and isinstance(expression, list | tuple) else [expression]
    if not all(isinstance(text, str) for text in texts):
        raise OperandError(
            f"the attribute '{attribute_schema.name}' of onnx::{schema.name} is a text, not {expression!r}"
        )
    unquoted_texts = tuple(text.strip("'\" ") for text in texts)
    return unquoted_texts if is_list else unquoted_texts[0]


def _named_text(b: ModelBuilder, name: str, scope: Scope, attribute_name: str) -> Any:
    """Return the text of the node's parameter `name`, or `name` itself without such a parameter.

    The value of a parameter `mode: {value: constant}` is the text `constant`, not an expression.
    """
    try:
        parameter_term = scope.find_in_node(name)
    except (LoopError, Poisoned):
        text = scope.text_in_node(name)
        if text is None:
            raise
        return text
    constant_array = b.constant_of(parameter_term) if isinstance(parameter_term, Value) else None
    if constant_array is not None and constant_array.dtype.kind in "UO":
        return constant_array.tolist()
    text = scope.text_in_node(name) if name == attribute_name else None
    return name if text is None else text


def _plain_attribute(
    schema: defs.OpSchema,
    attribute_schema: defs.OpSchema.Attribute,
    constant_array: np.ndarray[Any, Any],
) -> Any:
    attribute_types = defs.OpSchema.AttrType
    if attribute_schema.type in (attribute_types.INT, attribute_types.INTS):
        rounded_integers = constant_array.astype(np.int64)
        if not np.array_equal(rounded_integers, constant_array):
            raise OperandError(
                f"the attribute '{attribute_schema.name}' of onnx::{schema.name} is a whole number, not {constant_array}"
            )
        constant_array = rounded_integers
    elif attribute_schema.type in (attribute_types.FLOAT, attribute_types.FLOATS):
        constant_array = constant_array.astype(np.float64)
    if attribute_schema.type in (
        attribute_types.INT,
        attribute_types.FLOAT,
        attribute_types.STRING,
    ):
        if constant_array.size != 1:
            raise OperandError(
                f"the attribute '{attribute_schema.name}' of onnx::{schema.name} is one number"
            )
        return constant_array.reshape(()).item()
    return tuple(np.atleast_1d(constant_array).tolist())
