"""Shell completion: the answers to shells, and completion in bash, zsh and fish themselves."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from mdf_loop.cli import COMMANDS
from mdf_loop.cli import cli as commands

SHELLS = ("bash", "zsh", "fish")


def run_completion(instruction: str, **variables: str) -> str:
    invocation = CliRunner().invoke(
        commands, [], prog_name="mdf-loop", env={"_MDF_LOOP_COMPLETE": instruction, **variables}
    )
    assert invocation.exit_code == 0
    return invocation.stdout


def bash_completions(command_line: str) -> set[str]:
    """Return the completions that bash offers for the last of some words."""
    number = str(len(command_line.split(" ")) - 1)
    lines = run_completion("bash_complete", COMP_WORDS=command_line, COMP_CWORD=number).splitlines()
    return {line.partition(",")[2] for line in lines}


def test_commands_options_and_kinds_are_offered():
    assert bash_completions("mdf-loop ") == set(COMMANDS)
    assert bash_completions("mdf-loop c") == {"check", "compile", "cluster"}
    assert bash_completions("mdf-loop run --st") == {"--steps"}
    assert bash_completions("mdf-loop new ") == {"neuron", "decision", "loop"}


def test_files_are_left_to_the_shell():
    assert run_completion("bash_complete", COMP_WORDS="mdf-loop run ", COMP_CWORD="2") == "file,\n"


def test_zsh_and_fish_show_descriptions():
    zsh = run_completion("zsh_complete", COMP_WORDS="mdf-loop ver", COMP_CWORD="1").splitlines()
    assert zsh[:2] == ["plain", "verify"]
    assert zsh[2].startswith("Compare")
    fish = run_completion("fish_complete", COMP_WORDS="mdf-loop ver", COMP_CWORD="ver")
    assert fish.startswith("plain\tverify") or fish.startswith("plain,verify")


@pytest.mark.parametrize("shell", SHELLS)
def test_each_shell_gets_its_script(shell):
    script = run_completion(f"{shell}_source")
    assert f"_MDF_LOOP_COMPLETE={shell}_complete" in script
    assert "mdf-loop" in script


@pytest.fixture
def path(tmp_path: Path) -> str:
    """Return a PATH with the program `mdf-loop` of this checkout."""
    program = tmp_path / "mdf-loop"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m mdf_loop "$@"\n')
    program.chmod(0o755)
    return os.pathsep.join((str(tmp_path), os.environ["PATH"]))


SHELL_SCRIPTS = {
    "bash": 'eval "$(_MDF_LOOP_COMPLETE=bash_source mdf-loop)"\n'
    "COMP_WORDS=(mdf-loop ver); COMP_CWORD=1\n"
    '_mdf_loop_completion mdf-loop\necho "${COMPREPLY[@]}"',
    "zsh": "autoload -Uz compinit && compinit -u\n"
    'eval "$(_MDF_LOOP_COMPLETE=zsh_source mdf-loop)"\necho ${_comps[mdf-loop]}',
    "fish": '_MDF_LOOP_COMPLETE=fish_source mdf-loop | source\ncomplete -C"mdf-loop ver"',
}
COMPLETIONS = {"bash": "verify", "zsh": "_mdf_loop_completion", "fish": "verify"}


@pytest.mark.slow
@pytest.mark.parametrize("shell", SHELLS)
def test_completion_in_the_shell(shell, path):
    if shutil.which(shell) is None:
        pytest.skip(f"there is no {shell} here")
    process = subprocess.run(
        [shell, "-c", SHELL_SCRIPTS[shell]],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "PATH": path, "PYTHONPATH": str(Path(__file__).parents[2])},
    )
    assert process.returncode == 0, process.stderr
    assert process.stdout.split()[:1] == [COMPLETIONS[shell]], process.stderr
