"""Run a command in a folder and check that it ends in a result or one clear error.

The command must not touch files outside of its folder. It runs in the test process, as `mdf-loop` would.
"""

from __future__ import annotations

import os
from pathlib import Path

from click.testing import CliRunner, Result

from mdf_loop.cli import cli
from tests.fuzz.chain import PYTHON_INTERNALS, interrupt_after
from tests.fuzz.scenes import Scene

MAX_RUN_SECONDS = 8.0
MAX_ERROR_LENGTH = 20_000
RESULT_CODES = (0, 1)
"""Exit codes of results; `verify` returns 1 for different numbers."""

INTERRUPTED_CODES = (130,)
ERROR_CODE = 2
OUTSIDE_CONTENT = b"must not be touched"


def command_outcome(scene: Scene, folder: Path) -> str:
    """Return `result ...`, or the first line of the command's error.

    Raises:
        AssertionError: The command ended in another way or changed a file outside of its folder.
    """
    (folder / "victim").mkdir()
    (folder / "victim" / "file").write_bytes(OUTSIDE_CONTENT)
    work = folder / "work"
    work.mkdir()
    scene.write(work)
    before = Path.cwd()
    os.chdir(work)
    try:
        with interrupt_after(MAX_RUN_SECONDS):
            invocation = CliRunner().invoke(cli, list(scene.words))
    finally:
        os.chdir(before)
    outcome = _outcome_of(invocation)
    assert _outside_files(folder) == {"victim": None, "victim/file": OUTSIDE_CONTENT, "work": None}
    return outcome


def _outcome_of(invocation: Result) -> str:
    if invocation.exception is not None and not isinstance(invocation.exception, SystemExit):
        raise invocation.exception
    if invocation.exit_code in INTERRUPTED_CODES:
        return "result: a long run, which could be stopped"
    assert invocation.exit_code in (*RESULT_CODES, ERROR_CODE), (
        f"exit {invocation.exit_code}: {invocation.output}"
    )
    for text in (invocation.stdout, invocation.stderr):
        unprintable = [
            letter for letter in set(text) if not letter.isprintable() and letter not in "\n\t"
        ]
        assert not unprintable, f"printed raw: {unprintable}"
    if invocation.exit_code != ERROR_CODE:
        return "result"
    error = invocation.stderr.strip()
    assert error, "an error that says nothing"
    assert len(error) < MAX_ERROR_LENGTH, f"an error of {len(error)} characters: {error[:300]}"
    assert not PYTHON_INTERNALS.search(error), f"not in a modeller's words: {error}"
    return error.splitlines()[0]


def _outside_files(folder: Path) -> dict[str, bytes | None]:
    """Return the content of all files and folders except those in `work`."""
    contents = {}
    for path in folder.rglob("*"):
        name = path.relative_to(folder).as_posix()
        if not name.startswith("work/"):
            contents[name] = path.read_bytes() if path.is_file() else None
    return contents
