"""Signatures of operations from ONNX's schemas: inputs, outputs, attributes and default values."""

from __future__ import annotations

import difflib
import functools
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import defs, helper, numpy_helper

from mdf_loop.errors import UnknownFunctionError
from mdf_loop.ir import OPSET, Op, Value
from mdf_loop.ir.types import TypeAttribute, onnx_type_text, type_proto, wrong_kind_error
from mdf_loop.ops.opset import opset_of_op, schemas_by_opset
from mdf_loop.ops.registry import qualified_name, row_of


def are_exact_in_float32(op_type: str, attributes: Mapping[str, Any]) -> bool:
    """Return True if all float attributes are exact in float32, the dtype in which ONNX files store them."""
    float_attributes = [number for _, number in exact_float_attributes(op_type, attributes)]
    return all(
        np.array_equal(np.float32(number), np.float64(number)) for number in float_attributes
    )


def exact_float_attributes(
    op_type: str, attributes: Mapping[str, Any]
) -> tuple[tuple[str, Any], ...]:
    """Return the float attributes of an operation in full precision, not rounded to float32.

    A serialized node rounds float attributes to float32.
    """
    float_types = (defs.OpSchema.AttrType.FLOAT, defs.OpSchema.AttrType.FLOATS)
    return tuple(
        (attribute_name, attribute_value)
        for attribute_name, attribute_value in attributes.items()
        if _attribute_definition(op_type, attribute_name).type in float_types
    )


def schema(op_type: str, names: Collection[str] = (), input_count: int = 0) -> defs.OpSchema:
    """Return the schema of an operation from its registry row or from ONNX.

    ONNX's schema is taken from the first supported opset that has all these names of inputs and attributes and
    `input_count` inputs. If there is none, it is taken from the first opset that has the operation.

    Raises:
        UnknownFunctionError: ONNX has no operation of this name; the hint suggests a similar name.
    """
    row_schema = row_of(op_type).schema
    if row_schema is not None:
        return row_schema
    signatures = _signatures(op_type)
    if not signatures:
        raise _unknown_operator_error(op_type)
    matching_schemas = (
        onnx_schema
        for onnx_schema, signature_names, max_input_count in signatures
        if input_count <= max_input_count and signature_names.issuperset(names)
    )
    return next(matching_schemas, signatures[0][0])


@functools.cache
def _signatures(op_type: str) -> Sequence[tuple[defs.OpSchema, frozenset[str], int]]:
    """Return the names of inputs and attributes, and input counts, in all ONNX schemas of an operation."""
    return [
        (
            onnx_schema,
            frozenset(
                [
                    *(schema_input.name for schema_input in onnx_schema.inputs),
                    *onnx_schema.attributes,
                ]
            ),
            onnx_schema.max_input,
        )
        for onnx_schema in schemas_by_opset(op_type).values()
    ]


@functools.cache
def schema_with_input(op_type: str, name: str) -> defs.OpSchema | None:
    """Return the first supported schema of an operation that has an input of this name, or None."""
    row_schema = row_of(op_type).schema
    onnx_schemas = () if row_schema is not None else schemas_by_opset(op_type).values()
    return next(
        (
            onnx_schema
            for onnx_schema in onnx_schemas
            if name in {schema_input.name for schema_input in onnx_schema.inputs}
        ),
        None,
    )


def schema_of(op: Op) -> defs.OpSchema:
    """Return the ONNX schema of an operation at the lowest opset that has the operation."""
    return schema_at(op.op_type, opset_of_op(op))


def optional_outputs(op: Op) -> tuple[bool, ...]:
    """Return one bool for each output of an operation, which is True if a node may omit the output."""
    schema_outputs = schema_of(op).outputs
    optional_option = defs.OpSchema.FormalParameterOption.Optional
    last_position = len(schema_outputs) - 1
    return tuple(
        schema_outputs[min(k, last_position)].option == optional_option
        for k, _ in enumerate(op.outputs)
    )


def schema_at(op_type: str, opset: int) -> defs.OpSchema:
    """Return the schema of an operation at an opset, or at the first later opset that has the operation."""
    row_schema = row_of(op_type).schema
    if row_schema is not None:
        return row_schema
    schemas = schemas_by_opset(op_type)
    if not schemas:
        raise _unknown_operator_error(op_type)
    return schemas[
        max(
            (schema_opset for schema_opset in schemas if schema_opset <= opset),
            default=min(schemas),
        )
    ]


def _unknown_operator_error(op_type: str) -> UnknownFunctionError:
    equal_names = [name for name in operator_names() if name.lower() == op_type.lower()]
    similar_names = equal_names or difflib.get_close_matches(op_type, operator_names(), n=1)
    return UnknownFunctionError(
        f"ONNX has no operator '{op_type}' in opset {OPSET} or later",
        hint=f"did you mean 'onnx::{similar_names[0]}'?" if similar_names else "",
    )


@functools.cache
def operator_names() -> tuple[str, ...]:
    """Return the names of all operators of the supported opsets, except deprecated operators."""
    known_names = {
        onnx_schema.name
        for onnx_schema in defs.get_all_schemas_with_history()
        if onnx_schema.domain == ""
    }
    return tuple(name for name in sorted(known_names) if schemas_by_opset(name))


def _attribute_definition(op_type: str, name: str) -> defs.OpSchema.Attribute:
    """Return an attribute's definition from an operator's oldest supported schema that has it."""
    return schema(op_type, (name,)).attributes[name]


