"""Outputs of a loop built by `fold`: final carried values, or values of the last iteration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from mdf_loop.folding.body_inputs import Boundary
from mdf_loop.folding.carried_values import Carry
from mdf_loop.folding.flat_graph import FlatGraph, Port


class LoopOutputs(Struct, frozen=True):
    """Outputs of the loop node that `fold` builds from several nodes of a graph.

    `output_ports` are the ports whose values are outputs. `final_ports` are the ports of final carried values.
    `body_ports` are all output ports of the folded nodes.
    """

    output_ports: tuple[Port, ...]
    final_ports: frozenset[Port]  # ports of final carried values
    body_ports: tuple[Port, ...]  # all output ports of the folded nodes

    @property
    def last_value_ports(self) -> tuple[Port, ...]:
        """Ports whose value in the last iteration is an output of the loop."""
        return tuple(port for port in self.output_ports if port not in self.final_ports)

    def name_in_body(self, port: Port) -> str:
        """Return the name of an output in the body: the port id if unique, else `node.port`."""
        has_unique_id = sum(other_port[1] == port[1] for other_port in self.body_ports) == 1
        return port[1] if has_unique_id else ".".join(port)

    def rename_outputs(self, outputs: Any, node: str, output_port_ids: Mapping[Port, str]) -> Any:
        """Rename ports of nodes that became the loop's body in the model's `metadata.outputs`.

        The new names are those of the loop node's output ports.
        """
        new_name_by_old = {
            ".".join(port): f"{node}.{output_name}" for port, output_name in output_port_ids.items()
        }
        new_name_by_old |= {
            port[1]: f"{node}.{output_name}"
            for port, output_name in output_port_ids.items()
            if self._has_unique_id(port)
        }
        if isinstance(outputs, Mapping):
            return {
                output_label: new_name_by_old.get(output_name, output_name)
                for output_label, output_name in outputs.items()
            }
        return [new_name_by_old.get(output_name, output_name) for output_name in outputs]

    def _has_unique_id(self, port: Port) -> bool:
        return self.name_in_body(port) == port[1]


def find_loop_outputs(
    graph: FlatGraph,
    nodes: Sequence[str],
    boundary: Boundary,
    carried_values: Sequence[Carry],
    condition: Port | None,
) -> LoopOutputs:
    """Return the outputs of the loop's nodes that other nodes or the graph's outputs need."""
    body_ports = tuple(graph.ports("output_ports", nodes))
    ports_read_outside = {edge.sender for edge in boundary.outgoing_edges}
    declared_outputs = (graph.graph_content.get("metadata") or {}).get("outputs")
    if declared_outputs:
        declared_names = list(
            declared_outputs.values() if isinstance(declared_outputs, Mapping) else declared_outputs
        )
        selected_ports = {
            port
            for port in body_ports
            if ".".join(port) in declared_names or port[1] in declared_names
        } | ports_read_outside
    else:
        ports_with_readers = {edge.sender for edge in graph.edges} | (
            {condition} if condition else set()
        )
        selected_ports = {
            port for port in body_ports if port not in ports_with_readers
        } | ports_read_outside
    final_ports = frozenset(
        carried_value.source_port for carried_value in carried_values if not carried_value.is_delay
    )
    output_ports = tuple(port for port in body_ports if port in selected_ports)
    return LoopOutputs(output_ports, final_ports & set(output_ports), body_ports)
