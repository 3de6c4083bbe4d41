"""ONNX node of a native loop: one custom operator.

finals, stacks, count, last condition, memory = mdf_loop::loop_1(trip, inputs)
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from mdf_loop.emit.loop_node import MAX_TRIP_COUNT
from mdf_loop.emit.onnx_model import LoopWriter
from mdf_loop.emit.scope import OnnxScope, WriteOps, value_type
from mdf_loop.ir import Loop
from mdf_loop.ir.types import numpy_dtype
from mdf_loop.native.operator import DOMAIN, NativeLoop
from mdf_loop.onnx_writer import oir


def make_loop_writer(natives: Mapping[Loop, NativeLoop], otherwise: LoopWriter) -> LoopWriter:
    """Return a function that writes native loops as ONNX nodes with custom operators."""

    def write_loop(outer: OnnxScope, loop: Loop, write: WriteOps) -> None:
        native_loop = natives.get(loop)
        if native_loop is None:
            otherwise(outer, loop, write)
        else:
            _write_node(outer, native_loop)

    return write_loop


def _write_node(outer: OnnxScope, native: NativeLoop) -> None:
    signature, onnx_writer = native.kernel.signature, outer.writer
    loop = signature.loop
    if loop.trip_count is not None:
        trip_count = onnx_writer.onnx_values[loop.trip_count]
    else:
        trip_count = onnx_writer.constant(
            np.array(MAX_TRIP_COUNT if loop.max_iterations is None else loop.max_iterations)
        )
    node_inputs = [_limit_trip_count(outer, native, trip_count)]
    for value in signature.inputs:  # constants may be defined in the body
        is_in_body = value not in onnx_writer.onnx_values
        node_inputs.append(
            onnx_writer.constant(signature.constants[value])
            if is_in_body
            else onnx_writer.onnx_values[value]
        )
    node_outputs = [outer.define_value(value) for value, _ in signature.outputs]
    memory_output = oir.Value(name=onnx_writer.new_name("memory"), type=value_type("uint8"))
    node_name = outer.append_node(
        native.name, node_inputs, [*node_outputs, memory_output], {}, loop.where, DOMAIN
    )
    onnx_writer.node_registry.failures_by_node_name[node_name] = tuple(native.failures)


MAX_ROW_BYTES = 1 << 57
"""Maximum bytes of recorded rows.

No process has so much memory, but ONNX Runtime can still count the bytes of eight such arrays.
"""


def _limit_trip_count(outer: OnnxScope, native: NativeLoop, trip_count: oir.Value) -> oir.Value:
    """Limit a trip count so that the bytes of all recorded rows fit into int64.

    The operator first allocates the rows of all iterations. ONNX Runtime prints a message if their number of
    bytes overflows int64. With the limit, the allocation fails without the message, and the loop runs in
    several parts.
    """
    loop, onnx_writer = native.kernel.signature.loop, outer.writer
    if not loop.recorded or loop.condition is not None or trip_count.producer() is None:
        return trip_count
    row_bytes = (
        math.prod(
            extent
            for extent in recorded_value.row.shape or ()
            if isinstance(extent, int) and extent > 0
        )
        * numpy_dtype(recorded_value.row.dtype).itemsize
        for recorded_value in loop.recorded
    )
    max_trip_count = onnx_writer.constant(np.array(-(-MAX_ROW_BYTES // max(row_bytes))))
    limited_trip_count = oir.Value(
        name=onnx_writer.new_name("trip"), type=value_type("int64"), shape=oir.Shape(())
    )
    outer.append_node("Min", [trip_count, max_trip_count], [limited_trip_count], {}, loop.where)
    return limited_trip_count
