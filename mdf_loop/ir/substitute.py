"""Exchange values in an operation, at any depth."""

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


def substitute(node: _Node, swaps: Mapping[Value, Value]) -> _Node:
    """The operation with values exchanged, read or made, also inside its body.

    The same object if it has none of them.
    """
    return cast(_Node, _substituted(node, swaps)) if swaps else node


def _substituted(node: object, swaps: Mapping[Value, Value]) -> object:
    if isinstance(node, Value):
        return swaps.get(node, node)
    if isinstance(node, tuple):
        parts = tuple(_substituted(part, swaps) for part in node)
        return parts if any(p is not q for p, q in zip(parts, node, strict=True)) else node
    if isinstance(node, (Op, Guard, Loop, Carried, Recorded, Scanned, If, Branch, Output)):
        old = {name: getattr(node, name) for name in node.__struct_fields__}
        new = {name: _substituted(part, swaps) for name, part in old.items()}
        changed = {name: part for name, part in new.items() if part is not old[name]}
        return replace(node, **cast(dict[str, Any], changed)) if changed else node
    return node
