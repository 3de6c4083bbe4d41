"""Description of a model in words and pseudo-code, with its loops and conditionals.

A model that cannot be compiled is described, too, as far as its document can be read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mdf_loop.api.prepared import PreparedModel
from mdf_loop.classification import classify
from mdf_loop.document.document import Document
from mdf_loop.errors import LoopError
from mdf_loop.importing.opening import Source, open_document
from mdf_loop.ir import Program
from mdf_loop.lower.builder import Options
from mdf_loop.native.loop_decisions import predict_forms
from mdf_loop.outline import (
    Block,
    CaptureOutline,
    CarriedOutline,
    ConditionalOutline,
    GraphOutline,
    LoopOutline,
    NodeOutline,
    RecordedOutline,
    outline,
)
from mdf_loop.outline.order import order_nodes
from mdf_loop.outline.over_time import wrap_in_time_loop
from mdf_loop.outline.pseudocode import fixed_text, pseudocode
from mdf_loop.outline.readers import result_readers
from mdf_loop.outline.text import formula_lines, shorten, value_text
from mdf_loop.outline.values import ArgumentOutline
from mdf_loop.outline.words import delay_text, headline, selector_text, slice_sources, slice_text
from mdf_loop.pipeline import (
    ONNXRUNTIME,
    PassOrder,
    passes_of_evaluation,
    passes_over_time,
    prepare,
)
from mdf_loop.public_call import public_call
from mdf_loop.reading.order_of_states import find_new_value_reads
from mdf_loop.run.device import DEFAULT_PLACEMENT
from mdf_loop.text_escaping import escape_to_one_line

_LABEL_WIDTH = 12
"""Width of the column with the kind of a fact, such as `carried`."""


@public_call
def explain(source: Source) -> str:
    """Return a description of a model in words: its ordered graph, states, loops and conditionals.

    Args:
        source: Path of a file, or a modeci_mdf Model or Graph.

    Raises:
        ModelError: The file is missing, is not MDF, or contains no graph.
    """
    document = open_document(source)
    graph = outline(document)
    (time_loop,) = loops_of(wrap_in_time_loop(graph, document))
    block_sections = (_describe_block(node, block) for node, block in find_blocks(graph))
    has_loops = bool(time_loop.carried_values) or any(node.loops for node in graph.nodes)
    needs_program = _needs_program(graph) or bool(time_loop.carried_values)
    program = (
        _read_program(document, over_time=bool(time_loop.carried_values)) if needs_program else None
    )
    pass_order = passes_over_time() if time_loop.carried_values else passes_of_evaluation()
    draw_lines = _describe_draws(program) if program else ()
    native_lines = _describe_native(program, pass_order) if program and has_loops else ()
    text_sections = [
        _describe_graph(graph),
        _describe_time_loop(time_loop, document),
        *block_sections,
        draw_lines,
        native_lines,
    ]
    text_sections += [_describe_decisions(document)] if needs_program else []
    shown_sections = ([*map(escape_to_one_line, lines)] for lines in text_sections)
    explanation_text = "\n\n".join("\n".join(lines) for lines in shown_sections if lines)
    return "\n".join(line.rstrip() for line in explanation_text.split("\n")) + "\n"


def _needs_program(graph: GraphOutline) -> bool:
    """Return True if the description of a graph needs the compiler's program for the graph.

    This is so for control functions, random numbers or a schedule.

    Only graphs with these parts are also read as programs, since reading thousands of nodes is slow.
    """
    return graph.is_scheduled or any(node.blocks or node.is_random for node in graph.nodes)


def loops_of(graph: GraphOutline) -> Iterator[LoopOutline]:
    """Yield the outermost loops of a graph, in topological order of the nodes."""
    for node in order_nodes(graph):
        yield from node.loops


def find_blocks(graph: GraphOutline) -> Iterator[tuple[NodeOutline, Block]]:
    """Yield the outermost loops and conditionals of a graph, each with the node that contains it."""
    for node in order_nodes(graph):
        yield from ((node, block) for block in node.blocks)


# --- the graph --------------------------------------------------------------------------------


def _describe_graph(graph: GraphOutline) -> Iterator[str]:
    """Yield lines about a graph: its nodes in order, inputs, outputs, cycles and notes."""
    source_note = (
        f"  ({graph.source_name})" if graph.source_name and graph.source_name != graph.id else ""
    )
    yield f"{graph.id}{source_note}"
    yield ""
    yield "The graph, in order"
    id_width = max((len(node.id) for node in graph.nodes), default=0)
    for node in order_nodes(graph):
        node_lines = [*_describe_node(node)] or ["passes its inputs on"]
        yield f"  {node.id:<{id_width}}  {node_lines[0]}"
        yield from (f"  {'':<{id_width}}  {line}" for line in node_lines[1:])
    yield from _describe_connections(graph)
    yield from (f"  {sentence}" for sentence in graph.termination)
    block_notes = {note for _, block in find_blocks(graph) for note in block.notes}
    yield from (f"  note: {note}" for note in graph.notes if note not in block_notes)


def _describe_connections(graph: GraphOutline) -> Iterator[str]:
    """Yield lines about the inputs, outputs, cycles and feedback edges of a graph."""
    input_names = ", ".join(dict.fromkeys(graph_input.name for graph_input in graph.inputs))
    output_names = ", ".join(
        f"{graph_output.node_id}.{graph_output.port_id}" for graph_output in graph.outputs
    )
    if input_names:
        yield f"  inputs: {input_names}"
    if output_names:
        yield f"  outputs: {output_names}"
    for cycle_nodes in graph.cycles:
        yield f"  cycle: {' → '.join((*cycle_nodes, cycle_nodes[0]))}; once around in every pass"
    for edge in graph.edges:
        if edge.is_feedback:
            yield (
                f"  feedback: {edge.receiver}.{edge.receiver_port} is "
                f"{edge.sender}.{edge.sender_port} of the pass before"
            )


def _describe_node(node: NodeOutline) -> Iterator[str]:
    """Yield lines about a node: its condition, loops, conditionals and formulas."""
    if node.scheduler_condition:
        yield f"runs {node.scheduler_condition}"
    formulas = [
        formula
        for definition in node.definitions
        if not definition.is_constant
        for formula in formula_lines(definition)
    ]
    constant_lines = [
        formula
        for definition in node.definitions
        if definition.is_constant
        for formula in formula_lines(definition)
    ]
    if not node.blocks:
        yield from (shorten(text, 100) for text in formulas)
        if constant_lines:
            yield shorten(", ".join(constant_lines), 100)
        return
    for block in node.blocks:
        yield f"{block.block_type} {block.id}: {headline(block)}"
    yield from (shorten(text, 100) for text in formulas)


def _describe_time_loop(time_loop: LoopOutline, document: Document) -> Iterator[str]:
    """Yield lines about a run over time: carried states, and recorded outputs."""
    if not time_loop.carried_values:
        return
    yield "Over time, one evaluation for each step"
    carried_lines = _label_lines(
        "carried", [_describe_start(carried_value) for carried_value in time_loop.carried_values]
    )
    recorded_ports = ", ".join(
        port for recorded_value in time_loop.recorded_values for port in recorded_value.ports
    )
    recorded_lines = _label_lines("recorded", [recorded_ports] if recorded_ports else [])
    yield from (f"  {line}" for line in (*carried_lines, *recorded_lines))
    yield from (f"  note: {note.what}" for note in find_new_value_reads(document))


def _read_program(document: Document, *, over_time: bool) -> Program | None:
    """Return the program for the model's default inputs, or None if the model cannot run."""
    try:
        return PreparedModel(document, DEFAULT_PLACEMENT, Options()).default_program(
            over_time=over_time
        )
    except LoopError:
        return None


