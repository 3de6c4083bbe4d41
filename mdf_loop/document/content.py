"""Conversion of a document to plain content: mappings, lists, numbers, text, and typed arrays."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from msgspec import structs

from mdf_loop.document.document import Document
from mdf_loop.document.modeci import from_modeci
from mdf_loop.document.parts import (
    DocumentValue,
    Graph,
    Model,
    Node,
    Parameter,
    ParameterCondition,
    Part,
)
from mdf_loop.number_check import contains_only_numbers


def content_of(document: Document) -> dict[str, Any]:
    """Return the model of a document as plain content: mappings, lists, numbers and arrays."""
    model = document.model or _create_model(document)
    return {model.id: _convert_part(model)}


def _create_model(document: Document) -> Model:
    from modeci_mdf import mdf

    model: Model = from_modeci(mdf.Model(id=document.graph.id))
    return structs.replace(model, graphs=list(document.graphs_by_id.values()))


_SECTIONS = ("graphs", "nodes", "edges", "input_ports", "functions", "parameters", "output_ports")
"""Fields with a list of parts, which the content has by id."""

_FIELDS_WITHOUT_ARRAYS = ("kwargs", "metadata", "test")
"""Fields in which arrays become lists."""


@functools.cache
def _find_defaults(part_type: type[Part]) -> dict[str, DocumentValue]:
    """Return the fields of a part without its id, each with the default that is not written.

    As in modeci_mdf, the required fields are first.
    """
    return {
        part_field.name: [] if part_field.default_factory is list else part_field.default
        for part_field in sorted(structs.fields(part_type), key=lambda field: not field.required)
        if part_field.name != "id"
    }


def _convert_part(part: Part) -> dict[str, Any]:
    part_content: dict[str, Any] = {}
    for field_name, default in _find_defaults(type(part)).items():
        field_value = getattr(part, field_name)
        is_default = type(field_value) is type(default) and field_value == default
        if not is_default or isinstance(part, ParameterCondition):
            part_content[field_name] = _convert_field(part, field_name, field_value)
    return part_content


def _convert_field(part: Part, field_name: str, value: Any) -> Any:
    if field_name in _SECTIONS and isinstance(value, list):
        return {inner_part.id: _convert_part(inner_part) for inner_part in value}
    if field_name == "conditions" and isinstance(part, Parameter):
        return _convert_conditions(value)
    if field_name == "termination":
        return {str(scale): _convert_value(condition) for scale, condition in value.items()}
    content = _convert_value(value)
    return _replace_arrays(content) if field_name in _FIELDS_WITHOUT_ARRAYS else content


def _convert_conditions(
    conditions: Sequence[ParameterCondition | Mapping[str, DocumentValue]],
) -> Any:
    """Convert conditions to a dict by name, the form that modeci_mdf can read.

    Mappings, and conditions with equal names, remain a list.
    """
    content_by_name = {
        condition.id: _convert_part(condition)
        for condition in conditions
        if isinstance(condition, ParameterCondition)
    }
    if len(content_by_name) == len(conditions):
        return content_by_name
    return [
        {"id": condition.id, **_convert_part(condition)}
        if isinstance(condition, ParameterCondition)
        else _convert_value(condition)
        for condition in conditions
    ]


def _convert_value(value: DocumentValue) -> Any:
    """Convert the parts inside a value to plain content. A node in a condition becomes its id."""
    match value:
        case Graph():
            return {value.id: _convert_part(value)}
        case Node():
            return value.id
        case Part():
            return _convert_part(value)
        case Mapping():
            return {key: _convert_value(nested_value) for key, nested_value in value.items()}
        case list() | tuple():
            is_plain = contains_only_numbers(value)
            return list(value) if is_plain else [_convert_value(element) for element in value]
    return value


def _replace_arrays(content: Any) -> Any:
    """Replace the arrays in plain content by lists."""
    if isinstance(content, dict):
        return {key: _replace_arrays(nested_content) for key, nested_content in content.items()}
    if isinstance(content, list):
        return [_replace_arrays(element) for element in content]
    return content.tolist() if isinstance(content, np.ndarray) else content
