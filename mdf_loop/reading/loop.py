"""A loop node -> `Loop`: arguments, body signature, captures, results.

Source: ONNX Loop-13 and the MDF forms of `loop_forms`.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np

from mdf_loop.build import Builder
from mdf_loop.errors import (
    ConditionError,
    EndlessLoopError,
    ExpressionError,
    ModelError,
    OperandError,
    Poisoned,
    TripCountError,
)
from mdf_loop.ir import Carried, Loop, Recorded, Shape, StoppedBy, Value
from mdf_loop.lower import Scope, Term, cast, lower_expression, tensor
from mdf_loop.lower.operators import equal, greater_equal, guarded, not_equal, truth
from mdf_loop.reading.body import Body, read_body
from mdf_loop.reading.control import Reading, reads
from mdf_loop.reading.document import Document
from mdf_loop.reading.loop_forms import LoopForm, carried_expressions, loop_form
from mdf_loop.reading.port_types import edge_dtype
from mdf_loop.reading.signature import Signature, find_signature, free_ports


@reads("onnx::Loop")
def read_loop(
    b: Builder, item: Any, node: Any, where: str, scope: Scope, document: Document
) -> Reading:
    """The results of the loop that a Function or Parameter of `node` describes."""
    form = loop_form(item, node, where, document)
    _refuse_misspelt(form)
    inner = scope.inner()
    for key, expression in form.bindings.items():
        with b.at(f"{where}.args.{key}"):
            if expression is None:
                raise ExpressionError(
                    f"the loop's argument '{key}' has no value",
                    hint="give it a value, or leave it out",
                )
            inner.define(key, lower_expression(b, expression, scope))
    arguments = _arguments(b, form, scope)
    signature = find_signature(form, node, len(arguments.initial))
    arguments = replace(arguments, initial=_stated(b, form, signature, arguments.initial))
    writer = LoopWriter(b, form, arguments, signature, inner, document)
    return writer.write()


def _stated(
    b: Builder, form: LoopForm, signature: Signature, initial: tuple[Value, ...]
) -> tuple[Value, ...]:
    """Plain numbers as initial values get the dtype that the body's input port states."""
    ports = {port.id: port for node in form.body.nodes for port in node.input_ports}
    return tuple(
        cast(b, value, edge_dtype(b, ports[name], value))
        if name in ports and b.is_weak(value)
        else value
        for value, name in zip(initial, signature.enters, strict=True)
    )


T = TypeVar("T")


def _refuse_misspelt(form: LoopForm) -> None:
    """An argument that the body does not read and that looks like one of the loop's own."""
    read = set(free_ports(form.body))
    for key in (name for name in form.bindings if name not in read):
        meant = difflib.get_close_matches(key, ("cond", "v_initial", "body"), n=1, cutoff=0.75)
        if meant or key == "m":
            raise ModelError(
                f"the loop '{form.name}' has no argument '{key}', and its body does not read it",
                f"{form.where}.args.{key}",
                f"did you mean '{meant[0] if meant else 'M'}'?",
            )


@dataclass(frozen=True, slots=True)
class _Arguments:
    trip_count: Value | None
    condition: Value | None
    initial: tuple[Value, ...]


def _arguments(b: Builder, form: LoopForm, scope: Scope) -> _Arguments:
    """Trip count, condition and initial values; all errors in them at once.

    Where trip count or condition are wrong, reading goes on with a stand-in: the body may have
    errors of its own.
    """

    def read(name: str, compute: Callable[[Builder, LoopForm, Scope], T], stand_in: Any) -> T:
        with b.findings.catch(), b.at(f"{form.where}.args.{name}", f"{form.name}.{name}"):
            return compute(b, form, scope)
        if stand_in is None:
            raise Poisoned
        value: T = b.constant(np.array(stand_in))
        return value

    condition = read("cond", _condition, True)
    trip_count = read("M", _trip_count, 0)
    initial = read("v_initial", _initial_values, None)
    if trip_count is None and condition is None and b.options.max_iterations is None:
        raise EndlessLoopError(
            f"the loop '{form.name}' has neither a trip count (M) nor a condition (cond): "
            "it would never end",
            form.where,
            "give M or cond, or set a bound for this run with max_iterations (--max-iterations)",
        )
    return _Arguments(trip_count, condition, initial)


