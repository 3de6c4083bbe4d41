"""A loop of a node -> `LoopOutline`, also where not everything about it is known."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from mdf_loop import ir
from mdf_loop.errors import LoopError
from mdf_loop.outline.annotation import Annotations
from mdf_loop.outline.parts import (
    ArgumentOutline,
    CarriedOutline,
    GraphOutline,
    LoopOutline,
    RecordedOutline,
    ResultOutline,
)
from mdf_loop.outline.scope import Place, captured, known_value, node_place
from mdf_loop.outline.text import followed
from mdf_loop.reading.document import Document
from mdf_loop.reading.loop_forms import LoopForm, carried_expressions, loop_form
from mdf_loop.reading.signature import Signature, find_signature

RESULT_NAMES = ("iterations", "condition", "stopped_by")

BodyReader = Callable[[Any, str, "PartialSignature", Place], GraphOutline]
"""Outlines a body graph: graph, path, signature, the place around it."""


@dataclass(frozen=True, slots=True)
class PartialSignature:
    """A body's signature as far as it is known; an unknown name is empty."""

    iteration: str
    condition_in: str
    enters: tuple[str, ...]
    condition_out: str
    leaves: tuple[str, ...]
    rows: tuple[str, ...]
    note: str = ""

    @property
    def roles(self) -> dict[str, str]:
        """What each input of the body is."""
        named = {self.iteration: "iteration", self.condition_in: "condition"}
        named.update(dict.fromkeys(self.enters, "carried"))
        named.pop("", None)
        return named

    @property
    def outputs(self) -> tuple[str, ...]:
        """Condition, carried values, recorded values: in ONNX's order."""
        return (self.condition_out, *self.leaves, *self.rows)


def outline_loop(
    item: Any,
    node: Any,
    where: str,
    item_where: str,
    document: Document,
    notes: Annotations,
    outer: Place | None,
    read_body: BodyReader,
) -> LoopOutline:
    """The outline of the loop that a Function or Parameter of `node` describes."""
    try:
        form = loop_form(item, node, item_where, document)
    except LoopError as error:
        return _unknown(item, node, item_where, error)
    initial, signature = _signature(form, node)
    place = node_place(node, where, form.bindings, outer)
    body = read_body(form.body, form.body_where, signature, place)
    loop = notes.loops.get(item_where)
    trip_count = _argument(form.trip_count, node, notes.fixed(loop.trip_count) if loop else None)
    start = _argument(form.condition, node, None)
    known = [signature.note] if signature.note else []
    return LoopOutline(
        id=item.id,
        owner=node.id,
        path=item_where,
        kind=kind_of(trip_count, start),
        trip_count=trip_count,
        start=start,
        iteration=signature.iteration,
        condition_in=signature.condition_in,
        continue_name=signature.condition_out,
        continues=_continues(form.body, signature.condition_out),
        carried=_carried(initial, signature, node, item.id, notes, loop),
        recorded=_recorded(signature, len(initial), node, item.id, loop),
        results=_results(node, item.id),
        captures=tuple(
            replace(capture, type=notes.type_of(capture.path))
            for capture in captured(body.inputs, place)
        ),
        body=body,
        notes=tuple(known),
    )


def _unknown(item: Any, node: Any, where: str, error: LoopError) -> LoopOutline:
    args = item.args or {}
    trip_count = _argument(args.get("M"), node, None)
    start = _argument(args.get("cond"), node, None)
    return LoopOutline(
        id=item.id,
        owner=node.id,
        path=where,
        kind=kind_of(trip_count, start),
        trip_count=trip_count,
        start=start,
        iteration="",
        condition_in="",
        continue_name="",
        continues="",
        carried=(),
        recorded=(),
        results=_results(node, item.id),
        captures=(),
        body=None,
        notes=tuple(finding.what for finding in error.findings),
    )


def kind_of(trip_count: ArgumentOutline | None, start: ArgumentOutline | None) -> str:
    """Which of the five operating modes a loop has.

    | trip count | condition  | mode      |
    | given      | left out   | for       |
    | given      | given      | for-while |
    | left out   | fixed true | do-while  |
    | left out   | given      | while     |
    | left out   | left out   | endless   |

    Source: ONNX operators, Loop-13.
    """
    if trip_count is not None:
        return "for" if start is None else "for-while"
    if start is None:
        return "endless"
    return "do-while" if start.value is True else "while"


