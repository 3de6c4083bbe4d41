"""Conversion of ONNX's Scan operator to a loop with slices and recordings.

    Scan(s0, x, num_scan_inputs=1, body)    ->    Loop(v_initial=s0, slices={x_t: x}, body)

The body has no iteration number and no condition. All scan inputs must have the same length along their
axes. If the length is 0, the states keep their initial values and the recordings are empty.

Source: ONNX operators, Scan-11.
"""

from __future__ import annotations

from mdf_loop.document.bodies import written_body
from mdf_loop.document.document import Document
from mdf_loop.document.parts import DocumentValue, FunctionOrParameter, Node
from mdf_loop.errors import ArityError, ModelError, SignatureError
from mdf_loop.lower import Scope
from mdf_loop.lower.builder import ModelBuilder
from mdf_loop.reading.entries import NamedEntry, list_expressions
from mdf_loop.reading.loop import read_loop_form
from mdf_loop.reading.loop_forms import LoopForm
from mdf_loop.reading.names_read import refuse_unread
from mdf_loop.reading.owned_graph import OwnedGraph, Role, find_owned_graph
from mdf_loop.reading.readers import FunctionResults, register_reader
from mdf_loop.reading.recordings import RecordingForm
from mdf_loop.reading.signature import Signature
from mdf_loop.reading.slices import SliceForm

SCAN_ARGUMENTS = (
    *("initial_state_and_scan_inputs", "num_scan_inputs", "body"),
    *("scan_input_axes", "scan_input_directions", "scan_output_axes", "scan_output_directions"),
)
"""Names of a Scan's own arguments. All other arguments are captured values under other names."""

SCAN_BODY = Role(owner="the scan", owner_kind="scan")
"""Role of the body of a Scan."""


@register_reader("onnx::Scan")
def read_scan(
    b: ModelBuilder,
    item: FunctionOrParameter,
    node: Node,
    where: str,
    scope: Scope,
    document: Document,
) -> FunctionResults:
    """Append the operations of a Function or Parameter that is an ONNX Scan, and return its results."""
    loop_form, signature = convert_scan(item, node, where, document)
    error_phrases = (f"the scan '{item.id}'", "its body does")
    refuse_unread(item, node, where, SCAN_ARGUMENTS, document, error_phrases)
    return read_loop_form(b, loop_form, lambda _: signature, scope, document)


def convert_scan(
    item: FunctionOrParameter, node: Node, where: str, document: Document
) -> tuple[LoopForm, Signature]:
    """Convert a Scan to an equivalent loop, and return the loop and the signature of its body.

    Raises:
        ModelError: If the body is missing or is not a graph, or if an argument is wrong.
        SignatureError: If the body's inputs or outputs are not stated.
        ArityError: If the numbers of states, inputs and outputs do not match.
    """
    owned_graph = find_owned_graph(written_body(item, node), item, where, SCAN_BODY, document)
    scan_arguments = NamedEntry(item.id, dict(item.args or {}), f"{where}.args")
    operands = list_expressions(scan_arguments.fields.get("initial_state_and_scan_inputs"))
    scan_count = scan_arguments.integer("num_scan_inputs", len(operands))
    state_count = len(operands) - scan_count
    if state_count < 0 or scan_count < 1:
        raise ArityError(
            f"the scan '{item.id}' has {len(operands)} initial states and scan inputs, of which "
            f"{scan_count} (num_scan_inputs) are scanned",
            where,
            "list the initial states first, then the scan inputs; at least one is scanned",
        )
    input_names, output_names = _check_signature(item.id, owned_graph, state_count, scan_count)
    signature = Signature(
        None,
        None,
        input_names[:state_count],
        "",
        output_names[:state_count],
        output_names[state_count:],
    )
    loop_form = LoopForm(
        name=item.id,
        where=where,
        trip_count=None,
        condition=None,
        initial_expressions=operands[:state_count],
        owned_graph=owned_graph,
        bindings={
            argument: expression
            for argument, expression in scan_arguments.fields.items()
            if argument not in SCAN_ARGUMENTS
        },
        shape_rule=owned_graph.shape_rule,
        slices=_build_slices(scan_arguments, input_names[state_count:], operands[state_count:]),
        recordings=_build_recordings(scan_arguments, signature.recorded_outputs),
        needs_equal_slices=True,
    )
    return loop_form, signature


