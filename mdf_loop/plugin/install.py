"""`onnx::Loop` inside modeci_mdf's own engine.

`register()` gives modeci_mdf a loop function and teaches its engine the nodes that use it:

- `modeci_mdf.functions.onnx.loop` and `mdf_functions["onnx::Loop"]` exist;
- `EvaluableNode` evaluates loop functions in every accepted form, compiled by this library;
- names that are no Python names (`x.3`, `/A/Add`), which ONNX importers write, are read as names;
- a body given as the id of another graph is found, because models remember their graphs.

Nodes without a loop are untouched. `unregister()` puts everything back. Importing `mdf_loop`
registers at once if modeci_mdf's engine is loaded, else when it gets loaded.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
import weakref
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

_ENGINE = "modeci_mdf.execution_engine"

_undo: list[Callable[[], None]] = []
"""How to take back what was done to modeci_mdf, last thing first."""

_models: weakref.WeakSet[Any] = weakref.WeakSet()
"""Models made since registration, so that a body's graph id can be looked up."""


def register() -> None:
    """Make `onnx::Loop` work in modeci_mdf's engine; doing it twice changes nothing."""
    if _ENGINE in sys.modules:
        _install(sys.modules[_ENGINE])
    elif not any(isinstance(finder, _EngineFinder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _EngineFinder())


def unregister() -> None:
    """Put modeci_mdf back as it was."""
    sys.meta_path[:] = [f for f in sys.meta_path if not isinstance(f, _EngineFinder)]
    while _undo:
        _undo.pop()()


class _EngineFinder(importlib.abc.MetaPathFinder):
    """Waits for modeci_mdf's engine to be imported and registers then."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != _ENGINE:
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is None or spec.loader is None:
            return None
        run = spec.loader.exec_module

        def run_and_install(module: ModuleType) -> None:
            run(module)
            sys.meta_path[:] = [f for f in sys.meta_path if f is not self]
            _install(module)

        spec.loader.exec_module = run_and_install  # type: ignore[method-assign]
        return spec


def _install(engine: Any) -> None:
    if _undo:
        return
    from modeci_mdf.functions import onnx as onnx_functions
    from modeci_mdf.functions import standard
    from modeci_mdf.mdf import Model

    from mdf_loop.plugin.engine_node import loop_node_class, tolerant
    from mdf_loop.plugin.loop_call import loop

    _set(onnx_functions, "loop", loop)
    _set_item(
        standard.mdf_functions,
        "onnx::Loop",
        {
            "description": loop.__doc__,
            "arguments": ["M", "cond", "v_initial", "body"],
            "expression_string": "onnx_ops.loop(M, cond, v_initial, body)",
            "function": loop,
        },
    )
    _set(engine, "EvaluableNode", loop_node_class(engine, find_siblings))
    name = "get_required_variables_from_expression"
    _set(engine, name, tolerant(getattr(engine, name)))
    _remember_models(Model)


def _set(owner: Any, name: str, value: Any) -> None:
    old = getattr(owner, name)
    setattr(owner, name, value)
    _undo.append(lambda: setattr(owner, name, old))


def _set_item(table: dict[str, Any], key: str, value: Any) -> None:
    missing = key not in table
    old = table.get(key)
    table[key] = value
    _undo.append(lambda: table.pop(key) if missing else table.__setitem__(key, old))


def _remember_models(model_class: Any) -> None:
    make = model_class.__init__

    def make_and_remember(self: Any, *args: Any, **kwargs: Any) -> None:
        make(self, *args, **kwargs)
        _models.add(self)

    make_and_remember.__doc__ = make.__doc__
    _set(model_class, "__init__", make_and_remember)


def find_siblings(node: Any) -> dict[str, Any]:
    """The graphs, by id, of the model that a node belongs to; empty if it is not known."""
    for model in list(_models):
        graphs = list(model.graphs or [])
        if any(candidate is node for graph in graphs for candidate in graph.nodes):
            return {graph.id: graph for graph in graphs}
    return {}
