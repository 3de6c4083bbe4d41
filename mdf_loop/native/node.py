"""A native loop in an ONNX model: one node of our own domain.

finals, stacks, count, last condition, memory = mdf_loop::loop_1(trip, inputs)
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from mdf_loop.emit.loop_node import ENDLESS
from mdf_loop.emit.onnx_model import LoopWriter
from mdf_loop.emit.scope import OnnxScope, WriteOps, value_type
from mdf_loop.ir import Loop
from mdf_loop.native.operator import DOMAIN, NativeLoop
from mdf_loop.onnx_writer import oir


def writer(natives: Mapping[Loop, NativeLoop], otherwise: LoopWriter) -> LoopWriter:
    """Writes native loops as nodes of their own, others as before."""

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
    inputs = [trip]
    for value in form.inputs:  # constants may stand in the body
        inside = value not in scope.values
        inputs.append(scope.constant(form.known[value]) if inside else scope.values[value])
    outputs = [outer.define(value) for value, _ in form.outputs]
    memory = oir.Value(name=scope.fresh("memory"), type=value_type("uint8"))
    name = outer.node(native.name, inputs, [*outputs, memory], {}, loop.where, DOMAIN)
    scope.nodes.failures[name] = tuple(native.failures)
