"""Order of execution of nodes in modeci_mdf's engine, which may be random.

The engine iterates over Python sets of nodes and of edges, whose order changes from run to run. Numbers
depend on it in three cases:

- several edges lead into one port that keeps the last value (`reduce: overwrite`);
- three edges or more lead into one port that adds or multiplies (last bits only);
- an edge into a port with a default_value connects two nodes that may run together.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from mdf_loop.document.document import Document
from mdf_loop.document.parts import Graph
from mdf_loop.run.execution_list import ExecutionList
from mdf_loop.verification.comparison import Comparison


def describe_random_order(document: Document) -> list[str]:
    """Return descriptions of ports and edges where modeci_mdf's order of execution is random."""
    graph = document.graph
    edge_count_by_port = Counter((edge.receiver, edge.receiver_port) for edge in graph.edges)
    layer_by_node = _node_layers(graph)
    port_by_key = {(node.id, port.id): port for node in graph.nodes for port in node.input_ports}
    random_order_descriptions = [
        f"{node}.{port} ({edge_count_by_port[node, port]} edges)"
        for (node, port), input_port in port_by_key.items()
        if edge_count_by_port[node, port] > (1 if input_port.reduce == "overwrite" else 2)
    ]
    for edge in graph.edges:
        may_run_together = layer_by_node.get(edge.sender) == layer_by_node.get(edge.receiver)
        if may_run_together and edge.sender != edge.receiver:
            random_order_descriptions.append(
                f"{edge.receiver}.{edge.receiver_port} (runs together with {edge.sender})"
            )
    return list(dict.fromkeys(random_order_descriptions))


def _node_layers(graph: Graph) -> Mapping[str, int]:
    """Assign each node of a graph to a layer above the layers of its senders.

    Edges into ports with a default value do not count. Nodes in a cycle have no layer.
    """
    senders_by_node: dict[str, set[str]] = {node.id: set() for node in graph.nodes}
    for edge in graph.edges:
        receiver_port = next(
            port
            for port in graph.find_node(edge.receiver).input_ports
            if port.id == edge.receiver_port
        )
        if receiver_port.default_value is None:
            senders_by_node[edge.receiver].add(edge.sender)
    layer_by_node: dict[str, int] = {}
    while ready_nodes := [
        node
        for node in senders_by_node
        if node not in layer_by_node and senders_by_node[node] <= layer_by_node.keys()
    ]:
        next_layer = max(layer_by_node.values(), default=-1) + 1
        layer_by_node.update(dict.fromkeys(ready_nodes, next_layer))
    return layer_by_node


def compare_order(our_order: ExecutionList, their_order: ExecutionList) -> Comparison:
    """Compare the execution order of nodes between a compiled model and modeci_mdf's engine.

    Evaluations that the engine did not run are ignored.
    """
    our_order = our_order[: len(their_order)]
    count_texts = (f"{len(our_order)} evaluations", f"{len(their_order)} evaluations")
    different_steps = [
        k
        for k, (our_sets, their_sets) in enumerate(zip(our_order, their_order, strict=False))
        if _node_sets(our_sets) != _node_sets(their_sets)
    ]
    if not different_steps and len(our_order) == len(their_order):
        return Comparison("order of execution", "modeci_mdf", True, 0.0, 0.0, count_texts)
    first_different_step = different_steps[0] if different_steps else None
    node_set_texts = (
        None
        if first_different_step is None
        else (
            _format_node_sets(our_order[first_different_step]),
            _format_node_sets(their_order[first_different_step]),
        )
    )
    infinity = float("inf")
    return Comparison(
        "order of execution",
        "modeci_mdf",
        False,
        infinity,
        infinity,
        count_texts,
        first_different_step,
        node_set_texts,
    )


def _node_sets(evaluation: Sequence[Collection[str]]) -> list[frozenset[str]]:
    """Return the sets of nodes that ran together in one evaluation, in order of execution."""
    return [frozenset(node_ids) for node_ids in evaluation]


def _format_node_sets(evaluation: Sequence[Collection[str]]) -> str:
    """Format the sets of nodes that ran together as text, such as `A|B,C||D`.

    An empty set is a pass without nodes.
    """
    order_text = "|".join(",".join(node_ids) for node_ids in evaluation)
    return order_text if len(order_text) <= 60 else order_text[:57] + "..."
