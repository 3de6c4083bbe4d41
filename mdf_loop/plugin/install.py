"""Registration of `onnx::Loop` in modeci_mdf's own engine, by patches of modeci_mdf.

`register()` adds a loop function to modeci_mdf and patches the engine so that it evaluates loops:

- `modeci_mdf.functions.onnx.loop` and `mdf_functions["onnx::Loop"]` exist;
- `EvaluableNode` evaluates loop functions in every accepted form, compiled by this library;
- the engine accepts names that are no Python names (`x.3`, `/A/Add`), which ONNX importers write;
- a body can be the id of another graph of the model, because each new model is registered.

Nodes without a loop behave as before. `unregister()` restores modeci_mdf. A module of modeci_mdf that is not
yet imported is patched when a program imports it, so importing `mdf_loop` does not import modeci_mdf.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import importlib.machinery

_restorers: list[Callable[[], None]] = []
"""Functions that revert the patches of modeci_mdf, to be called from the last to the first."""

_patched_modules: set[str] = set()
"""Names of the patched modules of modeci_mdf."""


def register() -> None:
    """Register `onnx::Loop` in modeci_mdf's engine, unless it is registered already."""
    for module_name in _PATCH_BY_MODULE:
        if module_name in sys.modules:
            # import_module waits for an import in another thread.
            _patch(importlib.import_module(module_name))
    if _PATCH_BY_MODULE.keys() - _patched_modules and not any(
        isinstance(meta_finder, _Finder) for meta_finder in sys.meta_path
    ):
        sys.meta_path.insert(0, _Finder())


def unregister() -> None:
    """Undo all changes of `register` to modeci_mdf."""
    _remove_finder()
    while _restorers:
        _restorers.pop()()
    _patched_modules.clear()


def _remove_finder() -> None:
    """Remove the import finder of this plugin from Python's import system."""
    sys.meta_path[:] = [finder for finder in sys.meta_path if not isinstance(finder, _Finder)]


class _Finder:
    """Import finder that patches modules of modeci_mdf when they are imported."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Return the import spec of a module to patch, or None for any other module."""
        if fullname not in _PATCH_BY_MODULE or fullname in _patched_modules:
            return None
        module_spec = self._spec_of_later_finders(fullname, path, target)
        if module_spec is None or module_spec.loader is None:
            return None
        module_loader = module_spec.loader
        execute_module = module_loader.exec_module
        # wrapper of another copy of this library
        earlier_exec_module = vars(module_loader).get("exec_module")

        def execute_and_patch(module: ModuleType) -> None:
            del module_loader.exec_module
            if earlier_exec_module is not None:
                module_loader.exec_module = earlier_exec_module  # type: ignore[method-assign]
            execute_module(module)
            if self in sys.meta_path:  # false after `unregister()`
                _patch(module)

        module_loader.exec_module = execute_and_patch  # type: ignore[method-assign]
        return module_spec

    def _spec_of_later_finders(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None
    ) -> importlib.machinery.ModuleSpec | None:
        """Return the import spec of a module from the import finders after this one."""
        meta_finders = sys.meta_path
        for finder in meta_finders[meta_finders.index(self) + 1 :] if self in meta_finders else ():
            if hasattr(finder, "find_spec"):
                module_spec = finder.find_spec(fullname, path, target)
                if module_spec is not None:
                    return module_spec
        return None


def _patch(module: ModuleType) -> None:
    """Apply the plugin's patch to an imported module of modeci_mdf, at most once.

    After the last module of `_PATCH_BY_MODULE`, the function removes the plugin's import finder from Python.
    """
    if module.__name__ in _patched_modules:
        return
    _PATCH_BY_MODULE[module.__name__](module)
    _patched_modules.add(module.__name__)
    if _patched_modules == _PATCH_BY_MODULE.keys():
        _remove_finder()


# --- patches ----------------------------------------------------------------------------------


def _patch_model(module: Any) -> None:
    """Wrap the methods that create a modeci_mdf Model, so that each new Model is registered."""
    from mdf_loop.plugin.models import clear_registry, wrap_to_register

    _restorers.append(clear_registry)
    for method_name in ("__init__", "__setstate__"):
        _patch_attribute(
            module.Model, method_name, wrap_to_register(getattr(module.Model, method_name))
        )


def _patch_engine(engine: Any) -> None:
    """Add `onnx::Loop` to modeci_mdf's engine, and wrap the functions that cannot handle loops."""
    from modeci_mdf.functions import onnx as onnx_functions
    from modeci_mdf.functions import standard

    from mdf_loop.plugin.engine_node import accept_any_names, accept_loops
    from mdf_loop.plugin.loop_call import loop

    function_entry = {
        "description": loop.__doc__,
        "arguments": ["M", "cond", "v_initial", "body"],
        "expression_string": "onnx_ops.loop(M, cond, v_initial, body)",
        "function": loop,
    }
    _patch_attribute(onnx_functions, "loop", loop)
    _patch_item(standard.mdf_functions, "onnx::Loop", function_entry)
    _patch_attribute(engine.EvaluableNode, "__init__", accept_loops(engine))
    function_name = "get_required_variables_from_expression"
    _patch_attribute(engine, function_name, accept_any_names(getattr(engine, function_name)))


_PATCH_BY_MODULE: dict[str, Callable[[Any], None]] = {
    "modeci_mdf.mdf": _patch_model,
    "modeci_mdf.execution_engine": _patch_engine,
}
"""Functions that patch the modules of modeci_mdf, by module name."""


def _patch_attribute(owner: Any, name: str, value: Any) -> None:
    """Replace an attribute of a modeci_mdf object, and record how to restore it."""
    is_new_attribute = name not in vars(owner)
    old_value = getattr(owner, name, None)
    setattr(owner, name, value)
    _restorers.append(
        lambda: delattr(owner, name) if is_new_attribute else setattr(owner, name, old_value)
    )


def _patch_item(table: dict[str, Any], key: str, value: Any) -> None:
    """Replace an entry of a modeci_mdf dict, and record how to restore it."""
    is_new_entry = key not in table
    old_value = table.get(key)
    table[key] = value
    _restorers.append(lambda: table.pop(key) if is_new_entry else table.__setitem__(key, old_value))
