"""A loop body: one evaluation of its graph, its inputs bound by the signature.

A free port of the body means, in this order: a declared input, a value of the enclosing place
(a capture), its own default_value; else it is an error, never a silent zero.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from mdf_loop.build import Builder
from mdf_loop.errors import (
    ConditionError,
    Poisoned,
    ScopeError,
    SignatureError,
    UnknownNameError,
    UnsupportedError,
)
from mdf_loop.ir import Operation, Shape, Value
from mdf_loop.lower import Scope, Term, cast, suggestion, tensor
from mdf_loop.lower.operators import one_element
from mdf_loop.reading.delays import History, Row
from mdf_loop.reading.document import Document
from mdf_loop.reading.given import default_value
from mdf_loop.reading.graph import GraphReader
from mdf_loop.reading.loop_forms import LoopForm
from mdf_loop.reading.memory import Memory
from mdf_loop.reading.node import Context, is_stateful
from mdf_loop.reading.port_types import edge_dtype
from mdf_loop.reading.signature import Signature
from mdf_loop.reading.slices import Slice


@dataclass(frozen=True, slots=True)
class Scopes:
    """What a body may read from outside: the names of its node, and those the loop binds for it."""

    node: Scope
    bound: Mapping[str, Term]

    def seen_by(self, form: LoopForm) -> Scope:
        """The names that the body sees; a strict one sees only what is bound for it."""
        return Scope(self.bound) if form.strict else self.node.inner(self.bound)


@dataclass(frozen=True, slots=True)
class Known:
    """What enters one iteration of a loop that is written out (`reading.unrolled`)."""

    iteration: Value
    condition: Value
    carried: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class Entering:
    """What enters a body: carried values (those of histories last), slices, delays."""

    carried: tuple[Row, ...]
    slices: tuple[Slice, ...]
    histories: tuple[History, ...]
    known: Known | None = None


@dataclass(frozen=True, slots=True)
class Body:
    """A body that was read: values in the body's scope, ready to become a `Loop`.

    `delayed` is what each history holds the past of, `early` what is known when the condition is.
    """

    iteration: Value
    condition_in: Value
    condition_out: Value
    enters: tuple[Value, ...]
    leaves: tuple[Value, ...]
    leave_names: tuple[str, ...]
    rows: tuple[Value, ...]
    row_names: tuple[str, ...]
    ops: tuple[Operation, ...]
    delayed: tuple[Value, ...]
    early: tuple[Value, ...]


def read_body(
    b: Builder,
    form: LoopForm,
    signature: Signature,
    entering: Entering,
    scopes: Scopes,
    document: Document,
) -> Body:
    """Read the body for carried values of these types."""
    return _BodyReader(b.body(), form, signature, scopes.seen_by(form), document).read(entering)


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

    def read(self, entering: Entering) -> Body:
        b, signature, where = self.b, self.signature, self.form.body_where
        with b.at(where):
            iteration, condition_in = self._control(entering.known)
            names = [n for history in entering.histories for n in history.names]
            enters = self._carried(entering, names)
            past = self._take(iteration, enters, entering)
        self._refuse_states()
        scope = self.enclosing.inner(self.inputs)
        context = Context(self.document, scope)
        reader = GraphReader(self.form.body, where, self._supply, context, Memory(b)).read()
        condition_out, *outputs = self._outputs(reader)
        carried = len(signature.leaves)
        delayed, pushed = self._delayed(past, reader)
        return Body(
            iteration=iteration,
            condition_in=condition_in,
            condition_out=condition_out,
            enters=enters,
            leaves=(*outputs[:carried], *pushed),
            leave_names=(*signature.leaves, *names),
            rows=tuple(outputs[carried:]),
            row_names=signature.rows,
            delayed=delayed,
            early=tuple(self._early(reader)) if self.form.mid_exit else (),
            ops=tuple(b.ops),
        )

    def _control(self, known: Known | None) -> tuple[Value, Value]:
        """Iteration number and incoming condition."""
        signature = self.signature
        if known is None:
            iteration = self._input(signature.iteration, "iteration", "int64", ())
            return iteration, self._input(signature.condition_in, "condition", "bool", ())
        named = {signature.iteration: known.iteration, signature.condition_in: known.condition}
        self.inputs.update((name, value) for name, value in named.items() if name)
        return known.iteration, known.condition

    def _carried(self, entering: Entering, histories: list[str]) -> tuple[Value, ...]:
        """The carried values, those of histories last."""
        names = self.signature.enters
        if entering.known is not None:
            self.inputs.update(zip(names, entering.known.carried, strict=True))
            return entering.known.carried
        return tuple(
            self._input(name, label, row.dtype, row.shape)
            for name, label, row in zip(
                (*names, *(None for _ in histories)),
                (*names, *histories),
                entering.carried,
                strict=True,
            )
        )

    def _take(
        self, iteration: Value, enters: tuple[Value, ...], entering: Entering
    ) -> list[tuple[History, tuple[Value, ...]]]:
        """Make slices and delays inputs of the body; the histories with what enters of each."""
        for part in entering.slices:
            with self.b.at(part.form.where, part.form.name):
                self._define(part.form.name, part.row(self.b, iteration), part.form.where)
        past = []
        first = len(self.signature.enters)
        for history in entering.histories:
            mine = enters[first : first + len(history.names)]
            first += len(history.names)
            past.append((history, mine))
            with self.b.at(history.where, history.of):
                for name, value in history.delayed(self.b, mine).items():
                    self._define(name, value, history.where)
        return past

    def _define(self, name: str, value: Value, where: str) -> None:
        if name in self.inputs:
            raise SignatureError(
                f"the name '{name}' stands for two inputs of the body",
                where,
                "slices and delays do not stand in metadata.inputs; rename one of them",
            )
        self.inputs[name] = value

    def _delayed(
        self,
        past: list[tuple[History, tuple[Value, ...]]],
        reader: GraphReader,
    ) -> tuple[tuple[Value, ...], tuple[Value, ...]]:
        """What each history is the past of, and what it carries on."""
        values: list[Value] = []
        leaves: list[Value] = []
        for history, enters in past:
            with self.b.at(history.where, history.of):
                value = self._output(history.of, reader)
                fits = Row(value.dtype, value.shape).fits(history)
                leaves += history.leaves(self.b, enters, value) if fits else enters
            values.append(value)
        return tuple(values), tuple(leaves)

    def _early(self, reader: GraphReader) -> list[Value]:
        """What the nodes give that the condition gets values from, and what enters the body."""
        graph, name = self.form.body, self.signature.condition_out
        found = {node for node, port in _output_ports(graph) if name in (port, f"{node}.{port}")}
        waiting = list(found)
        while waiting:
            receiver = waiting.pop()
            senders = {edge.sender for edge in graph.edges if edge.receiver == receiver} - found
            found |= senders
            waiting += senders
        terms = [*self.inputs.values()]
        terms += [reader.output(*key) for key in _output_ports(graph) if key[0] in found]
        return [value for term in terms for value in _values(term)]

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
            if self.form.strict:
                raise ScopeError(
                    f"the input port '{port.id}' of body node '{node.id}' is not declared, and the "
                    "body is strict",
                    where,
                    f"carry or slice it, or add {port.id}: {port.id} to the loop's args",
                )
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
        if not name:
            return self.b.constant(np.array(True))
        value = self._output(name, reader)
        if value.dtype != "bool":
            raise ConditionError(
                f"the body's condition '{name}' must be a truth value, not {value.type}",
                hint="compare, e.g. x < limit, or use True to go on always; the condition is the "
                "first of metadata.outputs",
            )
        single = one_element(self.b, value)
        if single is None:
            raise ConditionError(
                f"the body's condition '{name}' must be one truth value, not {value.type}",
                hint="reduce it to one element, e.g. numpy.max(...)",
            )
        return single


def _output_ports(graph: Any) -> list[tuple[str, str]]:
    return [(node.id, port.id) for node in graph.nodes for port in node.output_ports]


def _values(term: Term) -> Iterator[Value]:
    """The tensors of a term."""
    if isinstance(term, Value):
        yield term
    else:
        for part in term:
            yield from _values(part)
