"""Releases: contents of wheel and sdist, and one version number everywhere."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
import yaml

from mdf_loop.version import __version__

ROOT = Path(__file__).parents[1]

PACKAGE_PATTERNS = (
    r"[\w/]+\.py",
    r"py\.typed",
    r"(demo|starts)/\w+\.yaml",
    r"native/trampolines/[\w-]+\.(so|dylib|dll|c)",
    r"[\w/.-]+\.(js|css|html)",
    r"[\w/.-]*LICEN[CS]E[\w.-]*",
)
"""Patterns of the files in `mdf_loop`: modules and their data files."""

SDIST_ENTRIES = {
    *(
        ".ci",
        ".gitignore",
        "CHANGELOG.md",
        "CITATION.cff",
        "CONTRIBUTING.md",
        "LICENSE",
        "Makefile",
    ),
    *("PKG-INFO", "README.md", "benchmarks", "docs", "examples", "mdf_loop", "pyproject.toml"),
    "tests",
}
"""Entries of an sdist: the repository, so that its tests and documents can run."""


def sources(folder: Path) -> set[str]:
    """Return the files of the package in the working tree."""
    paths = (path for path in (folder / "mdf_loop").rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix() for path in paths if path.suffix != ".pyc"}


def unexpected_files(names: set[str]) -> list[str]:
    """Return the package files that match no allowed pattern."""
    allowed = re.compile("mdf_loop/(" + "|".join(PACKAGE_PATTERNS) + ")")
    return sorted(name for name in names if not allowed.fullmatch(name))


def test_the_package_has_no_unexpected_files():
    assert unexpected_files(sources(ROOT)) == []


def test_unexpected_files_are_listed():
    assert unexpected_files({"mdf_loop/a.py", "mdf_loop/notes.txt"}) == ["mdf_loop/notes.txt"]


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> Path:
    """Build sdist and wheel from a copy without git; the wheel is built from the sdist."""
    tree, target = tmp_path_factory.mktemp("tree") / "mdf_loop", tmp_path_factory.mktemp("dist")
    ignored = shutil.ignore_patterns(".git", ".venv*", "_build", "__pycache__", ".*_cache", "dist")
    shutil.copytree(ROOT, tree, ignore=ignored)
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", target, tree]
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stdout + process.stderr
    return target


@pytest.mark.slow
def test_the_wheel_contains_exactly_the_package(built):
    (wheel,) = built.glob("*.whl")
    assert wheel.name == f"mdf_loop-{__version__}-py3-none-any.whl"
    names = set(zipfile.ZipFile(wheel).namelist())
    info = {name for name in names if name.startswith(f"mdf_loop-{__version__}.dist-info/")}
    assert names - info == sources(ROOT)
    assert {name.split("/", 1)[1] for name in info} == {
        *("METADATA", "RECORD", "WHEEL", "entry_points.txt", "licenses/LICENSE"),
        "licenses/mdf_loop/drawing/page/elkjs/LICENSE.md",
    }


@pytest.mark.slow
def test_the_sdist_contains_exactly_the_repository(built):
    (sdist,) = built.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {name.split("/")[0] for name in names} == SDIST_ENTRIES
    assert {name for name in names if name.startswith("mdf_loop/")} == sources(ROOT)
    generated = re.compile(r"(^|/)(__pycache__|_build|\.\w+_cache|dist|\.venv)(/|$)")
    assert [name for name in names if generated.search(name)] == []


@pytest.mark.slow
def test_twine_accepts_the_metadata(built):
    files = [str(path) for path in built.iterdir()]
    command = [sys.executable, "-m", "twine", "check", "--strict", *files]
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stdout
    assert process.stdout.count("PASSED") == 2


# --- the version ------------------------------------------------------------------------------


def test_the_citation_names_this_version():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["version"] == __version__
    assert {"cff-version", "message", "title", "authors", "license"} <= set(citation)


def test_a_tag_of_this_commit_is_this_version():
    command = ["git", "-C", str(ROOT), "tag", "--points-at", "HEAD"]
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    tags = [tag for tag in process.stdout.split() if tag.startswith("v")]
    assert tags in ([], [f"v{__version__}"])


def test_sections_of_the_changelog_have_version_and_date():
    heads = re.findall(r"^## (.*)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert heads[0] == "Unreleased"
    assert all(re.fullmatch(r"\[\d+\.\d+\.\d+\] - \d{4}-\d\d-\d\d", head) for head in heads[1:])
