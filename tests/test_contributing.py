"""CONTRIBUTING.md names files, tables and targets that there are, and every room and folder of tests."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "CONTRIBUTING.md").read_text()
PATHS = sorted({path for path in re.findall(r"`([\w./-]+)`", TEXT) if "/" in path})
TABLES = re.findall(r"`([A-Z_]+)` \(`([\w/.]+)`\)", TEXT)


@pytest.mark.parametrize("path", PATHS)
def test_a_path_that_is_named_is_there(path):
    folders = (ROOT, ROOT / "mdf_loop")
    assert path.startswith(".venv/") or any((folder / path).exists() for folder in folders)


@pytest.mark.parametrize(("name", "path"), TABLES, ids=[name for name, _ in TABLES])
def test_a_table_that_is_named_is_in_its_file(name, path):
    assert re.search(rf"^{name}\b", (ROOT / "mdf_loop" / path).read_text(), re.MULTILINE)


def test_every_room_is_in_the_list():
    folders = TEXT.split("## Folders of the package")[1].split("\n## ")[0]
    rooms = {path.parent.name for path in (ROOT / "mdf_loop").glob("*/__init__.py")} - {
        "demo",
        "starts",
    }
    assert not {room for room in rooms if f"`{room}/`" not in folders}


def test_every_folder_of_tests_mirrors_a_room_or_is_explained():
    folders = {path.parent.name for path in (ROOT / "tests").glob("*/*.py")}
    mirrors = {path.name for path in (ROOT / "mdf_loop").iterdir()}
    assert not {name for name in folders - mirrors if f"`tests/{name}/`" not in TEXT}


def test_the_seven_questions_have_one_answer_each():
    questions = TEXT.split("The seven questions")[1].split("\n\n")[1].splitlines()[2:]
    assert len(questions) == 7
    for row in questions:
        _, question, place, test, _ = row.split("|")
        assert "`" in place, question
        assert "`tests/" in test, question


def test_no_test_imports_another():
    imports = re.compile(r"^\s*(?:from|import) tests[\w.]*(?:\.| import )test_", re.MULTILINE)
    assert not [path for path in (ROOT / "tests").rglob("*.py") if imports.search(path.read_text())]
