"""Options of `mdf-loop run` about what is kept of a run, what stops it, and how it goes on.

--every 10 --every 5min      rows of every tenth step; five minutes between checkpoints
--reduce cell.v=mean,max     instead of the rows of cell.v, its mean and its largest value
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

import click

from mdf_loop.errors import InputError

_F = TypeVar("_F", bound=Callable[..., Any])

THE_STORE = "the store of --output"
"""What `--resume` without a file goes on with."""


def keeping_options(command: _F) -> _F:
    """What is kept of a run: `--record`, `--only`, `--every`, `--when`, `--reduce`."""
    for option in (
        click.option(
            "--reduce",
            multiple=True,
            metavar="NAME=WORDS",
            help="Give the mean, sum, last, min or max over all steps instead of rows: v=mean,max.",
        ),
        click.option("--when", metavar="NAME", help="Keep only the rows in which this is true."),
        click.option(
            "--every",
            multiple=True,
            metavar="N|TIME",
            help="Keep only the rows of every so many steps; or, with a unit (5min), write a "
            "checkpoint so often. May be given for both.",
        ),
        click.option(
            "--only",
            multiple=True,
            metavar="NAME",
            help="Give this instead of the model's outputs.",
        ),
        click.option(
            "--record",
            multiple=True,
            metavar="NAME",
            help="Give node.port, node.parameter or node.function too.",
        ),
    ):
        command = option(command)
    return command


def stopping_options(command: _F) -> _F:
    """What is watched and how a run goes on: `--time-limit`, `--nan`, `--checkpoint`, ..."""
    for option in (
        click.option("--quiet", is_flag=True, help="Show no progress."),
        click.option(
            "--resume",
            metavar="[FILE]",
            is_flag=False,
            flag_value=THE_STORE,
            help="Go on from a checkpoint of the same command; with --cluster from the store of "
            "--output, which needs no FILE.",
        ),
        click.option(
            "--checkpoint",
            metavar="FILE",
            help="Write again and again all that --resume needs, every minute unless --every says.",
        ),
        click.option(
            "--nan",
            metavar="WORD",
            help="When a value becomes nan or infinite: ignore, stop there, or error; if nothing is "
            "said, a line on stderr after the run tells it.",
        ),
        click.option(
            "--memory-limit",
            metavar="SIZE",
            help="How much memory the program may have: 4GB, 512MiB; three quarters of the "
            "machine's if nothing is said.",
        ),
        click.option(
            "--time-limit",
            metavar="TIME",
            help="Stop after so many seconds, or 10min, 2h; what was reached is given.",
        ),
    ):
        command = option(command)
    return command


def long_run_arguments(options: Mapping[str, Any]) -> dict[str, Any]:
    """What of a run specification these options mean.

    Raises:
        InputError: an option cannot be read.
    """
    return {
        "record": options["record"],
        "only": options["only"] or None,
        "when": options["when"],
        "reduce": read_reductions(options["reduce"]),
        **read_every(options["every"]),
        "nan": options["nan"],
        "time_limit": options["time_limit"],
        "memory_limit": options["memory_limit"],
        "checkpoint": options["checkpoint"],
        "resume": True if options["resume"] == THE_STORE else options["resume"],
        "progress": False if options["quiet"] else None,
    }


def read_every(texts: Iterable[str]) -> dict[str, Any]:
    """`every` and `checkpoint_every`, by whether there is a unit."""
    found: dict[str, Any] = {}
    for text in texts:
        name, value = _one_every(text)
        if name in found:
            raise InputError(f"--every is given twice for {_MEANS[name]}", hint=_EVERY)
        found[name] = value
    return found


_MEANS = {"every": "rows", "checkpoint_every": "checkpoints"}

_EVERY = "e.g. --every 10 for the rows of every tenth step, --every 5min for checkpoints"


def _one_every(text: str) -> tuple[str, Any]:
    from mdf_loop.durations import has_unit, seconds

    if has_unit(text):
        return "checkpoint_every", seconds(text, "the time between checkpoints")
    try:
        return "every", int(text)
    except ValueError:
        raise InputError(
            f"--every '{text}' is neither a whole number of steps nor a time with a unit",
            hint=_EVERY,
        ) from None


def read_reductions(pairs: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """The words for each name."""
    found: dict[str, tuple[str, ...]] = {}
    for pair in pairs:
        name, _, text = (part.strip() for part in pair.partition("="))
        words = tuple(word.strip() for word in text.split(","))
        if not name or not all(words):
            raise InputError(
                f"--reduce '{pair}' is not NAME=WORDS", hint="e.g. --reduce cell.v=mean,max"
            )
        found[name] = (*found.get(name, ()), *words)
    return found
