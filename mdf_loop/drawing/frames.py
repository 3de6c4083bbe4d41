"""A loop as a frame: one line of pseudo-code, rails of terminals, the body, the back edges."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from msgspec import Struct

from mdf_loop.drawing.canvas import STRAIGHT, Arrival, Canvas, End, Wires
from mdf_loop.drawing.labels import bold, lines, small, styled, wrapped
from mdf_loop.drawing.observed import loop_words
from mdf_loop.drawing.rails import Rail, draw_rails, rail_rows, tested
from mdf_loop.drawing.theme import (
    BIG,
    FRAME_FILLS,
    IMPORTED,
    LOOP_LINE,
    MARKS,
    QUIET,
    SMALL,
    WARNING,
)
from mdf_loop.drawing.view import View, all_nodes
from mdf_loop.outline import Block, GraphOutline, LoopOutline
from mdf_loop.outline.order import order_nodes
from mdf_loop.outline.text import shorten, shorten_name, value_text, weight_text
from mdf_loop.outline.words import headline

COUNTED = 90
"""Letters of a line of what the scheduler counts."""
TITLE = 26
"""Letters of a line of a title in a rail."""

GraphDrawer = Callable[[Canvas, GraphOutline, View], dict[str, Wires]]
"""Draws the nodes and edges of a graph and says where their values arrive and leave."""


class Frame(Struct, frozen=True):
    """A drawn loop or choice: what it reads, and where each of its results leaves."""

    first: str
    last: str
    reads: tuple[Arrival, ...]
    results: tuple[End, ...]
    named: dict[str, End]


def draw_frame(canvas: Canvas, loop: LoopOutline, view: View, draw_graph: GraphDrawer) -> Frame:
    """Draw a loop with its body."""
    name, said = canvas.name(loop.owner, loop.id), [name_of_loop(loop)]
    if went := loop_words(view.observation, loop):
        said.append(went)
        canvas.kinds.update({"native"} if MARKS["native"].sign in went else ())
    fill = FRAME_FILLS[view.nesting % len(FRAME_FILLS)]
    with canvas.cluster(
        name,
        frame_title(canvas, loop, said),
        "loop",
        loop.path,
        style="rounded,filled",
        pencolor=LOOP_LINE,
        fillcolor=fill,
        penwidth="1.6",
        margin="12",
    ):
        rows = rail_rows(loop, view)
        passes = schedule_words(loop) if view.detail.bodies else []
        left, right = draw_rails(canvas, loop, rows, rail_title(loop, [*said, *passes]))
        if loop.body is not None and view.detail.bodies:
            with _passes(canvas, loop, passes):
                wires = draw_graph(canvas, loop.body, view.inner())
            wire_inputs(canvas, _terminals(loop), loop.body, wires, left)
            _wire_outputs(canvas, loop, loop.body, wires, left, right)
            follows = hold_body(canvas, left.name, right.name, loop.body, wires)
            line = line_of(loop.body, follows, wires)
            straighten(canvas, left.name, right.name, line)
        else:
            name = placeholder(canvas, loop, loop.body)
            canvas.hold(left.name, name, STRAIGHT)
            canvas.hold(name, right.name, STRAIGHT)
        _back_edges(canvas, loop, left, right)
    return Frame(
        first=left.name,
        last=right.name,
        reads=tuple(_reads(loop, left)),
        results=tuple(
            right.outer(key)
            for key in (
                *(f"v{k}" for k in range(len(loop.carried))),
                *(f"r{k}" for k in range(len(loop.recorded))),
            )
        ),
        named={result.name: right.outer(f"x{k}") for k, result in enumerate(loop.results)},
    )


def block_name(block: Block) -> str:
    """`node · function`; the node alone where the function has no name of its own."""
    nameless = block.id in (block.owner, IMPORTED)
    return shorten_name(block.owner, 60) if nameless else f"{block.owner} · {block.id}"


@contextmanager
def _passes(canvas: Canvas, loop: LoopOutline, said: list[str]) -> Iterator[None]:
    """Around what runs in each pass, where the scheduler makes several of an evaluation."""
    if not said:
        yield
        return
    canvas.kinds.add("schedule")
    below = said if canvas.direction.sideways else []
    with canvas.cluster(
        canvas.name(loop.owner, "passes"),
        lines(bold("for each pass of an evaluation"), *map(small, below), align="LEFT"),
        "passes",
        loop.path,
        style="rounded,dashed",
        pencolor=QUIET,
        margin="12",
    ):
        yield


def schedule_words(loop: LoopOutline) -> list[str]:
    """When an evaluation ends and what is counted for it, of a model over time with conditions."""
    body = loop.body
    if body is None or loop.kind != "over time" or not body.scheduled:
        return []
    ends = [text.removeprefix("each evaluation ") for text in body.termination]
    said = [f"an evaluation {text}" for text in ends or ["ends when all nodes have run"]]
    if body.counted_events:
        said += wrapped(f"counted: {', '.join(body.counted_events)}", COUNTED)
    return said


def name_of_loop(loop: LoopOutline) -> str:
    """What stands below the headline of a loop."""
    name = block_name(loop)
    return f"{name} · strict: reads only what it is given" if loop.strict else name


def frame_title(canvas: Canvas, block: Block, said: list[str]) -> str:
    """The title of a frame: headline, what is said, notes; notes alone where its rail has the others."""
    notes = [styled(f"⚠ {shorten(n, 110)}", size=SMALL, color=WARNING) for n in block.notes]
    own = [bold(headline(block), BIG), *map(small, said)] if canvas.direction.sideways else []
    return lines(*own, *notes, align="LEFT")


def rail_title(block: Block, said: list[str]) -> tuple[list[str], list[str]]:
    """The headline, and what is said below it, on short lines."""
    lines_ = [line for part in said for line in wrapped(part, TITLE + 8)]
    return wrapped(headline(block), TITLE), lines_


def placeholder(canvas: Canvas, block: Block, body: GraphOutline | None) -> str:
    """What stands for a body that is not shown: its name in the picture."""
    count = sum(1 for _ in all_nodes(body)) if body else 0
    words = "no body" if body is None else f"{count} node{'s' if count != 1 else ''}"
    name = canvas.name(block.owner, block.id, "body")
    canvas.point(name, small(f"… {words} …"))
    return name


def _reads(loop: LoopOutline, left: Rail) -> list[Arrival]:
    """What the loop takes from its surroundings, and where it arrives."""
    entries = []
    if loop.trip_count is not None:
        entries.append(Arrival(left.outer("N"), "data", (loop.trip_count.expression,)))
    if loop.start is not None:
        entries.append(Arrival(left.outer("c"), "data", (loop.start.expression,)))
    for k, pair in enumerate(loop.carried):
        entries.append(Arrival(left.outer(f"v{k}"), "data", (pair.initial,)))
    for k, part in enumerate(loop.slices):
        entries.append(Arrival(left.outer(f"s{k}"), "data", (part.source,)))
    for k, delay in enumerate(loop.delays):
        entries.append(Arrival(left.outer(f"d{k}"), "data", (delay.initial,)))
    entries += [
        Arrival(left.outer(f"o{k}"), "capture", (capture.name,))
        for k, capture in enumerate(loop.captures)
    ]
    return entries


# --- inside -----------------------------------------------------------------------------------


def _terminals(loop: LoopOutline) -> dict[str, tuple[str, str]]:
    """The key of the terminal of every name that comes into the body, and its stroke."""
    found = {capture.name: (f"o{k}", "capture") for k, capture in enumerate(loop.captures)}
    found.update({pair.enter: (f"v{k}", "data") for k, pair in enumerate(loop.carried)})
    found.update({part.name: (f"s{k}", "data") for k, part in enumerate(loop.slices)})
    found.update({delay.name: (f"d{k}", "data") for k, delay in enumerate(loop.delays)})
    found.update({loop.iteration: ("i", "data"), loop.condition_in: ("c", "data")})
    found.pop("", None)
    return found


def wire_inputs(
    canvas: Canvas,
    terminals: dict[str, tuple[str, str]],
    body: GraphOutline,
    wires: dict[str, Wires],
    left: Rail,
) -> None:
    """From the terminals of the left rail (key and stroke by name) to what reads them."""
    for given in body.inputs:
        key, kind = terminals.get(given.name, ("", ""))
        if not key:
            continue
        drawn = wires[given.node]
        entries = drawn.inputs if given.port is not None else drawn.reads
        for entry in entries.get(given.port or given.name, [Arrival(drawn.whole_in)]):
            stroke = "capture" if "capture" in (kind, entry.kind) else "data"
            canvas.edge(left.inner(key), entry.end, stroke, given.path, weight_text(given.weight))


def _wire_outputs(
    canvas: Canvas,
    loop: LoopOutline,
    body: GraphOutline,
    wires: dict[str, Wires],
    left: Rail,
    right: Rail,
) -> None:
    terminals = _terminals(loop)
    leaving = ["c", *(f"v{k}" for k in range(len(loop.carried)))]
    keys = [*leaving, *(f"r{k}" for k in range(len(loop.recorded)))]
    for key, output in zip(keys, body.outputs, strict=False):
        if key == "c" and not tested(loop):
            continue
        if output.node is not None:
            drawn = wires[output.node]
            tail = drawn.outputs.get(output.port, drawn.whole_out)
            canvas.edge(tail, right.inner(key), "data", output.path)
        elif output.port in terminals:
            passed, kind = terminals[output.port]
            canvas.edge(left.inner(passed), right.inner(key), kind, output.path)


def _back_edges(canvas: Canvas, loop: LoopOutline, left: Rail, right: Rail) -> None:
    """From each right terminal to its left one: what is carried into the next iteration.

    The first one says `t+1` for all: it runs above the others.
    """
    direction = canvas.direction
    for k, pair in direction.stacked(list(enumerate(loop.carried))):
        canvas.edge(
            right.inner(f"v{k}", direction.back_from),
            left.inner(f"v{k}", direction.back_to),
            "back",
            f"{loop.path} {pair.enter}",
            "t+1" if k == 0 else "",
        )
    leaving = {pair.leave: f"v{k}" for k, pair in enumerate(loop.carried)}
    leaving |= {row.name: f"r{k}" for k, row in enumerate(loop.recorded)}
    for k, delay in enumerate(loop.delays):
        if delay.of in leaving:
            canvas.edge(
                right.inner(leaving[delay.of], direction.back_from),
                left.inner(f"d{k}", direction.back_to),
                "back",
                f"{loop.path} {delay.name}",
                f"t+{value_text(delay.back)}",
            )


def hold_body(
    canvas: Canvas, first: str, last: str, graph: GraphOutline, wires: dict[str, Wires]
) -> dict[str, list[str]]:
    """Keep the body between the rails; gives what follows each node."""
    drawn = [node.id for node in graph.nodes if node.id in wires]
    follows: dict[str, list[str]] = {node: [] for node in drawn}
    for edge in graph.edges:
        if not edge.feedback and edge.sender in follows and edge.receiver in follows:
            follows[edge.sender].append(edge.receiver)
    fed = {receiver for receivers in follows.values() for receiver in receivers}
    for node in drawn:
        if node not in fed:
            canvas.hold(first, wires[node].first)
        if not follows[node]:
            canvas.hold(wires[node].last, last)
        for loose in wires[node].loose:
            canvas.hold(first, loose)
            canvas.hold(loose, last)
    return follows


def line_of(
    graph: GraphOutline, follows: dict[str, list[str]], wires: dict[str, Wires]
) -> list[tuple[str, str]]:
    """Where the longest chain of nodes begins and ends at each of them."""
    return [(wires[i].first, wires[i].last) for i in _longest_chain(graph, follows)]


def straighten(canvas: Canvas, first: str, last: str, line: list[tuple[str, str]]) -> None:
    """Keep a chain of nodes on one line with the rails; what owns frames keeps its own ends so."""
    tails = [first, *(end for _, end in line)]
    heads = [*(begin for begin, _ in line), last]
    for tail, head in zip(tails, heads, strict=True):
        canvas.hold(tail, head, STRAIGHT)


def _longest_chain(graph: GraphOutline, follows: dict[str, list[str]]) -> list[str]:
    """The longest way along edges, the first one in document order if there are several."""
    best: dict[str, list[str]] = {}
    for node in (n.id for n in reversed(order_nodes(graph)) if n.id in follows):
        ways = [best[other] for other in follows[node] if other in best]
        best[node] = [node, *max(ways, key=len, default=[])]
    return max((best[node] for node in follows), key=len, default=[])