def _check_signature(
    name: str, owned: OwnedGraph, state_count: int, scan_count: int
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Check the signature of a Scan's body, and return the names of its inputs and outputs.

    States come first in both.
    """
    input_names, output_names, body_path = owned.input_names, owned.output_names, owned.where
    if input_names is None or output_names is None:
        raise SignatureError(
            f"the order of the inputs and outputs of the body of the scan '{name}' is not written",
            body_path,
            "write it in the body graph: metadata: {inputs: [states..., scanned...], "
            "outputs: [states..., recorded...]}",
        )
    if len(input_names) != state_count + scan_count:
        raise ArityError(
            f"the scan '{name}' has {state_count} states and {scan_count} scan inputs, but metadata.inputs "
            f"names {len(input_names)}: {list(input_names)}",
            body_path,
        )
    if len(output_names) < state_count:
        raise ArityError(
            f"the scan '{name}' has {state_count} states, but metadata.outputs names {len(output_names)}: "
            f"{list(output_names)}",
            body_path,
            "the states come first, then what is recorded",
        )
    return input_names, output_names


def _build_slices(
    args: NamedEntry, names: tuple[str, ...], operands: tuple[DocumentValue, ...]
) -> tuple[SliceForm, ...]:
    """Build the slice arguments of the loop for the scan inputs of a Scan."""
    scan_axes = _parse_integers(args, "scan_input_axes", len(names))
    directions = _parse_directions(args, "scan_input_directions", len(names))
    argument_path = f"{args.where}.initial_state_and_scan_inputs"
    return tuple(
        SliceForm(name, operand, axis, -1, 0, -1, where=argument_path)
        if is_backward
        else SliceForm(name, operand, axis, where=argument_path)
        for name, operand, axis, is_backward in zip(
            names, operands, scan_axes, directions, strict=True
        )
    )


def _build_recordings(args: NamedEntry, names: tuple[str, ...]) -> dict[str, RecordingForm]:
    """Build the loop argument `recordings` for scan outputs with another axis or direction.

    Scan outputs that are stacked forward along axis 0 need no entry.
    """
    scan_axes = _parse_integers(args, "scan_output_axes", len(names))
    directions = _parse_directions(args, "scan_output_directions", len(names))
    return {
        name: RecordingForm(name, axis, is_reversed=is_backward, where=args.where)
        for name, axis, is_backward in zip(names, scan_axes, directions, strict=True)
        if axis or is_backward
    }


def _parse_directions(args: NamedEntry, key: str, count: int) -> list[bool]:
    """Return a bool for each scan input or output that is True for the backward direction."""
    direction_codes = _parse_integers(args, key, count)
    if any(direction_code not in (0, 1) for direction_code in direction_codes):
        raise ModelError(
            f"{key} of the scan '{args.name}' are 0 (forward) or 1 (backward), not {direction_codes}",
            args.where,
        )
    return [bool(direction_code) for direction_code in direction_codes]


def _parse_integers(args: NamedEntry, key: str, count: int) -> list[int]:
    """Return the integers of an argument with one integer for each scan input or output.

    A missing argument gives zeros.
    """
    argument = args.fields.get(key)
    if argument is None or argument == "":
        return [0] * count
    integers = list(argument) if isinstance(argument, list | tuple) else [argument]
    if len(integers) != count:
        raise ArityError(
            f"{key} of the scan '{args.name}' has {len(integers)} entries for {count} values",
            args.where,
        )
    return [
        NamedEntry(args.name, {key: integer}, args.where).integer(key, 0) for integer in integers
    ]
