"""A loop as a frame: one line of pseudo-code, rails of terminals, the body, the back edges."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

from mdf_loop.drawing.canvas import Canvas, End, Entry, Wires
from mdf_loop.drawing.labels import bold, lines, small, styled
from mdf_loop.drawing.rails import Rail, draw_rails, rail_rows
from mdf_loop.drawing.theme import BIG, FRAME_FILLS, LOOP_LINE, SMALL, WARNING
from mdf_loop.drawing.view import View, all_nodes
from mdf_loop.outline import GraphOutline, LoopOutline
from mdf_loop.outline.text import shortened, weight_text
from mdf_loop.outline.words import headline

GraphDrawer = Callable[[Canvas, GraphOutline, View], dict[str, Wires]]
"""Draws the nodes and edges of a graph and says where their values arrive and leave."""


@dataclass(frozen=True, slots=True)
class Frame:
    """A drawn loop: what it reads, and where each of its results leaves."""

    first: str
    last: str
    reads: tuple[Entry, ...]
    results: tuple[End, ...]
    named: dict[str, End]


def draw_frame(canvas: Canvas, loop: LoopOutline, view: View, draw_graph: GraphDrawer) -> Frame:
    """Draw a loop with its body."""
    name = canvas.name(loop.owner, loop.id)
    fill = FRAME_FILLS[view.nesting % len(FRAME_FILLS)]
    with canvas.cluster(
        name,
        _title(loop),
        "loop",
        loop.path,
        style="rounded,filled",
        pencolor=LOOP_LINE,
        fillcolor=fill,
        penwidth="1.6",
        margin="12",
    ):
        left, right = draw_rails(canvas, loop, rail_rows(loop, view.detail, view.captures))
        if loop.body is not None and view.detail.bodies:
            wires = draw_graph(canvas, loop.body, view.inner())
            _wire_inputs(canvas, loop, loop.body, wires, left)
            _wire_outputs(canvas, loop, loop.body, wires, left, right)
            hold_body(canvas, left.name, right.name, loop.body, wires)
        else:
            _placeholder(canvas, loop, left, right)
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


def _title(loop: LoopOutline) -> str:
    name = loop.owner if loop.owner == loop.id else f"{loop.owner} · {loop.id}"
    notes = [styled(f"⚠ {shortened(n, 110)}", size=SMALL, color=WARNING) for n in loop.notes]
    return lines(bold(headline(loop), BIG), small(name), *notes, align="LEFT")


def _placeholder(canvas: Canvas, loop: LoopOutline, left: Rail, right: Rail) -> None:
    """What stands for a body that is not shown."""
    count = sum(1 for _ in all_nodes(loop.body)) if loop.body else 0
    words = "no body" if loop.body is None else f"{count} node{'s' if count != 1 else ''}"
    name = canvas.name(loop.owner, loop.id, "body")
    canvas.point(name, small(f"… {words} …"))
    canvas.hold(left.name, name, 20)
    canvas.hold(name, right.name, 20)


def _reads(loop: LoopOutline, left: Rail) -> list[Entry]:
    """What the loop takes from its surroundings, and where it arrives."""
    entries = []
    if loop.trip_count is not None:
        entries.append(Entry(left.outer("N"), "data", (loop.trip_count.expression,)))
    if loop.start is not None:
        entries.append(Entry(left.outer("c"), "data", (loop.start.expression,)))
    for k, pair in enumerate(loop.carried):
        entries.append(Entry(left.outer(f"v{k}"), "data", (pair.initial,)))
    entries += [
        Entry(left.outer(f"o{k}"), "capture", (capture.name,))
        for k, capture in enumerate(loop.captures)
    ]
    return entries


# --- inside -----------------------------------------------------------------------------------


def _terminals(loop: LoopOutline) -> dict[str, tuple[str, str]]:
    """The key of the terminal of every name that comes into the body, and its stroke."""
    found = {capture.name: (f"o{k}", "capture") for k, capture in enumerate(loop.captures)}
    found.update({pair.enter: (f"v{k}", "data") for k, pair in enumerate(loop.carried)})
    found.update({loop.iteration: ("i", "data"), loop.condition_in: ("c", "data")})
    found.pop("", None)
    return found


def _wire_inputs(
    canvas: Canvas,
    loop: LoopOutline,
    body: GraphOutline,
    wires: dict[str, Wires],
    left: Rail,
) -> None:
    terminals = _terminals(loop)
    for given in body.inputs:
        key, kind = terminals.get(given.name, ("", ""))
        if not key:
            continue
        drawn = wires[given.node]
        entries = drawn.inputs if given.port is not None else drawn.reads
        for entry in entries.get(given.port or given.name, [Entry(drawn.whole_in)]):
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
        if key == "c" and loop.start is None:
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


def hold_body(
    canvas: Canvas, first: str, last: str, graph: GraphOutline, wires: dict[str, Wires]
) -> None:
    """Keep the body between the rails, its longest chain of nodes on one line with them."""
    follows: dict[str, list[str]] = {node.id: [] for node in graph.nodes}
    for edge in graph.edges:
        if not edge.feedback and edge.sender in follows and edge.receiver in follows:
            follows[edge.sender].append(edge.receiver)
    fed = {receiver for receivers in follows.values() for receiver in receivers}
    for node in graph.nodes:
        if node.id not in fed:
            canvas.hold(first, wires[node.id].first)
        if not follows[node.id]:
            canvas.hold(wires[node.id].last, last)
    chain = _longest_chain(follows)
    stops = [first, *(part for i in chain for part in (wires[i].first, wires[i].last)), last]
    for tail, head in pairwise(stops):
        if tail != head:
            canvas.hold(tail, head, 20)


def _longest_chain(follows: dict[str, list[str]]) -> list[str]:
    """The longest way along edges, the first one in document order if there are several."""
    best: dict[str, list[str]] = {}

    def longest(node: str, visited: frozenset[str]) -> list[str]:
        if node not in best:
            ways = [longest(n, visited | {node}) for n in follows[node] if n not in visited]
            best[node] = [node, *max(ways, key=len, default=[])]
        return best[node]

    return max((longest(node, frozenset({node})) for node in follows), key=len, default=[])