def _argument(expression: Any | None, node: Any, fixed: Any | None) -> ArgumentOutline | None:
    if expression is None or expression == "":
        return None
    value = known_value(node, expression) if fixed is None else fixed
    while isinstance(value, list) and len(value) == 1:
        value = value[0]
    return ArgumentOutline(expression, value)


# --- signature --------------------------------------------------------------------------------


def _signature(form: LoopForm, node: Any) -> tuple[tuple[Any, ...], PartialSignature]:
    """The initial values and the signature; what cannot be found out is left empty."""
    try:
        initial = carried_expressions(form)
        return initial, _complete(find_signature(form, node, len(initial)))
    except LoopError as error:
        initial = tuple(form.initial.values() if isinstance(form.initial, dict) else form.initial)
        inputs, outputs, n = form.inputs or (), form.outputs or (), len(initial)
        partial = PartialSignature(
            iteration=_at(inputs, 0),
            condition_in=_at(inputs, 1),
            enters=tuple(inputs[2:]),
            condition_out=_at(outputs, 0),
            leaves=tuple(outputs[1 : 1 + n]),
            rows=tuple(outputs[1 + n :]),
            note="; ".join(finding.what for finding in error.findings),
        )
        return initial, partial


def _complete(found: Signature) -> PartialSignature:
    return PartialSignature(
        iteration=found.iteration or "",
        condition_in=found.condition_in or "",
        enters=found.enters,
        condition_out=found.condition_out,
        leaves=found.leaves,
        rows=found.rows,
    )


def _at(names: Sequence[str], k: int) -> str:
    return names[k] if k < len(names) else ""


# --- results ----------------------------------------------------------------------------------


def result_reads(expression: Any, loop_id: str) -> tuple[int | None, ...]:
    """Which results of a loop an expression takes: positions, None for all of them."""
    if not isinstance(expression, str):
        return ()
    pattern = rf"(?<![\w.]){re.escape(loop_id)}(?:\[(\d+)\]|(?![\w.\[]))"
    return tuple(int(k) if k else None for k in re.findall(pattern, expression))


def taking_ports(node: Any, loop_id: str, k: int) -> tuple[str, ...]:
    """The output ports of the node that plainly are the `k`-th result of a loop."""
    bare = [port.id for port in node.output_ports if _stripped(port.value) == loop_id]
    by_position = [bare[k]] if len(bare) > 1 and k < len(bare) else bare[:1] if k == 0 else []
    chosen = [p.id for p in node.output_ports if _stripped(p.value) == f"{loop_id}[{k}]"]
    return (*by_position, *chosen)


def _stripped(value: Any) -> str:
    return re.sub(r"\s+", "", value) if isinstance(value, str) else ""


def _results(node: Any, loop_id: str) -> tuple[ResultOutline, ...]:
    found = []
    for name in RESULT_NAMES:
        ports = [p.id for p in node.output_ports if _stripped(p.value) == f"{loop_id}.{name}"]
        if ports:
            found.append(ResultOutline(name, tuple(ports)))
    return tuple(found)


def _carried(
    initial: Sequence[Any],
    signature: PartialSignature,
    node: Any,
    loop_id: str,
    notes: Annotations,
    loop: ir.Loop | None,
) -> tuple[CarriedOutline, ...]:
    pairs = []
    for k in range(max(len(initial), len(signature.enters))):
        expression = initial[k] if k < len(initial) else None
        known = loop.carried[k] if loop and k < len(loop.carried) else None
        fixed = notes.fixed(known.initial) if known else None
        value = known_value(node, expression) if fixed is None else fixed
        pairs.append(
            CarriedOutline(
                initial=expression,
                enter=_at(signature.enters, k),
                leave=_at(signature.leaves, k),
                ports=taking_ports(node, loop_id, k),
                type=known.enter.type if known else "",
                initial_value=value,
            )
        )
    return tuple(pairs)


def _recorded(
    signature: PartialSignature, n_carried: int, node: Any, loop_id: str, loop: ir.Loop | None
) -> tuple[RecordedOutline, ...]:
    return tuple(
        RecordedOutline(
            name,
            taking_ports(node, loop_id, n_carried + k),
            loop.recorded[k].stack.type if loop and k < len(loop.recorded) else "",
        )
        for k, name in enumerate(signature.rows)
    )


def _continues(body: Any, name: str) -> str:
    """The body's condition as it is written there."""
    for node in body.nodes:
        for port in node.output_ports:
            if name in (port.id, f"{node.id}.{port.id}"):
                return followed(node, port.value if port.value is not None else port.id)
    return name
