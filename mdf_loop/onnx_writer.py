"""Import of onnx_ir without sympy, because importing sympy slows down small runs.

onnx_ir needs sympy only for arithmetic with symbolic extents, which this package does not use. While
onnx_ir is imported, a placeholder module takes the place of sympy and imports it on first access. Other
imports of sympy are unaffected. If sympy was imported before, there is no placeholder.

Source: onnx_ir 1.1, `_core.SymbolicDim`, `_symbolic_shapes`.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

_LAZY_MODULES = ("sympy", "onnx_ir._symbolic_shapes")
"""Modules whose import is delayed until first use: sympy, and the module of onnx_ir that imports it."""


class _LazyModule(ModuleType):
    """Module that is imported on first access."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # the import system reads such attributes of every module
            raise AttributeError(name)
        _remove_placeholder(self)
        return getattr(importlib.import_module(self.__name__), name)


@contextmanager
def _lazy_imports() -> Iterator[None]:
    """Replace `_LAZY_MODULES` by lazy placeholders inside this context, unless imported already."""
    placeholders = [_LazyModule(name) for name in _LAZY_MODULES if name not in sys.modules]
    sys.modules.update({module.__name__: module for module in placeholders})
    try:
        yield
    finally:
        for module in placeholders:
            _remove_placeholder(module)


def _remove_placeholder(module: ModuleType) -> None:
    """Remove a lazy placeholder from the imported modules, unless the real module is there."""
    if sys.modules.get(module.__name__) is module:
        del sys.modules[module.__name__]


with _lazy_imports():
    import onnx_ir as oir

__all__ = ["oir"]
