"""Type inference of operations, by a registered rule or by onnx's shape inference of one node."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import onnx
from onnx import defs, helper, numpy_helper, shape_inference

from mdf_loop.errors import OperandError
from mdf_loop.ir import Array, Shape, type_text
from mdf_loop.ir.types import onnx_type_text, tensor_dtypes, type_of, type_proto
from mdf_loop.ops.onnx_schema import default_attributes, node_of, schema_at
from mdf_loop.ops.opset import ir_version, opset_of
from mdf_loop.ops.registry import qualified_name, row_of


def infer(
    op_type: str,
    inputs: Sequence[tuple[str, Shape] | None],
    attributes: Mapping[str, Any],
    constants: Mapping[int, Array],
    output_count: int,
) -> list[tuple[str, Shape]]:
    """Infer the dtype and shape of each output of an operation.

    `constants` are the arrays of known inputs by position.

    Raises:
        OperandError: the operator does not accept these inputs, which the message lists.
    """
    registry_row = row_of(op_type)
    if registry_row.types_ignore_values:
        return list(
            _infer_from_cache(op_type, tuple(inputs), tuple(attributes.items()), output_count)
        )
    return _infer_types(op_type, inputs, attributes, constants, output_count)


@functools.lru_cache(maxsize=4096)
def _infer_from_cache(
    op_type: str,
    inputs: tuple[tuple[str, Shape] | None, ...],
    attributes: tuple[tuple[str, Any], ...],
    output_count: int,
) -> tuple[tuple[str, Shape], ...]:
    return tuple(_infer_types(op_type, inputs, dict(attributes), {}, output_count))


def _infer_types(
    op_type: str,
    inputs: Sequence[tuple[str, Shape] | None],
    attributes: Mapping[str, Any],
    constants: Mapping[int, Array],
    output_count: int,
) -> list[tuple[str, Shape]]:
    registry_row = row_of(op_type)
    if fault_message := registry_row.attribute_fault(attributes):
        raise _operand_error(op_type, inputs, attributes, fault_message)
    if registry_row.schema is not None:
        _check_schema_dtypes(op_type, registry_row.schema.inputs, inputs, attributes)
    if registry_row.type_rule is not None:
        return list(registry_row.type_rule(inputs, attributes, constants))
    opset = opset_of(op_type, inputs, attributes)
    all_attributes = {**default_attributes(op_type, opset), **attributes}
    node = node_of(
        op_type, [input_type is not None for input_type in inputs], output_count, all_attributes
    )
    type_protos = {
        f"i{k}": type_proto(*input_type)
        for k, input_type in enumerate(inputs)
        if input_type is not None
    }
    constant_tensors = {f"i{k}": numpy_helper.from_array(array) for k, array in constants.items()}
    try:
        output_protos = shape_inference.infer_node_outputs(
            schema_at(op_type, opset),
            node,
            type_protos,
            constant_tensors,
            None,
            [helper.make_opsetid("", opset)],
            ir_version(opset),
        )
    except Exception as error:  # noqa: BLE001 - onnx raises classes of its C++ part
        error_message = str(error).strip()
        last_line = error_message.splitlines()[-1].split("] ")[-1] if error_message else ""
        raise _operand_error(op_type, inputs, attributes, last_line) from None
    return [_read_output_type(op_type, output_protos.get(f"o{k}")) for k in range(output_count)]


def _check_schema_dtypes(
    op_type: str,
    schema_inputs: Sequence[defs.OpSchema.FormalParameter],
    inputs: Sequence[tuple[str, Shape] | None],
    attributes: Mapping[str, Any],
) -> None:
    """Raise OperandError if an input has a dtype that the schema does not allow."""
    first_input_by_type: dict[str, tuple[str, str]] = {}
    for k, input_type in enumerate(inputs):
        if input_type is None:
            continue
        schema_input, input_dtype = schema_inputs[min(k, len(schema_inputs) - 1)], input_type[0]
        first_input_name, first_input_dtype = first_input_by_type.setdefault(
            schema_input.type_str, (schema_input.name, input_dtype)
        )
        mismatch_reason = (
            f"{first_input_name} and {schema_input.name} must have one dtype"
            if input_dtype != first_input_dtype
            else ""
        )
        if onnx_type_text(input_dtype) not in schema_input.types:
            allowed_dtypes = [
                allowed_dtype
                for allowed_dtype in tensor_dtypes()
                if onnx_type_text(allowed_dtype) in schema_input.types
            ]
            mismatch_reason = f"{schema_input.name} must be {' or '.join(allowed_dtypes)}"
        if mismatch_reason:
            raise _operand_error(op_type, inputs, attributes, mismatch_reason)


def _read_output_type(op_type: str, proto: onnx.TypeProto | None) -> tuple[str, Shape]:
    if proto is None:
        raise OperandError(f"what {qualified_name(op_type)} gives here cannot be told")
    try:
        return type_of(proto)
    except OperandError:
        raise OperandError(
            f"the dtype that {qualified_name(op_type)} gives cannot be told"
        ) from None


def _operand_error(
    op_type: str,
    inputs: Sequence[tuple[str, Shape] | None],
    attributes: Mapping[str, Any],
    reason: str,
) -> OperandError:
    schema_inputs = schema_at(op_type, opset_of(op_type, inputs, attributes)).inputs
    operand_texts = []
    for k, input_type in enumerate(inputs):
        input_name = (
            schema_inputs[min(k, len(schema_inputs) - 1)].name if schema_inputs else f"input {k}"
        )
        if input_type is not None:
            operand_texts.append(f"{input_name}: {type_text(*input_type)}")
    operand_texts += [
        f"{attribute_name}={attribute_value}"
        for attribute_name, attribute_value in attributes.items()
    ]
    return OperandError(
        f"{qualified_name(op_type)} cannot take ({', '.join(operand_texts)}): {reason}"
    )