def _describe_draws(program: Program) -> Iterator[str]:
    """Yield lines that list the places at which a program draws random numbers."""
    if program.sites:
        yield "Random numbers, each from a stream of its own"
        yield from (f"  {site}" for site in program.sites)


def _describe_native(program: Program, order: PassOrder) -> Iterator[str]:
    """Yield a line for each loop that states if machine code or ONNX Runtime runs the loop."""
    try:
        execution_form_by_loop = predict_forms(prepare(program, ONNXRUNTIME, order))
    except LoopError:
        return
    yield "Run for long, loops are machine code (native) or ONNX Runtime's own (standard)"
    name_column_width = max(map(len, execution_form_by_loop), default=0)
    yield from (
        f"  {loop_name:<{name_column_width}}  {form_text}"
        for loop_name, form_text in execution_form_by_loop.items()
    )


def _describe_start(carried_value: CarriedOutline) -> str:
    """Describe the initial value of a state of the model."""
    constant_text = fixed_text(
        ArgumentOutline(carried_value.initial_expression, carried_value.initial_value)
    )
    initial_text = (
        "?"
        if carried_value.initial_expression is None
        else value_text(carried_value.initial_expression)
    )
    return f"{carried_value.input_name}, starts as {initial_text}" + (
        f" = {constant_text}" if constant_text else ""
    )


def _describe_decisions(document: Document) -> Iterator[str]:
    """Yield lines that list constant and variable trip counts, conditions and indices."""
    try:
        control_decisions = classify(document)
    except LoopError:
        return
    name_column_width = max((len(decision.name) for decision in control_decisions), default=0)
    if control_decisions:
        yield "Constant and variable conditions"
    for decision in control_decisions:
        yield f"  {decision.name:<{name_column_width}}  {decision.role:<10}  {decision.kind}: {shorten(decision.why, 100)}"


