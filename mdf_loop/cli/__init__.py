"""The command line: one file per command, each one parses, calls and prints."""

from __future__ import annotations

import gc
import importlib
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import click

from mdf_loop.cli.ending import word_and_code
from mdf_loop.cli.show import show
from mdf_loop.errors import LoopError
from mdf_loop.paths import noting
from mdf_loop.signals import heeded, let_echoes_pass
from mdf_loop.visible import visible

COMMANDS = (
    *("run", "gradient", "fit", "check", "verify", "draw"),
    *("explain", "compile", "import", "new", "cluster", "doctor", "demo"),
)
"""Every command; `mdf_loop.cli.<name>_command` holds it."""


SELDOM = (200_000, 50, 100)
"""How often garbage is looked for: what is imported stays, and to look through it takes a tenth of a short command."""


class _Commands(click.Group):
    """Loads a command's module when the command is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"mdf_loop.cli.{cmd_name}_command")
        command: click.Command = module.command
        return command

    def make_context(self, *args: Any, **extra: Any) -> click.Context:
        """Read what stands before the command's name."""
        with _visible_usage_errors():
            return super().make_context(*args, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; what the user can mend is said in one error, exit code 2."""
        try:
            with _visible_usage_errors(), noting():
                return super().invoke(ctx)
        except LoopError as error:
            show(str(error), error=True)
            ctx.exit(2)
        except BrokenPipeError:  # the reader of a pipe went away: click ends quietly
            raise
        except OSError as error:
            place = f"'{error.filename}': " if error.filename else ""
            show(f"cannot read or write {place}{error.strerror or error}", error=True)
            ctx.exit(2)
        except KeyboardInterrupt as ended:
            word, code = word_and_code(ended)
            show(word, error=True)
            ctx.exit(code)


@contextmanager
def _visible_usage_errors() -> Iterator[None]:
    """Errors of click repeat what stands on the command line."""
    try:
        yield
    except click.UsageError as error:
        raise click.UsageError(visible(error.format_message()), error.ctx) from None


@click.command(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="mdf-loop")
def cli() -> None:
    """Run, check, draw and export MDF models with loops."""


def main(arguments: Sequence[str] | None = None) -> None:
    """The program `mdf-loop`."""
    gc.set_threshold(*SELDOM)
    with heeded():
        try:
            cli.main(list(sys.argv[1:] if arguments is None else arguments), prog_name="mdf-loop")
        finally:
            let_echoes_pass()
