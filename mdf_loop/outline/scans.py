"""Outline of a node's Scan or SequenceMap, also for an incomplete model."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence
from itertools import zip_longest

from msgspec.structs import replace

from mdf_loop.document.bodies import written_body
from mdf_loop.document.parts import DocumentValue
from mdf_loop.errors import LoopError
from mdf_loop.outline.block_context import BlockContext, output_names
from mdf_loop.outline.loops import port_type, result_ports, unknown_loop
from mdf_loop.outline.parts import GraphOutline, LoopOutline
from mdf_loop.outline.scope import find_captures, known_value
from mdf_loop.outline.slices import outline_slice, recording_remark
from mdf_loop.outline.values import CaptureOutline, CarriedOutline, RecordedOutline, SliceOutline
from mdf_loop.reading.entries import list_expressions
from mdf_loop.reading.loop_forms import order_initial_values
from mdf_loop.reading.owned_graph import OwnedGraph, Role, find_owned_graph
from mdf_loop.reading.scan_form import SCAN_BODY, convert_scan
from mdf_loop.reading.sequence_map import MAP_ARGUMENTS, describe_body


def outline_scan(context: BlockContext) -> LoopOutline:
    """Return the outline of a Scan: carried states, sliced inputs and stacked outputs."""
    try:
        scan_arguments, signature = convert_scan(
            context.definition, context.node, context.path, context.document
        )
    except LoopError as error:
        return _outline_unknown_scan(context, error)
    initial_expressions, state_count = (
        order_initial_values(scan_arguments),
        len(signature.carried_inputs),
    )
    sliced_inputs = tuple(map(outline_slice, scan_arguments.slices))
    bound_names = tuple(scan_arguments.bindings)
    body = _outline_body(
        context, scan_arguments.owned_graph, bound_names, signature.carried_inputs, sliced_inputs
    )
    return replace(
        unknown_loop(context, "scan"),
        carried_values=tuple(
            _outline_state(context, k, *state_names)
            for k, state_names in enumerate(
                zip(
                    initial_expressions,
                    signature.carried_inputs,
                    signature.carried_outputs,
                    strict=True,
                )
            )
        ),
        recorded_values=tuple(
            _outline_recorded_value(
                context,
                state_count + k,
                name,
                recording_remark(scan_arguments.recordings.get(name)),
            )
            for k, name in enumerate(signature.recorded_outputs)
        ),
        sliced_inputs=sliced_inputs,
        captures=_outline_captures(context, body, bound_names),
        body=body,
    )


def outline_map(context: BlockContext) -> LoopOutline:
    """Return the outline of a SequenceMap, whose body runs for each element of a sequence."""
    additional_inputs = list_expressions(context.args.get("additional_inputs"))
    sequence_expressions = (context.args.get("input_sequence"), *additional_inputs)
    try:
        owned_body = _read_owned_graph(context, describe_body(context.name))
    except LoopError as error:
        return replace(
            unknown_loop(context, "map"), notes=tuple(finding.what for finding in error.findings)
        )
    bound_names = tuple(name for name in context.args if name not in MAP_ARGUMENTS)
    names_and_sequences = zip_longest(
        (owned_body.input_names or ())[: len(sequence_expressions)],
        sequence_expressions,
        fillvalue="",
    )
    sliced_inputs = tuple(
        _outline_map_slice(context, k, *name_and_sequence)
        for k, name_and_sequence in enumerate(names_and_sequences)
    )
    body = _outline_body(context, owned_body, bound_names, (), sliced_inputs)
    return replace(
        unknown_loop(context, "map"),
        recorded_values=tuple(
            _outline_recorded_value(context, k, name, "a sequence")
            for k, name in enumerate(output_names(owned_body))
        ),
        sliced_inputs=sliced_inputs,
        captures=_outline_captures(context, body, bound_names),
        body=body,
    )


# --- parts ------------------------------------------------------------------------------------


def _outline_map_slice(
    context: BlockContext, k: int, name: str, source: DocumentValue
) -> SliceOutline:
    """Return the outline of the element that a SequenceMap's body reads from its `k`-th input.

    A further input that is a tensor is the same for every element.
    """
    type_text = context.annotations.type_of(f"{context.node_path}.input_ports['{source}']")
    if k and type_text and not type_text.startswith("sequence("):
        return SliceOutline(name, source, "")
    sequence_remark = "if it is a sequence" if k and not type_text else ""
    return SliceOutline(name, source, "i", sequence_remark)


def _outline_recorded_value(
    context: BlockContext, k: int, name: str, remark: str
) -> RecordedOutline:
    """Return the outline of a Scan's or SequenceMap's output that has a row per iteration."""
    port_ids = result_ports(context.node, context.definition.id, k)
    return RecordedOutline(name, port_ids, port_type(context, port_ids), remark)


def _outline_state(
    context: BlockContext,
    k: int,
    initial_expression: DocumentValue,
    input_name: str,
    output_name: str,
) -> CarriedOutline:
    """Return the outline of a state that a Scan carries, with the output ports of the final value."""
    port_ids = result_ports(context.node, context.definition.id, k)
    return CarriedOutline(
        initial_expression=initial_expression,
        input_name=input_name,
        output_name=output_name,
        ports=port_ids,
        type=port_type(context, port_ids),
        initial_value=known_value(context.node, initial_expression),
    )


# --- the body ---------------------------------------------------------------------------------


def _read_owned_graph(context: BlockContext, role: Role) -> OwnedGraph:
    """Return the graph that is the body of a Scan or SequenceMap."""
    written_graph = written_body(context.definition, context.node)
    return find_owned_graph(written_graph, context.definition, context.path, role, context.document)


def _outline_unknown_scan(context: BlockContext, error: LoopError) -> LoopOutline:
    """Return the outline of a Scan with invalid arguments, with notes about the errors."""
    loop_outline = replace(
        unknown_loop(context, "scan"), notes=tuple(finding.what for finding in error.findings)
    )
    with contextlib.suppress(LoopError):
        loop_outline = replace(
            loop_outline,
            body=_outline_body(context, _read_owned_graph(context, SCAN_BODY), (), (), ()),
        )
    return loop_outline


def _outline_body(
    context: BlockContext,
    owned: OwnedGraph,
    bound_names: Sequence[str],
    state_names: Iterable[str],
    sliced_inputs: Iterable[SliceOutline],
) -> GraphOutline:
    """Return the outline of a Scan's or SequenceMap's body, with the role of each input."""
    roles = dict.fromkeys(state_names, "carried")
    roles |= dict.fromkeys(
        (sliced_input.name for sliced_input in sliced_inputs if sliced_input.name), "sliced"
    )
    output_names_of_body = (
        "",
        *output_names(owned),
    )  # Scan and SequenceMap have no condition output
    return context.read_body(
        owned.graph, owned.where, roles, output_names_of_body, context.scope(bound_names)
    )


def _outline_captures(
    context: BlockContext, body: GraphOutline, bound_names: Sequence[str]
) -> tuple[CaptureOutline, ...]:
    """Return the values that a Scan's or SequenceMap's body captures, with their types."""
    captures = find_captures(body.inputs, context.scope(bound_names))
    return tuple(
        replace(capture, type=context.annotations.type_of(capture.path)) for capture in captures
    )
