"""Normalization of deviations from MDF in the content that other programs write.

PsyNeuLink writes shapes as text (`"(1,)"`, up to 0.15) and a parameter as a bare number (`learning_rate:
0.05`). As `type` of a port, PsyNeuLink writes the dtype of the default, for example `int64` if the default
has no decimal point, even if the port accepts floats.
"""

from __future__ import annotations

import ast
import contextlib
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

_PartConversion: TypeAlias = Callable[[Any], Any]


def model_as_mdf(content: Any) -> Any:
    """Return a model's content as standard MDF, with deviations of other programs corrected.

    The content is `{name: {graphs: ...}}` or `{id: ..., graphs: ...}`.
    """
    if not isinstance(content, Mapping) or not content:
        return content
    if "id" in content:
        return _normalize_model(content)
    model_name, model_content = next(iter(content.items()))
    return {**content, model_name: _normalize_model(model_content)}


def graph_as_mdf(graph: Any) -> Any:
    """Return a graph's content as standard MDF, with deviations of other programs corrected."""
    return _map_section(graph, "nodes", _normalize_node)


def _normalize_model(model: Any) -> Any:
    normalized_model = _map_section(model, "graphs", graph_as_mdf)
    if not str(_get_field(model, "generating_application")).lower().startswith("psyneulink"):
        return normalized_model
    return _map_section(
        normalized_model,
        "graphs",
        lambda graph: _map_section(graph, "nodes", _remove_integer_types),
    )


def _normalize_node(node: Any) -> Any:
    for section in ("input_ports", "output_ports"):
        node = _map_section(node, section, _normalize_port)
    return _map_section(node, "parameters", _normalize_parameter)


def _normalize_port(port: Any) -> Any:
    shape = _get_field(port, "shape")
    if not isinstance(shape, str):
        return port
    with contextlib.suppress(ValueError, SyntaxError, MemoryError, RecursionError):
        shape_extents = ast.literal_eval(shape)
        if isinstance(shape_extents, tuple | list) and all(
            type(extent) is int for extent in shape_extents
        ):
            return {**port, "shape": list(shape_extents)}
    return port


def _normalize_parameter(parameter: Any) -> Any:
    return {"value": parameter} if isinstance(parameter, bool | int | float) else parameter


def _remove_integer_types(node: Any) -> Any:
    """Remove integer types from the input ports of a node."""
    return _map_section(node, "input_ports", _remove_integer_type)


def _remove_integer_type(port: Any) -> Any:
    if not str(_get_field(port, "type")).startswith(("int", "uint")):
        return port
    return {key: value for key, value in port.items() if key != "type"}


def _get_field(content: Any, key: str) -> Any:
    return content.get(key) if isinstance(content, Mapping) else None


def _map_section(content: Any, section: str, convert_part: _PartConversion) -> Any:
    """Apply `convert_part` to each entry of a section such as `nodes`.

    Return the same object if nothing changes.
    """
    part_by_name = _get_field(content, section)
    if not isinstance(part_by_name, Mapping):
        return content
    converted_parts = {part_name: convert_part(part) for part_name, part in part_by_name.items()}
    if all(converted_parts[part_name] is part for part_name, part in part_by_name.items()):
        return content
    return {**content, section: converted_parts}
