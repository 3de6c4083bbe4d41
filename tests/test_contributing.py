"""CONTRIBUTING.md names existing files, tables and targets, and covers every folder of package and tests."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "CONTRIBUTING.md").read_text()
PATHS = sorted({path for path in re.findall(r"`([\w./-]+)`", TEXT) if "/" in path})
TABLES = re.findall(r"`([A-Z_]+)` \(`([\w/.]+)`\)", TEXT)


@pytest.mark.parametrize("path", PATHS)
def test_named_paths_exist(path):
    folders = (ROOT, ROOT / "mdf_loop")
    assert path.startswith(".venv/") or any((folder / path).exists() for folder in folders)


@pytest.mark.parametrize(("name", "path"), TABLES, ids=[name for name, _ in TABLES])
def test_named_tables_are_in_their_files(name, path):
    assert re.search(rf"^{name}\b", (ROOT / "mdf_loop" / path).read_text(), re.MULTILINE)


def test_every_package_folder_is_listed():
    folders = TEXT.split("## Folders of the package")[1].split("\n## ")[0]
    package_folders = {path.parent.name for path in (ROOT / "mdf_loop").glob("*/__init__.py")} - {
        "demo",
        "starts",
    }
    assert not {folder for folder in package_folders if f"`{folder}/`" not in folders}


def test_every_folder_of_tests_mirrors_a_package_folder_or_is_listed():
    folders = {path.parent.name for path in (ROOT / "tests").glob("*/*.py")}
    mirrors = {path.name for path in (ROOT / "mdf_loop").iterdir()}
    assert not {name for name in folders - mirrors if f"`tests/{name}/`" not in TEXT}


def test_the_seven_questions_name_a_place_and_a_test():
    questions = TEXT.split("The seven questions")[1].split("\n\n")[1].splitlines()[2:]
    assert len(questions) == 7
    for row in questions:
        _, question, place, test, _ = row.split("|")
        assert "`" in place, question
        assert "`tests/" in test, question


def test_no_test_module_imports_another():
    imports = re.compile(r"^\s*(?:from|import) tests[\w.]*(?:\.| import )test_", re.MULTILINE)
    assert not [path for path in (ROOT / "tests").rglob("*.py") if imports.search(path.read_text())]
