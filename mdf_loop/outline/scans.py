"""Outline of a Scan or a SequenceMap of a node, also for an incomplete model."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence
from itertools import zip_longest
from typing import Any

from msgspec.structs import replace

from mdf_loop.document.bodies import written_body
from mdf_loop.errors import LoopError
from mdf_loop.outline.loops import port_type, result_ports, unknown_loop
from mdf_loop.outline.parts import GraphOutline, LoopOutline
from mdf_loop.outline.scope import find_captures, known_value
from mdf_loop.outline.site import BlockContext, output_names
from mdf_loop.outline.slices import outline_slice, recording_remark
from mdf_loop.outline.values import CaptureOutline, CarriedOutline, RecordedOutline, SliceOutline
from mdf_loop.reading.entries import expressions
from mdf_loop.reading.loop_forms import carried_expressions
from mdf_loop.reading.owned_graph import OwnedGraph, Role, owned_graph
from mdf_loop.reading.scan_form import BODY, scan_form
from mdf_loop.reading.sequence_map import ARGUMENTS, body_role


def outline_scan(site: BlockContext) -> LoopOutline:
    """Return the outline of a Scan: carried states, sliced inputs and stacked outputs."""
    try:
        form, signature = scan_form(site.item, site.node, site.where, site.document)
    except LoopError as error:
        return _unknown_scan(site, error)
    initial, state_count = carried_expressions(form), len(signature.enters)
    slices = tuple(map(outline_slice, form.slices))
    bound_names = tuple(form.bindings)
    body = _outline_body(site, form.owned, bound_names, signature.enters, slices)
    return replace(
        unknown_loop(site, "scan"),
        carried=tuple(
            _state(site, k, *names)
            for k, names in enumerate(zip(initial, signature.enters, signature.leaves, strict=True))
        ),
        recorded=tuple(
            _recorded(site, state_count + k, name, recording_remark(form.recordings.get(name)))
            for k, name in enumerate(signature.rows)
        ),
        slices=slices,
        captures=_captures(site, body, bound_names),
        body=body,
    )


def outline_map(site: BlockContext) -> LoopOutline:
    """Return the outline of a SequenceMap: its body runs for each element of a sequence."""
    additional_inputs = expressions(site.args.get("additional_inputs"))
    sequences = (site.args.get("input_sequence"), *additional_inputs)
    try:
        owned = _read_owned_graph(site, body_role(site.name))
    except LoopError as error:
        return replace(unknown_loop(site, "map"), notes=tuple(f.what for f in error.findings))
    bound_names = tuple(name for name in site.args if name not in ARGUMENTS)
    names = zip_longest((owned.inputs or ())[: len(sequences)], sequences, fillvalue="")
    slices = tuple(_map_slice(site, k, *pair) for k, pair in enumerate(names))
    body = _outline_body(site, owned, bound_names, (), slices)
    return replace(
        unknown_loop(site, "map"),
        recorded=tuple(
            _recorded(site, k, name, "a sequence") for k, name in enumerate(output_names(owned))
        ),
        slices=slices,
        captures=_captures(site, body, bound_names),
        body=body,
    )


# --- parts ------------------------------------------------------------------------------------


def _map_slice(site: BlockContext, k: int, name: str, source: Any) -> SliceOutline:
    """Return the slice of a SequenceMap's input.

    A further input that is a tensor is the same for every element.
    """
    type_text = site.notes.type_of(f"{site.node_where}.input_ports['{source}']")
    if k and type_text and not type_text.startswith("sequence("):
        return SliceOutline(name, source, "")
    remark = "if it is a sequence" if k and not type_text else ""
    return SliceOutline(name, source, "i", remark)


def _recorded(site: BlockContext, k: int, name: str, remark: str) -> RecordedOutline:
    """Return a recorded value with its ports and type."""
    ports = result_ports(site.node, site.item.id, k)
    return RecordedOutline(name, ports, port_type(site, ports), remark)


def _state(site: BlockContext, k: int, initial: Any, enter: str, leave: str) -> CarriedOutline:
    """Return a carried state of a Scan."""
    ports = result_ports(site.node, site.item.id, k)
    return CarriedOutline(
        initial=initial,
        enter=enter,
        leave=leave,
        ports=ports,
        type=port_type(site, ports),
        initial_value=known_value(site.node, initial),
    )


# --- the body ---------------------------------------------------------------------------------


def _read_owned_graph(site: BlockContext, role: Role) -> OwnedGraph:
    """Return the graph that a Scan or SequenceMap owns."""
    written = written_body(site.item, site.node)
    return owned_graph(written, site.item, site.where, role, site.document)


def _unknown_scan(site: BlockContext, error: LoopError) -> LoopOutline:
    """Return the outline of a Scan with invalid arguments, with its body if there is one."""
    loop = replace(unknown_loop(site, "scan"), notes=tuple(f.what for f in error.findings))
    with contextlib.suppress(LoopError):
        loop = replace(loop, body=_outline_body(site, _read_owned_graph(site, BODY), (), (), ()))
    return loop


def _outline_body(
    site: BlockContext,
    owned: OwnedGraph,
    bound_names: Sequence[str],
    states: Iterable[str],
    slices: Iterable[SliceOutline],
) -> GraphOutline:
    """Return the outline of a body with the roles of its inputs."""
    roles = dict.fromkeys(states, "carried")
    roles |= dict.fromkeys((row_slice.name for row_slice in slices if row_slice.name), "sliced")
    names = ("", *output_names(owned))  # Scan and SequenceMap have no condition output
    return site.read_body(owned.graph, owned.where, roles, names, site.scope(bound_names))


def _captures(
    site: BlockContext, body: GraphOutline, bound_names: Sequence[str]
) -> tuple[CaptureOutline, ...]:
    """Return the captures of a body with their types."""
    captures = find_captures(body.inputs, site.scope(bound_names))
    return tuple(replace(c, type=site.notes.type_of(c.path)) for c in captures)
