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


def substitute(node: _Node, swaps: Mapping[Value, Value]) -> _Node:
    """Return an operation with values replaced at every use and definition, also in its bodies.

    If the operation contains none of the values, the same object is returned.
    """
    return cast(_Node, _substitute(node, swaps)) if swaps else node


def _substitute(node: Any, swaps: Mapping[Value, Value]) -> Any:
    kind = type(node)
    if kind is Value:
        return swaps.get(node, node)
    if kind is tuple:
        parts = tuple(_substitute(part, swaps) for part in node)
        return parts if any(p is not q for p, q in zip(parts, node, strict=True)) else node
    if kind in _TYPES_WITH_VALUES:
        changed = {}
        for name in node.__struct_fields__:
            part = getattr(node, name)
            new = _substitute(part, swaps)
            if new is not part:
                changed[name] = new
        return replace(node, **changed) if changed else node
    return node
