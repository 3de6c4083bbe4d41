"""Outline of a node's loop, also for an incomplete model."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from mdf_loop import ir
from mdf_loop.document.parts import DocumentValue, Graph, Node
from mdf_loop.errors import LoopError
from mdf_loop.outline.annotation import Annotations
from mdf_loop.outline.block_context import BlockContext
from mdf_loop.outline.parts import GraphOutline, LoopOutline
from mdf_loop.outline.scope import find_captures, known_value, literal_value
from mdf_loop.outline.slices import outline_delay, outline_slice, recording_remark
from mdf_loop.outline.text import resolve_expression
from mdf_loop.outline.values import ArgumentOutline, CarriedOutline, RecordedOutline, ReportOutline
from mdf_loop.reading.loop_forms import LoopForm, order_initial_values, parse_loop
from mdf_loop.reading.signature import Signature, find_signature

REPORT_NAMES = ("iterations", "condition", "stopped_by")
"""Names of the results that describe the run of a loop, as in `loop.iterations`."""


class PartialSignature(Struct, frozen=True):
    """Names of a loop body's inputs and outputs, with empty texts for unknown names."""

    iteration_input: str
    condition_input: str
    carried_inputs: tuple[str, ...]
    condition_output: str
    carried_outputs: tuple[str, ...]
    recorded_outputs: tuple[str, ...]
    note: str = ""

    @property
    def roles(self) -> dict[str, str]:
        """Role of each input of the body: iteration, condition or carried."""
        roles = {self.iteration_input: "iteration", self.condition_input: "condition"}
        roles.update(dict.fromkeys(self.carried_inputs, "carried"))
        roles.pop("", None)
        return roles

    @property
    def outputs(self) -> tuple[str, ...]:
        """Names of a loop body's outputs: the condition, the carried and the recorded values."""
        return (self.condition_output, *self.carried_outputs, *self.recorded_outputs)


def outline_loop(context: BlockContext) -> LoopOutline:
    """Return the outline of a loop that a node's function or parameter defines."""
    definition, node, annotations = context.definition, context.node, context.annotations
    try:
        loop_arguments = parse_loop(definition, node, context.path, context.document)
    except LoopError as error:
        error_messages = tuple(finding.what for finding in error.findings)
        return replace(
            unknown_loop(context, ""), **_outline_arguments(context, None), notes=error_messages
        )
    initial_expressions, signature = _read_signature(loop_arguments, node)
    sliced_inputs = tuple(
        outline_slice(sliced_input, signature.iteration_input)
        for sliced_input in loop_arguments.slices
    )
    delayed_values = tuple(outline_delay(delayed_value) for delayed_value in loop_arguments.delays)
    roles = signature.roles | dict.fromkeys(
        (sliced_input.name for sliced_input in sliced_inputs), "sliced"
    )
    roles |= dict.fromkeys((delayed_value.name for delayed_value in delayed_values), "delayed")
    scope = context.scope(tuple(loop_arguments.bindings))
    body = context.read_body(
        loop_arguments.body, loop_arguments.body_path, roles, signature.outputs, scope
    )
    program_loop = annotations.program_loops.get(context.path)
    return replace(
        unknown_loop(context, ""),
        **_outline_arguments(context, program_loop),
        iteration_name=signature.iteration_input,
        condition_name=signature.condition_input,
        continue_name=signature.condition_output,
        condition_text=_condition_text(loop_arguments.body, signature.condition_output),
        carried_values=_outline_carried_values(
            initial_expressions, signature, node, definition.id, annotations, program_loop
        ),
        recorded_values=_outline_recorded_values(
            context, loop_arguments, signature, len(initial_expressions), program_loop
        ),
        captures=tuple(
            replace(capture, type=annotations.type_of(capture.path))
            for capture in find_captures(body.inputs, scope)
        ),
        body=mark_condition_nodes(body) if loop_arguments.has_mid_exit else body,
        notes=(signature.note,) if signature.note else (),
        sliced_inputs=sliced_inputs,
        delayed_values=delayed_values,
        has_mid_exit=loop_arguments.has_mid_exit,
        is_strict=loop_arguments.owned_graph.is_strict,
    )


def unknown_loop(context: BlockContext, kind: str) -> LoopOutline:
    """Return the outline of a loop of which only the path and the result ports are known."""
    return LoopOutline(
        id=context.definition.id,
        owner_id=context.node.id,
        path=context.path,
        kind=kind,
        trip_count=None,
        start_condition=None,
        iteration_name="",
        condition_name="",
        continue_name="",
        condition_text="",
        carried_values=(),
        recorded_values=(),
        reports=_outline_reports(context.node, context.definition.id),
        captures=(),
        body=None,
    )


