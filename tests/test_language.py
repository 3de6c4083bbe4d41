"""Docstrings and names follow rules that can be checked mechanically."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

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

MAX_WORDS = 30
"""Largest number of words in a sentence of a docstring."""

ABBREVIATIONS = re.compile(r"\b(e\.g|i\.e|etc|cf|vs|Fig|No)\.")
"""Abbreviations whose last period ends no sentence."""

NOT_PROSE = ("    ", "|", ">>>", "..")
"""Beginnings of the lines of code, tables and directives."""

FOLDERS = [
    "benchmarks",
    "tests",
    *sorted(f"mdf_loop/{p.parent.name}" for p in ROOT.glob("mdf_loop/*/__init__.py")),
]


def modules_of(folder: str) -> list[Path]:
    """Return the modules of a folder. Modules directly in the package belong to the folder `mdf_loop`."""
    return sorted((ROOT / folder).glob("*.py" if folder == "mdf_loop" else "**/*.py"))


def names_in(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield line and name of each parameter, variable and attribute that a module defines."""
    for node in ast.walk(tree):
        if isinstance(node, ast.arg):
            yield node.lineno, node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.attr.strip("_")


def docstrings_in(tree: ast.AST) -> Iterator[tuple[int, str, bool]]:
    """Yield the line and the text of each docstring, and True if it is the docstring of a module."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            text = ast.get_docstring(node)
            if text:
                yield getattr(node, "lineno", 1), text, isinstance(node, ast.Module)


def sentences(text: str) -> Iterator[str]:
    """Yield the sentences of a docstring. A blank line or a list item ends a sentence."""
    prose = "\n".join(line for line in text.splitlines() if not line.startswith(NOT_PROSE))
    for block in re.split(r"\n\s*\n|\n\s*[-*] ", prose):
        without_periods = ABBREVIATIONS.sub(lambda match: match.group(0)[:-1], block)
        yield from re.split(r"(?<=[.!?])\s+", without_periods)


def problems_in(path: Path) -> Iterator[str]:
    """Yield a description of each violation in a module."""
    tree = ast.parse(path.read_text())
    for line, name in names_in(tree):
        if name in PARTICIPLES:
            yield f"{path}:{line}: the name '{name}' is no noun"
    for line, text, of_module in docstrings_in(tree):
        if not of_module and BEGINNINGS.match(text):
            yield f"{path}:{line}: the docstring names no subject: {text.splitlines()[0]}"
        for sentence in sentences(text):
            if len(sentence.split()) > MAX_WORDS:
                yield f"{path}:{line}: more than {MAX_WORDS} words: {sentence}"


@pytest.mark.parametrize("folder", ["mdf_loop", *FOLDERS])
def test_docstrings_and_names_are_plain(folder: str) -> None:
    modules = modules_of(folder)
    assert modules
    problems = [problem for path in modules for problem in problems_in(path)]
    assert not problems, "\n".join(problems)
