"""Run the code blocks of a Markdown file and compare their outputs with the document.

- ```` ```python ```` blocks run in order in one namespace. Their output must equal the following
  ```` ```text ```` block, or be empty without such a block.
- ```` ```python name.py ```` blocks become files.
- ```` ```python torch ```` blocks run if the named packages are installed.
- ```` ```console ```` blocks run `$ mdf-loop ...` and `$ python file`. The lines after a command are its
  output. `$ echo $?` prints the last exit code. `git`, `make` and `cd` are not run.
- ```` ```yaml name.yaml ```` and ```` ```json name.json ```` blocks become files. Blocks without a name must
  parse.
- `...` in an output matches any text.
"""

from __future__ import annotations

import contextlib
import io
import json
import re
import runpy
import shlex
import traceback
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import yaml
from click.testing import CliRunner

from mdf_loop.cli import cli
from mdf_loop.errors import LoopError

NOT_RUN = ("git", "make", "cd", "pip")
_FENCE = re.compile(r"^```(\w*) *([^\n`]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    """A fenced block: language, words after the language, content, and number of the first line."""

    language: str
    name: str
    text: str
    line: int


def blocks(text: str) -> list[Block]:
    """Return all fenced blocks of a document."""
    return [
        Block(m[1], m[2].strip(), m[3], text.count("\n", 0, m.start(3)) + 1)
        for m in _FENCE.finditer(text)
    ]


def matches_output(expected: str, actual: str) -> bool:
    """Return True if an output matches the expected text, in which `...` matches any text."""
    parts = (re.escape(part) for part in expected.strip().split("..."))
    lines = "\n".join(line.rstrip() for line in actual.strip().splitlines())
    return re.fullmatch(".*".join(parts), lines, re.DOTALL) is not None


@dataclass
class Document:
    """A document that runs in the current folder."""

    path: Path
    names: dict[str, Any] = field(default_factory=lambda: {"__name__": "__main__"})
    exit_code: int = 0

    def run(self) -> None:
        """Run all blocks and raise an error at the first output that differs from the document."""
        all_blocks = blocks(self.path.read_text(encoding="utf-8"))
        for block, following in zip(all_blocks, [*all_blocks, None][1:], strict=True):
            match block.language:
                case "python" if block.name.endswith(".py"):
                    Path(block.name).write_text(block.text, encoding="utf-8")
                case "python" if all(map(find_spec, block.name.split())):
                    shows = following is not None and following.language == "text"
                    self._python(block, following.text if shows and following else "")
                case "console":
                    self._console(block)
                case "yaml" | "json" if block.name:
                    Path(block.name).write_text(block.text, encoding="utf-8")
                case "yaml":
                    yaml.safe_load(block.text)
                case "json":
                    json.loads(block.text)

    def _expect(self, expected: str, actual: str, line: int) -> None:
        assert matches_output(expected, actual), (
            f"{self.path}:{line} shows\n{expected.strip()}\nbut what happens is\n{actual.strip()}"
        )

    def _python(self, block: Block, expected: str) -> None:
        code = compile("\n" * (block.line - 1) + block.text, str(self.path), "exec")
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            exec(code, self.names)
        self._expect(expected, printed.getvalue(), block.line)

    def _console(self, block: Block) -> None:
        for line, command, expected in commands(block):
            words = shlex.split(command)
            if words[0] not in NOT_RUN:
                self._expect(expected, self._command(words), line)

    def _command(self, words: list[str]) -> str:
        match words:
            case ["mdf-loop", *arguments]:
                result = CliRunner().invoke(cli, arguments, prog_name="mdf-loop")
                if result.exception and not isinstance(result.exception, SystemExit):
                    raise result.exception
                self.exit_code = result.exit_code
                return result.output
            case ["python", script]:
                with contextlib.redirect_stdout(io.StringIO()) as printed:
                    try:
                        runpy.run_path(script, run_name="__main__")
                    except LoopError as error:
                        printed.write(_traceback(error, script))
                return printed.getvalue()
            case ["echo", "$?"]:
                return str(self.exit_code)
        raise AssertionError(f"{self.path}: cannot run '{shlex.join(words)}'")


def _traceback(error: Exception, script: str) -> str:
    """Return the traceback that Python prints for an error in a script."""
    frames = error.__traceback__
    while frames is not None and Path(frames.tb_frame.f_code.co_filename).name != script:
        frames = frames.tb_next
    return "".join(traceback.format_exception(error.with_traceback(frames)))


def commands(block: Block) -> Iterator[tuple[int, str, str]]:
    """Yield line number, command and expected output for each `$ ` of a console block."""
    text = block.text.replace("\\\n", "  ")
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        command, _, expected = part.partition("\n")
        yield block.line, command, expected
