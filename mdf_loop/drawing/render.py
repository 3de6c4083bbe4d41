"""DOT text -> svg, png, pdf.

The `dot` program draws, if there is one; else the pygraphviz wheel, which bundles Graphviz.
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
    """The format that a file's suffix asks for.

    Raises:
        UnsupportedError: it is none of `FORMATS`.
    """
    suffix = path_of(target, "the picture").suffix.lower().removeprefix(".")
    if suffix not in FORMATS:
        known = ", ".join(f".{name}" for name in FORMATS)
        shown = f"'.{suffix}'" if suffix else "a name without a suffix"
        raise UnsupportedError(f"cannot draw to {shown}", str(target), f"use one of {known}")
    return suffix


def renderer() -> str:
    """What draws here: `dot` with its place, or `pygraphviz` with its version.

    Raises:
        UnsupportedError: there is nothing to draw with.
    """
    program = shutil.which("dot")
    return program or f"pygraphviz {_pygraphviz().__version__}"


def render(dot: str, form: str) -> bytes:
    """The picture in one of `FORMATS`.

    Raises:
        UnsupportedError: there is nothing to draw with, or Graphviz failed.
    """
    if form == "dot":
        return dot.encode()
    draw = _by_program if shutil.which("dot") else _by_pygraphviz
    return draw(dot, form)


def _by_program(dot: str, form: str) -> bytes:
    import graphviz

    try:
        return bytes(graphviz.Source(dot).pipe(format=form, quiet=True))
    except (graphviz.ExecutableNotFound, graphviz.CalledProcessError) as error:
        raise _failed(form, error) from None


def _by_pygraphviz(dot: str, form: str) -> bytes:
    pygraphviz = _pygraphviz()
    try:
        with warnings.catch_warnings(), _muted():
            warnings.simplefilter("ignore")
            return bytes(pygraphviz.AGraph(string=dot).draw(format=form, prog="dot"))
    except (OSError, ValueError, RuntimeError) as error:
        raise _failed(form, error) from None


@contextlib.contextmanager
def _muted() -> Iterator[None]:
    """Keep what C libraries write to stderr off the screen (fontconfig complains of its files)."""
    sys.stderr.flush()
    kept = os.dup(2)
    try:
        with open(os.devnull, "wb") as nowhere:
            os.dup2(nowhere.fileno(), 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def _pygraphviz() -> Any:
    try:
        import pygraphviz
    except ImportError:
        raise UnsupportedError(
            "there is nothing to draw with: neither the program 'dot' nor pygraphviz",
            hint="run 'pip install pygraphviz' (it brings Graphviz), or install Graphviz, "
            "or ask for DOT text with a name that ends in .dot",
        ) from None
    return pygraphviz


def _failed(form: str, error: BaseException) -> UnsupportedError:
    first = str(error).strip().split("\n")[0][:200]
    return UnsupportedError(
        f"Graphviz could not draw {form}: {first}",
        hint="save the DOT text (a name that ends in .dot) and look at it",
    )
