"""Boxes of nodes without loops on a page, with ports, formulas and constants."""

from __future__ import annotations

from collections.abc import Iterator

from mdf_loop.drawing.page.ends import NodeEnds, Numbering, WireEnd
from mdf_loop.drawing.page.scene import Box, Port
from mdf_loop.drawing.theme import IMPORTED_FUNCTION_ID, MARKS
from mdf_loop.lower import names_in
from mdf_loop.outline import DefinitionOutline, NodeOutline, PortOutline
from mdf_loop.outline.text import call_text, formula_lines, shorten, shorten_name, value_text

MAX_TITLE_LENGTH, MAX_PORT_LENGTH, MAX_FORMULA_LENGTH = 44, 28, 60
"""Maximum number of characters of a node's id, of a port's id, and of a formula in the picture."""
MAX_FORMULA_LINES = 6
"""Maximum number of lines with formulas in a box. The details of the box have all formulas."""


def operator_name(node: NodeOutline) -> str:
    """Return the operator of an imported node, such as `Add`, or "" for a node with formulas."""
    definitions_with_function = [
        definition for definition in node.definitions if definition.function
    ]
    if (
        node.blocks
        or len(definitions_with_function) != 1
        or definitions_with_function[0].id != IMPORTED_FUNCTION_ID
    ):
        return ""
    return definitions_with_function[0].function.rpartition("::")[2]


def build_node_box(node: NodeOutline, numbering: Numbering) -> tuple[Box, NodeEnds]:
    """Build the box of a node, with ports on both sides and formulas below the ports."""
    left_ports = {port.id: Port(numbering.next(), _input_text(port)) for port in node.inputs}
    right_ports = {
        port.id: Port(numbering.next(), shorten_name(port.id, MAX_PORT_LENGTH))
        for port in node.outputs
    }
    box = Box(
        id=numbering.next(),
        kind="node",
        title=shorten_name(node.id, MAX_TITLE_LENGTH),
        remark=node_remarks(node),
        lines=tuple(_box_lines(node)),
        left_ports=tuple(left_ports.values()),
        right_ports=tuple(right_ports.values()),
        details=tuple(node_details(node)),
        path=node.path,
    )
    node_ends = NodeEnds(
        box.id,
        inputs={name: [(port.id, "data")] for name, port in left_ports.items()},
        outputs={name: port.id for name, port in right_ports.items()},
        targets_by_name=_read_ends(node, [(box.id, "data")]),
    )
    return box, node_ends


def build_small_box(
    node: NodeOutline, numbering: Numbering, kind: str, title: str
) -> tuple[Box, NodeEnds]:
    """Build a small box without ports for an operator, input or constant."""
    box = Box(
        id=numbering.next(),
        kind=kind,
        title=title,
        details=tuple(node_details(node)),
        path=node.path,
    )
    box_ends: list[WireEnd] = [(box.id, "data")]
    node_ends = NodeEnds(
        box.id,
        inputs={port.id: box_ends for port in node.inputs},
        outputs={port.id: box.id for port in node.outputs},
        targets_by_name=_read_ends(node, box_ends),
    )
    return box, node_ends


def build_pill_box(
    numbering: Numbering, kind: str, title: str, type_: str, path: str, suffix: str = ""
) -> Box:
    """Build the pill-shaped box of a model's input or output, or of a value passed through."""
    title_and_type = (("id", title), ("type", type_)) if type_ else (("id", title),)
    return Box(
        id=numbering.next(),
        kind=kind,
        title=shorten_name(title, MAX_TITLE_LENGTH) + suffix,
        remark=type_,
        details=title_and_type,
        path=path,
    )


def node_remarks(node: NodeOutline) -> str:
    """Return remarks about a node, such as its scheduler condition."""
    remarks = []
    if node.scheduler_condition:
        remarks.append(
            f"{MARKS['schedule'].sign} {shorten(node.scheduler_condition, MAX_FORMULA_LENGTH)}"
        )
    if node.is_random:
        remarks.append(f"{MARKS['noise'].sign} draws random numbers")
    if node.is_before_test:
        remarks.append(f"{MARKS['before_test'].sign} before the test")
    return " · ".join(remarks)


# --- formulas -------------------------------------------------------------------------------------


def node_formulas(node: NodeOutline) -> Iterator[str]:
    """Yield the formulas of a node, such as `↻ V(0) = -1` or `out = 2 * V`, without constants."""
    for definition in node.definitions:
        if not definition.is_constant:
            state_sign = f"{MARKS['state'].sign} " if definition.is_stateful else ""
            yield from (state_sign + text for text in definition_formulas(definition))
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


def definition_formulas(definition: DefinitionOutline) -> Iterator[str]:
    """Yield the formulas of a parameter or function, without the prefix `onnx::` of operators."""
    if definition.function and definition.id == IMPORTED_FUNCTION_ID:
        yield call_text(definition.function.removeprefix("onnx::"), definition.arguments)
    else:
        yield from formula_lines(definition)


def _box_lines(node: NodeOutline) -> Iterator[str]:
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


def _input_text(port: PortOutline) -> str:
    """Return the label of an input port with its default."""
    default_text = "" if port.default is None else f" = {value_text(port.default, 20)}"
    return shorten_name(port.id, MAX_PORT_LENGTH) + default_text


def _read_ends(node: NodeOutline, box_ends: list[WireEnd]) -> dict[str, list[WireEnd]]:
    """Map each name that a node's formulas read to `box_ends`, where the wires end."""
    expressions = [port.value for port in node.outputs]
    for definition in node.definitions:
        expressions += [definition.value, definition.initial_expression, definition.derivative]
        expressions += [value for _, value in definition.arguments]
        expressions += [expression for case in definition.conditions for expression in case]
    names_read = {name for expression in expressions for name in names_in(expression)}
    return dict.fromkeys(sorted(names_read), box_ends)


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
