"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

_F = TypeVar("_F", bound=Callable[..., Any])

COMPILED = ("device", "precision", "shapes", "max_iterations", "unroll", "native", "threads")
"""Options that are passed to `compile`."""

model_argument = click.argument("model", type=click.Path())


def input_options(command: _F) -> _F:
    """Add `--input name=value` and `--inputs file`."""
    command = click.option(
        "--inputs",
        "files",
        multiple=True,
        metavar="FILE",
        help="Read inputs by name from a .json, .npz or .csv file; in a csv a row is a step, a "
        "column `time` must agree with --dt, and `step` is ignored.",
    )(command)
    return click.option(
        "--input",
        "pairs",
        multiple=True,
        metavar="NAME=VALUE",
        help="Give an input by port id (node.port where ambiguous), e.g. --input x='[1, 2.5]', "
        "or a column of a file: --input x=file.csv:column.",
    )(command)


def set_option(command: _F) -> _F:
    """Add `--set node.parameter=value`."""
    return click.option(
        "--set",
        "settings",
        multiple=True,
        metavar="NODE.PARAMETER=VALUE",
        help="Set a parameter; of one that keeps a state, what it starts from.",
    )(command)


def sweep_option(command: _F) -> _F:
    """Add `--sweep name=values`."""
    return click.option(
        "--sweep",
        multiple=True,
        metavar="NAME=VALUES",
        help="Run for each value of a parameter or input at once: a list, or first:last:number. "
        "Several are swept member by member.",
    )(command)


grid_option = click.option(
    "--grid",
    multiple=True,
    metavar="NAME=VALUES",
    help="Sweep over each of these values with each of another --grid: cell.g=0:1:100.",
)


def cluster_options(command: _F) -> _F:
    """Add `--cluster`, `--block` and `--retries`."""
    for option in (
        click.option(
            "--retries",
            type=int,
            default=5,
            show_default=True,
            help="Run a block again whose worker has died, so often.",
        ),
        click.option(
            "--block",
            type=int,
            help="How many members a worker computes at once; what takes 10 s if nothing is said.",
        ),
        cluster_option,
    ):
        command = option(command)
    return command


cluster_option = click.option(
    "--cluster",
    metavar="N|ADDRESS|FILE",
    help="Who computes: so many processes, a Dask scheduler (tcp://host:8786), or a YAML file "
    "with slurm: or ssh:.",
)


dt_option = click.option(
    "--dt",
    metavar="TIME",
    help="The time between one evaluation and the next: a number in the model's unit of time "
    "(seconds, if it states none), or with a unit: 0.5ms.",
)


def time_options(command: _F) -> _F:
    """Add `--steps` and `--dt`."""
    for option in (
        dt_option,
        click.option(
            "--steps", type=int, help="Evaluate the model this often; outputs get an axis of time."
        ),
    ):
        command = option(command)
    return command


seed_option = click.option(
    "--seed",
    default="0",
    show_default=True,
    help="Which random numbers the model draws: a whole number, or fresh for a new one.",
)


def draws_options(command: _F) -> _F:
    """Add `--seed` and `--trials`."""
    for option in (
        click.option(
            "--trials",
            metavar="N|FIRST:END|LIST",
            help="Run so many trials at once, each with random numbers of its own; or these.",
        ),
        seed_option,
    ):
        command = option(command)
    return command


def over_trials_options(command: _F) -> _F:
    """Add `--over-trials` and `--by`."""
    for option in (
        click.option(
            "--by",
            metavar="NAME",
            help="Tell --over-trials apart for each value of this output, e.g. the response.",
        ),
        click.option(
            "--over-trials",
            multiple=True,
            metavar="NAME=WORDS",
            help="Give the mean, var, std, min, max, count, quantiles:0.1:0.5:0.9 or "
            "histogram:first:last:edges over all trials instead of each: rt=mean,var.",
        ),
    ):
        command = option(command)
    return command


def device_option(command: _F) -> _F:
    """Add `--device`, for commands that run a model."""
    return click.option("--device", default="auto", show_default=True, help="auto, cpu or cuda.")(
        command
    )


def native_option(command: _F) -> _F:
    """Add `--native`, for commands that run a compiled model."""
    return click.option(
        "--native",
        default="auto",
        show_default=True,
        help="Run loops as machine code: auto, those that can be; off; require.",
    )(command)


def threads_option(command: _F) -> _F:
    """Add `--threads`, for commands that run a compiled model."""
    return click.option(
        "--threads",
        type=int,
        help="The most threads that compute, those of native loops included; as many as this process "
        "may use if nothing is said.",
    )(command)


def loop_condition_option(command: _F) -> _F:
    """Add `--loop-condition`, for commands that open ONNX files."""
    return click.option(
        "--loop-condition",
        default="document",
        show_default=True,
        metavar="WORD",
        help="How an .onnx file's Loop is read that has no condition input, but a body that computes "
        "a condition: document ignores it, runtime ends the loop when it is false.",
    )(command)


def compile_options(command: _F) -> _F:
    """Add the options that affect the program of a model."""
    for option in (
        loop_condition_option,
        click.option(
            "--unroll",
            type=int,
            help="Write out loops of a constant number of iterations, of at most so many.",
        ),
        click.option(
            "--max-iterations",
            type=int,
            help="The most iterations that a loop without a trip count may run.",
        ),
        click.option(
            "--shapes",
            default="strict",
            show_default=True,
            help="strict: carried values keep their shape; dynamic: they may change it.",
        ),
        click.option(
            "--precision", default="float64", show_default=True, help="float64 or float32."
        ),
    ):
        command = option(command)
    return command
