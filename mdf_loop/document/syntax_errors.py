"""Conversion of YAML and JSON syntax errors to one sentence with the line and a hint."""

from __future__ import annotations

import json

import yaml

from mdf_loop.errors import ModelError

_MAX_SHOWN_CHARACTERS = 100
"""Maximum number of characters that an error shows of a line."""


def yaml_error(subject: str, error: yaml.MarkedYAMLError) -> ModelError:
    """Return the error for invalid YAML text, with the parser's description of the fault."""
    error_mark, start_mark = error.problem_mark or error.context_mark, error.context_mark
    fault_descriptions = [
        fault_description
        for fault_description in (error.problem, error.context)
        if fault_description
    ]
    if start_mark is not None and error_mark is not None and start_mark.line != error_mark.line:
        fault_descriptions[-1] += f" that begins in line {start_mark.line + 1}"
    error_position = (
        _describe_position(error_mark.buffer or "", error_mark.line + 1, error_mark.column + 1)
        if error_mark
        else "YAML"
    )
    error_message = (
        f"{subject} is not an MDF model: {error_position}: {', '.join(fault_descriptions)}"
    )
    return ModelError(error_message, hint=_choose_yaml_hint(error))


def json_error(subject: str, error: json.JSONDecodeError) -> ModelError:
    """Return the error for invalid JSON text, with the parser's description of the fault."""
    error_position = _describe_position(error.doc, error.lineno, error.colno)
    return ModelError(
        f"{subject} is not an MDF model: {error_position}: {error.msg}",
        hint="look at the commas, quotes and brackets there and in the line above",
    )


def _describe_position(text: str, line: int, column: int) -> str:
    text_lines = text.rstrip("\0").split("\n")
    line_excerpt = (
        text_lines[line - 1].strip()[:_MAX_SHOWN_CHARACTERS] if line <= len(text_lines) else ""
    )
    return f"line {line}, column {column}" + (f" ({line_excerpt})" if line_excerpt else "")


def _choose_yaml_hint(error: yaml.MarkedYAMLError) -> str:
    if "\\t" in (error.problem or ""):
        return "indent with spaces: YAML takes no tabs"
    if isinstance(error, yaml.constructor.ConstructorError):
        return "see the MDF specification"
    return "look at the indentation, colons and brackets there and in the line above"
