"""Command line program `mdf-loop`.

This module imports few modules, so that the program handles signals before its other imports. The commands
are in `mdf_loop.cli.commands`, with one module per command.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from mdf_loop.cli.ending import end_process
from mdf_loop.signals import handling_signals


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the program `mdf-loop` with arguments, by default the arguments of the process."""
    with handling_signals(end_process, to_the_end=arguments is None):
        from mdf_loop.cli.commands import run_command_line

        run_command_line(sys.argv[1:] if arguments is None else arguments)


def __getattr__(name: str) -> Any:
    """Return an attribute of `mdf_loop.cli.commands`, which is imported on first use."""
    if name not in ("cli", "COMMANDS"):
        raise AttributeError(f"module 'mdf_loop.cli' has no attribute '{name}'")
    from mdf_loop.cli import commands

    return getattr(commands, name)
