"""A loop as Python-like pseudo-code: what the body computes, as the modeller wrote it.

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
    ArgumentOutline,
    EdgeOutline,
    GraphOutline,
    LoopOutline,
    NodeOutline,
    PortOutline,
)
from mdf_loop.outline.scope import literal_value
from mdf_loop.outline.text import formulas, value_text

INDENT = "    "
REMARK = 40
"""The column of remarks, where a line leaves room for it."""


def pseudocode(loop: LoopOutline) -> Iterator[str]:
    """The lines of a loop, without indentation of its own."""
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


def _before(loop: LoopOutline) -> Iterator[str]:
    for k, pair in enumerate(loop.carried):
        argument = ArgumentOutline(pair.initial, pair.initial_value)
        value = fixed(argument)
        remark = f"carried, starts as {value}" if value else "carried"
        initial = "?" if pair.initial is None else value_text(pair.initial)
        yield remarked(f"{pair.enter or f'carried_{k}'} = {initial}", remark)
    if loop.start is not None and loop.kind != "do-while":
        remark = "start condition" + (f", {fixed(loop.start)}" if fixed(loop.start) else "")
        yield remarked(f"{_going(loop)} = {value_text(loop.start.expression)}", remark)
    for recorded in loop.recorded:
        yield remarked(f"{_stack(recorded.name, recorded.ports)} = []", "recorded")


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
    counted = f"{loop.iteration} = 0, 1, 2, …" if loop.iteration else ""
    if loop.kind == "while":
        return remarked(f"while {_going(loop)}:", counted)
    return remarked("while True:", counted)


def _body(loop: LoopOutline) -> Iterator[str]:
    if loop.kind == "for-while":
        yield f"if not {_going(loop)}: break"
    if loop.body is None:
        yield "…"
        return
    for node in in_order(loop.body):
        yield from node_lines(node, loop.body)
    for recorded in loop.recorded:
        yield f"{_stack(recorded.name, recorded.ports)}.append({recorded.name})"
    yield from _next(loop)


def _next(loop: LoopOutline) -> Iterator[str]:
    """All carried values change at once, then the condition is looked at."""
    pairs = [(pair.enter, pair.leave) for pair in loop.carried if pair.enter and pair.leave]
    if loop.kind in ("while", "for-while") and loop.continue_name:
        pairs.append((_going(loop), loop.continue_name))
    if pairs:
        targets, values = (", ".join(names) for names in zip(*pairs, strict=True))
        yield remarked(f"{targets} = {values}", "for the next iteration")
    if loop.kind == "do-while" and loop.continue_name:
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


# --- nodes ------------------------------------------------------------------------------------


def node_lines(node: NodeOutline, graph: GraphOutline) -> Iterator[str]:
    """What a node computes, its loops as blocks."""
    yield f"# {node.id}" + (f" ({node.condition})" if node.condition else "")
    for edge in graph.edges:
        if edge.receiver == node.id and not _same_name(edge):
            yield _received(edge)
    for item in node.items:
        yield from formulas(item)
    for loop in node.loops:
        yield from pseudocode(loop)
    taken = {port for loop in node.loops for port in loop.ports}
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
