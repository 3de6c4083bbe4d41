"""A loop body: one evaluation of its graph, its inputs bound by the signature.

A free port of the body means, in this order: a declared input, a value of the enclosing place
(a capture), its own default_value; else it is an error, never a silent zero.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mdf_loop.build import Builder
from mdf_loop.errors import (
    ConditionError,
    Poisoned,
    ScopeError,
    UnknownNameError,
    UnsupportedError,
)
from mdf_loop.ir import Operation, Shape, Value
from mdf_loop.lower import Scope, Term, cast, suggestion, tensor
from mdf_loop.reading.document import Document
from mdf_loop.reading.given import default_value
from mdf_loop.reading.graph import GraphReader
from mdf_loop.reading.loop_forms import LoopForm
from mdf_loop.reading.memory import Memory
from mdf_loop.reading.node import Context, is_stateful
from mdf_loop.reading.port_types import edge_dtype
from mdf_loop.reading.signature import Signature


@dataclass(frozen=True, slots=True)
class Body:
    """A body that was read: values in the body's scope, ready to become a `Loop`."""

    iteration: Value
    condition_in: Value
    condition_out: Value
    enters: tuple[Value, ...]
    leaves: tuple[Value, ...]
    leave_names: tuple[str, ...]
    rows: tuple[Value, ...]
    row_names: tuple[str, ...]
    ops: tuple[Operation, ...]


def read_body(
    b: Builder,
    form: LoopForm,
    signature: Signature,
    dtypes: tuple[str, ...],
    entering: list[Shape],
    scope: Scope,
    document: Document,
) -> Body:
    """Read the body for carried values of these dtypes and shapes."""
    return _BodyReader(b.body(), form, signature, scope, document).read(dtypes, entering)


class _BodyReader:
    def __init__(
        self,
        b: Builder,
        form: LoopForm,
        signature: Signature,
        scope: Scope,
        document: Document,
    ) -> None:
        self.b = b
        self.form = form
        self.signature = signature
        self.enclosing = scope
        self.document = document
        self.inputs: dict[str, Term] = {}

    def read(self, dtypes: tuple[str, ...], entering: list[Shape]) -> Body:
        b, signature, where = self.b, self.signature, self.form.body_where
        with b.at(where):
            iteration = self._input(signature.iteration, "iteration", "int64", ())
            condition_in = self._input(signature.condition_in, "condition", "bool", ())
            enters = tuple(
                self._input(name, name, dtype, shape)
                for name, dtype, shape in zip(signature.enters, dtypes, entering, strict=True)
            )
        self._refuse_states()
        scope = self.enclosing.inner(self.inputs)
        context = Context(self.document, scope)
        reader = GraphReader(self.form.body, where, self._supply, context, Memory(b)).read()
        condition_out, *outputs = self._outputs(reader)
        return Body(
            iteration=iteration,
            condition_in=condition_in,
            condition_out=condition_out,
            enters=enters,
            leaves=tuple(outputs[: len(enters)]),
            leave_names=signature.leaves,
            rows=tuple(outputs[len(enters) :]),
            row_names=signature.rows,
            ops=tuple(b.ops),
        )

    def _refuse_states(self) -> None:
        """A body keeps nothing by itself from one iteration to the next."""
        for node in self.form.body.nodes:
            for parameter in filter(is_stateful, node.parameters):
                with self.b.findings.catch():
                    raise UnsupportedError(
                        f"the parameter '{parameter.id}' of body node '{node.id}' keeps a state, "
                        "but a loop body remembers only what the loop carries",
                        f"{self.form.body_where}.nodes['{node.id}'].parameters['{parameter.id}']",
                        "carry it: add its initial value to v_initial, and its names to the "
                        "body's metadata.inputs and metadata.outputs",
                    )

    def _input(self, name: str | None, label: str, dtype: str, shape: Shape) -> Value:
        named = shape and tuple(self.b.name("d") if str(d).startswith("?") else d for d in shape)
        value = self.b.new(dtype, named, name or label)
        if name is not None:
            self.inputs[name] = value
        return value

    def _supply(self, node: Any, port: Any, where: str) -> Term:
        """What a free port of the body stands for."""
        term = self.inputs.get(port.id)
        if term is None:
            term = self.enclosing.find(port.id)
        if term is None and port.default_value is not None:
            return default_value(self.b, port, where)
        if term is None:
            declared = [*self.inputs, *self.enclosing.names()]
            raise ScopeError(
                f"the input port '{port.id}' of body node '{node.id}' is bound to nothing",
                where,
                suggestion(port.id, declared)
                or "name it in metadata.inputs, give the loop's node a port of that name, "
                "or give it a default_value",
            )
        if isinstance(term, tuple):
            return term
        return cast(self.b, term, edge_dtype(self.b, port, term))

    def _find(self, name: str, reader: GraphReader) -> Term:
        """An output name: an output port, else an input passed through, else an outer value."""
        matches = [key for key in _output_ports(self.form.body) if name in (key[1], ".".join(key))]
        if len(matches) > 1:
            ways = ", ".join(repr(".".join(key)) for key in matches)
            raise ScopeError(
                f"the body output '{name}' could be {ways}",
                hint="write node.port in metadata.outputs",
            )
        if matches:
            return reader.output(*matches[0])
        passed = self.inputs.get(name)
        term = passed if passed is not None else self.enclosing.find(name)
        if term is None:
            known = [key[1] for key in _output_ports(self.form.body)] + list(self.inputs)
            raise UnknownNameError(
                f"the body has no output port '{name}' (named in metadata.outputs)",
                hint=suggestion(name, known),
            )
        return term

    def _output(self, name: str, reader: GraphReader) -> Value:
        return tensor(self.b, self._find(name, reader))

    def _outputs(self, reader: GraphReader) -> list[Value]:
        """Condition, leaves and rows; all errors in them at once."""
        b, signature, where = self.b, self.signature, self.form.body_where
        found: list[Value] = []
        with b.findings.catch(), b.at(where):
            found.append(self._condition(reader))
        for name in (*signature.leaves, *signature.rows):
            with b.findings.catch(), b.at(where):
                found.append(self._output(name, reader))
        if len(found) < 1 + len(signature.leaves) + len(signature.rows):
            raise Poisoned
        return found

    def _condition(self, reader: GraphReader) -> Value:
        name = self.signature.condition_out
        value = self._output(name, reader)
        if value.dtype != "bool":
            raise ConditionError(
                f"the body's condition '{name}' must be a truth value, not {value.type}",
                hint="compare, e.g. x < limit, or use True to go on always; the condition is the "
                "first of metadata.outputs",
            )
        if value.shape is None or any(dim != 1 for dim in value.shape):
            raise ConditionError(
                f"the body's condition '{name}' must be one truth value, not {value.type}",
                hint="reduce it to one element, e.g. numpy.max(...)",
            )
        if value.shape:
            value = self.b.op("Reshape", value, self.b.constant(np.zeros(0, np.int64)))
        return value


def _output_ports(graph: Any) -> list[tuple[str, str]]:
    return [(node.id, port.id) for node in graph.nodes for port in node.output_ports]
