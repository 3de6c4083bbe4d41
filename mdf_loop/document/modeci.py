"""Conversion between objects of modeci_mdf and the parts of a document.

Values such as numbers, arrays and expressions are not copied.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from operator import is_
from typing import Any

import numpy as np

from mdf_loop.document import parts
from mdf_loop.document.parts import Part

_PART_TYPES = {
    part_type.__name__: part_type
    for part_type in (
        *(parts.Model, parts.Graph, parts.Node, parts.Edge, parts.InputPort, parts.OutputPort),
        *(parts.Function, parts.Parameter, parts.ParameterCondition),
        *(parts.ConditionSet, parts.Condition),
    )
}


@functools.cache
def _find_part_type(modeci_type: type[object]) -> type[Part] | None:
    """Return the type of parts for a class of modeci_mdf, or None for any other class."""
    base_types = (base for base in modeci_type.__mro__ if base.__module__ == "modeci_mdf.mdf")
    return next((_PART_TYPES[base.__name__] for base in base_types), None)


def from_modeci(value: Any) -> Any:
    """Convert an object of modeci_mdf to a part, or all such objects inside lists and mappings.

    An object that occurs twice becomes one part. Any other value is returned unchanged.
    """
    part_by_object_id: dict[int, Part] = {}

    def convert(member: Any) -> Any:
        if type(member) in _LEAF_TYPES:
            return member
        part_type = _find_part_type(type(member))  # type: ignore[arg-type]
        if part_type is None:
            return _map_members(member, convert)
        part = part_by_object_id.get(id(member))
        if part is None:
            fields = {}
            for name in part_type.__struct_fields__:
                field_value = getattr(member, name)
                is_leaf = type(field_value) in _LEAF_TYPES
                fields[name] = field_value if is_leaf else convert(field_value)
            part = part_by_object_id[id(member)] = part_type(**fields)
        return part

    return convert(value)


_LEAF_TYPES = frozenset((type(None), bool, int, float, str, np.ndarray))
"""Types of values without members, which are not converted."""


def to_modeci(value: Any) -> Any:
    """Convert a part to an object of modeci_mdf, or all parts inside lists and mappings.

    A part that occurs twice becomes one object. Any other value is returned unchanged.
    """
    from modeci_mdf import mdf

    object_by_part_id: dict[int, Any] = {}

    def convert(member: Any) -> Any:
        if not isinstance(member, Part):
            return _map_members(member, convert)
        if id(member) not in object_by_part_id:
            fields = {name: convert(getattr(member, name)) for name in member.__struct_fields__}
            object_by_part_id[id(member)] = getattr(mdf, type(member).__name__)(**fields)
        return object_by_part_id[id(member)]

    return convert(value)


def _map_members(value: Any, convert: Callable[[Any], Any]) -> Any:
    """Convert the members of a list, tuple or mapping. Return the same object if nothing changes."""
    if isinstance(value, Mapping):
        if _LEAF_TYPES.issuperset(map(type, (*value, *value.values()))):
            return value
        members = {convert(key): convert(member) for key, member in value.items()}
        is_same = all(map(is_, (*members, *members.values()), (*value, *value.values())))
        return value if is_same else members
    if isinstance(value, list | tuple) and not _LEAF_TYPES.issuperset(map(type, value)):
        elements = [convert(element) for element in value]
        if not all(map(is_, elements, value)):
            return elements if isinstance(value, list) else tuple(elements)
    return value
