"""The pre-commit hook checks model files and fails for invalid models."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from mdf_loop.cli import cli
from mdf_loop.demo import DEMOS

(HOOK,) = yaml.safe_load((Path(__file__).parents[1] / ".pre-commit-hooks.yaml").read_text())


def test_the_hook_has_the_required_keys() -> None:
    assert HOOK.keys() == {"id", "name", "description", "entry", "language", "files"}
    assert (HOOK["id"], HOOK["language"]) == ("mdf-loop-check", "python")


@pytest.mark.parametrize(
    ("name", "is_model"),
    [
        ("a.mdf.yaml", True),
        ("models/b.mdf.yml", True),
        ("c.mdf.json", True),
        ("ci.yaml", False),
        ("package.json", False),
        ("a.mdf.yaml.bak", False),
    ],
)
def test_the_hook_selects_files_by_name(name: str, is_model: bool) -> None:
    assert bool(re.search(HOOK["files"], name)) is is_model


def test_the_hook_fails_for_an_invalid_model(tmp_path: Path) -> None:
    program, *words = shlex.split(HOOK["entry"])
    assert program == "mdf-loop"
    valid_models = [str(demo.path) for demo in DEMOS]
    invalid_model = tmp_path / "wrong.mdf.yaml"
    invalid_model.write_text(
        "m: {graphs: {g: {nodes: {n: {output_ports: {y: {value: missing}}}}}}}"
    )
    assert CliRunner().invoke(cli, [*words, *valid_models]).exit_code == 0
    assert CliRunner().invoke(cli, [*words, *valid_models, str(invalid_model)]).exit_code != 0
