"""A Scan or a SequenceMap of a node -> `LoopOutline`, also where not everything is known."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence
from itertools import zip_longest
from typing import Any

from msgspec.structs import replace

from mdf_loop.document.bodies import written_body
from mdf_loop.errors import LoopError
from mdf_loop.outline.loops import no_loop, port_type, taking_ports
from mdf_loop.outline.parts import GraphOutline, LoopOutline
from mdf_loop.outline.scope import captured, known_value
from mdf_loop.outline.site import Site, output_names
from mdf_loop.outline.slices import outline_slice, recorded_words
from mdf_loop.outline.values import CaptureOutline, CarriedOutline, RecordedOutline, SliceOutline
from mdf_loop.reading.entries import expressions
from mdf_loop.reading.loop_forms import carried_expressions
from mdf_loop.reading.owned_graph import OwnedGraph, Role, owned_graph
from mdf_loop.reading.scan_form import BODY, scan_form
from mdf_loop.reading.sequence_map import ARGUMENTS, body_role


def outline_scan(site: Site) -> LoopOutline:
    """The outline of a Scan: states are carried, scanned inputs sliced, the rest is stacked."""
    try:
        form, signature = scan_form(site.item, site.node, site.where, site.document)
    except LoopError as error:
        return _unknown_scan(site, error)
    initial, states = carried_expressions(form), len(signature.enters)
    slices = tuple(map(outline_slice, form.slices))
    bound = tuple(form.bindings)
    body = _outlined(site, form.owned, bound, signature.enters, slices)
    return replace(
        no_loop(site, "scan"),
        carried=tuple(
            _state(site, k, *names)
            for k, names in enumerate(zip(initial, signature.enters, signature.leaves, strict=True))
        ),
        recorded=tuple(
            _recorded(site, states + k, name, recorded_words(form.recordings.get(name)))
            for k, name in enumerate(signature.rows)
        ),
        slices=slices,
        captures=_captures(site, body, bound),
        body=body,
    )


def outline_map(site: Site) -> LoopOutline:
    """The outline of a SequenceMap: the body runs for every element of a sequence."""
    more = expressions(site.args.get("additional_inputs"))
    given = (site.args.get("input_sequence"), *more)
    try:
        owned = _owned(site, body_role(site.name))
    except LoopError as error:
        return replace(no_loop(site, "map"), notes=tuple(f.what for f in error.findings))
    bound = tuple(name for name in site.args if name not in ARGUMENTS)
    names = zip_longest((owned.inputs or ())[: len(given)], given, fillvalue="")
    slices = tuple(_element(site, k, *pair) for k, pair in enumerate(names))
    body = _outlined(site, owned, bound, (), slices)
    return replace(
        no_loop(site, "map"),
        recorded=tuple(
            _recorded(site, k, name, "a sequence") for k, name in enumerate(output_names(owned))
        ),
        slices=slices,
        captures=_captures(site, body, bound),
        body=body,
    )


# --- parts ------------------------------------------------------------------------------------


def _element(site: Site, k: int, name: str, source: Any) -> SliceOutline:
    """An input of a SequenceMap: a further one that is a tensor is the same for every element."""
    kind = site.notes.type_of(f"{site.node_where}.input_ports['{source}']")
    if k and kind and not kind.startswith("sequence("):
        return SliceOutline(name, source, "")
    how = "if it is a sequence" if k and not kind else ""
    return SliceOutline(name, source, "i", how)


def _recorded(site: Site, k: int, name: str, how: str) -> RecordedOutline:
    ports = taking_ports(site.node, site.item.id, k)
    return RecordedOutline(name, ports, port_type(site, ports), how)


def _state(site: Site, k: int, initial: Any, enter: str, leave: str) -> CarriedOutline:
    ports = taking_ports(site.node, site.item.id, k)
    return CarriedOutline(
        initial=initial,
        enter=enter,
        leave=leave,
        ports=ports,
        type=port_type(site, ports),
        initial_value=known_value(site.node, initial),
    )


# --- the body ---------------------------------------------------------------------------------


def _owned(site: Site, role: Role) -> OwnedGraph:
    written = written_body(site.item, site.node)
    return owned_graph(written, site.item, site.where, role, site.document)


def _unknown_scan(site: Site, error: LoopError) -> LoopOutline:
    """A Scan whose arguments do not fit; its body is shown if there is one."""
    loop = replace(no_loop(site, "scan"), notes=tuple(f.what for f in error.findings))
    with contextlib.suppress(LoopError):
        loop = replace(loop, body=_outlined(site, _owned(site, BODY), (), (), ()))
    return loop


def _outlined(
    site: Site,
    owned: OwnedGraph,
    bound: Sequence[str],
    states: Iterable[str],
    slices: Iterable[SliceOutline],
) -> GraphOutline:
    roles = dict.fromkeys(states, "carried")
    roles |= dict.fromkeys((part.name for part in slices if part.name), "sliced")
    names = ("", *output_names(owned))  # neither has a condition
    return site.read_body(owned.graph, owned.where, roles, names, site.place(bound))


def _captures(site: Site, body: GraphOutline, bound: Sequence[str]) -> tuple[CaptureOutline, ...]:
    found = captured(body.inputs, site.place(bound))
    return tuple(replace(c, type=site.notes.type_of(c.path)) for c in found)
