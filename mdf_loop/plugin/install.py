"""`onnx::Loop` inside modeci_mdf's own engine.

`register()` gives modeci_mdf a loop function and teaches its engine the nodes that use it:

- `modeci_mdf.functions.onnx.loop` and `mdf_functions["onnx::Loop"]` exist;
- `EvaluableNode` evaluates loop functions in every accepted form, compiled by this library;
- names that are no Python names (`x.3`, `/A/Add`), which ONNX importers write, are read as names;
- a body given as the id of another graph is found, because models are remembered.

Nodes without a loop are untouched. `unregister()` puts everything back. What of modeci_mdf is not
yet imported is taught when it gets imported, so importing `mdf_loop` costs nothing.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

_undo: list[Callable[[], None]] = []
"""How to take back what was done to modeci_mdf, last thing first."""

_taught: set[str] = set()
"""The modules of modeci_mdf that were changed."""


def register() -> None:
    """Make `onnx::Loop` work in modeci_mdf's engine; doing it twice changes nothing."""
    for name in _LESSONS:
        if name in sys.modules:
            _teach(importlib.import_module(name))  # waits if another thread is importing it
    if _LESSONS.keys() - _taught and not any(isinstance(f, _Finder) for f in sys.meta_path):
        sys.meta_path.insert(0, _Finder())


def unregister() -> None:
    """Put modeci_mdf back as it was."""
    _remove_finder()
    while _undo:
        _undo.pop()()
    _taught.clear()


def _remove_finder() -> None:
    sys.meta_path[:] = [finder for finder in sys.meta_path if not isinstance(finder, _Finder)]


class _Finder(importlib.abc.MetaPathFinder):
    """Waits for modules of modeci_mdf to be imported and teaches them then."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname not in _LESSONS or fullname in _taught:
            return None
        spec = self._found_by_later(fullname, path, target)
        if spec is None or spec.loader is None:
            return None
        loader = spec.loader
        run = loader.exec_module
        own = vars(loader).get("exec_module")  # that of another copy of this library

        def run_and_teach(module: ModuleType) -> None:
            del loader.exec_module
            if own is not None:
                loader.exec_module = own  # type: ignore[method-assign]
            run(module)
            if self in sys.meta_path:  # not unregistered meanwhile
                _teach(module)

        loader.exec_module = run_and_teach  # type: ignore[method-assign]
        return spec

    def _found_by_later(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None
    ) -> importlib.machinery.ModuleSpec | None:
        finders = sys.meta_path
        for finder in finders[finders.index(self) + 1 :] if self in finders else ():
            if hasattr(finder, "find_spec"):
                spec = finder.find_spec(fullname, path, target)
                if spec is not None:
                    return spec
        return None


def _teach(module: ModuleType) -> None:
    if module.__name__ in _taught:
        return
    _LESSONS[module.__name__](module)
    _taught.add(module.__name__)
    if _taught == _LESSONS.keys():
        _remove_finder()


# --- what is changed --------------------------------------------------------------------------


def _teach_model(module: Any) -> None:
    from mdf_loop.plugin.models import forget, remembering

    _undo.append(forget)
    for name in ("__init__", "__setstate__"):
        _set(module.Model, name, remembering(getattr(module.Model, name)))


def _teach_engine(engine: Any) -> None:
    from modeci_mdf.functions import onnx as onnx_functions
    from modeci_mdf.functions import standard

    from mdf_loop.plugin.engine_node import names_of, with_loops
    from mdf_loop.plugin.loop_call import loop

    entry = {
        "description": loop.__doc__,
        "arguments": ["M", "cond", "v_initial", "body"],
        "expression_string": "onnx_ops.loop(M, cond, v_initial, body)",
        "function": loop,
    }
    _set(onnx_functions, "loop", loop)
    _set_item(standard.mdf_functions, "onnx::Loop", entry)
    _set(engine.EvaluableNode, "__init__", with_loops(engine))
    name = "get_required_variables_from_expression"
    _set(engine, name, names_of(getattr(engine, name)))


_LESSONS: dict[str, Callable[[Any], None]] = {
    "modeci_mdf.mdf": _teach_model,
    "modeci_mdf.execution_engine": _teach_engine,
}


def _set(owner: Any, name: str, value: Any) -> None:
    missing = name not in vars(owner)
    old = getattr(owner, name, None)
    setattr(owner, name, value)
    _undo.append(lambda: delattr(owner, name) if missing else setattr(owner, name, old))


def _set_item(table: dict[str, Any], key: str, value: Any) -> None:
    missing = key not in table
    old = table.get(key)
    table[key] = value
    _undo.append(lambda: table.pop(key) if missing else table.__setitem__(key, old))
