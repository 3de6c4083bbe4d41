"""Conversion of command-line options to arguments of `CompiledModel.run`.

--every 10                   {"every": 10}
--reduce cell.v=mean,max     {"reduce": {"cell.v": ("mean", "max")}}
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from mdf_loop.cli.inputs import (
    read_cluster,
    read_over_trials,
    read_seed,
    read_settings,
    read_trials,
)
from mdf_loop.cli.options import list_flags
from mdf_loop.durations import has_unit
from mdf_loop.errors import InputError
from mdf_loop.request.option import fields_of
from mdf_loop.request.run_options import OUTPUT_STORE, RunOptions


def read_run_arguments(options: Mapping[str, Any]) -> dict[str, Any]:
    """Convert each command-line option that alone determines an argument of `run`.

    Raises:
        InputError: The value of an option is invalid.
    """
    arguments = {}
    for argument_field in fields_of(RunOptions):
        flags = list_flags(argument_field.name)
        if len(flags) == 1:
            option_text = options[flags[0].name]
            arguments[argument_field.name] = (
                _OPTION_READERS[argument_field.name](option_text)
                if argument_field.name in _OPTION_READERS
                else option_text
            )
    return arguments


def read_every(text: str | None) -> int:
    """Parse `--every`, the number of steps from one recorded row to the next, 1 by default.

    Raises:
        InputError: The text is a time, or not a whole number.
    """
    if text is None:
        return 1
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


def _read_resume(text: str | None) -> str | bool | None:
    """Parse `--resume` as a file name, or as True for the store of `--output`."""
    return True if text == OUTPUT_STORE else text


_OPTION_READERS: Mapping[str, Callable[[Any], Any]] = {
    "cluster": read_cluster,
    "every": read_every,
    "only": lambda names: names or None,
    "over_trials": read_over_trials,
    "reduce": read_reductions,
    "resume": _read_resume,
    "seed": read_seed,
    "set": read_settings,
    "trials": read_trials,
}
"""Functions that convert the text of an option, by the name of the argument of `run`."""