# --- a loop or a choice -----------------------------------------------------------------------


def _describe_block(node: NodeOutline, block: Block, indent: str = "") -> Iterator[str]:
    """Yield lines about a loop or conditional and its nested blocks, with pseudo-code."""
    yield f"{indent}{block.block_type.capitalize()} {block.full_name}: {block.kind}"
    inner_indent = indent + "  "
    sentences, value_lines = _describe_parts(block, [*_describe_result_uses(node, block)])
    yield from (inner_indent + line for line in sentences)
    yield from (f"{inner_indent}Not known: {note}" for note in block.notes)
    if not indent:  # the code of the outermost block contains all inner blocks
        yield ""
        yield from (f"{inner_indent}    {line}" for line in pseudocode(block))
        yield ""
    yield from (inner_indent + line for line in value_lines)
    for body in block.bodies:
        for owner_node, inner_block in find_blocks(body):
            yield ""
            yield from _describe_block(owner_node, inner_block, inner_indent)


def _describe_parts(
    block: Block, result_uses: Sequence[str]
) -> tuple[Iterator[str], Iterator[str]]:
    """Return sentences about a loop or conditional, and lines about its inputs and results."""
    match block:
        case LoopOutline():
            return describe_mode(block), _describe_values(block, result_uses)
        case ConditionalOutline():
            return _describe_conditional(block), _describe_conditional_values(block, result_uses)


def _describe_result_uses(node: NodeOutline, block: Block) -> Iterator[str]:
    """Yield a text for each result of a loop that names the ports and functions that use it.

    Examples are `x_final`, `read by choice` and `(not used)`.
    """
    for k, ports in enumerate(block.result_ports):
        reader_names = ", ".join(result_readers(node, block, k))
        descriptions = (", ".join(ports), f"read by {reader_names}" if reader_names else "")
        yield ", ".join(filter(None, descriptions)) or "(not used)"


def _describe_conditional(conditional: ConditionalOutline) -> Iterator[str]:
    """Yield a sentence about the branches and the condition of a conditional."""
    selector_name = selector_text(conditional)
    if conditional.kind == "if":
        yield f"Computes one of two graphs: the first if {selector_name} is true, else the second."
        return
    numbered_branch_count = sum(branch.title != "else" for branch in conditional.branches)
    default_case_text = (
        "the last one" if numbered_branch_count < len(conditional.branches) else "that is an error"
    )
    yield f"Computes the graph that {selector_name} names, from 0 to {numbered_branch_count - 1}; for any other number {default_case_text}."


def _describe_conditional_values(
    conditional: ConditionalOutline, result_uses: Sequence[str]
) -> Iterator[str]:
    """Yield lines about the results and the captured values of a conditional."""
    results_with_uses = zip(conditional.joined_results, result_uses, strict=True)
    result_lines = [
        _append_type(f"{conditional_result.name} → {use_text}", conditional_result.type)
        for conditional_result, use_text in results_with_uses
    ]
    yield from _label_lines("results", result_lines)
    yield from _label_lines(
        "captured", [_describe_captured(capture) for capture in conditional.captures]
    )


def describe_mode(loop: LoopOutline) -> Iterator[str]:
    """Yield sentences about the number of iterations of a loop and the condition that ends it."""
    condition_name = loop.continue_name or "its condition"
    if loop.has_mid_exit:
        iteration_limit_text = (
            "" if loop.trip_count is None else f", {_describe_trip_count(loop)} at most"
        )
        yield f"Runs as long as {condition_name} is true{iteration_limit_text}. It is tested in the middle:"
        yield "what it needs runs once more than the rest."
        return
    match loop.kind:
        case "for":
            condition_remark = "cond is left out, so no condition is looked at"
            if loop.start_condition is not None:
                condition_remark = "the condition is always true"
            yield f"Runs {_describe_trip_count(loop)}: M is given; {condition_remark}."
        case "for-while":
            yield f"Runs {_describe_trip_count(loop)} at most, and stops as soon as {condition_name} is false:"
            yield "M and cond are both given."
        case "do-while":
            yield f"Runs once, and again as long as {condition_name} is true:"
            yield "cond is true at the start; M is left out."
        case "while":
            yield f"Runs as long as {condition_name} is true, perhaps not once:"
            yield "cond is given; M is left out."
        case "sliced":
            yield f"Runs once for each row of {slice_sources(loop)}; the shortest ends it."
        case "sliced-while":
            yield f"Runs once for each row of {slice_sources(loop)}, as long as {condition_name} is true;"
            yield "the shortest ends it at the latest."
        case "scan":
            yield f"Runs once for each row of {slice_sources(loop)}."
        case "map":
            yield f"Runs once for each element of {slice_sources(loop)}; the results are sequences."
        case _:
            yield "Runs until it is stopped from outside: neither M nor cond is given."
    yield from _describe_constant_condition(loop)


