"""A graph as few boxes: what a large one comes down to before it is laid out.

    x -> Conv -> BatchNormalization -> Relu -> Add        [Conv, BatchNormalization, Relu] -> [Add]
    weight -> Transpose -> Conv                           nothing: it depends on no input

Nodes that depend on no input fold into what reads them; a chain of nodes that only feed each other
becomes one run. Nodes that own graphs, inputs and outputs of the graph keep a box of their own.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator
from typing import TypeVar

from msgspec import Struct

from mdf_loop.outline import GraphOutline, NodeOutline

_T = TypeVar("_T", bound=Hashable)

LONGEST_RUN = 8
"""Nodes in one box."""


class Flow(Struct, frozen=True):
    """Runs of nodes, each at least one, in the order of the graph's first nodes, and their links.

    `links` are pairs of places in `runs`, each once; `back` those that bring an older value. `folded`
    counts the nodes that have no box.
    """

    runs: tuple[tuple[NodeOutline, ...], ...]
    links: tuple[tuple[int, int], ...]
    back: tuple[tuple[int, int], ...]
    folded: int

    @property
    def order(self) -> list[int]:
        """The places of the runs, senders before receivers."""
        return topological(range(len(self.runs)), self.links)


def flow_of(graph: GraphOutline, alone: frozenset[str] = frozenset()) -> Flow:
    """The graph as runs; `alone` are ids of nodes that stand in no run with others."""
    live = _live(graph)
    nodes = {node.id: node for node in graph.nodes if node.id in live}
    pairs = _pairs(graph, nodes, feedback=False)
    chains = _chains(nodes, pairs, alone)
    place = {node: k for k, chain in enumerate(chains) for node in chain}

    def between(found: Iterable[tuple[str, str]], *, itself: bool) -> tuple[tuple[int, int], ...]:
        places = ((place[a], place[b]) for a, b in found)
        return tuple(dict.fromkeys((a, b) for a, b in places if itself or a != b))

    return Flow(
        runs=tuple(tuple(nodes[node] for node in chain) for chain in chains),
        links=between(pairs, itself=False),
        back=between(_pairs(graph, nodes, feedback=True), itself=True),
        folded=len(graph.nodes) - len(nodes),
    )


def _pairs(graph: GraphOutline, nodes: Iterable[str], *, feedback: bool) -> list[tuple[str, str]]:
    known = frozenset(nodes)
    found = (
        (edge.sender, edge.receiver)
        for edge in graph.edges
        if edge.feedback == feedback and edge.sender in known and edge.receiver in known
    )
    return list(dict.fromkeys(found))


def _live(graph: GraphOutline) -> frozenset[str]:
    """Ids of the nodes that depend on something, and of those that give a result."""
    given = {i.node for i in graph.inputs} | {node.id for node in graph.nodes if node.is_input}
    moving = {node.id for node in graph.nodes if _moves(node)}
    if not given | moving:
        return frozenset(node.id for node in graph.nodes)
    follows = defaultdict(list)
    for edge in graph.edges:
        follows[edge.sender].append(edge.receiver)
    live = given | moving
    ready = list(live)
    while ready:
        for receiver in follows[ready.pop()]:
            if receiver not in live:
                live.add(receiver)
                ready.append(receiver)
    return frozenset(live | {o.node for o in graph.outputs if o.node is not None})


def _moves(node: NodeOutline) -> bool:
    """Whether a node gives different values though it reads nothing."""
    return bool(
        node.blocks or node.condition or node.draws or any(item.stateful for item in node.items)
    )


def _chains(
    nodes: dict[str, NodeOutline], pairs: list[tuple[str, str]], alone: frozenset[str]
) -> list[list[str]]:
    """Chains of nodes of which each feeds only the next one, and is its only sender."""
    follows, senders = defaultdict(list), defaultdict(list)
    for sender, receiver in pairs:
        follows[sender].append(receiver)
        senders[receiver].append(sender)

    def joins(node: str) -> bool:
        made = nodes[node]
        return not (made.blocks or made.is_input or made.condition or node in alone)

    chains: list[list[str]] = []
    taken: set[str] = set()
    for first in topological(nodes, pairs):
        if first in taken:
            continue
        chain = [first]
        while joins(chain[-1]) and len(chain) < LONGEST_RUN and len(follows[chain[-1]]) == 1:
            (after,) = follows[chain[-1]]
            if len(senders[after]) != 1 or after in taken or after in chain or not joins(after):
                break
            chain.append(after)
        taken.update(chain)
        chains.append(chain)
    return chains


def topological(things: Iterable[_T], links: Iterable[tuple[_T, _T]]) -> list[_T]:
    """Things, senders before receivers, else as they are given; circles as they are given."""
    listed = list(things)
    follows, waits = defaultdict(list), dict.fromkeys(listed, 0)
    for tail, head in links:
        follows[tail].append(head)
        waits[head] += 1
    order: dict[_T, None] = {}
    for start in _starts(listed, waits, order):
        ready = [start]
        while ready:
            thing = ready.pop()
            order[thing] = None
            for head in reversed(follows[thing]):
                waits[head] -= 1
                if not waits[head] and head not in order:
                    ready.append(head)
    return list(order)


def _starts(listed: list[_T], waits: dict[_T, int], order: dict[_T, None]) -> Iterator[_T]:
    """What waits for nothing; then, in circles, what is met first."""
    yield from [thing for thing in listed if not waits[thing]]
    yield from (thing for thing in listed if thing not in order)
