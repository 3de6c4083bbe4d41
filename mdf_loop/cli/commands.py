"""Group of all commands of `mdf-loop`, with one module per command."""

from __future__ import annotations

import gc
import importlib
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, NoReturn

import click

from mdf_loop.cli.ending import interruption_message_and_code, signal_message
from mdf_loop.cli.show import show
from mdf_loop.cli.watchdog import watch_main_thread
from mdf_loop.errors import LoopError
from mdf_loop.paths import track_read_files
from mdf_loop.signals import has_abandoned_thread, ignore_repetitions, raising_signals
from mdf_loop.text_escaping import escape_control_characters

COMMANDS = (
    *("run", "gradient", "fit", "check", "verify", "draw"),
    *("explain", "compile", "import", "new", "cluster", "doctor", "demo"),
)
"""Names of all commands. Each command is in the module `mdf_loop.cli.<name>_command`."""


GC_THRESHOLDS = (200_000, 50, 100)
"""Thresholds of the garbage collector.

The high thresholds prevent scans of imported objects, which take a tenth of the time of a short command.
"""


class _Commands(click.Group):
    """Group of commands, whose modules are imported only when needed."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command with the name `cmd_name`, or None for an unknown name."""
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"mdf_loop.cli.{cmd_name}_command")
        command: click.Command = module.command
        return command

    def make_context(self, *args: Any, **extra: Any) -> click.Context:
        """Parse the options of the program `mdf-loop`.

        Control characters in errors are escaped.
        """
        with _escape_usage_errors():
            return super().make_context(*args, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command, and convert errors and signals to exit codes.

        For an error that the user can correct, print it on stderr, and exit with code 2.
        """
        try:
            with raising_signals(), _escape_usage_errors(), track_read_files():
                return super().invoke(ctx)
        except LoopError as error:
            show(error.report, error=True)
            ctx.exit(2)
        except BrokenPipeError:  # The reader closed the pipe, and click exits without a message.
            raise
        except OSError as error:
            file_prefix = f"'{error.filename}': " if error.filename else ""
            show(f"cannot read or write {file_prefix}{error.strerror or error}", error=True)
            ctx.exit(2)
        except KeyboardInterrupt as interruption:
            message, exit_code = interruption_message_and_code(interruption)
            signal_message.write(message, lambda text: show(text, error=True))
            ctx.exit(exit_code)


@contextmanager
def _escape_usage_errors() -> Iterator[None]:
    """Escape control characters in click's usage errors, which quote the command line."""
    try:
        yield
    except click.UsageError as error:
        raise click.UsageError(
            escape_control_characters(error.format_message()), error.ctx
        ) from None


@click.command(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="mdf-loop")
def cli() -> None:
    """Run, check, draw and export MDF models with loops."""


def run_command_line(arguments: Sequence[str]) -> None:
    """Run the program `mdf-loop` with arguments, and exit with its exit code."""
    gc.set_threshold(*GC_THRESHOLDS)
    signal_message.reset()
    with watch_main_thread():
        try:
            cli.main(list(arguments), prog_name="mdf-loop")
        except SystemExit as end:
            if has_abandoned_thread():  # Python's finalization would break the thread
                _exit_at_once(end)
            raise
        finally:
            ignore_repetitions()


def _exit_at_once(system_exit: SystemExit) -> NoReturn:
    """End the process with an exit code, without Python's finalization."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(
        system_exit.code
        if isinstance(system_exit.code, int)
        else 0
        if system_exit.code is None
        else 1
    )
