"""What a parser of YAML or JSON stumbles over -> one sentence with the line and its text, what to do."""

from __future__ import annotations

import json

import yaml

from mdf_loop.errors import ModelError

_LONGEST = 100
"""Characters of a line that are shown."""


def no_yaml(what: str, error: yaml.MarkedYAMLError) -> ModelError:
    """The error about a text that YAML cannot read, with YAML's own words for the problem."""
    mark, begun = error.problem_mark or error.context_mark, error.context_mark
    words = [word for word in (error.problem, error.context) if word]
    if begun is not None and mark is not None and begun.line != mark.line:
        words[-1] += f" that begins in line {begun.line + 1}"
    place = _place(mark.buffer or "", mark.line + 1, mark.column + 1) if mark else "YAML"
    said = f"{what} is not an MDF model: {place}: {', '.join(words)}"
    return ModelError(said, hint=_yaml_hint(error))


def no_json(what: str, error: json.JSONDecodeError) -> ModelError:
    """The error about a text that is no JSON, with the parser's own words for the problem."""
    place = _place(error.doc, error.lineno, error.colno)
    return ModelError(
        f"{what} is not an MDF model: {place}: {error.msg}",
        hint="look at the commas, quotes and brackets there and in the line above",
    )


def _place(text: str, line: int, column: int) -> str:
    lines = text.rstrip("\0").split("\n")
    shown = lines[line - 1].strip()[:_LONGEST] if line <= len(lines) else ""
    return f"line {line}, column {column}" + (f" ({shown})" if shown else "")


def _yaml_hint(error: yaml.MarkedYAMLError) -> str:
    if "\\t" in (error.problem or ""):
        return "indent with spaces: YAML takes no tabs"
    if isinstance(error, yaml.constructor.ConstructorError):
        return "see the MDF specification"
    return "look at the indentation, colons and brackets there and in the line above"
