"""The types that operations give, by onnx's inference for one node."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import onnx
from onnx import helper, numpy_helper, shape_inference

from mdf_loop.errors import OperandError
from mdf_loop.ir import Array, Shape, type_text
from mdf_loop.ir.types import type_of, type_proto
from mdf_loop.ops.onnx_schema import node_of, schema_at
from mdf_loop.ops.opset import ir_version, opset_of
from mdf_loop.ops.registry import row_of, title


def infer(
    op_type: str,
    inputs: Sequence[tuple[str, Shape] | None],
    attributes: Mapping[str, Any],
    constants: Mapping[int, Array],
    n_outputs: int,
) -> list[tuple[str, Shape]]:
    """Dtype and shape of each output; constants (by input position) sharpen the shapes.

    Raises:
        OperandError: the operator cannot take these inputs; the sentence shows them.
    """
    row = row_of(op_type)
    if row.types is not None:
        return list(row.types(inputs, attributes, constants))
    if row.typed_by_types:
        return list(_inferred_again(op_type, tuple(inputs), tuple(attributes.items()), n_outputs))
    return _inferred(op_type, inputs, attributes, constants, n_outputs)


@functools.lru_cache(maxsize=4096)
def _inferred_again(
    op_type: str,
    inputs: tuple[tuple[str, Shape] | None, ...],
    attributes: tuple[tuple[str, Any], ...],
    n_outputs: int,
) -> tuple[tuple[str, Shape], ...]:
    return tuple(_inferred(op_type, inputs, dict(attributes), {}, n_outputs))


def _inferred(
    op_type: str,
    inputs: Sequence[tuple[str, Shape] | None],
    attributes: Mapping[str, Any],
    constants: Mapping[int, Array],
    n_outputs: int,
) -> list[tuple[str, Shape]]:
    node = node_of(op_type, [entry is not None for entry in inputs], n_outputs, attributes)
    types = {f"i{k}": type_proto(*entry) for k, entry in enumerate(inputs) if entry is not None}
    data = {f"i{k}": numpy_helper.from_array(array) for k, array in constants.items()}
    opset = opset_of(op_type, inputs, attributes)
    try:
        found = shape_inference.infer_node_outputs(
            schema_at(op_type, opset),
            node,
            types,
            data,
            None,
            [helper.make_opsetid("", opset)],
            ir_version(opset),
        )
    except Exception as error:  # noqa: BLE001 - onnx raises classes of its C++ part
        raise _operand_error(op_type, inputs, attributes, error) from None
    return [_output_type(op_type, found.get(f"o{k}")) for k in range(n_outputs)]


def _output_type(op_type: str, proto: onnx.TypeProto | None) -> tuple[str, Shape]:
    if proto is None:
        raise OperandError(f"what {title(op_type)} gives here cannot be told")
    try:
        return type_of(proto)
    except OperandError:
        raise OperandError(f"the dtype that {title(op_type)} gives cannot be told") from None


def _operand_error(
    op_type: str,
    inputs: Sequence[tuple[str, Shape] | None],
    attributes: Mapping[str, Any],
    error: Exception,
) -> OperandError:
    formals = schema_at(op_type, opset_of(op_type, inputs, attributes)).inputs
    shown = []
    for k, entry in enumerate(inputs):
        formal = formals[min(k, len(formals) - 1)].name if formals else f"input {k}"
        if entry is not None:
            shown.append(f"{formal}: {type_text(*entry)}")
    shown += [f"{key}={value}" for key, value in attributes.items()]
    reason = str(error).strip().splitlines()[-1].split("] ")[-1] if str(error).strip() else ""
    return OperandError(f"{title(op_type)} cannot take ({', '.join(shown)}): {reason}")
