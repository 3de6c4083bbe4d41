"""Rendering of DOT text as svg, png or pdf.

The renderer is the program `dot` if it is installed, otherwise the pygraphviz wheel, which includes Graphviz.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mdf_loop.errors import UnsupportedError
from mdf_loop.paths import path_of

FORMATS = ("svg", "png", "pdf", "html", "dot")


def format_of(target: str | Path) -> str:
    """Return the picture format that a file suffix stands for.

    Raises:
        UnsupportedError: The suffix is not in `FORMATS`.
    """
    suffix = path_of(target, "the picture").suffix.lower().removeprefix(".")
    if suffix not in FORMATS:
        known_suffixes = ", ".join(f".{name}" for name in FORMATS)
        suffix_text = f"'.{suffix}'" if suffix else "a name without a suffix"
        raise UnsupportedError(
            f"cannot draw to {suffix_text}", str(target), f"use one of {known_suffixes}"
        )
    return suffix


def renderer() -> str:
    """Return the drawing program: the path of `dot`, or `pygraphviz` with its version.

    Raises:
        UnsupportedError: No drawing program is installed.
    """
    dot_program = shutil.which("dot")
    return dot_program or f"pygraphviz {_import_pygraphviz().__version__}"


def render(dot: str, target_format: str) -> bytes:
    """Render DOT text in the file format `target_format`, such as svg, png or pdf.

    Raises:
        UnsupportedError: No drawing program is installed, or Graphviz failed.
    """
    if target_format == "dot":
        return dot.encode()
    render_with_program = _render_with_dot if shutil.which("dot") else _render_with_pygraphviz
    return render_with_program(dot, target_format)


def _render_with_dot(dot: str, target_format: str) -> bytes:
    """Render DOT text with the program `dot`."""
    import graphviz

    try:
        return bytes(graphviz.Source(dot).pipe(format=target_format, quiet=True))
    except (graphviz.ExecutableNotFound, graphviz.CalledProcessError) as error:
        raise _render_error(target_format, error) from None


def _render_with_pygraphviz(dot: str, target_format: str) -> bytes:
    """Render DOT text with the Graphviz library of pygraphviz."""
    pygraphviz = _import_pygraphviz()
    try:
        with warnings.catch_warnings(), _mute_stderr():
            warnings.simplefilter("ignore")
            return bytes(pygraphviz.AGraph(string=dot).draw(format=target_format, prog="dot"))
    except (OSError, ValueError, RuntimeError) as error:
        raise _render_error(target_format, error) from None


@contextlib.contextmanager
def _mute_stderr() -> Iterator[None]:
    """Discard the messages of C libraries on stderr, such as warnings of fontconfig."""
    sys.stderr.flush()
    saved_descriptor = os.dup(2)
    try:
        with open(os.devnull, "wb") as null_file:
            os.dup2(null_file.fileno(), 2)
        yield
    finally:
        os.dup2(saved_descriptor, 2)
        os.close(saved_descriptor)


def _import_pygraphviz() -> Any:
    """Import pygraphviz, or raise an UnsupportedError with the ways to install a drawing program."""
    try:
        import pygraphviz
    except ImportError:
        raise UnsupportedError(
            "there is nothing to draw with: neither the program 'dot' nor pygraphviz",
            hint="run 'pip install pygraphviz' (it brings Graphviz), or install Graphviz, "
            "or ask for DOT text with a name that ends in .dot",
        ) from None
    return pygraphviz


def _render_error(target_format: str, error: BaseException) -> UnsupportedError:
    """Return the error for a failure of Graphviz."""
    first_error_line = str(error).strip().split("\n")[0][:200]
    return UnsupportedError(
        f"Graphviz could not draw {target_format}: {first_error_line}",
        hint="save the DOT text (a name that ends in .dot) and look at it",
    )
