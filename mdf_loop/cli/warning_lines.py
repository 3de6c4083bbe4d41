"""Warnings of the Python API as lines on stderr, without the file and line of the code that warns."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from mdf_loop.cli.show import show
from mdf_loop.visible import on_one_line


@contextmanager
def warning_lines() -> Iterator[None]:
    """Print each UserWarning inside as `warning: ...` on stderr; leave other warnings to Python."""
    with warnings.catch_warnings():
        warnings.simplefilter("always", UserWarning)
        show_others = warnings.showwarning

        def show_line(message: Any, category: type[Warning], *where: Any, **more: Any) -> None:
            if category is UserWarning:
                show(on_one_line(f"warning: {message}"), error=True)
            else:
                show_others(message, category, *where, **more)

        warnings.showwarning = show_line
        yield
