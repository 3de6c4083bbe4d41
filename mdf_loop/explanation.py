"""`explain`: a model and its loops in words and pseudo-code.

It refuses nothing that can be outlined: also a model that cannot be compiled is explained.
"""

from __future__ import annotations

from collections.abc import Iterator

from mdf_loop.outline import (
    CaptureOutline,
    CarriedOutline,
    GraphOutline,
    LoopOutline,
    NodeOutline,
    outline,
)
from mdf_loop.outline.order import in_order
from mdf_loop.outline.over_time import over_time
from mdf_loop.outline.parts import ArgumentOutline
from mdf_loop.outline.pseudocode import fixed, pseudocode
from mdf_loop.outline.text import formulas, shortened, value_text
from mdf_loop.outline.words import headline
from mdf_loop.reading import Source, open_document

_WORD = 12
"""Room for the word in front of a line of facts."""


def explain(source: Source) -> str:
    """What a model does, for its modeller: the graph in order, its states, then every loop.

    Args:
        source: a path, a modeci_mdf Model or Graph.

    Raises:
        ModelError: the file is missing, is not MDF, or holds no graph.
    """
    document = open_document(source)
    graph = outline(document)
    (time,) = loops_of(over_time(graph, document))
    sections = [_graph(graph), _over_time(time), *(_loop(loop) for loop in loops_of(graph))]
    text = "\n\n".join("\n".join(lines) for lines in map(list, sections) if lines)
    return "\n".join(line.rstrip() for line in text.split("\n")) + "\n"


def loops_of(graph: GraphOutline) -> Iterator[LoopOutline]:
    """The loops of a graph, without those inside them."""
    for node in in_order(graph):
        yield from node.loops


# --- the graph --------------------------------------------------------------------------------


def _graph(graph: GraphOutline) -> Iterator[str]:
    source = f"  ({graph.source})" if graph.source and graph.source != graph.id else ""
    yield f"{graph.id}{source}"
    yield ""
    yield "The graph, in order"
    width = max((len(node.id) for node in graph.nodes), default=0)
    for node in in_order(graph):
        said = [*_node(node)] or ["passes its inputs on"]
        yield f"  {node.id:<{width}}  {said[0]}"
        yield from (f"  {'':<{width}}  {line}" for line in said[1:])
    yield from _surroundings(graph)
    yield from (f"  {sentence}" for sentence in graph.termination)
    told = {note for loop in loops_of(graph) for note in loop.notes}
    yield from (f"  note: {note}" for note in graph.notes if note not in told)


def _surroundings(graph: GraphOutline) -> Iterator[str]:
    given = ", ".join(dict.fromkeys(i.name for i in graph.inputs))
    results = ", ".join(f"{o.node}.{o.port}" for o in graph.outputs)
    if given:
        yield f"  inputs: {given}"
    if results:
        yield f"  outputs: {results}"
    for group in graph.cycles:
        yield f"  cycle: {' → '.join((*group, group[0]))}; once around in every pass"
    for edge in graph.edges:
        if edge.feedback:
            yield (
                f"  feedback: {edge.receiver}.{edge.receiver_port} is "
                f"{edge.sender}.{edge.sender_port} of the pass before"
            )


def _node(node: NodeOutline) -> Iterator[str]:
    if node.condition:
        yield f"runs {node.condition}"
    said = [text for item in node.items if not item.constant for text in formulas(item)]
    constants = [text for item in node.items if item.constant for text in formulas(item)]
    if not node.loops:
        yield from (shortened(text, 100) for text in said)
        if constants:
            yield shortened(", ".join(constants), 100)
        return
    for loop in node.loops:
        yield f"loop {loop.id}: {headline(loop)}"
    yield from (shortened(text, 100) for text in said)


def _over_time(time: LoopOutline) -> Iterator[str]:
    """What one evaluation leaves for the next; nothing, if it leaves nothing."""
    if not time.carried:
        return
    yield "Over time, one evaluation for each step"
    carried = _listed("carried", [_start(pair) for pair in time.carried])
    names = ", ".join(port for recorded in time.recorded for port in recorded.ports)
    recorded = _listed("recorded", [names] if names else [])
    yield from (f"  {line}" for line in (*carried, *recorded))


