"""Formulas of a node that also contains loops or conditionals."""

from __future__ import annotations

from msgspec import Struct

from mdf_loop.lower import names_in
from mdf_loop.outline import DefinitionOutline, NodeOutline
from mdf_loop.outline.text import formula_lines, value_text


class OwnFormula(Struct, frozen=True):
    """Formula that a node computes outside of its loops and conditionals."""

    id: str
    formula_texts: tuple[str, ...]
    definition: DefinitionOutline
    expressions: tuple[object, ...]
    names_read: frozenset[str]
    is_port: bool = False


def own_formulas(node: NodeOutline) -> list[OwnFormula]:
    """Return a node's formulas outside of its loops and conditionals, without constants.

    An output port whose value is only a name has no formula.
    """
    formulas = [
        OwnFormula(
            definition.id,
            tuple(formula_lines(definition)),
            definition,
            _definition_expressions(definition),
            frozenset(definition.read_names),
        )
        for definition in node.definitions
        if not definition.is_constant
    ]
    result_port_ids = {port for block in node.blocks for port in block.ports}
    result_port_ids |= {port.id for port in node.outputs if _is_name(port.value, node)}
    for port in node.outputs:
        if port.id not in result_port_ids:
            definition = DefinitionOutline(port.id, port.path, value=port.value, type=port.type)
            formula_text = f"{port.id} = {value_text(port.value, 400)}"
            names_read = frozenset(names_in(port.value))
            formulas.append(
                OwnFormula(
                    port.id, (formula_text,), definition, (port.value,), names_read, is_port=True
                )
            )
    return formulas


def _definition_expressions(definition: DefinitionOutline) -> tuple[object, ...]:
    """Return all expressions in the definition of a parameter or function."""
    arguments = tuple(value for _, value in definition.arguments)
    condition_expressions = tuple(
        expression for case in definition.conditions for expression in case
    )
    return (
        definition.value,
        definition.initial_expression,
        definition.derivative,
        *arguments,
        *condition_expressions,
    )


def _is_name(value: object, node: NodeOutline) -> bool:
    """Return True if an expression is only the name of a port, parameter or function of the node."""
    known_names = {port.id for port in node.inputs} | {
        definition.id for definition in node.definitions
    }
    known_names |= {block.id for block in node.blocks if not block.result_ports}
    return value is None or not isinstance(value, str) or value.strip() in known_names
