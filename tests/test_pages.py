"""Facts on single pages: quoted messages exist in the source, and figures were measured."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

import mdf_loop
from mdf_loop import LoopError

ROOT = Path(__file__).parents[1]
TROUBLESHOOTING = (ROOT / "docs" / "how-to" / "troubleshoot.md").read_text()
MESSAGES = re.findall(r"^\| `([^`]*)`[^|]* \|", TROUBLESHOOTING, re.MULTILINE)


def literal_text(node: ast.AST) -> str:
    """Return a string of the source with `...` in place of inserted values."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=parts):
            return "".join(literal_text(part) or "..." for part in parts)
    return ""


@cache
def all_texts() -> str:
    """Return all strings of the package, one per line."""
    files = (ROOT / "mdf_loop").rglob("*.py")
    nodes = (n for path in files for n in ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
    return "\n".join(text.replace("\n", " ") for node in nodes if (text := literal_text(node)))


@pytest.mark.parametrize("message", MESSAGES)
def test_quoted_messages_are_in_the_source(message):
    pattern = ".*".join(re.escape(part) for part in message.strip(". ").split("..."))
    assert re.search(pattern, all_texts())


def test_many_messages_are_quoted():
    assert len(MESSAGES) == len(set(MESSAGES)) > 35


@pytest.mark.parametrize(
    ("node", "message"),
    [
        ("output_ports: {on: {value: 1.0}}", "the name True of a output port is not text"),
        ("parameters: {a: {value: 1, conditions: {on: {test: true, value: 2}}}}", "'id' must be a"),
    ],
)
def test_a_name_that_yaml_reads_as_a_boolean_is_reported(node, message, tmp_path):
    path = tmp_path / "model.yaml"
    path.write_text(f"M: {{graphs: {{g: {{nodes: {{n: {{{node}}}}}}}}}}}\n")
    with pytest.raises(LoopError, match=message):
        mdf_loop.read(path)


def test_figures_of_which_tool_when_are_benchmark_figures():
    page = (ROOT / "docs" / "explanation" / "which-tool-when.md").read_text()
    benchmark_figures = set(re.findall(r"\d+\.\d+", (ROOT / "docs" / "benchmarks.md").read_text()))
    figures = set(re.findall(r"\d+\.\d+", page))
    assert figures
    assert figures <= benchmark_figures
