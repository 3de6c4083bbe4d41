"""Boxes of nodes that contain loops or conditionals in a scene."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from mdf_loop.drawing.scene.blocks import BlockBuilder, GraphBuilder
from mdf_loop.drawing.scene.elements import Box, Crossing, NodeEnds, Numbering, Scene, Wire
from mdf_loop.drawing.scene.formulas import OwnFormula, own_formulas
from mdf_loop.drawing.view import View
from mdf_loop.lower import names_in
from mdf_loop.outline import NodeOutline
from mdf_loop.outline.loops import result_positions

ExpressionReader = tuple[int, tuple[Any, ...]]
"""Number of a port or box, and the expressions that it reads."""


def build_owner(
    node: NodeOutline,
    outer_names: frozenset[str],
    view: View,
    numbering: Numbering,
    build_graph: GraphBuilder,
) -> tuple[Box, NodeEnds]:
    """Build the box of a node that contains loops or conditionals, and its ends of wires.

    A single loop or conditional without formulas beside it needs no box around it. `outer_names` are the
    names that the node reads from outside its graph.
    """
    formulas = own_formulas(node)
    blocks = {block.id: BlockBuilder(block, view, numbering) for block in node.blocks}
    if len(blocks) == 1 and not formulas and not node.scheduler_condition:
        (block,) = blocks.values()
        box = block.box(build_graph, node)
        return box, _single_block_ends(node, box.id, block)
    return _build_around_blocks(node, blocks, formulas, outer_names, numbering, build_graph)


def _single_block_ends(node: NodeOutline, box_id: int, block: BlockBuilder) -> NodeEnds:
    """Return the ends of wires at a node that consists of only one loop or conditional."""
    wire_ends = NodeEnds(box_id, outputs=block.outputs)
    input_names = {port.id for port in node.inputs}
    for reader, expressions in block.readers:
        for name in _sorted_names(expressions):
            targets_by_name = wire_ends.inputs if name in input_names else wire_ends.targets_by_name
            targets_by_name.setdefault(name, []).append(reader)
    return wire_ends


def _build_around_blocks(
    node: NodeOutline,
    blocks: dict[str, BlockBuilder],
    formulas: list[OwnFormula],
    outer_names: frozenset[str],
    numbering: Numbering,
    build_graph: GraphBuilder,
) -> tuple[Box, NodeEnds]:
    """Build a box that contains the loops, conditionals and formulas of a node, and its ends of wires."""
    formula_boxes = {
        formula.id: Box(numbering.next(), "formula", formula, formula.definition.path)
        for formula in formulas
    }
    readers: list[ExpressionReader] = [
        *((formula_boxes[formula.id].id, formula.expressions) for formula in formulas),
        *(reader for block in blocks.values() for reader in block.readers),
    ]
    input_names = {port.id for port in node.inputs}
    formula_box_ids = {
        name: box.id for name, box in formula_boxes.items() if name not in input_names
    }
    wires = list(_inner_wires(node, blocks, formula_box_ids, readers, numbering))
    box_ports, wire_ends = Crossing(numbering), NodeEnds(numbering.next())
    for name, targets in _outer_reads(blocks, formula_box_ids, readers).items():
        if name in input_names or name in outer_names:
            entry_port = box_ports.entry(name)
            targets_by_name = wire_ends.inputs if name in input_names else wire_ends.targets_by_name
            targets_by_name[name] = [entry_port]
            wires += [numbering.wire(entry_port, target) for target in targets]
            if numbering.captured_ends.issuperset(targets):
                numbering.captured_ends.add(entry_port)
    for port, source in _sources(node, blocks, formula_boxes).items():
        wire_ends.outputs[port] = box_ports.exit(port)
        wires.append(numbering.wire(source, box_ports.exit(port)))
    inner_boxes = (
        *formula_boxes.values(),
        *(block.box(build_graph) for block in blocks.values()),
    )
    box = Box(
        id=wire_ends.box_id,
        kind="owner",
        outline=node,
        path=node.path,
        left_ports=tuple(box_ports.left_ports.values()),
        right_ports=tuple(box_ports.right_ports.values()),
        scene=Scene(inner_boxes, tuple(wires)),
    )
    return box, wire_ends


def _sorted_names(expressions: tuple[Any, ...]) -> list[str]:
    """Return the names that expressions read, in alphabetical order."""
    return sorted({name for expression in expressions for name in names_in(expression)})


def _inner_wires(
    node: NodeOutline,
    blocks: dict[str, BlockBuilder],
    formula_box_ids: dict[str, int],
    readers: list[ExpressionReader],
    numbering: Numbering,
) -> Iterator[Wire]:
    """Yield the wires from formulas and from results of loops and conditionals to their readers."""
    for reader, expressions in readers:
        for name in _sorted_names(expressions):
            if name in formula_box_ids:
                yield numbering.wire(formula_box_ids[name], reader, node.path)
        for block_id, block in blocks.items():
            for expression in expressions:
                for k in result_positions(expression, block_id):
                    for source in block.results if k is None else block.results[k : k + 1]:
                        yield numbering.wire(source, reader, node.path)


def _outer_reads(
    blocks: dict[str, BlockBuilder],
    formula_box_ids: dict[str, int],
    readers: list[ExpressionReader],
) -> dict[str, list[int]]:
    """Return the readers of each name that is not the result of a formula, loop or conditional.

    The name of a formula that the formula itself reads is the value of its state from outside.
    """
    readers_by_name: dict[str, list[int]] = {}
    for reader, expressions in readers:
        for name in _sorted_names(expressions):
            if name not in blocks and formula_box_ids.get(name, reader) == reader:
                readers_by_name.setdefault(name, []).append(reader)
    return readers_by_name


def _sources(
    node: NodeOutline, blocks: dict[str, BlockBuilder], formula_boxes: dict[str, Box]
) -> dict[str, int]:
    """Map each output port of a node to the id of the box or port that provides the value."""
    sources = {name: box.id for name, box in formula_boxes.items() if box.outline.is_port}
    for block in blocks.values():
        sources |= block.outputs
    for port in node.outputs:
        expression = port.value.strip() if isinstance(port.value, str) else ""
        if port.id not in sources and expression in formula_boxes:
            sources[port.id] = formula_boxes[expression].id
    return sources
