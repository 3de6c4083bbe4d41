"""All options of `run`: one field for each, with its type, default, meaning and form on the command line.

These fields determine the signature and the docstring of `CompiledModel.run`, the tables of the Python
reference, and the options of the command line. They also determine the errors for options that need or
exclude each other.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, TypeAlias

from mdf_loop.request.option import IN_ENGINE, ON_CLUSTER, OVER_TRIALS, Option, Requirement, flag
from mdf_loop.request.recording_options import RecordingOptions

ProgressOption: TypeAlias = bool | Callable[[Any], Any] | None
"""Argument `progress`: a flag for the progress bar, or a function (see `run.control.progress`)."""

DEFAULT_RETRIES = 5
"""Default number of times that a block is run again after its worker died."""

OUTPUT_STORE = "the store of --output"
"""Text of `--resume` without a file, which resumes from the store of `--output`."""

LIMITS = "Limits"
FILES = "Files"
CLUSTER = "Cluster"

NEEDS_CHECKPOINT = Requirement(
    ("checkpoint", "resume"),
    "a time between checkpoints needs a file for them",
    "give checkpoint (--checkpoint), too",
)

_NO_CHECKPOINT = (
    "a checkpoint: its store says what is computed, and resume=True continues the store"
)


class RunOptions(RecordingOptions, frozen=True, kw_only=True):
    """Arguments of `CompiledModel.run`, as the user gave them."""

    time_limit: Annotated[
        float | str | None,
        Option(
            LIMITS,
            "Time after which the run [is stopped](../how-to/long-runs.md#stop-it): a number of "
            'seconds, or a text such as `"10min"` or `"1h 30min"`.',
            (
                flag(
                    "--time-limit",
                    "Stop the run after this time (in seconds, or 10min, 2h), and print the "
                    "results so far.",
                    metavar="TIME",
                ),
            ),
            conflicts={IN_ENGINE: "time limit"},
        ),
    ] = None

    memory_limit: Annotated[
        float | str | None,
        Option(
            LIMITS,
            "Largest [memory](../how-to/long-runs.md#stop-it) of the process: a number of bytes, "
            'or a text such as `"4GB"`. A run that is known to need more memory is refused, and a '
            "run that exceeds the limit is stopped, with a "
            "[`MemoryLimitError`](errors.md#memorylimiterror) whose `results` are the results "
            "until then. With None, the limit is three quarters of the memory of the machine or "
            "its container.",
            (
                flag(
                    "--memory-limit",
                    "Memory limit of the program: 4GB, 512MiB. The default is three quarters of "
                    "the machine's memory.",
                    metavar="SIZE",
                ),
            ),
            conflicts={IN_ENGINE: "memory limit"},
        ),
    ] = None

    nan: Annotated[
        str | None,
        Option(
            LIMITS,
            "Reaction to a value that [becomes nan or infinite](../how-to/watch-for-nan.md): "
            '`"ignore"`, `"stop"` (stop the run there) or `"error"` (raise an error, with the '
            "results until then in `error.results`). With None, the run is completed. If an "
            "output or a state is nan or infinite at the end, a `RuntimeWarning` and a sentence "
            "in `results.notes` name it.",
            (
                flag(
                    "--nan",
                    "Reaction to a value that becomes nan or infinite: ignore, stop (end the run "
                    "there), or error. By default, the run is completed, and the command then "
                    "reports the value on standard error.",
                    metavar="WORD",
                ),
            ),
            conflicts={
                IN_ENGINE: {"stop": "watch for nan", "error": "watch for nan"},
                ON_CLUSTER: {"stop": "nan='stop': members do not stop one another"},
            },
        ),
    ] = None

    progress: Annotated[
        ProgressOption,
        Option(
            LIMITS,
            "True for a progress bar on standard error, False for no progress bar, None for a "
            "progress bar only if standard error is a terminal; or a function. The function "
            "receives a [`Progress`](#mdf_loopprogress). If the function returns False, the run "
            "is stopped.",
            (
                flag(
                    "--quiet",
                    "Show no progress.",
                    name="quiet",
                    is_flag=True,
                ),
            ),
        ),
    ] = None

    on_interrupt: Annotated[
        str | None,
        Option(
            LIMITS,
            'Effect of Ctrl-C: `"raise"` raises `KeyboardInterrupt`, and `"return"` returns the '
            "results so far. With None, a script raises, and an [interactive "
            "session](../how-to/long-runs.md#stop-it) returns.",
        ),
    ] = None

    output: Annotated[
        str | Path | None,
        Option(
            FILES,
            "File for the results, which is also written if the run is stopped. If the name ends "
            "with `.zarr`, rows are written to a folder [during the "
            "run](../how-to/stream-to-disk.md), and do not remain in memory. All other files are "
            "written at the end.",
            (
                flag(
                    "--output",
                    "Save the results as .npz, .json, .csv, .h5 or .nc at the end, or as .zarr "
                    "during the run.",
                    metavar="FILE",
                ),
            ),
        ),
    ] = None

    overwrite: Annotated[
        bool,
        Option(
            FILES,
            "With True, a `.zarr` folder of another run is replaced, if that run [is "
            "finished](../how-to/stream-to-disk.md#exclusive-access-to-a-store).",
            (
                flag(
                    "--overwrite",
                    "Replace the .zarr folder of another run, if that run has ended.",
                    is_flag=True,
                ),
            ),
        ),
    ] = False

    checkpoint: Annotated[
        str | Path | None,
        Option(
            FILES,
            "File for *checkpoints*: [the data from which the run can be "
            "resumed](../how-to/checkpoint-and-resume.md). Each checkpoint replaces the previous "
            "checkpoint.",
            (
                flag(
                    "--checkpoint",
                    "Write this file periodically and at the end, so that --resume can resume the "
                    "run.",
                    metavar="FILE",
                ),
            ),
            conflicts={
                ON_CLUSTER: _NO_CHECKPOINT,
                IN_ENGINE: "checkpoint",
                OVER_TRIALS: "a checkpoint",
            },
        ),
    ] = None

    checkpoint_every: Annotated[
        float | str | None,
        Option(
            FILES,
            "Time between two checkpoints, written like `time_limit`. With None, one minute.",
            (
                flag(
                    "--checkpoint-every",
                    "Time between two checkpoints (in seconds, or 30s, 5min, 1h). Default: one "
                    "minute.",
                    metavar="TIME",
                ),
            ),
            needs=NEEDS_CHECKPOINT,
            conflicts={ON_CLUSTER: _NO_CHECKPOINT},
        ),
    ] = None

    resume: Annotated[
        str | Path | bool | None,
        Option(
            FILES,
            "Checkpoint file of an earlier run with the same model and arguments, which this run "
            "resumes. If `checkpoint` is None, new checkpoints replace this file. With `cluster`, "
            "True resumes the run whose results are in the `.zarr` folder `output`.",
            (
                flag(
                    "--resume",
                    "Resume a run from a checkpoint file of the same command. With --cluster, "
                    "omit FILE: the run is resumed from the .zarr folder of --output.",
                    metavar="[FILE]",
                    is_flag=False,
                    flag_value=OUTPUT_STORE,
                ),
            ),
            conflicts={IN_ENGINE: "checkpoint", OVER_TRIALS: "a checkpoint"},
        ),
    ] = None

    cluster: Annotated[
        Any,
        Option(
            CLUSTER,
            "[Worker processes](../how-to/run-on-a-cluster.md) that share a sweep or trials: a "
            "number of processes on this machine, of one thread each; the address of a Dask "
            "scheduler (`tcp://host:8786`); a `dask.distributed.Client`; or a YAML file with a "
            "section `slurm:` or `ssh:`. The workers write a `.zarr` output, and `resume=True` "
            "computes only the missing blocks of that output.",
            (
                flag(
                    "--cluster",
                    "Worker processes that share the computation: a number of processes on this "
                    "machine, the address of a Dask scheduler (tcp://host:8786), or a YAML file "
                    "with a section slurm: or ssh:.",
                    metavar="N|ADDRESS|FILE",
                ),
            ),
            needs=Requirement(
                ("sweep", "trials"),
                "a cluster shares the members of a sweep, or trials, and there are none",
                "give sweep or trials, or leave cluster out",
            ),
        ),
    ] = None

    block: Annotated[
        int | None,
        Option(
            CLUSTER,
            "Number of members or trials in a *block*, which one worker process computes at once. "
            "With None, a block takes about 10 s.",
            (
                flag(
                    "--block",
                    "Number of members of the sweep, or of trials, in a block, which one worker "
                    "process computes at once. By default, a block takes about 10 s.",
                    type=int,
                ),
            ),
            needs=Requirement(
                ("cluster",), "a block is for a cluster", "give cluster (--cluster), too"
            ),
        ),
    ] = None

    retries: Annotated[
        int,
        Option(
            CLUSTER,
            "Largest number of times that a block is computed again after its worker process died.",
            (
                flag(
                    "--retries",
                    "Maximum number of times to compute a block again after its worker process "
                    "died.",
                    type=int,
                    default=DEFAULT_RETRIES,
                    show_default=True,
                ),
            ),
            needs=Requirement(
                ("cluster",), "retries are for a cluster", "give cluster (--cluster), too"
            ),
        ),
    ] = DEFAULT_RETRIES
