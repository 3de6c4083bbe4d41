"""The libraries of the extra `cluster`, imported where they are needed."""

from __future__ import annotations

import importlib
from typing import Any

from mdf_loop.errors import InputError


def needed(name: str) -> Any:
    """A module of the extra.

    Raises:
        InputError: it is not installed.
    """
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise InputError(
            f"a cluster needs the library {name}, which cannot be imported: {error}",
            hint="pip install 'mdf-loop[cluster]'",
        ) from None
