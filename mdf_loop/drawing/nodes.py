"""A plain node: ports on the two sides, formulas between them, constants in one quiet line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec import Struct

from mdf_loop.drawing.canvas import Arrival, Canvas, End, Wires
from mdf_loop.drawing.labels import bold, cell, lines, row, small, styled, table, wrapped
from mdf_loop.drawing.observed import value_words
from mdf_loop.drawing.theme import HEADER, IMPORTED, INK, LINE, MARKS, PAPER, QUIET, SMALL, Detail
from mdf_loop.drawing.view import View
from mdf_loop.lower import names_in
from mdf_loop.outline import ItemOutline, NodeOutline, PortOutline
from mdf_loop.outline.text import call_text, formula_lines, shorten, shorten_name, value_text

CONDITION = 56
"""Letters in a line of a scheduler condition."""
TITLE = 44
"""Letters of a node's id."""
PORT = 24
"""Letters of a port's id."""


def draw_node(canvas: Canvas, node: NodeOutline, view: View) -> Wires:
    """Draw a node without loops: a box at the lower levels, ports and formulas at the others."""
    if not view.detail.bodies or node.id in view.collapse:
        return draw_box(canvas, node, ())
    return draw_table(canvas, node, view)


def title(node: NodeOutline, canvas: Canvas) -> list[str]:
    """The lines of a node's header: its id, and when it may run."""
    said: list[str] = []
    if node.condition:
        canvas.kinds.add("schedule")
        said += wrapped(f"{MARKS['schedule'].sign} {node.condition}", CONDITION)
    if node.draws:
        canvas.kinds.add("noise")
        said.append(f"{MARKS['noise'].sign} draws random numbers")
    if node.before_test:
        canvas.kinds.add("before_test")
        said.append(f"{MARKS['before_test'].sign} before the test")
    return [
        bold(shorten_name(node.id, TITLE)),
        *(styled(line, size=SMALL, color=INK, tag="I") for line in said),
    ]


def draw_box(canvas: Canvas, node: NodeOutline, said: Iterable[str]) -> Wires:
    """One box: the node's title and some lines; all edges end at the box."""
    name = canvas.name(node.id)
    content = lines(*title(node, canvas), *said)
    kind = next((block.word for block in node.blocks), "node")
    canvas.node(
        name, content, kind, node.path, shape="box", style="rounded,filled", fillcolor=PAPER
    )
    everywhere = [Arrival(End(name), expressions=tuple(_expressions(node)))]
    return Wires(
        first=name,
        last=name,
        inputs={port.id: everywhere for port in node.inputs},
        outputs={port.id: End(name) for port in node.outputs},
        reads=reads_of(node, everywhere),
    )


def draw_table(canvas: Canvas, node: NodeOutline, view: View) -> Wires:
    """A node with its ports and formulas."""
    name = canvas.name(node.id)
    inputs = {port.id: f"in{k}" for k, port in enumerate(node.inputs)}
    outputs = {port.id: f"out{k}" for k, port in enumerate(node.outputs)}
    parts = _Parts(
        header=cell(lines(*title(node, canvas)), PORT="head", BGCOLOR=HEADER, CELLPADDING=4),
        inputs=[
            cell(_input_text(p, view.detail), PORT=inputs[p.id], ALIGN="LEFT") for p in node.inputs
        ],
        formulas=_formula_cells(canvas, node, view.detail),
        outputs=[
            cell(_output_text(node, p, view), PORT=outputs[p.id], ALIGN="RIGHT", BALIGN="RIGHT")
            for p in node.outputs
        ],
        constants=_constants(node.items, view.detail),
    )
    arrange = _beside if canvas.direction.sideways else _below
    content = table(
        (row([part]) for part in arrange(parts)),
        BORDER=1,
        COLOR=LINE,
        BGCOLOR=PAPER,
        CELLPADDING=0,
    )
    canvas.node(name, content, "node", node.path)
    enter, leave = canvas.direction.enter, canvas.direction.leave
    wires = Wires(
        first=name,
        last=name,
        header="head" if canvas.direction.sideways else "",
        inputs={i: [Arrival(End(name, port, enter))] for i, port in inputs.items()},
        outputs={i: End(name, port, leave) for i, port in outputs.items()},
    )
    wires.reads = reads_of(node, [Arrival(wires.whole_in)])
    return wires


class _Parts(Struct, frozen=True):
    """The cells of a node's table."""

    header: str
    inputs: list[str]
    formulas: list[str]
    outputs: list[str]
    constants: str


_LINE: dict[str, str | int] = {"BORDER": 1, "SIDES": "L", "COLOR": HEADER}
"""A thin line between columns."""


def _beside(parts: _Parts) -> Iterator[str]:
    """Ports left and right of the formulas, at the very edge so that arrows meet them."""
    yield parts.header
    filled = [column for column in (parts.inputs, parts.formulas, parts.outputs) if column]
    columns = [
        cell(table((row([c]) for c in column), CELLPADDING=4), **line)
        for column, line in zip(filled, ({}, *[_LINE] * 2), strict=False)
    ]
    if columns:
        yield cell(table([row(columns)], CELLPADDING=0))
    if parts.constants:
        yield cell(parts.constants, ALIGN="LEFT", CELLPADDING=5)


