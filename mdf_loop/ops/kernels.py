"""Test of whether ONNX Runtime's CPU provider has a correct kernel for an operation and its dtypes.

The registry rows state the kernels of common operations, and the kernels that load but fail or are wrong at run
time. For any other operation the runtime loads a model of this single operation, once per process.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from itertools import chain
from typing import Any

from onnx import helper

from mdf_loop.ir import Op
from mdf_loop.ir.types import type_proto
from mdf_loop.onnx_session import inference_session, session_options
from mdf_loop.ops import onnx_schema
from mdf_loop.ops.opset import ir_version, opset_of_op
from mdf_loop.ops.registry import row_of


def has_kernel(op: Op) -> bool:
    """Return True if ONNX Runtime's CPU provider has a correct kernel for an operation."""
    registry_row = row_of(op.op_type)
    if registry_row.wrong_kernel(op):
        return False
    if registry_row.schema is not None:  # ONNX Runtime lacks this operation.
        return registry_row.has_kernel(op)
    return registry_row.has_kernel(op) or _can_load_kernel(
        op.op_type,
        tuple(None if operand is None else operand.dtype for operand in op.inputs),
        tuple(output.dtype for output in op.outputs),
        _HashableAttributes(op.attributes),
        opset_of_op(op),
    )


class _HashableAttributes:
    """Attributes of an operation as a hashable cache key."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self.onnx_values = {
            name: onnx_schema.attribute_value(value) for name, value in values.items()
        }
        self._key = tuple(f"{key}={value}" for key, value in sorted(self.onnx_values.items()))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _HashableAttributes) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)


@functools.cache
def _can_load_kernel(
    op_type: str,
    inputs: tuple[str | None, ...],
    outputs: tuple[str, ...],
    attributes: _HashableAttributes,
    opset: int,
) -> bool:
    """Return True if ONNX Runtime can load a model that consists of a single operation.

    Other faults are reported when the whole model is loaded.
    """
    import onnxruntime

    serialized_model = _serialize_model(op_type, inputs, outputs, attributes.onnx_values, opset)
    kernel_session_options = session_options()
    kernel_session_options.graph_optimization_level = (
        onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    )
    try:
        inference_session(serialized_model, kernel_session_options)
    except onnxruntime.capi.onnxruntime_pybind11_state.NotImplemented:
        return False
    except Exception:  # noqa: BLE001 - The kernel exists and refuses something else.
        return True
    return True


def _serialize_model(
    op_type: str,
    inputs: Iterable[str | None],
    outputs: Iterable[str],
    attributes: Mapping[str, Any],
    opset: int,
) -> bytes:
    value_infos = {
        name: helper.make_value_info(name, type_proto(dtype))
        for name, dtype in chain(
            ((f"i{k}", dtype) for k, dtype in enumerate(inputs) if dtype is not None),
            ((f"o{k}", dtype) for k, dtype in enumerate(outputs)),
        )
    }
    input_names = [f"i{k}" if dtype is not None else "" for k, dtype in enumerate(inputs)]
    output_names = [f"o{k}" for k, _ in enumerate(outputs)]
    node = helper.make_node(op_type, input_names, output_names)
    node.attribute.extend(onnx_schema.attribute_protos(op_type, attributes))
    graph_inputs = [value_infos[name] for name in input_names if name]
    graph = helper.make_graph(
        [node], "probe", graph_inputs, [value_infos[name] for name in output_names]
    )
    opset_imports = [helper.make_opsetid("", opset)]
    model = helper.make_model(graph, opset_imports=opset_imports, ir_version=ir_version(opset))
    serialized_model: bytes = model.SerializeToString()
    return serialized_model