def _initial_values(b: Builder, form: LoopForm, scope: Scope) -> tuple[Value, ...]:
    values: list[Value] = []
    for expression in carried_expressions(form):
        term = lower_expression(b, expression, scope)
        values += [tensor(b, t) for t in term] if isinstance(term, tuple) else [term]
    return tuple(values)


def _one_element(b: Builder, value: Value) -> Value | None:
    """The value without axes, if it has exactly one element."""
    if value.shape == ():
        return value
    if value.shape is None or any(dim != 1 for dim in value.shape):
        return None
    return b.op("Reshape", value, b.constant(np.zeros(0, np.int64)))


def _trip_count(b: Builder, form: LoopForm, scope: Scope) -> Value | None:
    if form.trip_count is None:
        return None
    term = lower_expression(b, form.trip_count, scope)
    value = None if isinstance(term, tuple) and len(term) != 1 else _one_element(b, tensor(b, term))
    if value is None or value.dtype in ("string", "bool"):
        shown = f"{len(term)} values" if isinstance(term, tuple) else f"{term.type}"
        raise TripCountError(
            f"the trip count of '{form.name}' must be one whole number, not {shown}",
            hint="give M as one integer",
        )
    known = b.constant_of(value)
    if known is not None:
        return _known_trip_count(
            b, form, float(known), int(known) if known.dtype.kind in "iu" else None
        )
    return _run_time_trip_count(b, form, value)


def _known_trip_count(b: Builder, form: LoopForm, number: float, whole: int | None) -> Value | None:
    if whole is None and (not np.isfinite(number) or number != int(number)):
        raise TripCountError(
            f"the trip count of '{form.name}' must be a whole number, not {number}",
            hint="round it, e.g. int(...)",
        )
    count = int(number) if whole is None else whole
    if abs(count) > np.iinfo(np.int64).max:
        raise TripCountError(
            f"the trip count of '{form.name}' is too large: {number:g}",
            hint="leave M out and give a condition, if the loop has no limit",
        )
    return None if count == -1 else b.constant(np.array(count, np.int64))


def _run_time_trip_count(b: Builder, form: LoopForm, value: Value) -> Value:
    """A trip count known only at run time: whole, and -1 for none (then the bound, if any)."""
    whole = cast(b, value, "int64")
    if value.dtype == "uint64":
        sentence = f"the trip count of '{form.name}' is too large"
        whole = guarded(b, whole, greater_equal(b, whole, b.constant(np.array(0))), sentence)
    if np.dtype(value.dtype).kind == "f":
        back = cast(b, whole, value.dtype)
        sentence = f"the trip count of '{form.name}' must be a whole number"
        whole = guarded(b, whole, equal(b, back, value), sentence)
    none = b.constant(np.array(-1))
    bound = b.options.max_iterations
    if form.condition is None and bound is None:
        sentence = (
            f"the loop '{form.name}' has a trip count of -1 (none) and no condition: "
            "it would never end"
        )
        return guarded(b, whole, not_equal(b, whole, none), sentence)
    most = b.constant(np.array(np.iinfo(np.int64).max if bound is None else bound))
    return b.op("Where", equal(b, whole, none), most, whole)


def _condition(b: Builder, form: LoopForm, scope: Scope) -> Value | None:
    if form.condition is None:
        return None
    value = tensor(b, lower_expression(b, form.condition, scope))
    try:
        return truth(b, value)
    except OperandError:
        raise ConditionError(
            f"the condition of '{form.name}' must be one truth value, not {value.type}",
            hint="reduce it to one element, e.g. numpy.max(...)",
        ) from None


