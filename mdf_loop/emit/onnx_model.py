"""`Program` -> standard ONNX (opset 17, IR version 8), by onnx_ir.

What ONNX Runtime gets wrong or refuses is kept from it here:

- A body never returns the iteration number, the incoming condition or an outer value itself,
  but a copy (`i` returned directly silently gives [N, N, ...]).
- Condition and trip count are always given; without a condition in the model the body passes
  `true` on, whatever the model's body computes (the runtime would stop).
- Every loop output has a name, every body input a shape, every body at least one node
  (without one, a run cannot be stopped).
- Rows of a recorded output are compared where their shape is not known (see `row_shapes`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import onnx
import onnx_ir as oir

from mdf_loop import onnx_ops
from mdf_loop.emit import row_shapes
from mdf_loop.errors import ModelError
from mdf_loop.ir import (
    OPSET,
    Array,
    Constant,
    Loop,
    Op,
    Operation,
    Program,
    Recorded,
    Shape,
    Value,
    body_inputs,
)

ENDLESS = np.iinfo(np.int64).max
"""The trip count of a loop that only its condition ends."""


def to_onnx(program: Program) -> onnx.ModelProto:
    """The program as an ONNX model; inputs and outputs keep their names, nodes name their MDF path.

    Raises:
        ModelError: the program gives nothing.
    """
    if not program.outputs:
        raise ModelError(
            f"there is nothing to compute: '{program.name}' has no output ports",
            "$",
            "add an output port, or name what a run is to give: record=['node.parameter'] "
            "(--record node.parameter)",
        )
    return oir.to_proto(_ModelWriter(program).write())


class _ModelWriter:
    def __init__(self, program: Program) -> None:
        self.program = program
        self.values: dict[Value, oir.Value] = {}
        self.initializers: dict[tuple[str, bytes], oir.Value] = {}
        self.taken = {entry.value.name for entry in program.inputs}
        self.taken |= {name for name, _ in program.outputs}
        self.count = 0

    def write(self) -> oir.Model:
        inputs = [self._declare(entry.value, entry.value.name) for entry in self.program.inputs]
        scope = _Scope(self, {entry.value for entry in self.program.inputs}, is_main=True)
        scope.reserve(self.program.outputs)
        scope.emit(self.program.ops)
        outputs = [scope.main_output(name, value) for name, value in self.program.outputs]
        graph = oir.Graph(
            inputs,
            outputs,
            nodes=scope.nodes,
            initializers=list(self.initializers.values()),
            opset_imports={"": OPSET},
            name=self.program.name or "model",
        )
        return oir.Model(
            graph,
            ir_version=onnx_ops.IR_VERSION,
            producer_name="mdf_loop",
            metadata_props={"mdf.graph": self.program.name},
        )

    def _declare(self, value: Value, name: str) -> oir.Value:
        made = oir.Value(name=name, type=_type(value.dtype), shape=_shape(value.shape))
        self.values[value] = made
        return made

    def define(self, value: Value) -> oir.Value:
        """The ONNX value of a value made in the program, under a free name."""
        return self._declare(value, self.free_name(value))

    def free_name(self, value: Value) -> str:
        """The value's name, or one like it that nobody has."""
        name = value.name
        while name in self.taken:
            name += "_"
        self.taken.add(name)
        return name

    def fresh(self, base: str) -> str:
        """A name for a helper value or node."""
        self.count += 1
        return f"{base}#{self.count}"

    def constant(self, array: Array, name: str = "") -> oir.Value:
        """An initializer of the main graph."""
        array = np.asarray(array)
        key = (f"{array.dtype}{array.shape}", array.tobytes())
        if array.dtype.kind in "UO" or key not in self.initializers:
            label = name or self.fresh("const")
            tensor = oir.tensor(array, name=label)
            value = oir.Value(
                name=label, type=_type(onnx_ops.dtype_name(array)), shape=oir.Shape(array.shape)
            )
            value.const_value = tensor
            self.initializers[key] = value
        return self.initializers[key]


def _type(dtype: str) -> oir.TensorType:
    return oir.TensorType(oir.DataType(onnx_ops.element_type(dtype)))


def _shape(shape: Shape) -> oir.Shape | None:
    return None if shape is None else oir.Shape(list(shape))


