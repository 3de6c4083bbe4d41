"""Conversion of one evaluation of a graph to operations, in the order of the schedule.

Without conditions, nodes are ordered by layers. A node is in the first layer in which all its senders have
run. Within a layer, nodes have the order of the graph (modeci_mdf's order is random). A node does not wait
for an edge into a port that has a default_value. Until the sender has run, such a port has its default.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence

from mdf_loop.document.parts import Edge, Graph
from mdf_loop.errors import CycleError, Poisoned, ScopeError, UnknownNameError, UnsupportedError
from mdf_loop.ir import Value
from mdf_loop.lower import Term, tensor
from mdf_loop.lower.operators import guard_value
from mdf_loop.name_suggestions import suggest
from mdf_loop.reading.execution import Executor
from mdf_loop.reading.inputs import open_ports
from mdf_loop.reading.memory import Memory, State
from mdf_loop.reading.node import Context
from mdf_loop.reading.passes_loop import PassesLoop, create_count_state
from mdf_loop.reading.ports import Ports, PortSupplier
from mdf_loop.reading.schedule.conditions import JustRan
from mdf_loop.reading.schedule.counters import Counters, CountKey
from mdf_loop.reading.schedule.known import Number, Truth, to_value
from mdf_loop.reading.schedule.plan import NodeSets, Schedule, read_schedule

_MAX_PLANNED_EXECUTIONS = 64
"""Maximum number of node executions of an evaluation with conditions that is planned before the run."""


class GraphReader:
    """Builder of the operations that evaluate a graph once, in the order of its schedule.

    An output whose computation has an error is missing, and the error is among the findings.

    Attributes:
        plan: Order of execution, or None if the run decides the order.
        recorded: States that are read besides the outputs.
    """

    def __init__(
        self,
        graph: Graph,
        where: str,
        supply: PortSupplier,
        context: Context,
        memory: Memory,
        *,
        dt: Value | None = None,
        recorded: Iterable[State] = (),
    ) -> None:
        self.b = memory.b
        self.graph = graph
        self.where = where
        self.supply = supply
        self.context = context
        self.memory = memory
        self.dt = dt
        self.recorded_states = tuple(recorded)
        self.nodes = {node.id: node for node in graph.nodes}
        self.plan: NodeSets | None = ()
        self.is_complete = False

    def read(self) -> GraphReader:
        """Convert all nodes of the graph to operations, and collect errors instead of raising."""
        usable_edges = self._find_usable_edges()
        edges_by_port: dict[tuple[str, str], list[Edge]] = {
            (edge.receiver, edge.receiver_port): [] for edge in self.graph.edges
        }
        for edge in usable_edges:
            edges_by_port[edge.receiver, edge.receiver_port].append(edge)
        ports = Ports(edges_by_port, self.where, self.supply)
        self.executor = Executor(self.graph, self.where, ports, self.context, self.dt)
        with self.b.findings.catch():
            self._refuse_repeated_ids()
            required_senders = find_required_senders(self.graph, usable_edges)
            layers = sort_into_layers(self.graph, required_senders, self.where)
            self.schedule = read_schedule(self.graph, layers, required_senders, self.where)
            self._evaluate(self.schedule)
            self.is_complete = True
        return self

    def _evaluate(self, schedule: Schedule) -> None:
        """Append the nodes' operations in the planned order, or as a loop if the order depends on values."""
        start_counts = self._read_start_counts(schedule)
        known_counts: dict[CountKey, Number | Truth | None] = {
            count_key: None if isinstance(count, Value) else count
            for count_key, count in start_counts.items()
        }
        schedule_counters = Counters(self.b, known_counts)
        planned_passes = schedule.plan(
            schedule_counters, max(_MAX_PLANNED_EXECUTIONS, 4 * len(self.nodes))
        )
        if planned_passes is None or any(
            schedule_counters.counts[count_key] is None for count_key in schedule.persistent_keys
        ):
            self.plan = None
            self._note_kept_inputs(self.nodes)
            PassesLoop(self.executor, schedule, self.memory, self.recorded_states).read(
                start_counts
            )
            return
        self.plan = tuple(
            node_set for pass_node_sets in planned_passes for node_set in pass_node_sets
        )
        run_counts = Counter(node for node_set in self.plan for node in node_set)
        self._note_kept_inputs([node for node in run_counts if run_counts[node] > 1])
        graph_call_site = self.b.call_site
        for k, node_sets in enumerate(planned_passes):
            with self.b.at_call_site(
                pass_index=graph_call_site.pass_index * len(planned_passes) + k,
                pass_count=graph_call_site.pass_count * len(planned_passes),
            ):
                self._execute(node_sets)
        for count_key in schedule.persistent_keys:
            final_count = schedule_counters.counts[count_key]
            assert final_count is not None
            self.memory.put(create_count_state(count_key), to_value(self.b, final_count))

    def _execute(self, sets: NodeSets) -> None:
        """Append the operations of the nodes in the given sets, one set after the other."""
        for node_set in sets:
            for node in node_set:
                with self.b.findings.catch():
                    self.executor.execute(node, self.memory)

    def _note_kept_inputs(self, repeated_nodes: Collection[str]) -> None:
        """Add a note for each input that keeps its value while its node runs several times."""
        if not repeated_nodes or self.where != self.context.document.where:
            return
        for port in open_ports(self.context.document):
            if port.node in repeated_nodes:
                self.b.note(
                    f"what '{port.name}' is given from outside it keeps while '{port.node}' runs "
                    "several times; modeci_mdf's engine empties it after the first time",
                    port.where,
                )

    def _read_start_counts(self, schedule: Schedule) -> dict[CountKey, Number | Truth]:
        """Return the schedule's initial counters: those of the previous evaluation, or zeros."""
        start_counts: dict[CountKey, Number | Truth] = {}
        persistent_count_keys = frozenset(schedule.persistent_keys)
        for count_key in schedule.count_keys:
            previous_count_term = (
                self.memory.find(create_count_state(count_key))
                if count_key in persistent_count_keys
                else None
            )
            start_count: Number | Truth = False if isinstance(count_key, JustRan) else 0
            start_counts[count_key] = (
                start_count if previous_count_term is None else tensor(self.b, previous_count_term)
            )
        return start_counts

    def _refuse_repeated_ids(self) -> None:
        """Raise ScopeError if two nodes have the same id."""
        node_ids = [node.id for node in self.graph.nodes]
        for repeated_id in [
            node_id for k, node_id in enumerate(node_ids) if node_id in node_ids[:k]
        ]:
            raise ScopeError(
                f"two nodes have the id '{repeated_id}'", self.where, "rename one of them"
            )

    # --- outputs --------------------------------------------------------------------------------

    def output(self, node: str, port: str) -> Term:
        """Return the value of an output port at the end of the evaluation.

        Raises:
            Poisoned: If the graph could not be read.
            UnsupportedError: If the port's node never runs.
        """
        if not self.is_complete:
            raise Poisoned
        has_run = self.memory.has_run(node)
        if has_run is False:
            raise UnsupportedError(
                f"the node '{node}' never runs, so its output '{port}' has no value",
                f"{self.where}.nodes['{node}']",
                "change its condition",
            )
        output_term = self.memory.get(("output", node, port))
        if not isinstance(has_run, Value):
            return output_term
        message = f"the node '{node}' has not run, so its output '{port}' has no value"
        return guard_value(self.b, tensor(self.b, output_term), has_run, message)

    # --- edges ----------------------------------------------------------------------------------

    def _find_usable_edges(self) -> list[Edge]:
        """Return the edges between existing ports, and record an error for each other edge."""
        usable_edges = []
        for edge in self.graph.edges:
            with self.b.findings.catch():
                self._check_edge(edge)
                usable_edges.append(edge)
        return usable_edges

    def _check_edge(self, edge: Edge) -> None:
        """Raise UnknownNameError if a node or port of the edge does not exist."""
        edge_path = f"{self.where}.edges['{edge.id}']"
        for edge_end, port_name, port_field in (
            ("sender", edge.sender_port, "output_ports"),
            ("receiver", edge.receiver_port, "input_ports"),
        ):
            node_id = getattr(edge, edge_end)
            if node_id not in self.nodes:
                raise UnknownNameError(
                    f"the edge's {edge_end} '{node_id}' is not a node of the graph",
                    edge_path,
                    suggest(node_id, self.nodes),
                )
            port_ids = [port.id for port in getattr(self.nodes[node_id], port_field)]
            if port_name not in port_ids:
                direction = "output" if port_field == "output_ports" else "input"
                raise UnknownNameError(
                    f"the edge's {edge_end} '{node_id}' has no {direction} port '{port_name}'",
                    edge_path,
                    suggest(port_name, port_ids),
                )


