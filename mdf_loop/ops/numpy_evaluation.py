"""Evaluation of operations in numpy.

Onnx's reference implementation computes most operations. `Row.numpy_function` replaces the reference if the reference
computes in float32, or if its signs or nan differ between releases. The reference of Loop is wrong and not used.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper

from mdf_loop.errors import OperandError
from mdf_loop.ir import Data
from mdf_loop.ir.types import dtype_name, element_type
from mdf_loop.ops.onnx_schema import exact_float_attributes, node_of
from mdf_loop.ops.opset import opset_of
from mdf_loop.ops.registry import row_of


def evaluate(
    op_type: str,
    arrays: Sequence[Data],
    attributes: Mapping[str, Any],
    output_count: int,
) -> list[Data]:
    """Compute an operation's outputs by its registered NumPy function, or by onnx's reference.

    Attributes keep the precision of the model: 0.1 is not rounded to 0.10000000149.
    """
    numpy_function = row_of(op_type).numpy_function
    with np.errstate(all="ignore"):
        if numpy_function is not None:
            row_outputs = numpy_function(*arrays, **attributes)
            outputs = row_outputs if isinstance(row_outputs, tuple) else (row_outputs,)
            outputs = outputs[:output_count]
            return [
                np.asarray(output) if isinstance(output, np.generic) else output
                for output in outputs
            ]
        if fault_message := row_of(op_type).operand_fault(arrays, attributes):
            raise OperandError(fault_message)
        operand_types = tuple(
            None if array is None else (dtype_name(array), np.shape(array)) for array in arrays
        )
        opset = opset_of(op_type, operand_types, attributes)
        dtypes = tuple(
            None if operand_type is None else operand_type[0] for operand_type in operand_types
        )
        serialized_node = (
            _serialize_node(op_type, dtypes, output_count, attributes) if attributes else b""
        )
        exact_attributes = exact_float_attributes(op_type, attributes) if attributes else ()
        hashable_attributes = tuple(
            (name, _to_hashable(number)) for name, number in exact_attributes
        )
        reference_outputs = _load_reference_function(
            op_type, dtypes, output_count, serialized_node, hashable_attributes, opset
        )(*arrays)
    # Some implementations return all outputs.
    return [np.asarray(array) for array in reference_outputs[:output_count]]


def _serialize_node(
    op_type: str, types: tuple[str | None, ...], output_count: int, attributes: Mapping[str, Any]
) -> bytes:
    """Return the serialized ONNX node of an operation."""
    node = node_of(op_type, [dtype is not None for dtype in types], output_count, attributes)
    serialized_node: bytes = node.SerializeToString(deterministic=True)
    return serialized_node


def _to_hashable(value: Any) -> Any:
    return value if np.ndim(value) == 0 else tuple(value)


@functools.lru_cache(maxsize=4096)
def _load_reference_function(
    op_type: str,
    types: tuple[str | None, ...],
    output_count: int,
    serialized_node: bytes,
    exact_attributes: tuple[tuple[str, Any], ...],
    opset: int,
) -> Callable[..., Sequence[Data]]:
    """Return onnx's reference function of a serialized node, with float attributes in full precision.

    `serialized_node` is empty if there are no attributes. The function is called without onnx's evaluator, which
    would double the time.
    """
    from onnx.reference import (
        ReferenceEvaluator,  # This import reads all schemas of ONNX, which many runs do not need.
    )

    node = onnx.NodeProto.FromString(
        serialized_node or _serialize_node(op_type, types, output_count, {})
    )
    graph_inputs = [
        helper.make_tensor_value_info(f"i{k}", element_type(dtype), None)
        for k, dtype in enumerate(types)
        if dtype is not None
    ]
    graph_outputs = [helper.make_empty_tensor_value_info(f"o{k}") for k in range(output_count)]
    graph = helper.make_graph([node], op_type, graph_inputs, graph_outputs)
    opset_imports = [helper.make_opsetid("", opset)]
    (reference_node,) = ReferenceEvaluator(
        helper.make_model(graph, opset_imports=opset_imports)
    ).rt_nodes_
    for name, exact_number in exact_attributes:
        setattr(reference_node, name, exact_number)
    run_reference: Callable[..., Sequence[Data]] = reference_node.run
    return run_reference
