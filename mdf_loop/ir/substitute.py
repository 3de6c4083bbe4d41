"""Substitution of values in operations and their bodies."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, cast

from msgspec.structs import replace

from mdf_loop.ir.program import (
    Branch,
    Carried,
    Guard,
    If,
    Loop,
    Op,
    Output,
    Recorded,
    Scanned,
    Value,
)

_Node = TypeVar("_Node")

_TYPES_WITH_VALUES = frozenset({Op, Guard, Loop, Carried, Recorded, Scanned, If, Branch, Output})


def substitute(node: _Node, replacements: Mapping[Value, Value]) -> _Node:
    """Return an operation with values replaced at every use and definition, also in its bodies.

    If the operation contains none of the values, the same object is returned.
    """
    return cast(_Node, _substitute(node, replacements)) if replacements else node


def _substitute(node: Any, replacements: Mapping[Value, Value]) -> Any:
    node_type = type(node)
    if node_type is Value:
        return replacements.get(node, node)
    if node_type is tuple:
        new_elements = tuple(_substitute(old_element, replacements) for old_element in node)
        return (
            new_elements
            if any(
                new_element is not old_element
                for new_element, old_element in zip(new_elements, node, strict=True)
            )
            else node
        )
    if node_type in _TYPES_WITH_VALUES:
        changed_fields = {}
        for field_name in node.__struct_fields__:
            field_content = getattr(node, field_name)
            new_content = _substitute(field_content, replacements)
            if new_content is not field_content:
                changed_fields[field_name] = new_content
        return replace(node, **changed_fields) if changed_fields else node
    return node