def _outline_arguments(context: BlockContext, program_loop: ir.Loop | None) -> dict[str, Any]:
    """Return the trip count, the start condition and the operating mode of a loop."""
    loop_args, node = context.args, context.node
    fixed_trip_count = (
        context.annotations.fixed_value(program_loop.trip_count) if program_loop else None
    )
    trip_count = outline_argument(loop_args.get("M"), node, fixed_trip_count)
    if trip_count is not None and literal_value(str(trip_count.expression)) == -1:
        trip_count = None
    start_condition = _outline_start_condition(context, program_loop)
    kind = loop_kind(trip_count, start_condition, has_slices=bool(loop_args.get("slices")))
    if start_condition is None and loop_args.get("exit") == "middle":
        kind = _KINDS_WITH_CONDITION[kind]  # the body's condition is tested though `cond` is absent
    elif program_loop is not None and context.annotations.always_true(program_loop):
        kind = _KINDS_WITHOUT_CONDITION.get(kind, kind)
    return {"trip_count": trip_count, "start_condition": start_condition, "kind": kind}


def _outline_start_condition(
    context: BlockContext, program_loop: ir.Loop | None
) -> ArgumentOutline | None:
    """Return the outline of a loop's start condition, with its value if it is constant."""
    expression = context.args.get("cond")
    comes_from_edge = isinstance(expression, str) and expression in {
        port.id for port in context.node.input_ports
    }
    constant_condition = (
        context.annotations.fixed_value(program_loop.condition)
        if comes_from_edge and program_loop
        else None
    )
    start_argument = outline_argument(expression, context.node, constant_condition)
    return start_argument and replace(start_argument, comes_from_edge=comes_from_edge)


_KINDS_WITH_CONDITION = {"for": "for-while", "sliced": "sliced-while", "endless": "while"}
_KINDS_WITHOUT_CONDITION = {"for-while": "for", "sliced-while": "sliced"}
"""Kinds of loops by the corresponding kind with or without a condition."""


def mark_condition_nodes(body: GraphOutline) -> GraphOutline:
    """Mark the nodes of a loop's body on which its condition depends."""
    condition_nodes = {body.outputs[0].node_id} if body.outputs else set()
    for _ in body.nodes:
        senders = {
            edge.sender for edge in body.edges if edge.receiver in condition_nodes
        } - condition_nodes
        if not senders:
            break
        condition_nodes |= senders
    return replace(
        body,
        nodes=tuple(
            replace(node, is_before_test=node.id in condition_nodes) for node in body.nodes
        ),
    )


def loop_kind(
    trip_count: ArgumentOutline | None,
    start_condition: ArgumentOutline | None,
    *,
    has_slices: bool = False,
) -> str:
    """Return the operating mode of a loop, such as "for" or "while", from its arguments.

    Slices count only without a trip count.

    | trip count | condition  | mode      |
    | given      | omitted    | for       |
    | given      | given      | for-while |
    | omitted    | fixed true | do-while  |
    | omitted    | given      | while     |
    | omitted    | omitted    | endless   |

    Source: ONNX operators, Loop-13.
    """
    if trip_count is not None:
        return "for" if start_condition is None else "for-while"
    if has_slices:
        return "sliced" if start_condition is None else "sliced-while"
    if start_condition is None:
        return "endless"
    return "do-while" if start_condition.value is True else "while"


def outline_argument(
    expression: Any | None, node: Node, fixed_value: Any | None
) -> ArgumentOutline | None:
    """Return the outline of an argument with its constant value, or None for an omitted argument."""
    if expression is None or expression == "":
        return None
    argument_value = known_value(node, expression) if fixed_value is None else fixed_value
    while isinstance(argument_value, list) and len(argument_value) == 1:
        argument_value = argument_value[0]
    return ArgumentOutline(expression, argument_value)


# --- signature --------------------------------------------------------------------------------


def _read_signature(
    loop_arguments: LoopForm, node: Node
) -> tuple[tuple[Any, ...], PartialSignature]:
    """Return the initial values of a loop, and the names of its body's inputs and outputs."""
    try:
        initial_expressions = order_initial_values(loop_arguments)
        return initial_expressions, _complete_signature(
            find_signature(loop_arguments, node, len(initial_expressions))
        )
    except LoopError as error:
        initial_expressions = tuple(
            loop_arguments.initial_expressions.values()
            if isinstance(loop_arguments.initial_expressions, dict)
            else loop_arguments.initial_expressions
        )
        input_names, output_names, carried_count = (
            loop_arguments.owned_graph.input_names or (),
            loop_arguments.owned_graph.output_names or (),
            len(initial_expressions),
        )
        partial_signature = PartialSignature(
            iteration_input=_name_at(input_names, 0),
            condition_input=_name_at(input_names, 1),
            carried_inputs=tuple(input_names[2:]),
            condition_output=_name_at(output_names, 0),
            carried_outputs=tuple(output_names[1 : 1 + carried_count]),
            recorded_outputs=tuple(output_names[1 + carried_count :]),
            note="; ".join(finding.what for finding in error.findings),
        )
        return initial_expressions, partial_signature


def _complete_signature(signature: Signature) -> PartialSignature:
    """Return a loop body's signature with empty texts in place of missing names."""
    return PartialSignature(
        iteration_input=signature.iteration or "",
        condition_input=signature.condition_in or "",
        carried_inputs=signature.carried_inputs,
        condition_output=signature.condition_out,
        carried_outputs=signature.carried_outputs,
        recorded_outputs=signature.recorded_outputs,
    )


