"""Texts of nodes on a page: remarks, formulas, constants and details."""

from __future__ import annotations

from collections.abc import Iterator

from mdf_loop.drawing.texts import definition_formulas
from mdf_loop.drawing.theme import IMPORTED_FUNCTION_ID
from mdf_loop.outline import NodeOutline, PortOutline
from mdf_loop.outline.text import shorten, shorten_name, value_text

MAX_TITLE_LENGTH, MAX_PORT_LENGTH, MAX_FORMULA_LENGTH = 44, 28, 60
"""Maximum number of characters of a node's id, of a port's id, and of a formula in the picture."""
MAX_FORMULA_LINES = 6
"""Maximum number of lines with formulas in a box. The details of the box have all formulas."""


def node_formulas(node: NodeOutline) -> Iterator[str]:
    """Yield the formulas of a node, such as `↻ V(0) = -1` or `out = 2 * V`, without constants."""
    for definition in node.definitions:
        if not definition.is_constant:
            yield from definition_formulas(definition)
    for port in node.outputs:
        value_expression = value_text(port.value, 400)
        if port.value is not None and value_expression not in (port.id, *_plain_names(node)):
            yield f"{port.id} = {value_expression}"


def _plain_names(node: NodeOutline) -> Iterator[str]:
    """Yield the names of a node's input ports, parameters, functions and imported results.

    An output port whose value is only one of these names shows no formula.
    """
    yield from (port.id for port in node.inputs)
    yield from (definition.id for definition in node.definitions)
    yield from (f"{IMPORTED_FUNCTION_ID}[{k}]" for k in range(len(node.outputs)))


def box_lines(node: NodeOutline) -> Iterator[str]:
    """Yield the text lines in a node's box: the first formulas, and the constants."""
    formulas = [shorten(text, MAX_FORMULA_LENGTH) for text in node_formulas(node)]
    yield from formulas[:MAX_FORMULA_LINES]
    if len(formulas) > MAX_FORMULA_LINES:
        yield f"… {len(formulas) - MAX_FORMULA_LINES} more"
    constant_texts = [
        f"{definition.id} = {value_text(definition.value, 20)}"
        for definition in node.definitions
        if definition.is_constant
    ]
    if constant_texts:
        yield shorten(", ".join(constant_texts), MAX_FORMULA_LENGTH)


def input_text(port: PortOutline) -> str:
    """Return the label of an input port with its default."""
    default_text = "" if port.default is None else f" = {value_text(port.default, 20)}"
    return shorten_name(port.id, MAX_PORT_LENGTH) + default_text


# --- details --------------------------------------------------------------------------------------


def node_details(node: NodeOutline) -> Iterator[tuple[str, str]]:
    """Yield (title, text) pairs with the details of a node, such as its ports and formulas."""
    yield "id", node.id
    if node.scheduler_condition:
        yield "when", node.scheduler_condition
    for port in node.inputs:
        yield "in", port_text(port)
    for text in node_formulas(node):
        yield "", text
    for definition in node.definitions:
        if definition.is_constant:
            yield "constant", f"{definition.id} = {value_text(definition.value, 400)}"
    for port in node.outputs:
        yield "out", port_text(port)


def port_text(port: PortOutline) -> str:
    """Format a port with its type and default, such as `x: float64[] = 3`."""
    type_text = f": {port.type}" if port.type else ""
    default_text = "" if port.default is None else f" = {value_text(port.default, 200)}"
    return f"{port.id}{type_text}{default_text}"
