"""onnx_ir, imported without sympy, which takes a quarter of the time of a small run and is not used by it.

onnx_ir names sympy for arithmetic with the names of extents, which we do not ask it for. Its modules
get a stand-in that becomes sympy where something of it is asked for; whoever else imports sympy gets
sympy. Where sympy is there already, nothing is done.

Source: onnx_ir 1.1, `_core.SymbolicDim`, `_symbolic_shapes`.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

_LATER = ("sympy", "onnx_ir._symbolic_shapes")
"""What is imported when it is used: sympy, and what would use it while it is imported."""


class _LazyModule(ModuleType):
    """Module that is imported on first access."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # what imports ask of every module
            raise AttributeError(name)
        _remove(self)
        return getattr(importlib.import_module(self.__name__), name)


@contextmanager
def _imported_later() -> Iterator[None]:
    """Replace modules that are not imported yet by stand-ins inside this context."""
    placeholders = [_LazyModule(name) for name in _LATER if name not in sys.modules]
    sys.modules.update({module.__name__: module for module in placeholders})
    try:
        yield
    finally:
        for module in placeholders:
            _remove(module)


def _remove(module: ModuleType) -> None:
    if sys.modules.get(module.__name__) is module:
        del sys.modules[module.__name__]


with _imported_later():
    import onnx_ir as oir

__all__ = ["oir"]
