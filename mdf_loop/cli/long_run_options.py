"""Options of `mdf-loop run` about recording, limits, checkpoints and resuming.

--every 10                   record only every tenth step
--checkpoint-every 5min      write a checkpoint every five minutes
--reduce cell.v=mean,max     record the mean and the maximum of cell.v instead of its rows
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

import click

from mdf_loop.errors import InputError

_F = TypeVar("_F", bound=Callable[..., Any])

OUTPUT_STORE = "the store of --output"
"""Value of `--resume` without FILE, which resumes from the store of `--output`."""


def recording_options(command: _F) -> _F:
    """Add options for recording rows to a command: `--record`, `--only`, `--every`, ..."""
    for option in (
        click.option(
            "--reduce",
            multiple=True,
            metavar="NAME=WORDS",
            help="Record the mean, sum, last, min or max of an output over all steps, instead of the value of each step: "
            "v=mean,max.",
        ),
        click.option(
            "--when",
            metavar="NAME",
            help="Record only the steps in which this Boolean value is true.",
        ),
        click.option(
            "--every",
            metavar="N",
            help="Record only the first step and every N-th step after it.",
        ),
        click.option(
            "--only",
            multiple=True,
            metavar="NAME",
            help="Record this value instead of the model's outputs.",
        ),
        click.option(
            "--record",
            multiple=True,
            metavar="NAME",
            help="Record node.port, node.parameter or node.function in addition to the outputs.",
        ),
    ):
        command = option(command)
    return command


def limit_options(command: _F) -> _F:
    """Add the options `--memory-limit` and `--time-limit` to a command."""
    for option in (
        click.option(
            "--memory-limit",
            metavar="SIZE",
            help="Memory limit of the program: 4GB, 512MiB. The default is three quarters of the "
            "machine's memory.",
        ),
        click.option(
            "--time-limit",
            metavar="TIME",
            help="Stop the run after this time (in seconds, or 10min, 2h), and print the results so far.",
        ),
    ):
        command = option(command)
    return command


def stopping_options(command: _F) -> _F:
    """Add options for limits and resuming to a command: `--time-limit`, `--checkpoint`, ..."""
    command = limit_options(command)
    for option in (
        click.option("--quiet", is_flag=True, help="Show no progress."),
        click.option(
            "--resume",
            metavar="[FILE]",
            is_flag=False,
            flag_value=OUTPUT_STORE,
            help="Resume a run from a checkpoint file of the same command. With --cluster, omit FILE: the run is "
            "resumed from the .zarr folder of --output.",
        ),
        click.option(
            "--checkpoint-every",
            metavar="TIME",
            help="Time between two checkpoints (in seconds, or 30s, 5min, 1h). Default: one minute.",
        ),
        click.option(
            "--checkpoint",
            metavar="FILE",
            help="Write this file periodically and at the end, so that --resume can resume the run.",
        ),
        click.option(
            "--nan",
            metavar="WORD",
            help="Reaction to a value that becomes nan or infinite: ignore, stop (end the run there), or error. By "
            "default, the run is completed, and the command then reports the value on standard error.",
        ),
    ):
        command = option(command)
    return command


def long_run_arguments(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments of a run specification from the command-line options for long runs.

    Raises:
        InputError: The value of an option is invalid.
    """
    return {
        "record": options["record"],
        "only": options["only"] or None,
        "when": options["when"],
        "reduce": read_reductions(options["reduce"]),
        "every": 1 if options["every"] is None else read_every(options["every"]),
        "nan": options["nan"],
        "time_limit": options["time_limit"],
        "memory_limit": options["memory_limit"],
        "checkpoint": options["checkpoint"],
        "checkpoint_every": options["checkpoint_every"],
        "resume": True if options["resume"] == OUTPUT_STORE else options["resume"],
        "progress": False if options["quiet"] else None,
    }


def read_every(text: str) -> int:
    """Parse `--every`, the number of steps from one recorded row to the next.

    Raises:
        InputError: The text is a time, or not a whole number.
    """
    from mdf_loop.durations import has_unit

    if has_unit(text):
        raise InputError(
            f"--every '{text}' is a time, but --every counts rows",
            hint=f"write --checkpoint-every {text} for the time between checkpoints",
        )
    try:
        return int(text)
    except ValueError:
        raise InputError(
            f"--every '{text}' is not a whole number of rows",
            hint="e.g. --every 10 for the rows of every tenth step",
        ) from None


def read_reductions(pairs: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Return the reductions over time from `--reduce` options, by output."""
    reductions: dict[str, tuple[str, ...]] = {}
    for assignment in pairs:
        name, _, reductions_text = (side.strip() for side in assignment.partition("="))
        reduction_names = tuple(
            reduction_name.strip() for reduction_name in reductions_text.split(",")
        )
        if not name or not all(reduction_names):
            raise InputError(
                f"--reduce '{assignment}' is not NAME=WORDS", hint="e.g. --reduce cell.v=mean,max"
            )
        reductions[name] = (*reductions.get(name, ()), *reduction_names)
    return reductions
