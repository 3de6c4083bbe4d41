"""What a node that owns graphs computes itself, before, between and after them."""

from __future__ import annotations

from msgspec import Struct

from mdf_loop.lower import names_in
from mdf_loop.outline import ItemOutline, NodeOutline
from mdf_loop.outline.text import formula_lines, value_text


class OwnFormula(Struct, frozen=True):
    """Something that the node computes outside of its frames."""

    id: str
    texts: tuple[str, ...]
    item: ItemOutline
    expressions: tuple[object, ...]
    reads: frozenset[str]
    is_port: bool = False


def own_formulas(node: NodeOutline) -> list[OwnFormula]:
    """Items that are no constants, and output ports that are more than a name or a result."""
    found = [
        OwnFormula(item.id, tuple(formula_lines(item)), item, _written(item), frozenset(item.reads))
        for item in node.items
        if not item.constant
    ]
    plain = {port for block in node.blocks for port in block.ports}
    plain |= {port.id for port in node.outputs if _is_name(port.value, node)}
    for port in node.outputs:
        if port.id not in plain:
            item = ItemOutline(port.id, port.path, value=port.value, type=port.type)
            text = f"{port.id} = {value_text(port.value, 400)}"
            names = frozenset(names_in(port.value))
            found.append(OwnFormula(port.id, (text,), item, (port.value,), names, is_port=True))
    return found


def _written(item: ItemOutline) -> tuple[object, ...]:
    arguments = tuple(value for _, value in item.arguments)
    tests = tuple(text for pair in item.conditions for text in pair)
    return (item.value, item.initial, item.derivative, *arguments, *tests)


def _is_name(value: object, node: NodeOutline) -> bool:
    known = {port.id for port in node.inputs} | {item.id for item in node.items}
    known |= {block.id for block in node.blocks if not block.result_ports}
    return value is None or not isinstance(value, str) or value.strip() in known
