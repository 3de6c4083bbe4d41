"""Docstrings and names follow rules that can be checked mechanically."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[1] / "mdf_loop"

PARTICIPLES = frozenset(
    [
        "made",
        "given",
        "found",
        "said",
        "asked",
        "told",
        "kept",
        "taken",
        "wanted",
        "reached",
        "held",
        "left_over",
        "shown",
        "seen",
        "done_so_far",
        "laid",
        "lent",
        "gone",
        "goes",
        "comes",
        "ran",
    ]
)
"""Names that describe no data: the name of a variable is the noun of its content."""

BEGINNINGS = re.compile(
    r"(What|Whether|Where|How|Why|When|Who|Of|The same|As|It|Its|Nothing|Nobody|All that|Those|That|This|They|These|"
    r"One that)\b"
)
"""Beginnings of docstrings that name no subject."""

UNFINISHED = frozenset({"api", "native", "ops/native", "reading", "run", ""})
"""Folders whose variables are still to be renamed. The empty text is the folder of the package itself."""


def folder_of(path: Path) -> str:
    parts = path.relative_to(PACKAGE).parts[:-1]
    return "ops/native" if parts[:2] == ("ops", "native") else "/".join(parts[:1])


def places(path: Path) -> Iterator[tuple[int, str]]:
    """Yield line and name of each parameter, variable and attribute that a module defines."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.arg):
            yield node.lineno, node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.attr.strip("_")


def first_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield line and first line of the docstring of each class and function."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            text = ast.get_docstring(node)
            if text:
                yield node.lineno, text.splitlines()[0]


FOLDERS = sorted({folder_of(path) for path in PACKAGE.rglob("*.py")})


@pytest.mark.parametrize("folder", FOLDERS)
def test_docstrings_name_their_subject(folder: str) -> None:
    violations = [
        f"{path}:{line}: {text}"
        for path in PACKAGE.rglob("*.py")
        if folder_of(path) == folder
        for line, text in first_lines(path)
        if BEGINNINGS.match(text)
    ]
    assert not violations, "\n".join(violations)


@pytest.mark.parametrize("folder", [name for name in FOLDERS if name not in UNFINISHED])
def test_names_are_nouns(folder: str) -> None:
    violations = [
        f"{path}:{line}: {name}"
        for path in PACKAGE.rglob("*.py")
        if folder_of(path) == folder
        for line, name in places(path)
        if name in PARTICIPLES
    ]
    assert not violations, "\n".join(violations)
