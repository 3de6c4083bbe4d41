"""A native loop in an ONNX model: one node of our own domain.

finals, stacks, count, last condition, memory = mdf_loop::loop_1(trip, inputs)
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from mdf_loop.emit.loop_node import ENDLESS
from mdf_loop.emit.onnx_model import LoopWriter
from mdf_loop.emit.scope import OnnxScope, WriteOps, value_type
from mdf_loop.ir import Loop
from mdf_loop.ir.types import numpy_dtype
from mdf_loop.native.operator import DOMAIN, NativeLoop
from mdf_loop.onnx_writer import oir


def writer(natives: Mapping[Loop, NativeLoop], otherwise: LoopWriter) -> LoopWriter:
    """Return a writer that writes native loops as nodes of their own, and others with `otherwise`."""

    def write_loop(outer: OnnxScope, loop: Loop, write: WriteOps) -> None:
        native = natives.get(loop)
        if native is None:
            otherwise(outer, loop, write)
        else:
            _write(outer, native)

    return write_loop


def _write(outer: OnnxScope, native: NativeLoop) -> None:
    form, scope = native.kernel.form, outer.writer
    loop = form.loop
    if loop.trip_count is not None:
        trip = scope.values[loop.trip_count]
    else:
        trip = scope.constant(np.array(ENDLESS if loop.bound is None else loop.bound))
    inputs = [_limited(outer, native, trip)]
    for value in form.inputs:  # constants may stand in the body
        inside = value not in scope.values
        inputs.append(scope.constant(form.known[value]) if inside else scope.values[value])
    outputs = [outer.define(value) for value, _ in form.outputs]
    memory = oir.Value(name=scope.fresh("memory"), type=value_type("uint8"))
    name = outer.node(native.name, inputs, [*outputs, memory], {}, loop.where, DOMAIN)
    scope.nodes.failures[name] = tuple(native.failures)


MAX_ROW_BYTES = 1 << 57
"""Bytes of recorded rows that no process can address, and of which ONNX Runtime can still count eight such arrays."""


def _limited(outer: OnnxScope, native: NativeLoop, trip: oir.Value) -> oir.Value:
    """Return a computed trip count, limited where its recorded rows can have no memory.

    The operator allocates the rows of all iterations first. ONNX Runtime prints a line where the number of their bytes
    is no integer of 64 bits; with the limit the allocation fails without it, and the loop is run in pieces.
    """
    loop, scope = native.kernel.form.loop, outer.writer
    if not loop.recorded or loop.condition is not None or trip.producer() is None:
        return trip
    sizes = (
        math.prod(e for e in recorded.row.shape or () if isinstance(e, int) and e > 0)
        * numpy_dtype(recorded.row.dtype).itemsize
        for recorded in loop.recorded
    )
    limit = scope.constant(np.array(-(-MAX_ROW_BYTES // max(sizes))))
    limited = oir.Value(name=scope.fresh("trip"), type=value_type("int64"), shape=oir.Shape(()))
    outer.node("Min", [trip, limit], [limited], {}, loop.where)
    return limited
