"""A plain node as a box: its ports, formulas and constants; of an imported one the operator alone."""

from __future__ import annotations

from collections.abc import Iterator

from mdf_loop.drawing.page.ends import End, Ends, Numbers
from mdf_loop.drawing.page.scene import Box, Pin
from mdf_loop.drawing.theme import IMPORTED, MARKS
from mdf_loop.lower import names_in
from mdf_loop.outline import ItemOutline, NodeOutline, PortOutline
from mdf_loop.outline.text import call_text, formula_lines, shorten, shorten_name, value_text

TITLE, PORT, FORMULA = 44, 28, 60
"""Letters of a node's id, of a port, of a formula in the picture."""
FORMULAS = 6
"""Lines of formulas in a box; all of them are among its details."""


def operator(node: NodeOutline) -> str:
    """What an imported node computes, in one word: `Add`; empty for a node with formulas."""
    called = [item for item in node.items if item.function]
    if node.blocks or len(called) != 1 or called[0].id != IMPORTED:
        return ""
    return called[0].function.rpartition("::")[2]


def node_box(node: NodeOutline, numbers: Numbers) -> tuple[Box, Ends]:
    """A node with its ports on both sides and its formulas below them."""
    left = {port.id: Pin(numbers.next(), _input_text(port)) for port in node.inputs}
    right = {port.id: Pin(numbers.next(), shorten_name(port.id, PORT)) for port in node.outputs}
    box = Box(
        id=numbers.next(),
        kind="node",
        title=shorten_name(node.id, TITLE),
        below=remarks(node),
        lines=tuple(_lines(node)),
        left=tuple(left.values()),
        right=tuple(right.values()),
        details=tuple(node_details(node)),
        path=node.path,
    )
    ends = Ends(
        box.id,
        inputs={name: [(port.id, "data")] for name, port in left.items()},
        outputs={name: port.id for name, port in right.items()},
        reads=_reads(node, [(box.id, "data")]),
    )
    return box, ends


def small_box(node: NodeOutline, numbers: Numbers, kind: str, title: str) -> tuple[Box, Ends]:
    """A node as one word: an operator, an input, a constant; all wires meet the box."""
    box = Box(
        id=numbers.next(),
        kind=kind,
        title=title,
        details=tuple(node_details(node)),
        path=node.path,
    )
    everywhere: list[End] = [(box.id, "data")]
    ends = Ends(
        box.id,
        inputs={port.id: everywhere for port in node.inputs},
        outputs={port.id: box.id for port in node.outputs},
        reads=_reads(node, everywhere),
    )
    return box, ends


def pill(numbers: Numbers, kind: str, title: str, type_: str, path: str, said: str = "") -> Box:
    """A model's input or output, or a value that a branch passes on."""
    details = (("id", title), ("type", type_)) if type_ else (("id", title),)
    return Box(
        id=numbers.next(),
        kind=kind,
        title=shorten_name(title, TITLE) + said,
        below=type_,
        details=details,
        path=path,
    )


def remarks(node: NodeOutline) -> str:
    """When the node may run, and whether it draws random numbers."""
    said = []
    if node.condition:
        said.append(f"{MARKS['schedule'].sign} {shorten(node.condition, FORMULA)}")
    if node.draws:
        said.append(f"{MARKS['noise'].sign} draws random numbers")
    if node.before_test:
        said.append(f"{MARKS['before_test'].sign} before the test")
    return " · ".join(said)


# --- what is computed -----------------------------------------------------------------------------


def texts(node: NodeOutline) -> Iterator[str]:
    """What a node computes, constants left out: `↻ V(0) = -1`, `out = 2 * V`."""
    for item in node.items:
        if not item.constant:
            mark = f"{MARKS['state'].sign} " if item.stateful else ""
            yield from (mark + text for text in item_texts(item))
    for port in node.outputs:
        written = value_text(port.value, 400)
        if port.value is not None and written not in (port.id, *_names(node)):
            yield f"{port.id} = {written}"


def _names(node: NodeOutline) -> Iterator[str]:
    yield from (port.id for port in node.inputs)
    yield from (item.id for item in node.items)
    yield from (f"{IMPORTED}[{k}]" for k in range(len(node.outputs)))


def item_texts(item: ItemOutline) -> Iterator[str]:
    """The formulas of an item; an imported operator without its namespace."""
    if item.function and item.id == IMPORTED:
        yield call_text(item.function.removeprefix("onnx::"), item.arguments)
    else:
        yield from formula_lines(item)


def _lines(node: NodeOutline) -> Iterator[str]:
    found = [shorten(text, FORMULA) for text in texts(node)]
    yield from found[:FORMULAS]
    if len(found) > FORMULAS:
        yield f"… {len(found) - FORMULAS} more"
    constants = [f"{i.id} = {value_text(i.value, 20)}" for i in node.items if i.constant]
    if constants:
        yield shorten(", ".join(constants), FORMULA)


def _input_text(port: PortOutline) -> str:
    default = "" if port.default is None else f" = {value_text(port.default, 20)}"
    return shorten_name(port.id, PORT) + default


def _reads(node: NodeOutline, everywhere: list[End]) -> dict[str, list[End]]:
    """Every name that formulas use, also where it turns out to be the node's own."""
    written = [port.value for port in node.outputs]
    for item in node.items:
        written += [item.value, item.initial, item.derivative]
        written += [value for _, value in item.arguments]
        written += [text for pair in item.conditions for text in pair]
    names = {name for text in written for name in names_in(text)}
    return dict.fromkeys(sorted(names), everywhere)


# --- details --------------------------------------------------------------------------------------


def node_details(node: NodeOutline) -> Iterator[tuple[str, str]]:
    """Everything that is said of a node beside the picture."""
    yield "id", node.id
    if node.condition:
        yield "when", node.condition
    for port in node.inputs:
        yield "in", port_text(port)
    for text in texts(node):
        yield "", text
    for item in node.items:
        if item.constant:
            yield "constant", f"{item.id} = {value_text(item.value, 400)}"
    for port in node.outputs:
        yield "out", port_text(port)


def port_text(port: PortOutline) -> str:
    """`x: float64[] = 3`."""
    kind = f": {port.type}" if port.type else ""
    default = "" if port.default is None else f" = {value_text(port.default, 200)}"
    return f"{port.id}{kind}{default}"