class _Scope:
    """The nodes of one graph: the main one or a body."""

    def __init__(self, writer: _ModelWriter, inside: Iterable[Value], *, is_main: bool) -> None:
        self.writer = writer
        self.nodes: list[oir.Node] = []
        self.inside = set(inside)
        self.is_main = is_main
        self.output_names: dict[Value, str] = {}
        self.returned: set[oir.Value] = set()

    # --- nodes ----------------------------------------------------------------------------------

    def emit(self, ops: Iterable[Operation]) -> None:
        for operation in ops:
            if isinstance(operation, Constant):
                made = self.writer.constant(operation.array, self.writer.free_name(operation.value))
                self.writer.values[operation.value] = made
            elif isinstance(operation, Op):
                self._emit_op(operation)
            else:
                self._emit_loop(operation)

    def _emit_op(self, op: Op) -> None:
        inputs = [None if v is None else self.writer.values[v] for v in op.inputs]
        outputs = [self._define(v) for v in op.outputs]
        self._node(op.op_type, inputs, outputs, dict(op.attributes), op.where)

    def _define(self, value: Value) -> oir.Value:
        self.inside.add(value)
        name = self.output_names.get(value)
        return self.writer._declare(value, name) if name else self.writer.define(value)

    def _node(
        self,
        op_type: str,
        inputs: Sequence[oir.Value | None],
        outputs: Sequence[oir.Value],
        attributes: dict[str, Any] | None = None,
        where: str = "",
    ) -> None:
        plain = {k: _attribute(v) for k, v in (attributes or {}).items()}
        self.nodes.append(
            oir.node(
                op_type,
                inputs,
                attributes=plain,
                outputs=outputs,
                name=self.writer.fresh(f"{where} {op_type}".strip()),
            )
        )

    def helper(
        self, op_type: str, inputs: Sequence[oir.Value], like: oir.Value, **attributes: Any
    ) -> oir.Value:
        """A node that only the ONNX form needs; its result has the type of `like`."""
        made = oir.Value(name=self.writer.fresh(op_type), type=like.type, shape=like.shape)
        self._node(op_type, inputs, [made], attributes)
        return made

    def whole(self, op_type: str, *inputs: oir.Value, **attributes: Any) -> oir.Value:
        """A node that only the ONNX form needs; its result is whole numbers."""
        made = oir.Value(name=self.writer.fresh(op_type), type=_type("int64"))
        self._node(op_type, inputs, [made], attributes)
        return made

    def copy(self, value: oir.Value) -> oir.Value:
        """The value through an Identity."""
        return self.helper("Identity", [value], value)

    # --- main graph outputs ---------------------------------------------------------------------

    def reserve(self, outputs: Iterable[tuple[str, Value]]) -> None:
        """Values that are outputs get the output's name when they are made."""
        for name, value in outputs:
            if value not in self.inside:
                self.output_names.setdefault(value, name)

    def main_output(self, name: str, value: Value) -> oir.Value:
        """The graph output; inputs, constants and values given twice are copied."""
        made = self.writer.values[value]
        if made.name == name and not made.is_initializer() and value not in self._given():
            return made
        out = oir.Value(name=name, type=_type(value.dtype), shape=_shape(value.shape))
        self._node("Identity", [made], [out])
        return out

    def _given(self) -> set[Value]:
        return {entry.value for entry in self.writer.program.inputs}

    # --- loops ----------------------------------------------------------------------------------

    def _emit_loop(self, loop: Loop) -> None:
        writer = self.writer
        if loop.trip_count is not None:
            trip = writer.values[loop.trip_count]
        else:
            trip = writer.constant(np.array(loop.bound if loop.bound is not None else ENDLESS))
        if loop.condition is not None:
            condition = writer.values[loop.condition]
        else:
            condition = writer.constant(np.array(True))
        extra = _Extra(self, loop, trip, condition)
        rows = _Rows(self, loop)
        body = self._body(loop, extra, rows)
        outputs = [self._define(c.final) for c in loop.carried]
        outputs += extra.finals()
        outputs += rows.stacks()
        if not outputs:  # a loop that is only counted: the runtime takes none without outputs
            extra.finish()
            return
        initial = [writer.values[c.initial] for c in loop.carried] + extra.initial()
        self._node("Loop", [trip, condition, *initial], outputs, {"body": body}, loop.where)
        rows.finish()
        extra.finish()

    def _body(self, loop: Loop, extra: _Extra, rows: _Rows) -> oir.Graph:
        inputs = [self.writer.define(value) for value in body_inputs(loop)]
        body = _Scope(self.writer, body_inputs(loop), is_main=False)
        body.emit(loop.ops)
        extra_inputs = extra.body_inputs()
        condition_in = self.writer.values[loop.condition_in]
        if loop.condition is None or loop.condition_out is None:
            condition_out = condition_in
        else:
            condition_out = body.returning(loop.condition_out, loop)
        leaves = [body.returning(c.leave, loop) for c in loop.carried]
        leaves += extra.body_outputs(body)
        recorded = rows.body_outputs(body)
        if not body.nodes:
            condition_out = body.copy(condition_out)
        outputs = [condition_out, *leaves, *recorded]
        return oir.Graph(
            [*inputs, *extra_inputs],
            outputs,
            nodes=body.nodes,
            name=self.writer.fresh(loop.name or "body"),
        )

    def returning(self, value: Value, loop: Loop) -> oir.Value:
        """The value as a body output: a copy if the runtime would not take it as it is."""
        made = self.writer.values[value]
        if value in self.inside and value not in (loop.iteration, loop.condition_in):
            return made
        return self.copy(made)


