"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

_F = TypeVar("_F", bound=Callable[..., Any])

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


def input_options(command: _F) -> _F:
    """Add the options `--input name=value` and `--inputs file` to a command."""
    command = click.option(
        "--inputs",
        "files",
        multiple=True,
        metavar="FILE",
        help="Read inputs by name from a .json, .npz or .csv file. A row of a csv file is a step. A "
        "column `time` must agree with --dt, and a column `step` is ignored.",
    )(command)
    return click.option(
        "--input",
        "pairs",
        multiple=True,
        metavar="NAME=VALUE",
        help="Value of an input, by port id (node.port where ambiguous), e.g. --input x='[1, 2.5]', "
        "or a column of a file: --input x=file.csv:column.",
    )(command)


def set_option(command: _F) -> _F:
    """Add the option `--set node.parameter=value` to a command."""
    return click.option(
        "--set",
        "settings",
        multiple=True,
        metavar="NODE.PARAMETER=VALUE",
        help="Value of a parameter, or initial value of a state.",
    )(command)


def sweep_option(command: _F) -> _F:
    """Add the option `--sweep name=values` to a command."""
    return click.option(
        "--sweep",
        multiple=True,
        metavar="NAME=VALUES",
        help="Run for all values of a parameter or input at once: a list, or first:last:number of values. "
        "Several --sweep options must have equally many values, which are combined one by one.",
    )(command)


grid_option = click.option(
    "--grid",
    multiple=True,
    metavar="NAME=VALUES",
    help="Sweep over all combinations of the values of all --grid options: cell.g=0:1:100.",
)


def cluster_options(command: _F) -> _F:
    """Add the options `--cluster`, `--block` and `--retries` to a command."""
    for option in (
        click.option(
            "--retries",
            type=int,
            default=5,
            show_default=True,
            help="Maximum number of times to run a block of members again after its worker died.",
        ),
        click.option(
            "--block",
            type=int,
            help="Number of members in a block, which a worker computes at once. A default block takes about 10 s.",
        ),
        cluster_option,
    ):
        command = option(command)
    return command


cluster_option = click.option(
    "--cluster",
    metavar="N|ADDRESS|FILE",
    help="Cluster for the computation: a number of processes, the address of a Dask scheduler (tcp://host:8786), "
    "or a YAML file with a section slurm: or ssh:.",
)


dt_option = click.option(
    "--dt",
    metavar="TIME",
    help="Time between two evaluations: a number in the model's unit of time "
    "(seconds if the model states none), or a number with a unit: 0.5ms.",
)


def time_options(command: _F) -> _F:
    """Add the options `--steps` and `--dt` to a command."""
    for option in (
        dt_option,
        click.option(
            "--steps", type=int, help="Number of evaluations over time. Outputs get a time axis."
        ),
    ):
        command = option(command)
    return command


seed_option = click.option(
    "--seed",
    default="0",
    show_default=True,
    help="Seed of the random numbers: an integer, or fresh for a new seed.",
)


def draws_options(command: _F) -> _F:
    """Add the options `--seed` and `--trials` to a command."""
    for option in (
        click.option(
            "--trials",
            metavar="N|FIRST:END|LIST",
            help="Number of trials to run at once, each with its own random numbers, or the numbers of the trials.",
        ),
        seed_option,
    ):
        command = option(command)
    return command


def over_trials_options(command: _F) -> _F:
    """Add the options `--over-trials` and `--by` to a command."""
    for option in (
        click.option(
            "--by",
            metavar="NAME",
            help="Compute the statistics of --over-trials separately for each value of this output, such as a response.",
        ),
        click.option(
            "--over-trials",
            multiple=True,
            metavar="NAME=WORDS",
            help="Compute the mean, var, std, min, max, count, quantiles:0.1:0.5:0.9 or "
            "histogram:first:last:edges over all trials instead of the value of each trial: rt=mean,var.",
        ),
    ):
        command = option(command)
    return command


def device_option(command: _F) -> _F:
    """Add the option `--device` to a command that runs a model."""
    return click.option(
        "--device", default="auto", show_default=True, help="Device: auto, cpu or cuda."
    )(command)


def native_option(command: _F) -> _F:
    """Add the option `--native` to a command that runs a compiled model."""
    return click.option(
        "--native",
        default="auto",
        show_default=True,
        help="Run loops as machine code: auto (if possible), off, or require.",
    )(command)


def threads_option(command: _F) -> _F:
    """Add the option `--threads` to a command that runs a compiled model."""
    return click.option(
        "--threads",
        type=int,
        help="Maximum number of threads, including the threads of native loops. The default is the number of "
        "processors that this process may use.",
    )(command)


def loop_condition_option(command: _F) -> _F:
    """Add the option `--loop-condition` to a command that opens ONNX files."""
    return click.option(
        "--loop-condition",
        default="document",
        show_default=True,
        metavar="WORD",
        help="Meaning of a Loop in an .onnx file that has no condition input, but whose body computes "
        "a condition: document ignores the condition, runtime ends the loop when the condition is false.",
    )(command)


def compile_options(command: _F) -> _F:
    """Decorate a command with the options that determine how a model is compiled."""
    for option in (
        loop_condition_option,
        click.option(
            "--unroll",
            type=int,
            help="Unroll loops whose number of iterations is constant and at most this number.",
        ),
        click.option(
            "--max-iterations",
            type=int,
            help="Maximum number of iterations of a loop without a trip count.",
        ),
        click.option(
            "--shapes",
            default="strict",
            show_default=True,
            help="Shapes of carried values: strict (constant), or dynamic (may change in each iteration).",
        ),
        click.option(
            "--precision",
            default="float64",
            show_default=True,
            help="Precision of floats: float64 or float32.",
        ),
    ):
        command = option(command)
    return command
