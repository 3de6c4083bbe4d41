"""Ports, parameters and functions that pass a value on with its unit and axis names.

output_ports: {v: {value: V}}                                       # V
parameters: {V: {default_initial_value: V0, time_derivative: ...}}  # V0
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mdf_loop.document.parts import Node, NodePart

NODE_SECTIONS = ("output_ports", "parameters", "functions", "input_ports")
"""Sections of a node. If ids clash, `node.item` denotes the item in the first section."""

_PASSED_ON_FIELDS = ("value", "default_initial_value")


def node_parts(node: Node, sections: Sequence[str] = NODE_SECTIONS) -> Iterator[NodePart]:
    """Iterate over the output ports, parameters, functions and input ports of a node.

    `sections` selects some of these kinds.
    """
    return (part for section in sections for part in getattr(node, section))


def value_sources(node: Node, part: NodePart) -> Iterator[NodePart]:
    """Yield the parameters, functions or input ports whose value `part` passes on unchanged."""
    for field_name in _PASSED_ON_FIELDS:
        field_value = getattr(part, field_name, None)
        source_name = field_value.strip() if isinstance(field_value, str) else None
        yield from [
            source_part
            for source_part in node_parts(node, NODE_SECTIONS[1:])
            if source_part.id == source_name
        ][:1]
