"""Pseudo-code of a loop or conditional in Python-like syntax.

::

    b_in = b                          # carried, starts as 6
    for i in range(max_trip_count):   # M = 10
        # step
        b_next = a - b_in
        b_in = b_next
    b_final = b_in
"""

from __future__ import annotations

from collections.abc import Iterator

from mdf_loop.outline.order import order_nodes
from mdf_loop.outline.parts import (
    Block,
    BranchOutline,
    ConditionalOutline,
    EdgeOutline,
    GraphOutline,
    LoopOutline,
    NodeOutline,
    OutputOutline,
    PortOutline,
)
from mdf_loop.outline.scope import literal_value
from mdf_loop.outline.text import formula_lines, value_text
from mdf_loop.outline.values import ArgumentOutline
from mdf_loop.outline.words import delay_text, selector_text, slice_sources, slice_text

INDENT = "    "
"""Indentation of one block."""
REMARK_COLUMN = 40
"""Column at which a remark begins. A remark after a longer line begins at the end of the line."""


def pseudocode(block: Block) -> Iterator[str]:
    """Yield the pseudo-code of a loop or conditional, line by line."""
    match block:
        case LoopOutline():
            return _loop_lines(block)
        case ConditionalOutline():
            return _conditional_lines(block)


def _loop_lines(loop: LoopOutline) -> Iterator[str]:
    """Yield the pseudo-code lines of a loop: initial values, head, body and final values."""
    yield from _initial_lines(loop)
    yield _head_line(loop)
    yield from (INDENT + body_line for body_line in _body_lines(loop))
    yield from _final_lines(loop)


def fixed_text(argument: ArgumentOutline) -> str:
    """Return the constant value of an argument's expression as text, or "" if it has none."""
    expression = argument.expression
    is_literal = not isinstance(expression, str) or literal_value(expression) is not None
    return "" if argument.value is None or is_literal else value_text(argument.value)


def with_remark(line: str, remark: str) -> str:
    """Return a line of pseudo-code with a remark appended as a comment."""
    return f"{line:<{REMARK_COLUMN}}  # {remark}" if remark else line


_KINDS_TESTED_FIRST = ("while", "for-while", "sliced-while")
"""Kinds of loops that test their condition before the first iteration."""


def _initial_lines(loop: LoopOutline) -> Iterator[str]:
    """Yield assignments of a loop's initial values, start condition and empty recordings."""
    for k, carried_value in enumerate(loop.carried_values):
        argument = ArgumentOutline(carried_value.initial_expression, carried_value.initial_value)
        constant_text = fixed_text(argument)
        remark = f"carried, starts as {constant_text}" if constant_text else "carried"
        initial_text = (
            "?"
            if carried_value.initial_expression is None
            else value_text(carried_value.initial_expression)
        )
        yield with_remark(f"{carried_value.input_name or f'carried_{k}'} = {initial_text}", remark)
    if loop.start_condition is not None and loop.kind in _KINDS_TESTED_FIRST:
        remark = "start condition" + (
            f", {fixed_text(loop.start_condition)}" if fixed_text(loop.start_condition) else ""
        )
        yield with_remark(
            f"{_condition_variable(loop)} = {value_text(loop.start_condition.expression)}", remark
        )
    for recorded_value in loop.recorded_values:
        remark = ", ".join(
            remark_part for remark_part in ("recorded", recorded_value.remark) if remark_part
        )
        yield with_remark(f"{_list_name(recorded_value.name, recorded_value.ports)} = []", remark)


def _condition_variable(loop: LoopOutline) -> str:
    """Return the name of a loop's condition variable in the pseudo-code."""
    return loop.condition_name or "going"


def _list_name(name: str, ports: tuple[str, ...]) -> str:
    """Return the name of the list that collects a recorded value in the pseudo-code."""
    return ports[0] if ports and ports[0] != name else f"all_{name}"


