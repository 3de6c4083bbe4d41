"""Errors for options of `run` that need other options, or exclude each other."""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import Any

from msgspec.structs import astuple

from mdf_loop.errors import InputError
from mdf_loop.request.model_options import NEEDS_STEPS
from mdf_loop.request.option import IN_ENGINE, ON_CLUSTER, OVER_TRIALS, Field, fields_of
from mdf_loop.request.run_options import RunOptions

_HINTS = {
    IN_ENGINE: "leave it out, or run the model compiled",
    ON_CLUSTER: "leave one of them out",
    OVER_TRIALS: "leave one of them out",
}
"""Remedy for a conflict by the text of its error."""


_FIELDS = {field.name: field for field in fields_of(RunOptions)}


def refuse_conflicts(options: RunOptions) -> None:
    """Raise an error if an option lacks another that it needs, or is invalid in this kind of run.

    Raises:
        InputError: The message names the option.
    """
    run_modes = _modes_of(options)
    for value, field in zip(astuple(options), _FIELDS.values(), strict=True):
        if value is field.default or not _is_given(value, field):  # most options have defaults
            continue
        _refuse_missing(field, options, run_modes)
        for run_mode in run_modes:
            phrase = field.option.conflicts.get(run_mode)
            if isinstance(phrase, Mapping):
                phrase = phrase.get(value)
            if phrase is not None:
                raise InputError(run_mode.format(phrase), hint=_HINTS[run_mode])


def _is_given(value: Any, field: Field) -> bool:
    """Return True if an option has another value than its default, or than an empty mapping."""
    if value is None or value is False:
        return False
    if isinstance(value, Mapping):
        return bool(value)
    if field.default is None:
        return True
    return len(value) > 0 if field.default == () else bool(value != field.default)


def _modes_of(options: RunOptions) -> tuple[str, ...]:
    """Return the kinds of run, such as a run on a cluster, that the options select.

    Each kind is represented by the error text for options that it does not support, such as
    `ON_CLUSTER`.
    """
    selection_by_mode = {
        IN_ENGINE: options.engine == "modeci",
        ON_CLUSTER: options.cluster is not None,
        OVER_TRIALS: bool(options.over_trials),
    }
    return tuple(mode for mode, is_selected in selection_by_mode.items() if is_selected)


def _refuse_missing(field: Field, options: RunOptions, modes: Container[str]) -> None:
    """Raise an error if an option needs one of several others, and none of them is given."""
    needed_options = field.option.needs
    if needed_options is None or any(
        _is_given(getattr(options, name), _FIELDS[name]) for name in needed_options.names
    ):
        return
    if needed_options is NEEDS_STEPS and IN_ENGINE in modes:
        return  # one evaluation of this engine has a time step, too
    raise InputError(needed_options.message.format(field.name), hint=needed_options.hint)