def _name_at(names: Sequence[str], position: int) -> str:
    """Return the name at a position of a list, or an empty text beyond the end of the list."""
    return names[position] if position < len(names) else ""


# --- results ----------------------------------------------------------------------------------


def result_positions(expression: DocumentValue, loop_id: str) -> tuple[int | None, ...]:
    """Return the index in each reference `loop[k]` of an expression, or None for `loop` alone.

    `loop` alone reads all results of the loop.
    """
    if not isinstance(expression, str):
        return ()
    result_pattern = rf"(?<![\w.]){re.escape(loop_id)}(?:\[(\d+)\]|(?![\w.\[]))"
    return tuple(int(k) if k else None for k in re.findall(result_pattern, expression))


def result_ports(node: Node, loop_id: str, k: int) -> tuple[str, ...]:
    """Return the output ports that return the `k`-th result of a loop unchanged."""
    ports_with_bare_name = [
        port.id for port in node.output_ports if _remove_spaces(port.value) == loop_id
    ]
    ports_of_bare_name = (
        [ports_with_bare_name[k]]
        if len(ports_with_bare_name) > 1 and k < len(ports_with_bare_name)
        else ports_with_bare_name[:1]
        if k == 0
        else []
    )
    indexed_ports = [
        port.id for port in node.output_ports if _remove_spaces(port.value) == f"{loop_id}[{k}]"
    ]
    return (*ports_of_bare_name, *indexed_ports)


def _remove_spaces(value: DocumentValue) -> str:
    """Return an expression without white space, or an empty text for a value that is no text."""
    return re.sub(r"\s+", "", value) if isinstance(value, str) else ""


def _outline_reports(node: Node, loop_id: str) -> tuple[ReportOutline, ...]:
    """Return the outlines of a loop's reports on its run, such as the iteration count."""
    reports = []
    for name in REPORT_NAMES:
        port_ids = [
            port.id
            for port in node.output_ports
            if _remove_spaces(port.value) == f"{loop_id}.{name}"
        ]
        if port_ids:
            reports.append(ReportOutline(name, tuple(port_ids)))
    return tuple(reports)


def _outline_carried_values(
    initial_expressions: Sequence[Any],
    signature: PartialSignature,
    node: Node,
    loop_id: str,
    annotations: Annotations,
    program_loop: ir.Loop | None,
) -> tuple[CarriedOutline, ...]:
    """Return the outlines of a loop's carried values, with initial values and output ports."""
    carried_values = []
    for position in range(max(len(initial_expressions), len(signature.carried_inputs))):
        expression = initial_expressions[position] if position < len(initial_expressions) else None
        program_carried_value = (
            program_loop.carried[position]
            if program_loop and position < len(program_loop.carried)
            else None
        )
        constant_initial_value = (
            annotations.fixed_value(program_carried_value.initial)
            if program_carried_value
            else None
        )
        initial_value = (
            known_value(node, expression)
            if constant_initial_value is None
            else constant_initial_value
        )
        carried_values.append(
            CarriedOutline(
                initial_expression=expression,
                input_name=_name_at(signature.carried_inputs, position),
                output_name=_name_at(signature.carried_outputs, position),
                ports=result_ports(node, loop_id, position),
                type=program_carried_value.body_input.type if program_carried_value else "",
                initial_value=initial_value,
            )
        )
    return tuple(carried_values)


def _outline_recorded_values(
    context: BlockContext,
    loop_arguments: LoopForm,
    signature: PartialSignature,
    carried_count: int,
    program_loop: ir.Loop | None,
) -> tuple[RecordedOutline, ...]:
    """Return the outlines of a loop's recorded values, with output ports and types."""
    recorded_values = []
    program_recordings = (
        program_loop.recorded
        if program_loop and len(program_loop.recorded) == len(signature.recorded_outputs)
        else ()
    )
    for k, name in enumerate(signature.recorded_outputs):
        port_ids = result_ports(context.node, context.definition.id, carried_count + k)
        options_remark = recording_remark(loop_arguments.recordings.get(name))
        stacked_type = (
            program_recordings[k].stack.type if program_recordings and not options_remark else ""
        )
        recorded_values.append(
            RecordedOutline(
                name, port_ids, stacked_type or port_type(context, port_ids), options_remark
            )
        )
    return tuple(recorded_values)


def port_type(context: BlockContext, ports: Iterable[str]) -> str:
    """Return the first known type of the output ports `ports`, or an empty text."""
    port_paths = (f"{context.node_path}.output_ports['{port}']" for port in ports)
    return next(
        (type_text for type_text in map(context.annotations.type_of, port_paths) if type_text), ""
    )


def _condition_text(body: Graph, name: str) -> str:
    """Return the expression that computes the condition in a loop's body."""
    for node in body.nodes:
        for port in node.output_ports:
            if name in (port.id, f"{node.id}.{port.id}"):
                return resolve_expression(node, port.value if port.value is not None else port.id)
    return name
