"""Lowest versions of dependencies in pyproject.toml, as installed by `make lowest`."""

from __future__ import annotations

import importlib.util
import re
from importlib.metadata import version
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SPEC = importlib.util.spec_from_file_location("lowest", ROOT / ".ci" / "lowest.py")
lowest = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(lowest)

PYPROJECT = (ROOT / "pyproject.toml").read_text()


def numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", text)[:3])


def test_every_dependency_has_a_lowest_version() -> None:
    floors = lowest.floors(PYPROJECT)
    assert "modeci-mdf==0.4.15" in floors
    for floor in floors:
        name, _, number = floor.partition("==")
        assert re.search(rf'"{name}(>=|==){re.escape(number)}[,"]', PYPROJECT)


def test_a_dependency_without_a_lowest_version_is_reported() -> None:
    incomplete = PYPROJECT.replace('"networkx>=3.0"', '"networkx"')
    with pytest.raises(SystemExit, match="no lowest version is stated for networkx"):
        lowest.floors(incomplete)


@pytest.mark.parametrize(
    "floor",
    [
        pytest.param(floor, marks=pytest.mark.native if floor.startswith("llvmlite") else [])
        for floor in lowest.floors(PYPROJECT)
    ],
)
def test_installed_versions_are_allowed(floor: str) -> None:
    name, _, number = floor.partition("==")
    assert numbers(version(name)) >= numbers(number)


def test_the_table_of_dependencies_has_the_lowest_versions() -> None:
    page = (ROOT / "docs" / "explanation" / "dependencies.md").read_text()
    rows = dict(re.findall(r"^\| ([\w-]+) \| ([\d.]+) \|", page, re.MULTILINE))
    floors = dict(floor.split("==") for floor in lowest.floors(PYPROJECT))
    assert rows == floors
