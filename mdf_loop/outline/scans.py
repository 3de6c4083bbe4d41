"""A Scan or a SequenceMap of a node -> `LoopOutline`, also where not everything is known."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from mdf_loop.errors import LoopError
from mdf_loop.outline.loops import no_loop, port_type, taking_ports
from mdf_loop.outline.parts import (
    CarriedOutline,
    GraphOutline,
    LoopOutline,
    RecordedOutline,
    SliceOutline,
)
from mdf_loop.outline.scope import captured, known_value, literal_value
from mdf_loop.outline.site import FoundGraph, Site, expressions, find_graph
from mdf_loop.outline.slices import outline_slice, recorded_words
from mdf_loop.reading.document import written_body
from mdf_loop.reading.recordings import RecordingForm
from mdf_loop.reading.slices import SliceForm

_SCAN = (
    *("initial_state_and_scan_inputs", "num_scan_inputs", "body"),
    *("scan_input_axes", "scan_input_directions", "scan_output_axes", "scan_output_directions"),
)
_MAP = ("input_sequence", "additional_inputs", "body")
"""Arguments of the functions' own; all others are captures under another name."""


def outline_scan(site: Site) -> LoopOutline:
    """The outline of a Scan: states are carried, scanned inputs sliced, the rest is stacked."""
    given = expressions(site.args.get("initial_state_and_scan_inputs"))
    count = known_value(site.node, site.args.get("num_scan_inputs"))
    states = max(len(given) - (count if isinstance(count, int) else len(given)), 0)
    try:
        found = _body(site)
        inputs, outputs = found.inputs, found.outputs
    except LoopError as error:
        return _unknown(site, "scan", error)
    slices = tuple(
        outline_slice(_slice(site, k, _at(inputs, states + k), source))
        for k, source in enumerate(given[states:])
    )
    body = _outlined(site, found, inputs[:states], slices, _SCAN)
    return replace(
        no_loop(site, "scan"),
        carried=tuple(_state(site, k, given, inputs, outputs) for k in range(states)),
        recorded=tuple(
            _recorded(site, states + k, name, _stacked(site, k, name))
            for k, name in enumerate(outputs[states:])
        ),
        slices=slices,
        captures=_captures(site, body, _SCAN),
        body=body,
    )


def outline_map(site: Site) -> LoopOutline:
    """The outline of a SequenceMap: the body runs for every element of a sequence."""
    more = expressions(site.args.get("additional_inputs"))
    given = (site.args.get("input_sequence"), *more)
    try:
        found = _body(site)
        inputs, outputs = found.inputs, found.outputs
    except LoopError as error:
        return _unknown(site, "map", error)
    slices = tuple(_element(site, k, _at(inputs, k), source) for k, source in enumerate(given))
    body = _outlined(site, found, (), slices, _MAP)
    return replace(
        no_loop(site, "map"),
        recorded=tuple(_recorded(site, k, name, "a sequence") for k, name in enumerate(outputs)),
        slices=slices,
        captures=_captures(site, body, _MAP),
        body=body,
    )


# --- arguments --------------------------------------------------------------------------------


def _nth(site: Site, key: str, k: int) -> int:
    """The k-th of a list of numbers, also where it is a text or stands in a parameter."""
    value = known_value(site.node, site.args.get(key))
    value = literal_value(value) if isinstance(value, str) else value
    part = value[k] if isinstance(value, list | tuple) and k < len(value) else 0
    return part if isinstance(part, int) else 0


def _slice(site: Site, k: int, name: str, source: Any) -> SliceForm:
    axis = _nth(site, "scan_input_axes", k)
    if _nth(site, "scan_input_directions", k) == 1:
        return SliceForm(name, source, axis, start=-1, end=0, stride=-1)
    return SliceForm(name, source, axis)


def _stacked(site: Site, k: int, name: str) -> str:
    turned = _nth(site, "scan_output_directions", k) == 1
    return recorded_words(RecordingForm(name, _nth(site, "scan_output_axes", k), reverse=turned))


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


def _state(
    site: Site, k: int, given: Sequence[Any], inputs: Sequence[str], outputs: Sequence[str]
) -> CarriedOutline:
    ports = taking_ports(site.node, site.item.id, k)
    return CarriedOutline(
        initial=given[k],
        enter=_at(inputs, k),
        leave=_at(outputs, k),
        ports=ports,
        type=port_type(site, ports),
        initial_value=known_value(site.node, given[k]),
    )


def _at(names: Sequence[str], k: int) -> str:
    return names[k] if k < len(names) else ""


# --- the body ---------------------------------------------------------------------------------


def _body(site: Site) -> FoundGraph:
    return find_graph(written_body(site.item, site.node), "body", "the body", site)


def _unknown(site: Site, kind: str, error: LoopError) -> LoopOutline:
    return replace(no_loop(site, kind), notes=tuple(f.what for f in error.findings))


def _outlined(
    site: Site,
    found: FoundGraph,
    states: Iterable[str],
    slices: Iterable[SliceOutline],
    own: Sequence[str],
) -> GraphOutline:
    roles = dict.fromkeys(states, "carried")
    roles |= dict.fromkeys((part.name for part in slices if part.name), "sliced")
    names = ("", *found.outputs)  # neither has a condition
    return site.read_body(found.graph, found.where, roles, names, site.place(_bound(site, own)))


def _bound(site: Site, own: Sequence[str]) -> tuple[str, ...]:
    return tuple(name for name in site.args if name not in own)


def _captures(site: Site, body: GraphOutline, own: Sequence[str]) -> tuple[Any, ...]:
    found = captured(body.inputs, site.place(_bound(site, own)))
    return tuple(replace(c, type=site.notes.type_of(c.path)) for c in found)
