"""Printing of UserWarnings as lines on stderr, without the file and line of the code."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from mdf_loop.cli.show import show
from mdf_loop.text_escaping import escape_to_one_line


@contextmanager
def warning_lines() -> Iterator[None]:
    """Print each UserWarning inside the block as a line `warning: ...` on stderr."""
    with warnings.catch_warnings():
        warnings.simplefilter("always", UserWarning)
        original_showwarning = warnings.showwarning

        def show_line(
            message: Any, category: type[Warning], *location: Any, **options: Any
        ) -> None:
            if category is UserWarning:
                show(escape_to_one_line(f"warning: {message}"), error=True)
            else:
                original_showwarning(message, category, *location, **options)

        warnings.showwarning = show_line
        yield
