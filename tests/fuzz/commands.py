"""A command in a folder: it ends in a result or in one clear error, and touches nothing outside.

The command runs in this process, as `mdf-loop` would run it.
"""

from __future__ import annotations

import os
from pathlib import Path

from click.testing import CliRunner, Result

from mdf_loop.cli import cli
from tests.fuzz.chain import PYTHON_SPEAK, stopped_after
from tests.fuzz.scenes import Scene

LONGEST_RUN = 8.0
LONGEST_ERROR = 20_000
ENDED_WELL = (0, 1)
"""Exit codes of results; 1 is `verify`'s for numbers that differ."""

STOPPED = (130,)
REFUSED = 2
VICTIM = b"what nobody may touch"


def command_outcome(scene: Scene, folder: Path) -> str:
    """What came of the command: `result ...`, or the first line of its error.

    Raises:
        AssertionError: it ended in another way, or something outside of its folder was touched.
    """
    (folder / "victim").mkdir()
    (folder / "victim" / "file").write_bytes(VICTIM)
    work = folder / "work"
    work.mkdir()
    scene.write(work)
    before = Path.cwd()
    os.chdir(work)
    try:
        with stopped_after(LONGEST_RUN):
            ended = CliRunner().invoke(cli, list(scene.words))
    finally:
        os.chdir(before)
    outcome = _judged(ended)
    assert _outside(folder) == {"victim": None, "victim/file": VICTIM, "work": None}
    return outcome


def _judged(ended: Result) -> str:
    if ended.exception is not None and not isinstance(ended.exception, SystemExit):
        raise ended.exception
    if ended.exit_code in STOPPED:
        return "result: a long run, which could be stopped"
    assert ended.exit_code in (*ENDED_WELL, REFUSED), f"exit {ended.exit_code}: {ended.output}"
    for text in (ended.stdout, ended.stderr):
        unprintable = [
            letter for letter in set(text) if not letter.isprintable() and letter not in "\n\t"
        ]
        assert not unprintable, f"printed raw: {unprintable}"
    if ended.exit_code != REFUSED:
        return "result"
    error = ended.stderr.strip()
    assert error, "an error that says nothing"
    assert len(error) < LONGEST_ERROR, f"an error of {len(error)} characters: {error[:300]}"
    assert not PYTHON_SPEAK.search(error), f"not in a modeller's words: {error}"
    return error.splitlines()[0]


def _outside(folder: Path) -> dict[str, bytes | None]:
    """All that is there but for the insides of `work`."""
    contents = {}
    for path in folder.rglob("*"):
        name = path.relative_to(folder).as_posix()
        if not name.startswith("work/"):
            contents[name] = path.read_bytes() if path.is_file() else None
    return contents