def _head_line(loop: LoopOutline) -> str:
    """Return the `for` or `while` line of a loop in the pseudo-code."""
    if loop.trip_count is not None:
        trip_count_text = value_text(loop.trip_count.expression)
        constant_text = fixed_text(loop.trip_count)
        count_remark = f"M = {constant_text}" if constant_text else "M"
        return with_remark(
            f"for {loop.iteration_name or '_'} in range({trip_count_text}):", count_remark
        )
    if loop.kind in _ITERATION_REMARKS:
        return with_remark(
            f"for {loop.iteration_name or 'i'} over {slice_sources(loop)}:",
            _ITERATION_REMARKS[loop.kind],
        )
    iteration_remark = f"{loop.iteration_name} = 0, 1, 2, …" if loop.iteration_name else ""
    if loop.kind == "while" and loop.start_condition is not None:
        return with_remark(f"while {_condition_variable(loop)}:", iteration_remark)
    return with_remark("while True:", iteration_remark)


_ITERATION_REMARKS = {
    "sliced": "until the shortest is at its end",
    "sliced-while": "until the shortest is at its end",
    "scan": "every row",
    "map": "every element",
}
"""Kinds of loops that iterate over arrays or sequences, with a remark about their end."""


def _body_lines(loop: LoopOutline) -> Iterator[str]:
    """Yield the pseudo-code statements of a loop's body."""
    if loop.kind in ("for-while", "sliced-while") and loop.start_condition is not None:
        yield f"if not {_condition_variable(loop)}: break"
    for sliced_input in loop.sliced_inputs:
        yield with_remark(
            f"{sliced_input.name or '?'} = {slice_text(sliced_input)}", sliced_input.remark
        )
    for delayed_value in loop.delayed_values:
        initial_remark = (
            ""
            if delayed_value.initial_expression is None
            else f"; before that, {value_text(delayed_value.initial_expression)}"
        )
        delayed_expression = f"{delayed_value.source_name}[{loop.iteration_name or 'i'} - {value_text(delayed_value.iterations_back)}]"
        yield with_remark(
            f"{delayed_value.name} = {delayed_expression}",
            f"{delay_text(delayed_value)}{initial_remark}",
        )
    if loop.body is None:
        yield "…"
        return
    ordered_nodes = order_nodes(loop.body)
    for node in (node for node in ordered_nodes if node.is_before_test):
        yield from node_lines(node, loop.body)
    if loop.has_mid_exit and loop.continue_name:
        yield with_remark(f"if not {loop.continue_name}: break", "tested in the middle")
    for node in (node for node in ordered_nodes if not node.is_before_test):
        yield from node_lines(node, loop.body)
    for recorded_value in loop.recorded_values:
        yield f"{_list_name(recorded_value.name, recorded_value.ports)}.append({recorded_value.name})"
    yield from _update_lines(loop)


def _update_lines(loop: LoopOutline) -> Iterator[str]:
    """Yield the simultaneous update of all carried values, then the test of the condition."""
    carried_name_pairs = [
        (carried_value.input_name, carried_value.output_name)
        for carried_value in loop.carried_values
        if carried_value.input_name and carried_value.output_name
    ]
    is_tested_first = loop.kind in _KINDS_TESTED_FIRST and not loop.has_mid_exit
    if is_tested_first and loop.continue_name:
        carried_name_pairs.append((_condition_variable(loop), loop.continue_name))
    if carried_name_pairs:
        input_names, output_names = (
            ", ".join(names) for names in zip(*carried_name_pairs, strict=True)
        )
        yield with_remark(f"{input_names} = {output_names}", "for the next iteration")
    if loop.kind == "do-while" and loop.continue_name and not loop.has_mid_exit:
        yield f"if not {loop.continue_name}: break"


def _final_lines(loop: LoopOutline) -> Iterator[str]:
    """Yield assignments of a loop's results to output ports."""
    for carried_value in loop.carried_values:
        for port in carried_value.ports:
            yield with_remark(f"{port} = {carried_value.input_name or '?'}", "final value")
    for recorded_value in loop.recorded_values:
        list_name = _list_name(recorded_value.name, recorded_value.ports)
        yield from (f"{port} = {list_name}" for port in recorded_value.ports if port != list_name)
    for result in loop.reports:
        for port in result.ports:
            yield with_remark(f"{port} = {loop.id}.{result.name}", "report on the run")


