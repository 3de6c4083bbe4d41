"""What other programs write otherwise than MDF -> as MDF has it.

PsyNeuLink writes shapes as text (`"(1,)"`, up to 0.15), a parameter as a bare number
(`learning_rate: 0.05`), and as `type` of a port the dtype of its default: `int64` where that was
written without a point, whatever the port takes.
"""

from __future__ import annotations

import ast
import contextlib
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

_Change: TypeAlias = Callable[[Any], Any]


def model_as_mdf(content: Any) -> Any:
    """The content of a model, `{name: {graphs: ...}}` or `{id: ..., graphs: ...}`, in MDF's words."""
    if not isinstance(content, Mapping) or not content:
        return content
    if "id" in content:
        return _model(content)
    name, model = next(iter(content.items()))
    return {**content, name: _model(model)}


def graph_as_mdf(graph: Any) -> Any:
    """The content of a graph in MDF's words."""
    return _changed(graph, "nodes", _node)


def _model(model: Any) -> Any:
    changed = _changed(model, "graphs", graph_as_mdf)
    if not str(_part(model, "generating_application")).lower().startswith("psyneulink"):
        return changed
    return _changed(changed, "graphs", lambda graph: _changed(graph, "nodes", _untyped))


def _node(node: Any) -> Any:
    for section in ("input_ports", "output_ports"):
        node = _changed(node, section, _port)
    return _changed(node, "parameters", _parameter)


def _port(port: Any) -> Any:
    shape = _part(port, "shape")
    if not isinstance(shape, str):
        return port
    with contextlib.suppress(ValueError, SyntaxError, MemoryError, RecursionError):
        written = ast.literal_eval(shape)
        if isinstance(written, tuple | list) and all(type(extent) is int for extent in written):
            return {**port, "shape": list(written)}
    return port


def _parameter(parameter: Any) -> Any:
    return {"value": parameter} if isinstance(parameter, bool | int | float) else parameter


def _untyped(node: Any) -> Any:
    """A node whose input ports do not state that they take whole numbers."""
    return _changed(node, "input_ports", _without_whole_type)


def _without_whole_type(port: Any) -> Any:
    if not str(_part(port, "type")).startswith(("int", "uint")):
        return port
    return {key: value for key, value in port.items() if key != "type"}


def _part(content: Any, key: str) -> Any:
    return content.get(key) if isinstance(content, Mapping) else None


def _changed(content: Any, section: str, change: _Change) -> Any:
    """The content with every part of a section changed; the same object if none is."""
    parts = _part(content, section)
    if not isinstance(parts, Mapping):
        return content
    made = {name: change(part) for name, part in parts.items()}
    if all(made[name] is part for name, part in parts.items()):
        return content
    return {**content, section: made}
