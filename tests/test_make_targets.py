"""The Makefile: commands of each target, and messages if a program is missing."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")


def make(*arguments: str, folder: Path = ROOT) -> subprocess.CompletedProcess[str]:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("MAKE")}
    return subprocess.run(
        ["make", "--no-print-directory", *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def test_help_lists_every_target():
    help_text = make().stdout
    targets = re.search(r"\.PHONY: (.*)", (ROOT / "Makefile").read_text())[1].split()
    assert re.findall(r"make (\w+)", help_text) == targets


def test_the_readme_and_ci_use_these_targets():
    readme, ci = (ROOT / "README.md").read_text(), (ROOT / ".ci" / "run").read_text()
    for target in ("make demo", "make test"):
        assert target in readme
    assert "\nmake test\n" in ci
    assert re.search(r"\nmake lowest &\nmake release\n(.*\n)*wait \$!\n", ci)
    assert re.search(r"git clone .*\nmake -C .* demo\n", ci)
    assert os.access(ROOT / ".ci" / "run", os.X_OK)


def test_test_runs_every_check(tmp_path):
    commands = make("--dry-run", "test", f"VENV={tmp_path}/venv").stdout
    for command in ("ruff check", "ruff format --check", "mypy", "pytest", ".[dev]"):
        assert command in commands
    assert "slow" not in commands


def test_quick_runs_every_check_but_slow_tests(tmp_path):
    commands = make("--dry-run", "quick", f"VENV={tmp_path}/venv").stdout
    for command in ("ruff check", "ruff format --check", "mypy", '-m "not slow"', ".[dev]"):
        assert command in commands
    assert "-m slow" not in commands


def test_cover_requires_95_percent(tmp_path):
    assert "--cov-fail-under=95" in make("--dry-run", "cover", f"VENV={tmp_path}/venv").stdout


def test_lowest_has_its_own_environment(tmp_path):
    commands = make("--dry-run", "lowest", f"VENV={tmp_path}/venv").stdout
    environment = f"{tmp_path}/venv-lowest"
    assert f".ci/lowest.py > {environment}/floors.txt\n" in commands
    assert f"--constraint {environment}/floors.txt --editable '.[dev]'" in commands
    assert f"{environment}/bin/mdf-loop demo" in commands
    (tests,) = re.findall(rf"{environment}/bin/pytest .*", commands)
    for name in re.findall(r"tests/\S+", tests):
        assert (ROOT / name).exists(), name


def test_docs_generates_parts_and_builds_the_site(tmp_path):
    commands = make("--dry-run", "docs", f"VENV={tmp_path}/venv").stdout
    python = f"{tmp_path}/venv/bin/python"
    assert commands.endswith(f"{python} docs/generate.py\n{python} -m docs.site\n")


def test_release_tests_the_wheel_in_a_new_environment(tmp_path):
    commands = make("--dry-run", "release", f"VENV={tmp_path}/venv").stdout
    environment = f"{tmp_path}/venv-wheel"
    steps = (
        " -m build --outdir dist .",
        " -m twine check --strict dist/*",
        f"venv --clear {environment}",
    )
    checks = (
        f"{environment}/bin/python -m pip install",
        f"{environment}/bin/mdf-loop demo --output {environment}",
    )
    positions = [commands.index(step) for step in (*steps, *checks)]
    assert positions == sorted(positions)
    assert "--editable" not in commands[positions[2] :]


def test_an_up_to_date_environment_is_not_reinstalled(tmp_path):
    (tmp_path / "bin").mkdir()
    for name in ("bin/python", "installed"):
        (tmp_path / name).touch()
    later = (ROOT / "pyproject.toml").stat().st_mtime + 10
    os.utime(tmp_path / "installed", (later, later))
    commands = make("--dry-run", "demo", f"VENV={tmp_path}").stdout
    assert commands == f"{tmp_path}/bin/mdf-loop demo\n"


@pytest.mark.parametrize(
    ("script", "sentence"),
    [
        (None, "no 'python-for-tests' here: install Python >= 3.11"),
        ('case "$2" in *version_info*) exit 1;; esac', "is too old: Python >= 3.11 is needed"),
        ('case "$2" in *ensurepip*) exit 1;; esac', "has no venv: install it first"),
    ],
)
def test_a_missing_python_has_a_one_line_message(tmp_path, monkeypatch, script, sentence):
    if script:
        (tmp_path / "python-for-tests").write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / "python-for-tests").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    process = make("demo", f"VENV={tmp_path}/venv", "PYTHON=python-for-tests", "GET_VENV=false")
    assert process.returncode != 0
    first, *_ = process.stderr.splitlines()
    assert sentence in first
    assert not (tmp_path / "venv").exists()


def test_clean_removes_generated_files(tmp_path):
    shutil.copy(ROOT / "Makefile", tmp_path)
    for name in (
        ".venv",
        ".venv-lowest",
        ".venv-wheel",
        "docs/_build",
        "demo-output",
        "package/__pycache__",
        "package",
    ):
        (tmp_path / name).mkdir(parents=True, exist_ok=True)
    assert make("clean", folder=tmp_path).returncode == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["Makefile", "docs", "package"]
    assert not [*(tmp_path / "package").iterdir(), *(tmp_path / "docs").iterdir()]