class _Rows:
    """Recorded outputs, some of them with the shapes of their rows beside them."""

    def __init__(self, outer: _Scope, loop: Loop) -> None:
        self.outer = outer
        self.loop = loop
        self.watched = row_shapes.watched(loop)
        self.raw: dict[Recorded, oir.Value] = {}
        self.shapes: dict[Recorded, oir.Value] = {}

    def body_outputs(self, body: _Scope) -> list[oir.Value]:
        values = self.outer.writer.values
        rows = [body.returning(r.row, self.loop) for r in self.loop.recorded]
        return rows + [body.whole("Shape", values[r.row]) for r in self.watched]

    def stacks(self) -> list[oir.Value]:
        made = []
        for recorded in self.loop.recorded:
            if recorded in self.watched:
                stack = recorded.stack
                self.raw[recorded] = self._helper("rows", stack.dtype, stack.shape)
                self.shapes[recorded] = self._helper("shapes", "int64", None)
                made.append(self.raw[recorded])
            else:
                made.append(self.outer._define(recorded.stack))
        return made + list(self.shapes.values())

    def _helper(self, label: str, dtype: str, shape: Shape) -> oir.Value:
        name = self.outer.writer.fresh(f"{self.loop.name}.{label}")
        return oir.Value(name=name, type=_type(dtype), shape=_shape(shape))

    def finish(self) -> None:
        """Let a run fail after the loop where rows differ in shape."""
        outer, constant = self.outer, self.outer.writer.constant
        for recorded, raw in self.raw.items():
            zero, one = constant(np.array([0])), constant(np.array([1]))
            shape = row_shapes.checked_shape(outer.whole, zero, one, raw, self.shapes[recorded])
            stack = outer._define(recorded.stack)
            where = row_shapes.place(self.loop, recorded)
            outer._node("Reshape", [raw, shape], [stack], where=where)


class _Extra:
    """Carried values that only count iterations or keep the last condition."""

    def __init__(self, outer: _Scope, loop: Loop, trip: oir.Value, condition: oir.Value) -> None:
        self.outer = outer
        self.loop = loop
        self.trip = trip
        self.condition = condition
        self.carries_count = loop.count is not None and loop.kind != "for" and not _rows(loop)
        self.carries_condition = loop.last_condition is not None
        self.index: oir.Value | None = None

    def initial(self) -> list[oir.Value]:
        constant = self.outer.writer.constant
        counts = [constant(np.array(-1))] if self.carries_count else []
        return counts + ([self.condition] if self.carries_condition else [])

    def finals(self) -> list[oir.Value]:
        made = []
        if self.carries_count:
            self.index = self._value("int64", "last_index")
            made.append(self.index)
        if self.loop.last_condition is not None:
            made.append(self.outer._define(self.loop.last_condition))
        return made

    def _value(self, dtype: str, label: str) -> oir.Value:
        name = self.outer.writer.fresh(f"{self.loop.name}.{label}")
        return oir.Value(name=name, type=_type(dtype), shape=oir.Shape([]))

    def body_inputs(self) -> list[oir.Value]:
        made = [self._value("int64", "index_in")] if self.carries_count else []
        return made + ([self._value("bool", "condition_in")] if self.carries_condition else [])

    def body_outputs(self, body: _Scope) -> list[oir.Value]:
        made = []
        if self.carries_count:
            made.append(body.copy(self.outer.writer.values[self.loop.iteration]))
        if self.carries_condition:
            assert self.loop.condition_out is not None
            made.append(body.returning(self.loop.condition_out, self.loop))
        return made

    def finish(self) -> None:
        """Make the iteration count out of what is at hand, after the loop."""
        if self.loop.count is None:
            return
        writer, outer = self.outer.writer, self.outer
        count = outer._define(self.loop.count)
        if self.index is not None:
            outer._node("Add", [self.index, writer.constant(np.array(1))], [count])
        elif self.loop.kind == "for":
            outer._node("Max", [self.trip, writer.constant(np.array(0))], [count])
        else:
            stack = writer.values[_rows(self.loop)[0]]
            extents = oir.Value(
                name=writer.fresh("extents"), type=_type("int64"), shape=oir.Shape([1])
            )
            outer._node("Shape", [stack], [extents], {"end": 1})
            outer._node("Squeeze", [extents], [count])


def _rows(loop: Loop) -> tuple[Value, ...]:
    return tuple(recorded.stack for recorded in loop.recorded)


def _attribute(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return oir.tensor(value)
    if isinstance(value, np.generic):
        return value.item()
    return list(value) if isinstance(value, tuple) else value