def _below(parts: _Parts) -> Iterator[str]:
    """Ports above and below the rest."""
    if parts.inputs:
        yield cell(table([row(parts.inputs)], CELLPADDING=4))
    yield parts.header
    if parts.formulas:
        yield cell(table((row([c]) for c in parts.formulas), CELLPADDING=4))
    if parts.constants:
        yield cell(parts.constants, ALIGN="LEFT", CELLPADDING=5)
    if parts.outputs:
        yield cell(table([row(parts.outputs)], CELLPADDING=4))


# --- texts ------------------------------------------------------------------------------------


def _input_text(port: PortOutline, detail: Detail) -> str:
    default = "" if port.default is None else f" = {value_text(port.default, 24)}"
    told = not port.type or default.endswith(port.type)  # a large constant is shown as its type
    kind = f"  {port.type}" if detail.types and not told else ""
    return styled(f"▸ {shorten_name(port.id, PORT)}{default}") + (small(kind) if kind else "")


def _output_text(node: NodeOutline, port: PortOutline, view: View) -> str:
    detail = view.detail
    value = value_text(port.value, 400) if port.value is not None else port.id
    value = port.id if value.partition("[")[0] == IMPORTED else value
    written = shorten_name(port.id, PORT) if value == port.id else f"{port.id} = {value}"
    kind = small(f"{port.type}  ") if detail.types and port.type else ""
    seen = value_words(view.observation, node.id, port.id)
    said = small(f"  {seen}") if seen else ""
    return kind + fitted(written, detail, "RIGHT") + said + styled(" ▸")


def fitted(text: str, detail: Detail, align: str) -> str:
    """A formula on as many lines as it needs, or its beginning at the lower levels."""
    if not detail.types:
        return styled(shorten(text, detail.width))
    return f'<BR ALIGN="{align}"/>'.join(styled(line) for line in wrapped(text, detail.width))


def _formula_cells(canvas: Canvas, node: NodeOutline, detail: Detail) -> list[str]:
    shown: list[str] = []
    typed_at_port = {port.value for port in node.outputs if isinstance(port.value, str)}
    for item in node.items:
        if item.constant:
            continue
        kind = "" if item.id in typed_at_port else item.type
        mark = ""
        if item.stateful:
            canvas.kinds.add("state")
            mark = f"{MARKS['state'].sign} "
        texts = list(formula_lines(item))
        if item.function and item.id == IMPORTED:
            texts = [_call(item)]
        shown += [
            formula_cell(mark + text, kind if text == texts[-1] else "", detail) for text in texts
        ]
    if len(shown) > detail.rows:
        left = len(shown) - detail.rows + 1
        shown = [*shown[: detail.rows - 1], cell(small(f"… {left} more"), ALIGN="LEFT")]
    return shown


def _call(item: ItemOutline) -> str:
    """What an imported node computes: `Add(A=x, B=y)`, of long names the two ends."""
    arguments = (
        (key, shorten_name(value, PORT) if isinstance(value, str) else value)
        for key, value in item.arguments
    )
    return call_text(item.function.removeprefix("onnx::"), tuple(arguments))


def formula_cell(formula: str, kind: str, detail: Detail, port: str = "") -> str:
    """A formula as the modeller wrote it, with its type at the highest level."""
    said = small(f"  {kind}") if detail.types and kind else ""
    attributes: dict[str, str | int] = {"ALIGN": "LEFT", "BALIGN": "LEFT"}
    if port:
        attributes["PORT"] = port
    return cell(fitted(formula, detail, "LEFT") + said, **attributes)


def _constants(items: Iterable[ItemOutline], detail: Detail) -> str:
    """`a = 0.5, tau = 10` in quiet small letters."""
    texts = [f"{item.id} = {value_text(item.value, 28)}" for item in items if item.constant]
    shown = _joined(texts, detail.width)
    if not detail.types and len(shown) > 2:
        shown = [*shown[:2], "…"]
    return lines(*(styled(line, size=SMALL, color=QUIET) for line in shown), align="LEFT")


def _joined(texts: list[str], width: int) -> list[str]:
    """Texts separated by commas, on lines of about `width` characters."""
    found: list[str] = []
    for k, text in enumerate(texts):
        piece = text + ("," if k < len(texts) - 1 else "")
        if found and len(found[-1]) + len(piece) < width:
            found[-1] += f" {piece}"
        else:
            found.append(piece)
    return found


# --- what is read from outside ----------------------------------------------------------------


def _expressions(node: NodeOutline) -> Iterator[object]:
    for item in node.items:
        yield from (item.value, item.initial, item.derivative, *(v for _, v in item.arguments))
        for test, value in item.conditions:
            yield from (test, value)
    yield from (port.value for port in node.outputs)


def reads_of(node: NodeOutline, entries: list[Arrival]) -> dict[str, list[Arrival]]:
    """Every name that the node's formulas use, whether or not it turns out to be an outer one."""
    names = {name for text in _expressions(node) for name in names_in(text)}
    names |= {capture.name for block in node.blocks for capture in block.captures}
    return dict.fromkeys(sorted(names), entries)
