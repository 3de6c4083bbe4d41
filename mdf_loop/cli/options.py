"""Command-line options that several commands share."""

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
        help="Read inputs by name from a .json, .npz or .csv file. Each row of a csv file is the input of one step. "
        "A column `time` must increase by --dt from row to row, and a column `step` is ignored.",
    )(command)
    return click.option(
        "--input",
        "pairs",
        multiple=True,
        metavar="NAME=VALUE",
        help="Value of an input: --input x='[1, 2.5]', or a column of a file: --input x=file.csv:column. NAME is the "
        "id of an input port, or node.port if several nodes have a port with this id.",
    )(command)


def set_option(command: _F) -> _F:
    """Add the option `--set node.parameter=value` to a command."""
    return click.option(
        "--set",
        "settings",
        multiple=True,
        metavar="NODE.PARAMETER=VALUE",
        help="Value of a parameter. For a state (a parameter whose value each step passes to the next), the initial value.",
    )(command)


def sweep_option(command: _F) -> _F:
    """Add the option `--sweep name=values` to a command."""
    return click.option(
        "--sweep",
        multiple=True,
        metavar="NAME=VALUES",
        help="Run the model for several values of a parameter or input at once: a list of values, or "
        "first:last:number for this number of evenly spaced values. Several --sweep options must have "
        "equally many values: the first run has the first value of each, and so on.",
    )(command)


grid_option = click.option(
    "--grid",
    multiple=True,
    metavar="NAME=VALUES",
    help="Run the model for all combinations of the values of all --grid options: cell.g=0:1:100.",
)


def cluster_options(command: _F) -> _F:
    """Add the options `--cluster`, `--block` and `--retries` to a command."""
    for option in (
        click.option(
            "--retries",
            type=int,
            default=5,
            show_default=True,
            help="Maximum number of times to compute a block again after its worker process died.",
        ),
        click.option(
            "--block",
            type=int,
            help="Number of members of the sweep, or of trials, in a block, which one worker process computes at once. By "
            "default, a block takes about 10 s.",
        ),
        cluster_option,
    ):
        command = option(command)
    return command


cluster_option = click.option(
    "--cluster",
    metavar="N|ADDRESS|FILE",
    help="Worker processes that share the computation: a number of processes on this machine, the address of a Dask "
    "scheduler (tcp://host:8786), or a YAML file with a section slurm: or ssh:.",
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
            "--steps",
            type=int,
            help="Run the model over time, with this number of evaluations (steps). Outputs get a time axis.",
        ),
    ):
        command = option(command)
    return command


seed_option = click.option(
    "--seed",
    default="0",
    show_default=True,
    help="Seed of the random numbers: an integer, or fresh for a seed that differs in each run.",
)


def draws_options(command: _F) -> _F:
    """Add the options `--seed` and `--trials` to a command."""
    for option in (
        click.option(
            "--trials",
            metavar="N|FIRST:END|LIST",
            help="Number of trials (runs with different random numbers), or the numbers of the trials: a list, or "
            "FIRST:END without END.",
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
            help="Output, such as a choice: compute the statistics of --over-trials separately for each of its values.",
        ),
        click.option(
            "--over-trials",
            multiple=True,
            metavar="NAME=WORDS",
            help="Return statistics of an output over all trials instead of its value in each trial: rt=mean,var. "
            "Statistics: mean, var, std, min, max, count, quantiles:0.1:0.5:0.9, and "
            "histogram:first:last:number with this number of bin edges.",
        ),
    ):
        command = option(command)
    return command


def device_option(command: _F) -> _F:
    """Add the option `--device` to a command that runs a model."""
    return click.option(
        "--device",
        default="auto",
        show_default=True,
        help="Device: cpu, cuda, or auto for the faster of the two.",
    )(command)


def native_option(command: _F) -> _F:
    """Add the option `--native` to a command that runs a compiled model."""
    return click.option(
        "--native",
        default="auto",
        show_default=True,
        help="Run loops as machine code: auto (if faster), off (never), or require (otherwise an error).",
    )(command)


def threads_option(command: _F) -> _F:
    """Add the option `--threads` to a command that runs a compiled model."""
    return click.option(
        "--threads",
        type=int,
        help="Maximum number of threads, including those of loops that run as machine code. The default is the number "
        "of processors that this process may use.",
    )(command)


def loop_condition_option(command: _F) -> _F:
    """Add the option `--loop-condition` to a command that opens ONNX files."""
    return click.option(
        "--loop-condition",
        default="document",
        show_default=True,
        metavar="WORD",
        help="Rule for a Loop in an .onnx file that has no condition input, but whose body computes "
        "a condition: document ignores the condition, runtime ends the loop when the condition is false.",
    )(command)


def compile_options(command: _F) -> _F:
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
