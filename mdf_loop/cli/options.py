"""Command-line options that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click
from msgspec import Struct
from msgspec.structs import replace

from mdf_loop.request.option import Flag, fields_of
from mdf_loop.request.run_options import RunOptions

_Command = TypeVar("_Command", bound=Callable[..., Any])

COMPILER_OPTIONS = (
    "device",
    "precision",
    "shapes",
    "max_iterations",
    "unroll",
    "native",
    "threads",
)
"""Names of the options that are passed to `compile`."""

model_argument = click.argument("model", type=click.Path())


def run_options(*names: str) -> Callable[[_Command], _Command]:
    """Return a decorator that adds options of `mdf-loop run` to a command, selected by name."""
    return options_of(RunOptions, *names)


def options_of(options: type[Struct], *names: str) -> Callable[[_Command], _Command]:
    """Return a decorator that adds the command-line options of some API arguments to a command.

    The value of each is among the options of the command under its name, or under the `name` of its flag.
    """

    def decorate(command: _Command) -> _Command:
        for flag in reversed(list_flags(*names, options=options)):
            command = flag_option(flag)(command)
        return command

    return decorate


def list_flags(*names: str, options: type[Struct] = RunOptions) -> list[Flag]:
    """Return the command-line options of some API arguments, with missing names filled in."""
    fields_by_name = {field.name: field for field in fields_of(options)}
    return [
        replace(flag, name=flag.name or name)
        for name in names
        for flag in fields_by_name[name].option.flags
    ]


def flag_option(flag: Flag) -> Callable[[_Command], _Command]:
    """Return a decorator that adds one option to a command."""
    return click.option(flag.spelling, flag.name, help=flag.help, **flag.settings)


def device_option(command: _Command) -> _Command:
    """Add the option `--device` to a command that runs a model."""
    return click.option(
        "--device",
        default="auto",
        show_default=True,
        help="Device: cpu, cuda, or auto for the faster of the two.",
    )(command)


def native_option(command: _Command) -> _Command:
    """Add the option `--native` to a command that runs a compiled model."""
    return click.option(
        "--native",
        default="auto",
        show_default=True,
        help="Run loops as machine code: auto (if faster), off (never), or require (otherwise an error).",
    )(command)


def threads_option(command: _Command) -> _Command:
    """Add the option `--threads` to a command that runs a compiled model."""
    return click.option(
        "--threads",
        type=int,
        help="Maximum number of threads, including those of loops that run as machine code. The default is the number "
        "of processors that this process may use.",
    )(command)


def loop_condition_option(command: _Command) -> _Command:
    """Add the option `--loop-condition` to a command that opens ONNX files."""
    return click.option(
        "--loop-condition",
        default="document",
        show_default=True,
        metavar="WORD",
        help="Rule for a Loop in an .onnx file that has no condition input, but whose body computes "
        "a condition: document ignores the condition, runtime ends the loop when the condition is false.",
    )(command)


def compile_options(command: _Command) -> _Command:
    """Add the options for the compilation of a model to a command."""
    for option in (
        loop_condition_option,
        click.option(
            "--unroll",
            type=int,
            help="Unroll loops (replace a loop by copies of its body) whose number of iterations is constant and at most "
            "this number. By default, no loop is unrolled.",
        ),
        click.option(
            "--max-iterations",
            type=int,
            help="Maximum number of iterations of each loop that has no trip count (no M).",
        ),
        click.option(
            "--shapes",
            default="strict",
            show_default=True,
            help="Shapes of the values that a loop passes from one iteration to the next: strict (must stay the same), or "
            "dynamic (may change).",
        ),
        click.option(
            "--precision",
            default="float64",
            show_default=True,
            help="Dtype of floats: float64 or float32.",
        ),
    ):
        command = option(command)
    return command