def _start(pair: CarriedOutline) -> str:
    value = fixed(ArgumentOutline(pair.initial, pair.initial_value))
    first = "?" if pair.initial is None else value_text(pair.initial)
    return f"{pair.enter}, starts as {first}" + (f" = {value}" if value else "")


# --- a loop -----------------------------------------------------------------------------------


def _loop(loop: LoopOutline, indent: str = "") -> Iterator[str]:
    yield f"{indent}Loop {loop.full_name}: {loop.kind}"
    inner = indent + "  "
    yield from (inner + line for line in mode_sentences(loop))
    yield from (f"{inner}Not known: {note}" for note in loop.notes)
    if not indent:  # the outermost loop's code holds that of the inner ones
        yield ""
        yield from (f"{inner}    {line}" for line in pseudocode(loop))
        yield ""
    yield from (inner + line for line in _facts(loop))
    if loop.body is not None:
        for nested in loops_of(loop.body):
            yield ""
            yield from _loop(nested, inner)


def mode_sentences(loop: LoopOutline) -> Iterator[str]:
    """Which operating mode, and why."""
    stop = loop.continue_name or "its condition"
    match loop.kind:
        case "for":
            yield f"Runs {_times(loop)}: M is given; cond is left out, so no condition is looked at."
        case "for-while":
            yield f"Runs {_times(loop)} at most, and stops as soon as {stop} is false:"
            yield "M and cond are both given."
        case "do-while":
            yield f"Runs once, and again as long as {stop} is true:"
            yield "cond is true at the start; M is left out."
        case "while":
            yield f"Runs as long as {stop} is true, perhaps not once:"
            yield "cond is given; M is left out."
        case _:
            yield "Runs until it is stopped from outside: neither M nor cond is given."
    yield from _remarks(loop)


def _times(loop: LoopOutline) -> str:
    assert loop.trip_count is not None
    value = fixed(loop.trip_count)
    written = value_text(loop.trip_count.expression)
    return f"{written} = {value} times" if value else f"{written} times"


def _remarks(loop: LoopOutline) -> Iterator[str]:
    if loop.start is None:
        return
    if loop.start.value is False:
        yield "The start condition is false, so it does not run at all."
    elif loop.start.value is True and loop.continues.lower() == "true":
        ends = "it runs all M times" if loop.kind == "for-while" else "it never ends by itself"
        yield f"The condition is always true, so {ends}."


def _facts(loop: LoopOutline) -> Iterator[str]:
    yield from _listed("carried", [_pair(pair) for pair in loop.carried] or ["nothing"])
    yield from _listed("recorded", [_recorded(r.name, r.ports, r.type) for r in loop.recorded])
    yield from _listed(
        "captured",
        [_captured(capture) for capture in loop.captures],
    )
    yield from _listed("iteration", [f"{loop.iteration} = 0, 1, 2, …"] if loop.iteration else [])
    yield from _listed("condition", list(_condition(loop)))


def _listed(word: str, lines: list[str]) -> Iterator[str]:
    for k, line in enumerate(lines):
        yield f"{word if k == 0 else '':<{_WORD}}{line}"


def _pair(pair: CarriedOutline) -> str:
    start = "?" if pair.initial is None else value_text(pair.initial)
    value = fixed(ArgumentOutline(pair.initial, pair.initial_value))
    first = f"{start} = {value}" if value else start
    final = ", ".join(pair.ports) or "(not used)"
    return _typed(f"{first} → {pair.enter or '?'} → {pair.leave or '?'} → {final}", pair.type)


def _recorded(name: str, ports: tuple[str, ...], kind: str) -> str:
    return _typed(f"{name}, every iteration → {', '.join(ports) or '(not used)'}", kind)


def _typed(text: str, kind: str) -> str:
    return f"{text}   {kind}" if kind else text


def _captured(capture: CaptureOutline) -> str:
    value = "" if capture.value is None else f" = {value_text(capture.value)}"
    owner = f" of {capture.owner}" if capture.owner else ""
    return _typed(f"{capture.name}{value}, {capture.kind}{owner}", capture.type)


def _condition(loop: LoopOutline) -> Iterator[str]:
    if loop.start is None:
        return
    value = fixed(loop.start)
    first = value_text(loop.start.expression) + (f" = {value}" if value else "")
    yield f"at the start {first}"
    if loop.continue_name:
        yield f"then {loop.continue_name} = {loop.continues}"
