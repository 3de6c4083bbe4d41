"""Reduction of a large graph to few boxes before layout: chains of nodes become one box.

    x -> Conv -> BatchNormalization -> Relu -> Add        [Conv, BatchNormalization, Relu] -> [Add]
    weight -> Transpose -> Conv                           no box: independent of all inputs

Nodes that are independent of all inputs are omitted. A chain of nodes, each the only reader of the node
before, becomes one box. Nodes that own graphs, inputs and outputs of the graph have separate boxes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator
from typing import TypeVar

from msgspec import Struct

from mdf_loop.outline import GraphOutline, NodeOutline

_T = TypeVar("_T", bound=Hashable)

MAX_CHAIN_LENGTH = 8
"""Maximum number of nodes in one box."""


class Flow(Struct, frozen=True):
    """Graph reduced for layout: chains of nodes, each drawn as one box, and links between chains.

    The `chains` are ordered by their first nodes.

    Attributes:
        links: Distinct pairs (sender, receiver) of positions in `chains`.
        back_links: Distinct pairs of positions for feedback edges, which carry values of an earlier pass.
        folded_count: Number of nodes without a box.
    """

    chains: tuple[tuple[NodeOutline, ...], ...]
    links: tuple[tuple[int, int], ...]
    back_links: tuple[tuple[int, int], ...]
    folded_node_count: int

    @property
    def order(self) -> list[int]:
        """Indices of the chains of nodes (each drawn as one box) in topological order."""
        return topological_order(range(len(self.chains)), self.links)


def flow_of(graph: GraphOutline, separate_ids: frozenset[str] = frozenset()) -> Flow:
    """Return a graph reduced to linear chains of nodes. Nodes in `separate_ids` are chains of their own."""
    live_node_ids = _live_node_ids(graph)
    nodes = {node.id: node for node in graph.nodes if node.id in live_node_ids}
    edge_pairs = _edge_pairs(graph, nodes, feedback=False)
    chains = _chains(nodes, edge_pairs, separate_ids)
    chain_index_by_node = {node_id: k for k, chain in enumerate(chains) for node_id in chain}

    def between(
        node_pairs: Iterable[tuple[str, str]], *, allow_self: bool
    ) -> tuple[tuple[int, int], ...]:
        chain_pairs = (
            (chain_index_by_node[sender], chain_index_by_node[receiver])
            for sender, receiver in node_pairs
        )
        return tuple(
            dict.fromkeys(
                (sender_chain, reader_chain)
                for sender_chain, reader_chain in chain_pairs
                if allow_self or sender_chain != reader_chain
            )
        )

    return Flow(
        chains=tuple(tuple(nodes[node_id] for node_id in chain) for chain in chains),
        links=between(edge_pairs, allow_self=False),
        back_links=between(_edge_pairs(graph, nodes, feedback=True), allow_self=True),
        folded_node_count=len(graph.nodes) - len(nodes),
    )


def _edge_pairs(
    graph: GraphOutline, nodes: Iterable[str], *, feedback: bool
) -> list[tuple[str, str]]:
    """Return the distinct pairs (sender, receiver) of either the feedback edges or all other edges."""
    node_ids = frozenset(nodes)
    edge_pairs = (
        (edge.sender, edge.receiver)
        for edge in graph.edges
        if edge.is_feedback == feedback and edge.sender in node_ids and edge.receiver in node_ids
    )
    return list(dict.fromkeys(edge_pairs))


def _live_node_ids(graph: GraphOutline) -> frozenset[str]:
    """Return the ids of nodes whose values may vary, and of nodes that provide the graph's outputs."""
    input_node_ids = {model_input.node_id for model_input in graph.inputs} | {
        node.id for node in graph.nodes if node.is_input
    }
    varying_node_ids = {node.id for node in graph.nodes if _varies_without_inputs(node)}
    if not input_node_ids | varying_node_ids:
        return frozenset(node.id for node in graph.nodes)
    receivers = defaultdict(list)
    for edge in graph.edges:
        receivers[edge.sender].append(edge.receiver)
    live_node_ids = input_node_ids | varying_node_ids
    unvisited_ids = list(live_node_ids)
    while unvisited_ids:
        for receiver in receivers[unvisited_ids.pop()]:
            if receiver not in live_node_ids:
                live_node_ids.add(receiver)
                unvisited_ids.append(receiver)
    return frozenset(
        live_node_ids | {output.node_id for output in graph.outputs if output.node_id is not None}
    )


def _varies_without_inputs(node: NodeOutline) -> bool:
    """Return True if the values of a node may vary although the node reads no values."""
    return bool(
        node.blocks
        or node.scheduler_condition
        or node.is_random
        or any(definition.is_stateful for definition in node.definitions)
    )


def _chains(
    nodes: dict[str, NodeOutline], edge_pairs: list[tuple[str, str]], separate_ids: frozenset[str]
) -> list[list[str]]:
    """Return the linear chains of nodes, in which each node feeds only the next node."""
    receivers, senders = defaultdict(list), defaultdict(list)
    for sender, receiver in edge_pairs:
        receivers[sender].append(receiver)
        senders[receiver].append(sender)

    def can_join(node: str) -> bool:
        outline_node = nodes[node]
        return not (
            outline_node.blocks
            or outline_node.is_input
            or outline_node.scheduler_condition
            or node in separate_ids
        )

    chains: list[list[str]] = []
    chained_ids: set[str] = set()
    for first_node in topological_order(nodes, edge_pairs):
        if first_node in chained_ids:
            continue
        chain = [first_node]
        while (
            can_join(chain[-1]) and len(chain) < MAX_CHAIN_LENGTH and len(receivers[chain[-1]]) == 1
        ):
            (next_node,) = receivers[chain[-1]]
            if (
                len(senders[next_node]) != 1
                or next_node in chained_ids
                or next_node in chain
                or not can_join(next_node)
            ):
                break
            chain.append(next_node)
        chained_ids.update(chain)
        chains.append(chain)
    return chains


def topological_order(nodes: Iterable[_T], links: Iterable[tuple[_T, _T]]) -> list[_T]:
    """Return the nodes in topological order. A cycle starts with its first node in the given order."""
    node_list = list(nodes)
    receivers, unvisited_sender_counts = defaultdict(list), dict.fromkeys(node_list, 0)
    for tail, head in links:
        receivers[tail].append(head)
        unvisited_sender_counts[head] += 1
    ordered_nodes: dict[_T, None] = {}
    for start_node in _start_nodes(node_list, unvisited_sender_counts, ordered_nodes):
        unvisited_nodes = [start_node]
        while unvisited_nodes:
            node = unvisited_nodes.pop()
            ordered_nodes[node] = None
            for head in reversed(receivers[node]):
                unvisited_sender_counts[head] -= 1
                if not unvisited_sender_counts[head] and head not in ordered_nodes:
                    unvisited_nodes.append(head)
    return list(ordered_nodes)


def _start_nodes(
    nodes: list[_T], unvisited_sender_counts: dict[_T, int], order: dict[_T, None]
) -> Iterator[_T]:
    """Yield the nodes without unvisited senders, then the first unvisited node of each cycle."""
    yield from [node for node in nodes if not unvisited_sender_counts[node]]
    yield from (node for node in nodes if node not in order)
