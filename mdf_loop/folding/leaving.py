"""What leaves the body when nodes are folded: final carried values, or last values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from mdf_loop.folding.carried import Carry
from mdf_loop.folding.entering import Boundary
from mdf_loop.folding.flat import Flat, Port


class Leaving(Struct, frozen=True):
    """The outputs of the loop node: `finals` of carried values, and values of the `last` round.

    `made` is every output of the set.
    """

    ports: tuple[Port, ...]
    finals: frozenset[Port]
    made: tuple[Port, ...]

    @property
    def last(self) -> tuple[Port, ...]:
        """Those of which the last round's value is kept."""
        return tuple(port for port in self.ports if port not in self.finals)

    def inner(self, port: Port) -> str:
        """What the body calls an output: its id, or `node.port` if that could be another."""
        alone = sum(other[1] == port[1] for other in self.made) == 1
        return port[1] if alone else ".".join(port)

    def renamed(self, outputs: Any, node: str, ids: Mapping[Port, str]) -> Any:
        """`metadata.outputs` with the loop node's ports in place of its nodes'."""
        names = {".".join(port): f"{node}.{name}" for port, name in ids.items()}
        names |= {port[1]: f"{node}.{name}" for port, name in ids.items() if self._is_alone(port)}
        if isinstance(outputs, Mapping):
            return {shown: names.get(name, name) for shown, name in outputs.items()}
        return [names.get(name, name) for name in outputs]

    def _is_alone(self, port: Port) -> bool:
        return self.inner(port) == port[1]


def leaving(
    graph: Flat,
    nodes: Sequence[str],
    boundary: Boundary,
    carry: Sequence[Carry],
    condition: Port | None,
) -> Leaving:
    """The outputs of the set that somebody outside reads, or that are outputs of the graph."""
    made = tuple(graph.ports("output_ports", nodes))
    read = {edge.sender for edge in boundary.outgoing}
    stated = (graph.graph.get("metadata") or {}).get("outputs")
    if stated:
        names = list(stated.values() if isinstance(stated, Mapping) else stated)
        wanted = {p for p in made if ".".join(p) in names or p[1] in names} | read
    else:
        sent = {edge.sender for edge in graph.edges} | ({condition} if condition else set())
        wanted = {port for port in made if port not in sent} | read
    finals = frozenset(c.source for c in carry if not c.delays)
    ports = tuple(port for port in made if port in wanted)
    return Leaving(ports, finals & set(ports), made)