class LoopWriter:
    """Reads the body and appends the loop; once more with wider shapes if they change."""

    def __init__(
        self,
        b: Builder,
        form: LoopForm,
        arguments: _Arguments,
        signature: Signature,
        scope: Scope,
        document: Document,
    ) -> None:
        self.b = b
        self.form = form
        self.arguments = arguments
        self.signature = signature
        self.scope = scope
        self.document = document
        self.name = f"{_owner(form.where)}.{form.name}"
        self.dynamic = (form.shapes or b.options.shapes) == "dynamic"

    def write(self) -> Reading:
        """Append the loop and give its results."""
        entering = [value.shape for value in self.arguments.initial]
        body = self._read_body(entering)
        for _ in range(3):  # each round can only lose extents, then ranks
            joined = [
                _joined(e, v.shape, self.dynamic)
                for e, v in zip(entering, body.leaves, strict=True)
            ]
            if joined == entering:
                break
            entering = joined
            body = self._read_body(entering)
        loop = self.b.append(self._loop(body))
        return Reading(self._results(loop), self._named(loop))

    def _read_body(self, entering: list[Shape]) -> Body:
        dtypes = tuple(value.dtype for value in self.arguments.initial)
        return read_body(
            self.b,
            self.form,
            self.signature,
            dtypes,
            entering,
            self.scope,
            self.document,
        )

    def _loop(self, body: Body) -> Loop:
        b, form = self.b, self.form
        count_known = b.constant_of(self.arguments.trip_count)
        extent: int | str = b.name(f"{form.name}_iterations")
        if count_known is not None and self.arguments.condition is None:
            extent = max(int(count_known), 0)
        with b.at(form.where, self.name):
            carried = tuple(
                Carried(
                    initial,
                    enter,
                    leave,
                    b.new(enter.dtype, enter.shape, f"{self.name}.{name}"),
                    name,
                )
                for initial, enter, leave, name in zip(
                    self.arguments.initial, body.enters, body.leaves, body.leave_names, strict=True
                )
            )
            recorded = tuple(
                Recorded(
                    row, b.new(row.dtype, _stacked(extent, row.shape), f"{self.name}.{name}"), name
                )
                for row, name in zip(body.rows, body.row_names, strict=True)
            )
            return Loop(
                name=self.name,
                trip_count=self.arguments.trip_count,
                condition=self.arguments.condition,
                iteration=body.iteration,
                condition_in=body.condition_in,
                condition_out=body.condition_out,
                carried=carried,
                recorded=recorded,
                ops=body.ops,
                bound=b.options.max_iterations if self.arguments.trip_count is None else None,
                dynamic_shapes=self.dynamic,
                count=b.new("int64", (), f"{self.name}.iterations"),
                last_condition=b.new("bool", (), f"{self.name}.condition"),
                where=form.where,
            )

    def _results(self, loop: Loop) -> Term:
        results = (*(c.final for c in loop.carried), *(r.stack for r in loop.recorded))
        return results[0] if len(results) == 1 else results

    def _named(self, loop: Loop) -> dict[str, Callable[[], Term]]:
        assert loop.count is not None
        assert loop.last_condition is not None
        count, last = loop.count, loop.last_condition
        return {
            "iterations": lambda: count,
            "condition": lambda: last,
            "stopped_by": lambda: self._stopped_by(loop, last),
        }

    def _stopped_by(self, loop: Loop, last: Value) -> Value:
        def code(reason: StoppedBy) -> Value:
            return self.b.constant(np.array(reason.code))

        limit = StoppedBy.MAX_ITERATIONS if loop.trip_count is None else StoppedBy.TRIP_COUNT
        if loop.condition is None:
            return code(limit)
        return self.b.op("Where", last, code(limit), code(StoppedBy.CONDITION))


def _owner(where: str) -> str:
    """The id of the node in a path like `$.graphs[0].nodes['A'].functions['f']`."""
    return where.rsplit(".nodes['", 1)[-1].split("']", 1)[0] if ".nodes['" in where else "loop"


def _stacked(extent: int | str, shape: Shape) -> Shape:
    return None if shape is None else (extent, *shape)


def _joined(enter: Shape, leave: Shape, dynamic: bool) -> Shape:
    """The shape that holds for both: unknown extents always, differing ones only if allowed."""
    if enter is None or leave is None:
        return None
    if len(enter) != len(leave):
        return None if dynamic else enter
    return tuple(
        p if p == q or (isinstance(p, int) and isinstance(q, int) and not dynamic) else _wider(p, k)
        for k, (p, q) in enumerate(zip(enter, leave, strict=True))
    )


def _wider(dim: int | str, axis: int) -> str:
    return dim if isinstance(dim, str) else f"?{axis}"