def _describe_trip_count(loop: LoopOutline) -> str:
    """Return the trip count of a loop as text, such as `n = 10 times`."""
    assert loop.trip_count is not None
    constant_text = fixed_text(loop.trip_count)
    expression_text = value_text(loop.trip_count.expression)
    return (
        f"{expression_text} = {constant_text} times"
        if constant_text
        else f"{expression_text} times"
    )


def _describe_constant_condition(loop: LoopOutline) -> Iterator[str]:
    """Yield a sentence about a loop condition that is constant."""
    if loop.start_condition is None:
        return
    if loop.start_condition.value is False:
        yield "The start condition is false, so it does not run at all."
    elif (
        loop.start_condition.value is True
        and loop.condition_text.lower() == "true"
        and loop.kind != "for"
    ):
        termination_text = (
            "it runs all M times" if loop.kind == "for-while" else "it never ends by itself"
        )
        yield f"The condition is always true, so {termination_text}."


def _describe_values(loop: LoopOutline, result_uses: Sequence[str]) -> Iterator[str]:
    """Yield lines about the carried, sliced, recorded and captured values of a loop."""
    final_value_uses, recorded_value_uses = (
        result_uses[: len(loop.carried_values)],
        result_uses[len(loop.carried_values) :],
    )
    carried_lines = [*map(_describe_carried, loop.carried_values, final_value_uses)]
    yield from _label_lines("carried", carried_lines or ([] if loop.kind == "map" else ["nothing"]))
    slice_lines = (
        f"{sliced_input.name or '?'} = {slice_text(sliced_input)}"
        + (f", {sliced_input.remark}" if sliced_input.remark else "")
        for sliced_input in loop.sliced_inputs
    )
    yield from _label_lines("sliced", list(slice_lines))
    yield from _label_lines(
        "delayed",
        [
            f"{delayed_value.name} = {delay_text(delayed_value)}"
            for delayed_value in loop.delayed_values
        ],
    )
    yield from _label_lines(
        "recorded", [*map(_describe_recorded, loop.recorded_values, recorded_value_uses)]
    )
    yield from _label_lines(
        "captured",
        [_describe_captured(capture) for capture in loop.captures],
    )
    yield from _label_lines(
        "iteration", [f"{loop.iteration_name} = 0, 1, 2, …"] if loop.iteration_name else []
    )
    yield from _label_lines("condition", list(_describe_condition(loop)))


def _label_lines(label: str, lines: list[str]) -> Iterator[str]:
    """Yield the lines `lines` in a column to the right of `label`."""
    for k, line in enumerate(lines):
        yield f"{label if k == 0 else '':<{_LABEL_WIDTH}}{line}"


def _describe_carried(carried_value: CarriedOutline, final_use: str) -> str:
    """Describe a loop-carried value: its initial value, names in the body, and final value."""
    expression_text = (
        "?"
        if carried_value.initial_expression is None
        else value_text(carried_value.initial_expression)
    )
    constant_text = fixed_text(
        ArgumentOutline(carried_value.initial_expression, carried_value.initial_value)
    )
    initial_text = f"{expression_text} = {constant_text}" if constant_text else expression_text
    return _append_type(
        f"{initial_text} → {carried_value.input_name or '?'} → {carried_value.output_name or '?'} → {final_use}",
        carried_value.type,
    )


def _describe_recorded(recorded_value: RecordedOutline, row_use: str) -> str:
    """Describe a recorded value of a loop and the names that read its rows."""
    return _append_type(
        f"{recorded_value.name}, {recorded_value.remark or 'every iteration'} → {row_use}",
        recorded_value.type,
    )


def _append_type(text: str, type_text: str) -> str:
    """Append a type to a text, unless the type is unknown."""
    return f"{text}   {type_text}" if type_text else text


def _describe_captured(capture: CaptureOutline) -> str:
    """Describe a captured value of a loop body: its name, value, kind, owner and type."""
    value_suffix = "" if capture.value is None else f" = {value_text(capture.value)}"
    owner_suffix = f" of {capture.owner_id}" if capture.owner_id else ""
    return _append_type(f"{capture.name}{value_suffix}, {capture.kind}{owner_suffix}", capture.type)


def _describe_condition(loop: LoopOutline) -> Iterator[str]:
    """Yield texts about the condition of a loop at the start and after each iteration."""
    if loop.start_condition is None:
        if loop.has_mid_exit:
            yield f"{loop.continue_name or '?'} = {loop.condition_text}"
        return
    constant_text = fixed_text(loop.start_condition)
    initial_text = value_text(loop.start_condition.expression) + (
        f" = {constant_text}" if constant_text else ""
    )
    yield f"at the start {initial_text}"
    if loop.continue_name:
        yield f"then {loop.continue_name} = {loop.condition_text}"