def find_required_senders(graph: Graph, edges: Iterable[Edge]) -> dict[str, list[str]]:
    """Return the sender nodes that must run before each node, by node."""
    has_default_by_port = {
        (node.id, port.id): port.default_value is not None
        for node in graph.nodes
        for port in node.input_ports
    }
    required_senders: dict[str, dict[str, None]] = {node.id: {} for node in graph.nodes}
    for edge in edges:
        if not has_default_by_port[edge.receiver, edge.receiver_port]:
            required_senders[edge.receiver][edge.sender] = None
    return {node: list(senders) for node, senders in required_senders.items()}


def sort_into_layers(
    graph: Graph, required_senders: Mapping[str, Sequence[str]], where: str
) -> NodeSets:
    """Sort nodes into layers, each of which waits only for nodes of earlier layers.

    Raises:
        CycleError: If nodes wait for each other and no port between them has a default_value.
    """
    node_positions = {node.id: k for k, node in enumerate(graph.nodes)}
    pending_sender_counts = {
        node: sum(sender in node_positions for sender in required_senders[node])
        for node in node_positions
    }
    receivers: dict[str, list[str]] = {node: [] for node in node_positions}
    for node in node_positions:
        for sender in required_senders[node]:
            if sender in node_positions:
                receivers[sender].append(node)
    layers: list[tuple[str, ...]] = []
    layer = [node for node in node_positions if not pending_sender_counts[node]]
    while layer:
        layers.append(tuple(layer))
        next_layer = []
        for node in (receiver for sender in layer for receiver in receivers[sender]):
            pending_sender_counts[node] -= 1
            if not pending_sender_counts[node]:
                next_layer.append(node)
        layer = sorted(next_layer, key=node_positions.__getitem__)
    if any(pending_sender_counts.values()):
        raise _cycle_error(
            _find_cycle(
                required_senders, [node for node in node_positions if pending_sender_counts[node]]
            ),
            where,
        )
    return tuple(layers)


def _cycle_error(cycle: Sequence[str], where: str) -> CycleError:
    """Return the error for nodes that wait for each other."""
    return CycleError(
        f"the nodes {', '.join(repr(node) for node in cycle)} wait for each other"
        if len(cycle) > 1
        else f"the node '{cycle[0]}' waits for itself",
        where,
        "give an input port of the circle a default_value, or write the circle as a loop",
    )


def _find_cycle(
    required_senders: Mapping[str, Sequence[str]], waiting_nodes: list[str]
) -> list[str]:
    """Return the nodes of the first cycle among the waiting nodes, in the order of the graph."""
    import networkx

    waiting_edges = [
        (sender, node)
        for node in waiting_nodes
        for sender in waiting_nodes
        if sender in required_senders[node]
    ]
    components = networkx.strongly_connected_components(networkx.DiGraph(waiting_edges))
    component_by_node = {node: component for component in components for node in component}
    for node in waiting_nodes:
        cycle = component_by_node.get(node, set())
        if len(cycle) > 1 or (node, node) in waiting_edges:
            return [waiting_node for waiting_node in waiting_nodes if waiting_node in cycle]
    return waiting_nodes
