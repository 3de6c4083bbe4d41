"""A loop or a choice as Python-like pseudo-code: what bodies compute, as the modeller wrote it.

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

from mdf_loop.outline.order import in_order
from mdf_loop.outline.parts import (
    Block,
    BranchOutline,
    ChoiceOutline,
    EdgeOutline,
    GraphOutline,
    LoopOutline,
    NodeOutline,
    OutputOutline,
    PortOutline,
)
from mdf_loop.outline.scope import literal_value
from mdf_loop.outline.text import formulas, value_text
from mdf_loop.outline.values import ArgumentOutline
from mdf_loop.outline.words import delay_text, selector_text, slice_text, sources

INDENT = "    "
REMARK = 40
"""The column of remarks, where a line leaves room for it."""


def pseudocode(block: Block) -> Iterator[str]:
    """The lines of a loop or a choice, without indentation of its own."""
    match block:
        case LoopOutline():
            return _loop(block)
        case ChoiceOutline():
            return _choice(block)


def _loop(loop: LoopOutline) -> Iterator[str]:
    yield from _before(loop)
    yield _head(loop)
    yield from (INDENT + line for line in _body(loop))
    yield from _after(loop)


def fixed(argument: ArgumentOutline) -> str:
    """The value of an argument, where it is fixed and not already written."""
    expression = argument.expression
    is_literal = not isinstance(expression, str) or literal_value(expression) is not None
    return "" if argument.value is None or is_literal else value_text(argument.value)


def remarked(line: str, remark: str) -> str:
    """A line with a remark behind it."""
    return f"{line:<{REMARK}}  # {remark}" if remark else line


_TESTED_FIRST = ("while", "for-while", "sliced-while")
"""Kinds of loops whose condition is looked at before the first iteration."""


def _before(loop: LoopOutline) -> Iterator[str]:
    for k, pair in enumerate(loop.carried):
        argument = ArgumentOutline(pair.initial, pair.initial_value)
        value = fixed(argument)
        remark = f"carried, starts as {value}" if value else "carried"
        initial = "?" if pair.initial is None else value_text(pair.initial)
        yield remarked(f"{pair.enter or f'carried_{k}'} = {initial}", remark)
    if loop.start is not None and loop.kind in _TESTED_FIRST:
        remark = "start condition" + (f", {fixed(loop.start)}" if fixed(loop.start) else "")
        yield remarked(f"{_going(loop)} = {value_text(loop.start.expression)}", remark)
    for recorded in loop.recorded:
        remark = ", ".join(part for part in ("recorded", recorded.how) if part)
        yield remarked(f"{_stack(recorded.name, recorded.ports)} = []", remark)


def _going(loop: LoopOutline) -> str:
    return loop.condition_in or "going"


def _stack(name: str, ports: tuple[str, ...]) -> str:
    return ports[0] if ports and ports[0] != name else f"all_{name}"


def _head(loop: LoopOutline) -> str:
    if loop.trip_count is not None:
        often = value_text(loop.trip_count.expression)
        value = fixed(loop.trip_count)
        remark = f"M = {value}" if value else "M"
        return remarked(f"for {loop.iteration or '_'} in range({often}):", remark)
    if loop.kind in _ALONG:
        return remarked(f"for {loop.iteration or 'i'} over {sources(loop)}:", _ALONG[loop.kind])
    counted = f"{loop.iteration} = 0, 1, 2, …" if loop.iteration else ""
    if loop.kind == "while" and loop.start is not None:
        return remarked(f"while {_going(loop)}:", counted)
    return remarked("while True:", counted)


_ALONG = {
    "sliced": "until the shortest is at its end",
    "sliced-while": "until the shortest is at its end",
    "scan": "every row",
    "map": "every element",
}
"""Kinds of loops that go along values, and how far."""


def _body(loop: LoopOutline) -> Iterator[str]:
    if loop.kind in ("for-while", "sliced-while") and loop.start is not None:
        yield f"if not {_going(loop)}: break"
    for part in loop.slices:
        yield remarked(f"{part.name or '?'} = {slice_text(part)}", part.how)
    for delay in loop.delays:
        first = "" if delay.initial is None else f"; before that, {value_text(delay.initial)}"
        back = f"{delay.of}[{loop.iteration or 'i'} - {value_text(delay.back)}]"
        yield remarked(f"{delay.name} = {back}", f"{delay_text(delay)}{first}")
    if loop.body is None:
        yield "…"
        return
    nodes = in_order(loop.body)
    for node in (node for node in nodes if node.before_test):
        yield from node_lines(node, loop.body)
    if loop.in_the_middle and loop.continue_name:
        yield remarked(f"if not {loop.continue_name}: break", "tested in the middle")
    for node in (node for node in nodes if not node.before_test):
        yield from node_lines(node, loop.body)
    for recorded in loop.recorded:
        yield f"{_stack(recorded.name, recorded.ports)}.append({recorded.name})"
    yield from _next(loop)


def _next(loop: LoopOutline) -> Iterator[str]:
    """All carried values change at once, then the condition is looked at."""
    pairs = [(pair.enter, pair.leave) for pair in loop.carried if pair.enter and pair.leave]
    tested_first = loop.kind in _TESTED_FIRST and not loop.in_the_middle
    if tested_first and loop.continue_name:
        pairs.append((_going(loop), loop.continue_name))
    if pairs:
        targets, values = (", ".join(names) for names in zip(*pairs, strict=True))
        yield remarked(f"{targets} = {values}", "for the next iteration")
    if loop.kind == "do-while" and loop.continue_name and not loop.in_the_middle:
        yield f"if not {loop.continue_name}: break"


def _after(loop: LoopOutline) -> Iterator[str]:
    for pair in loop.carried:
        for port in pair.ports:
            yield remarked(f"{port} = {pair.enter or '?'}", "final value")
    for recorded in loop.recorded:
        stack = _stack(recorded.name, recorded.ports)
        yield from (f"{port} = {stack}" for port in recorded.ports if port != stack)
    for result in loop.results:
        for port in result.ports:
            yield remarked(f"{port} = {loop.id}.{result.name}", "told about the run")


# --- choices ----------------------------------------------------------------------------------


def _choice(choice: ChoiceOutline) -> Iterator[str]:
    value = fixed(choice.selector) if choice.selector is not None else ""
    selector, outer = selector_text(choice), ""
    if choice.kind == "case":
        yield remarked(f"match {selector}:", f"{selector} = {value}" if value else "")
        outer = INDENT
    for k, branch in enumerate(choice.branches):
        yield outer + _branch_head(choice, branch, k)
        said = list(_branch(choice, branch)) or ["pass"]
        yield from (outer + INDENT + line for line in said)
    if choice.kind == "case" and not any(b.title == "else" for b in choice.branches):
        yield f"{INDENT}case _:"
        yield f"{INDENT}{INDENT}{remarked('raise', 'there is no other branch')}"


def _branch_head(choice: ChoiceOutline, branch: BranchOutline, k: int) -> str:
    if choice.kind == "case":
        return "case _:" if branch.title == "else" else f"case {k}:"
    return f"{branch.title}:"


def _branch(choice: ChoiceOutline, branch: BranchOutline) -> Iterator[str]:
    """What a branch computes, and what it gives for each result."""
    if branch.body is None and branch.notes:
        yield "…"
    if branch.body is not None:
        for node in in_order(branch.body):
            yield from node_lines(node, branch.body)
    for join, output in zip(choice.joins, branch.outputs, strict=False):
        given = output.name if output.node is None else output.port
        for target in join.ports or (join.name,):
            if target != given:
                yield remarked(f"{target} = {given}", _passed(output))


def _passed(output: OutputOutline) -> str:
    return "passed through" if output.node is None else ""


# --- nodes ------------------------------------------------------------------------------------


def node_lines(node: NodeOutline, graph: GraphOutline) -> Iterator[str]:
    """What a node computes, its loops as blocks."""
    yield f"# {node.id}" + (f" ({node.condition})" if node.condition else "")
    for edge in graph.edges:
        if edge.receiver == node.id and not _same_name(edge):
            yield _received(edge)
    for item in node.items:
        yield from formulas(item)
    for block in node.blocks:
        yield from pseudocode(block)
    taken = {port for block in node.blocks for port in block.ports}
    yield from (_given(port) for port in node.outputs if port.id not in taken and _says_more(port))


def _same_name(edge: EdgeOutline) -> bool:
    plain = edge.weight is None and not edge.feedback
    return plain and edge.sender_port == edge.receiver_port


def _received(edge: EdgeOutline) -> str:
    weight = "" if edge.weight is None else f"{value_text(edge.weight)} * "
    remark = "as it was in the pass before" if edge.feedback else ""
    return remarked(f"{edge.receiver_port} = {weight}{edge.sender}.{edge.sender_port}", remark)


def _given(port: PortOutline) -> str:
    return f"{port.id} = {value_text(port.value, 400)}"


def _says_more(port: PortOutline) -> bool:
    return port.value is not None and value_text(port.value) != port.id
