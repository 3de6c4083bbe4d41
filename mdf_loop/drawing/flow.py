"""Reduction of a large graph to few boxes before layout.

    x -> Conv -> BatchNormalization -> Relu -> Add        [Conv, BatchNormalization, Relu] -> [Add]
    weight -> Transpose -> Conv                           no box: independent of all inputs

Nodes that are independent of all inputs fold into their readers. A chain of nodes that feed only each
other becomes one run. Nodes that own graphs, inputs and outputs of the graph have a box of their own.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator
from typing import TypeVar

from msgspec import Struct

from mdf_loop.outline import GraphOutline, NodeOutline

_T = TypeVar("_T", bound=Hashable)

MAX_RUN_LENGTH = 8
"""Number of nodes in one box."""


class Flow(Struct, frozen=True):
    """Runs of one or more nodes in the order of their first nodes, and the links between runs.

    Attributes:
        links: Different pairs of positions in `runs`, sender before receiver.
        back: Pairs of positions whose edge carries an older value.
        folded: Number of nodes without a box.
    """

    runs: tuple[tuple[NodeOutline, ...], ...]
    links: tuple[tuple[int, int], ...]
    back: tuple[tuple[int, int], ...]
    folded: int

    @property
    def order(self) -> list[int]:
        """Positions of the runs, senders before receivers."""
        return topological_order(range(len(self.runs)), self.links)


def flow_of(graph: GraphOutline, alone: frozenset[str] = frozenset()) -> Flow:
    """Return the graph as runs. Nodes with an id in `alone` are never joined with others."""
    live_ids = _live_node_ids(graph)
    nodes = {node.id: node for node in graph.nodes if node.id in live_ids}
    pairs = _edge_pairs(graph, nodes, feedback=False)
    chains = _chains(nodes, pairs, alone)
    run_of_node = {node: k for k, chain in enumerate(chains) for node in chain}

    def between(
        node_pairs: Iterable[tuple[str, str]], *, allow_self: bool
    ) -> tuple[tuple[int, int], ...]:
        run_pairs = ((run_of_node[a], run_of_node[b]) for a, b in node_pairs)
        return tuple(dict.fromkeys((a, b) for a, b in run_pairs if allow_self or a != b))

    return Flow(
        runs=tuple(tuple(nodes[node] for node in chain) for chain in chains),
        links=between(pairs, allow_self=False),
        back=between(_edge_pairs(graph, nodes, feedback=True), allow_self=True),
        folded=len(graph.nodes) - len(nodes),
    )


def _edge_pairs(
    graph: GraphOutline, nodes: Iterable[str], *, feedback: bool
) -> list[tuple[str, str]]:
    """Return different pairs of sender and receiver among the nodes, for feedback edges or for all others."""
    node_ids = frozenset(nodes)
    pairs = (
        (edge.sender, edge.receiver)
        for edge in graph.edges
        if edge.feedback == feedback and edge.sender in node_ids and edge.receiver in node_ids
    )
    return list(dict.fromkeys(pairs))


def _live_node_ids(graph: GraphOutline) -> frozenset[str]:
    """Return ids of the nodes that depend on inputs or vary by themselves, and of nodes with outputs."""
    input_nodes = {i.node for i in graph.inputs} | {
        node.id for node in graph.nodes if node.is_input
    }
    varying_nodes = {node.id for node in graph.nodes if _varies_without_inputs(node)}
    if not input_nodes | varying_nodes:
        return frozenset(node.id for node in graph.nodes)
    receivers = defaultdict(list)
    for edge in graph.edges:
        receivers[edge.sender].append(edge.receiver)
    live_ids = input_nodes | varying_nodes
    stack = list(live_ids)
    while stack:
        for receiver in receivers[stack.pop()]:
            if receiver not in live_ids:
                live_ids.add(receiver)
                stack.append(receiver)
    return frozenset(live_ids | {o.node for o in graph.outputs if o.node is not None})


def _varies_without_inputs(node: NodeOutline) -> bool:
    """Return True if a node may give different values although it reads nothing."""
    return bool(
        node.blocks or node.condition or node.draws or any(item.stateful for item in node.items)
    )


def _chains(
    nodes: dict[str, NodeOutline], pairs: list[tuple[str, str]], alone: frozenset[str]
) -> list[list[str]]:
    """Return chains of nodes in which each node feeds only the next one and is its only sender."""
    receivers, senders = defaultdict(list), defaultdict(list)
    for sender, receiver in pairs:
        receivers[sender].append(receiver)
        senders[receiver].append(sender)

    def joins(node: str) -> bool:
        outline_node = nodes[node]
        return not (
            outline_node.blocks or outline_node.is_input or outline_node.condition or node in alone
        )

    chains: list[list[str]] = []
    chained: set[str] = set()
    for first in topological_order(nodes, pairs):
        if first in chained:
            continue
        chain = [first]
        while joins(chain[-1]) and len(chain) < MAX_RUN_LENGTH and len(receivers[chain[-1]]) == 1:
            (next_node,) = receivers[chain[-1]]
            if (
                len(senders[next_node]) != 1
                or next_node in chained
                or next_node in chain
                or not joins(next_node)
            ):
                break
            chain.append(next_node)
        chained.update(chain)
        chains.append(chain)
    return chains


def topological_order(nodes: Iterable[_T], links: Iterable[tuple[_T, _T]]) -> list[_T]:
    """Return nodes with senders before receivers, otherwise and within cycles in the given order."""
    node_list = list(nodes)
    receivers, open_senders = defaultdict(list), dict.fromkeys(node_list, 0)
    for tail, head in links:
        receivers[tail].append(head)
        open_senders[head] += 1
    order: dict[_T, None] = {}
    for start in _start_nodes(node_list, open_senders, order):
        stack = [start]
        while stack:
            node = stack.pop()
            order[node] = None
            for head in reversed(receivers[node]):
                open_senders[head] -= 1
                if not open_senders[head] and head not in order:
                    stack.append(head)
    return list(order)


def _start_nodes(
    nodes: list[_T], open_senders: dict[_T, int], order: dict[_T, None]
) -> Iterator[_T]:
    """Yield the nodes without open senders, and then the first remaining node of each cycle."""
    yield from [node for node in nodes if not open_senders[node]]
    yield from (node for node in nodes if node not in order)
