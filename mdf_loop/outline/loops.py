"""A loop of a node -> `LoopOutline`, also where not everything about it is known."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from mdf_loop import ir
from mdf_loop.errors import LoopError
from mdf_loop.outline.annotation import Annotations
from mdf_loop.outline.parts import GraphOutline, LoopOutline
from mdf_loop.outline.scope import captured, known_value, literal_value
from mdf_loop.outline.site import Site
from mdf_loop.outline.slices import outline_delay, outline_slice, recorded_words
from mdf_loop.outline.text import followed
from mdf_loop.outline.values import ArgumentOutline, CarriedOutline, RecordedOutline, ResultOutline
from mdf_loop.reading.loop_forms import LoopForm, carried_expressions, loop_form
from mdf_loop.reading.signature import Signature, find_signature

RESULT_NAMES = ("iterations", "condition", "stopped_by")


class PartialSignature(Struct, frozen=True):
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


def outline_loop(site: Site) -> LoopOutline:
    """The outline of a loop that a Function or Parameter of a node describes."""
    item, node, notes = site.item, site.node, site.notes
    try:
        form = loop_form(item, node, site.where, site.document)
    except LoopError as error:
        found = tuple(finding.what for finding in error.findings)
        return replace(no_loop(site, ""), **_arguments(site, None), notes=found)
    initial, signature = _signature(form, node)
    slices = tuple(outline_slice(part, signature.iteration) for part in form.slices)
    delays = tuple(outline_delay(delay) for delay in form.delays)
    roles = signature.roles | dict.fromkeys((part.name for part in slices), "sliced")
    roles |= dict.fromkeys((delay.name for delay in delays), "delayed")
    place = site.place(tuple(form.bindings))
    body = site.read_body(form.body, form.body_where, roles, signature.outputs, place)
    loop = notes.loops.get(site.where)
    return replace(
        no_loop(site, ""),
        **_arguments(site, loop),
        iteration=signature.iteration,
        condition_in=signature.condition_in,
        continue_name=signature.condition_out,
        continues=_continues(form.body, signature.condition_out),
        carried=_carried(initial, signature, node, item.id, notes, loop),
        recorded=_recorded(site, form, signature, len(initial), loop),
        captures=tuple(
            replace(capture, type=notes.type_of(capture.path))
            for capture in captured(body.inputs, place)
        ),
        body=before_test(body) if form.mid_exit else body,
        notes=(signature.note,) if signature.note else (),
        slices=slices,
        delays=delays,
        in_the_middle=form.mid_exit,
        strict=form.owned.strict,
    )


def no_loop(site: Site, kind: str) -> LoopOutline:
    """A loop of which nothing is known but where it stands."""
    return LoopOutline(
        id=site.item.id,
        owner=site.node.id,
        path=site.where,
        kind=kind,
        trip_count=None,
        start=None,
        iteration="",
        condition_in="",
        continue_name="",
        continues="",
        carried=(),
        recorded=(),
        results=_told(site.node, site.item.id),
        captures=(),
        body=None,
    )


def _arguments(site: Site, loop: ir.Loop | None) -> dict[str, Any]:
    """Trip count, start condition, and which mode they make."""
    written, node = site.args, site.node
    fixed = site.notes.fixed(loop.trip_count) if loop else None
    trip_count = argument_of(written.get("M"), node, fixed)
    if trip_count is not None and literal_value(str(trip_count.expression)) == -1:
        trip_count = None
    start = _start(site, loop)
    kind = kind_of(trip_count, start, sliced=bool(written.get("slices")))
    if start is None and written.get("exit") == "middle":
        kind = _TESTED[kind]  # the condition counts though none is given
    elif loop is not None and site.notes.always_true(loop):
        kind = _UNTESTED.get(kind, kind)
    return {"trip_count": trip_count, "start": start, "kind": kind}


def _start(site: Site, loop: ir.Loop | None) -> ArgumentOutline | None:
    """The start condition, with its value also where an edge brings a constant."""
    written = site.args.get("cond")
    brought = isinstance(written, str) and written in {port.id for port in site.node.input_ports}
    fixed = site.notes.fixed(loop.condition) if brought and loop else None
    start = argument_of(written, site.node, fixed)
    return start and replace(start, brought=brought)


_TESTED = {"for": "for-while", "sliced": "sliced-while", "endless": "while"}
_UNTESTED = {"for-while": "for", "sliced-while": "sliced"}
"""The same kinds of loops with a condition, and without."""


def before_test(body: GraphOutline) -> GraphOutline:
    """A body whose nodes say which of them its condition needs."""
    needed = {body.outputs[0].node} if body.outputs else set()
    for _ in body.nodes:
        more = {edge.sender for edge in body.edges if edge.receiver in needed} - needed
        if not more:
            break
        needed |= more
    return replace(
        body, nodes=tuple(replace(node, before_test=node.id in needed) for node in body.nodes)
    )


def kind_of(
    trip_count: ArgumentOutline | None, start: ArgumentOutline | None, *, sliced: bool = False
) -> str:
    """Which of the five operating modes a loop has; slices count where no trip count is given.

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
    if sliced:
        return "sliced" if start is None else "sliced-while"
    if start is None:
        return "endless"
    return "do-while" if start.value is True else "while"


def argument_of(expression: Any | None, node: Any, fixed: Any | None) -> ArgumentOutline | None:
    """An argument with its value, where the model fixes that; None where it is left out."""
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
        inputs, outputs, n = form.owned.inputs or (), form.owned.outputs or (), len(initial)
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


def _told(node: Any, loop_id: str) -> tuple[ResultOutline, ...]:
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
    site: Site,
    form: LoopForm,
    signature: PartialSignature,
    n_carried: int,
    loop: ir.Loop | None,
) -> tuple[RecordedOutline, ...]:
    found = []
    known = loop.recorded if loop and len(loop.recorded) == len(signature.rows) else ()
    for k, name in enumerate(signature.rows):
        ports = taking_ports(site.node, site.item.id, n_carried + k)
        how = recorded_words(form.recordings.get(name))
        stacked = known[k].stack.type if known and not how else ""
        found.append(RecordedOutline(name, ports, stacked or port_type(site, ports), how))
    return tuple(found)


def port_type(site: Site, ports: Iterable[str]) -> str:
    """The type of the first of some output ports of which it is known."""
    paths = (f"{site.node_where}.output_ports['{port}']" for port in ports)
    return next((found for found in map(site.notes.type_of, paths) if found), "")


def _continues(body: Any, name: str) -> str:
    """The body's condition as it is written there."""
    for node in body.nodes:
        for port in node.output_ports:
            if name in (port.id, f"{node.id}.{port.id}"):
                return followed(node, port.value if port.value is not None else port.id)
    return name