# --- conditionals -----------------------------------------------------------------------------------


def _conditional_lines(conditional: ConditionalOutline) -> Iterator[str]:
    """Yield the `if` or `match` statement of a conditional with all branches."""
    constant_text = fixed_text(conditional.selector) if conditional.selector is not None else ""
    selector_expression, case_indent = selector_text(conditional), ""
    if conditional.kind == "case":
        yield with_remark(
            f"match {selector_expression}:",
            f"{selector_expression} = {constant_text}" if constant_text else "",
        )
        case_indent = INDENT
    for k, branch in enumerate(conditional.branches):
        yield case_indent + _branch_head(conditional, branch, k)
        branch_lines = list(_branch_lines(conditional, branch)) or ["pass"]
        yield from (case_indent + INDENT + line for line in branch_lines)
    if conditional.kind == "case" and not any(
        branch.title == "else" for branch in conditional.branches
    ):
        yield f"{INDENT}case _:"
        yield f"{INDENT}{INDENT}{with_remark('raise', 'there is no other branch')}"


def _branch_head(conditional: ConditionalOutline, branch: BranchOutline, k: int) -> str:
    """Return the first line of a branch in the pseudo-code, such as `if hot:` or `case 2:`."""
    if conditional.kind == "case":
        return "case _:" if branch.title == "else" else f"case {k}:"
    return f"{branch.title}:"


def _branch_lines(conditional: ConditionalOutline, branch: BranchOutline) -> Iterator[str]:
    """Yield the pseudo-code statements of a branch, with assignments of the results at the end."""
    if branch.body is None and branch.notes:
        yield "…"
    if branch.body is not None:
        for node in order_nodes(branch.body):
            yield from node_lines(node, branch.body)
    for conditional_result, output in zip(conditional.joined_results, branch.outputs, strict=False):
        source_name = output.name if output.node_id is None else output.port_id
        for target_name in conditional_result.ports or (conditional_result.name,):
            if target_name != source_name:
                yield with_remark(f"{target_name} = {source_name}", _pass_remark(output))


def _pass_remark(output: OutputOutline) -> str:
    """Return the remark "passed through" for a branch output without a node, else an empty text."""
    return "passed through" if output.node_id is None else ""


# --- nodes ------------------------------------------------------------------------------------


def node_lines(node: NodeOutline, graph: GraphOutline) -> Iterator[str]:
    """Yield the pseudo-code statements of a node, including its loops and conditionals."""
    yield f"# {node.id}" + (f" ({node.scheduler_condition})" if node.scheduler_condition else "")
    for edge in graph.edges:
        if edge.receiver == node.id and not _is_plain_edge(edge):
            yield _edge_line(edge)
    for definition in node.definitions:
        yield from formula_lines(definition)
    for block in node.blocks:
        yield from pseudocode(block)
    block_ports = {port for block in node.blocks for port in block.ports}
    yield from (
        _port_line(port)
        for port in node.outputs
        if port.id not in block_ports and _is_formula(port)
    )


def _is_plain_edge(edge: EdgeOutline) -> bool:
    """Return True if an edge without weight and feedback connects two ports of the same name."""
    passes_value_unchanged = edge.weight is None and not edge.is_feedback
    return passes_value_unchanged and edge.sender_port == edge.receiver_port


def _edge_line(edge: EdgeOutline) -> str:
    """Return a pseudo-code line that assigns the value of an edge to the receiving port."""
    weight_factor = "" if edge.weight is None else f"{value_text(edge.weight)} * "
    feedback_remark = "as it was in the pass before" if edge.is_feedback else ""
    return with_remark(
        f"{edge.receiver_port} = {weight_factor}{edge.sender}.{edge.sender_port}", feedback_remark
    )


def _port_line(port: PortOutline) -> str:
    """Return a pseudo-code line that assigns a formula to an output port."""
    return f"{port.id} = {value_text(port.value, 400)}"


def _is_formula(port: PortOutline) -> bool:
    """Return True if an output port's value is an expression other than the port's name."""
    return port.value is not None and value_text(port.value) != port.id