def attribute(op_type: str, attributes: Mapping[str, Any], name: str) -> Any:
    """Return the value of an operation's attribute, or ONNX's default, or None without a default.

    ONNX files store floats as float32. A number of the model such as 0.1 is used as it is, not as 0.10000000149.
    """
    if name in attributes:
        return attributes[name]
    default_attribute = _attribute_definition(op_type, name).default_value
    decoded_default = (
        helper.get_attribute_value(default_attribute) if default_attribute.name else None
    )
    return decoded_default.decode() if isinstance(decoded_default, bytes) else decoded_default


@functools.cache
def default_attributes(op_type: str, opset: int) -> Mapping[str, Any]:
    """Return the default values of the attributes of an operation at an opset, by name.

    onnx's inference ignores some defaults, such as `onesided` of STFT. So a node for type inference contains all
    default values.
    """
    attribute_definitions = schema_at(op_type, opset).attributes.values()
    default_protos = [
        attribute_definition.default_value
        for attribute_definition in attribute_definitions
        if attribute_definition.default_value.name
    ]
    return {
        default_attribute.name: helper.get_attribute_value(default_attribute)
        for default_attribute in default_protos
    }


def attribute_value(value: Any) -> Any:
    """Convert an attribute value to ONNX's form, such as an array to a tensor.

    Dtype names become types, and numpy scalars become numbers.
    """
    if isinstance(value, TypeAttribute):
        return type_proto(value)
    if isinstance(value, np.ndarray):
        return numpy_helper.from_array(value)
    if isinstance(value, np.generic):
        return value.item()
    return list(value) if isinstance(value, tuple) else value


def node_of(
    op_type: str, present: Sequence[bool], output_count: int, attributes: Mapping[str, Any]
) -> onnx.NodeProto:
    """Build an ONNX node with inputs i0, i1, ... and outputs o0, o1, ...

    Absent optional inputs have an empty name.
    """
    input_names = [f"i{k}" if is_present else "" for k, is_present in enumerate(present)]
    node = helper.make_node(op_type, input_names, [f"o{k}" for k in range(output_count)])
    onnx_attributes = {name: attribute_value(value) for name, value in attributes.items()}
    node.attribute.extend(attribute_protos(op_type, onnx_attributes))
    return node


def attribute_protos(op_type: str, attributes: Mapping[str, Any]) -> Iterator[onnx.AttributeProto]:
    """Yield the attributes of a node as protos, with the type of an empty list from the operator's schema."""
    for attribute_name, attribute_value in attributes.items():
        is_empty = isinstance(attribute_value, list | tuple) and not attribute_value
        list_attribute_type = list_type(op_type, attribute_name) if is_empty else None
        yield helper.make_attribute(attribute_name, attribute_value, attr_type=list_attribute_type)


@functools.cache
def list_type(op_type: str, name: str) -> int:
    """Return the ONNX type of a list attribute from the newest schema that has the attribute.

    The default is a list of integers.
    """
    operator_schemas = [
        onnx_schema
        for onnx_schema in defs.get_all_schemas_with_history()
        if onnx_schema.name == op_type and not onnx_schema.domain
    ]
    newest_schema = max(
        (onnx_schema for onnx_schema in operator_schemas if name in onnx_schema.attributes),
        key=_first_opset,
        default=None,
    )
    if newest_schema is None:
        return int(onnx.AttributeProto.INTS)
    attribute_type: Any = newest_schema.attributes[
        name
    ].type  # The stub of onnx lacks the enumeration type.
    return int(attribute_type.value)


def _first_opset(schema: defs.OpSchema) -> int:
    return int(schema.since_version)


def refuse_wrong_kinds(op_type: str, inputs: Sequence[Value | None]) -> None:
    """Raise OperandError if an operator does not accept the kind of an input (tensor, sequence, ...).

    Raises:
        OperandError: the message names the value and the hint suggests a conversion.
    """
    kinds_by_input = _accepted_kinds(op_type, len(inputs))
    for k, input_value in enumerate(inputs):
        if input_value is None or not kinds_by_input:
            continue
        accepted_kinds = kinds_by_input[min(k, len(kinds_by_input) - 1)]
        if onnx_type_text(input_value.dtype).partition("(")[0] not in accepted_kinds:
            schema_inputs = schema(op_type, input_count=len(inputs)).inputs
            input_name = schema_inputs[min(k, len(schema_inputs) - 1)].name
            raise wrong_kind_error(
                input_value, f"'{input_name}' of {qualified_name(op_type)}", accepted_kinds
            )


def _accepted_kinds(op_type: str, input_count: int) -> tuple[frozenset[str], ...]:
    row_schema = row_of(op_type).schema
    return (
        _kinds_of(row_schema)
        if row_schema is not None
        else _cached_onnx_kinds(op_type, input_count)
    )


@functools.cache
def _cached_onnx_kinds(op_type: str, input_count: int) -> tuple[frozenset[str], ...]:
    return _kinds_of(schema(op_type, input_count=input_count))


def _kinds_of(signature: defs.OpSchema) -> tuple[frozenset[str], ...]:
    """Return the kinds that each input accepts, among `tensor`, `seq` and `optional`."""
    return tuple(
        frozenset(onnx_type.partition("(")[0] for onnx_type in schema_input.types)
        for schema_input in signature.inputs
    )
