"""The Python reference lists every argument of every public call with its default."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import mdf_loop
from mdf_loop.cli import cli

PAGE = (Path(__file__).parents[1] / "docs" / "reference" / "python-api.md").read_text("utf-8")

FUNCTIONS = [name for name in mdf_loop.__all__ if inspect.isfunction(getattr(mdf_loop, name))]

METHODS = {
    ".save(path, inputs": mdf_loop.CompiledModel.save,
    ".to_onnx": mdf_loop.CompiledModel.to_onnx,
    "CompiledModel.differentiate": mdf_loop.CompiledModel.differentiate,
    "CompiledModel.gradient": mdf_loop.CompiledModel.gradient,
    "CompiledModel.jacobian": mdf_loop.CompiledModel.jacobian,
    "CompiledModel.hessian": mdf_loop.CompiledModel.hessian,
    ".run(set": mdf_loop.Differentiated.run,
    ".save(path, set": mdf_loop.Differentiated.save,
    ".rows": mdf_loop.Results.rows,
    ".plot(path=None, names": mdf_loop.Results.plot,
}
"""Methods by the prefix of their signatures on the page."""

TABLES = {
    "mdf_loop.compile": mdf_loop.compile,
    "mdf_loop.CompiledModel.run": mdf_loop.CompiledModel.run,
    "mdf_loop.Fit": mdf_loop.CompiledModel.fit,
}
"""Calls whose arguments are in tables, by the title of their section."""


def parameters(call: Callable[..., Any]) -> list[inspect.Parameter]:
    """Return the parameters of a call without `self`."""
    signature = inspect.signature(call)
    return [p for p in signature.parameters.values() if p.name != "self"]


def text_of(value: Any) -> str:
    """Return a default as the page writes it."""
    return f'"{value}"' if isinstance(value, str) else repr(value)


def signature_of(call: Callable[..., Any]) -> str:
    """Return the parameters of a call with their defaults, as the page writes them."""
    parts = []
    for parameter in parameters(call):
        is_first_keyword = parameter.kind is parameter.KEYWORD_ONLY and "*" not in parts
        parts += ["*"] if is_first_keyword else []
        name = f"**{parameter.name}" if parameter.kind is parameter.VAR_KEYWORD else parameter.name
        has_default = parameter.default is not parameter.empty
        parts.append(f"{name}={text_of(parameter.default)}" if has_default else name)
    return f"({', '.join(parts)})"


def section(title: str) -> str:
    """Return the section of the page with this title."""
    return PAGE.split(f"\n## {title}\n")[1].split("\n## ")[0]


def rows(title: str) -> dict[str, str]:
    """Return the default of each argument in the tables of a section."""
    matches = re.findall(r"^\| `(\w+)` \| (?:`(.*?)`)? ?\| ", section(title), re.MULTILINE)
    assert len(dict(matches)) == len(matches)
    return dict(matches)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_is_shown_with_its_signature(name: str) -> None:
    assert f"`{name}{signature_of(getattr(mdf_loop, name))}`" in PAGE


@pytest.mark.parametrize("beginning", METHODS)
def test_a_method_is_shown_with_its_signature(beginning: str) -> None:
    name = beginning.split("(")[0]
    assert f"`{name}{signature_of(METHODS[beginning])}`" in PAGE


@pytest.mark.parametrize("title", TABLES)
def test_a_table_has_all_arguments_with_their_defaults(title: str) -> None:
    expected = {
        p.name: "" if p.default is p.empty else text_of(p.default)
        for p in parameters(TABLES[title])
    }
    assert rows(title) == expected


# --- the groups of the arguments of `run` ---------------------------------------------------------

GROUPS = (
    *("Model and inputs", "Time", "What to record", "Random numbers and trials"),
    *("Limits", "Files", "Cluster"),
)


def groups_of_page() -> dict[str, list[str]]:
    """Return the arguments in each group of the section of `run`."""
    parts = re.split(r"^\*\*(.*)\*\*$", section("mdf_loop.CompiledModel.run"), flags=re.MULTILINE)
    pairs = zip(parts[1::2], parts[2::2], strict=True)
    return {title: re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE) for title, text in pairs}


def groups_of_docstring() -> dict[str, list[str]]:
    """Return the arguments in each group of the docstring of `run`."""
    text = inspect.getdoc(mdf_loop.CompiledModel.run) or ""
    parts = re.split(r"^([A-Z][a-z ]*):$", text, flags=re.MULTILINE)
    pairs = zip(parts[1::2], parts[2::2], strict=True)
    arguments = {title: re.findall(r"^    (\w+): ", part, re.MULTILINE) for title, part in pairs}
    return {title: names for title, names in arguments.items() if title != "Raises"}


def test_page_docstring_and_help_have_the_same_groups() -> None:
    assert tuple(groups_of_page()) == GROUPS
    assert groups_of_docstring() == groups_of_page()
    text = CliRunner().invoke(cli, ["run", "--help"]).output
    titles = re.findall(r"^([A-Z][a-z ]*):$", text, re.MULTILINE)
    assert [title for title in titles if title in GROUPS] == list(GROUPS)
    assert not set(titles).difference(GROUPS, {"Compiler and device", "Other options"})
