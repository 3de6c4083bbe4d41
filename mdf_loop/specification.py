"""Specification of a run, created in the same way from Python and the command line.

    specify(RunOptions({"I": 0.5}, steps=1000, dt=1e-3, record="cell.v", time_limit="10min"))

The description is independent of a model. Words and numbers are checked, but names are not.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from operator import is_
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import Struct, field
from msgspec.structs import astuple, replace

from mdf_loop import arguments
from mdf_loop.durations import STEP_HINT, seconds
from mdf_loop.errors import InputError
from mdf_loop.memory_limit import checked_limit
from mdf_loop.paths import path_of
from mdf_loop.request.conflicts import refuse_conflicts
from mdf_loop.request.run_options import ProgressOption, RunOptions
from mdf_loop.sharing import Sharing, checked_sharing
from mdf_loop.sweeps import ComputedSweep
from mdf_loop.trials import (
    DEFAULT_DRAWS,
    NO_STATISTICS,
    Draws,
    OverTrials,
    checked_draws,
    checked_over_trials,
)

ENGINES = ("onnxruntime", "interpreter", "modeci")
"""Names of the engines: ONNX Runtime, the slow reference interpreter in NumPy, and modeci_mdf's engine.

They equal the keys of `run.backend.BACKENDS`, which this module cannot import."""

NAN_REACTIONS = ("ignore", "stop", "error")
"""Reactions to a value that becomes nan or infinite. None means a warning after the run."""

DEFAULT_CHECKPOINT_SECONDS = 60.0
"""Default number of seconds between two checkpoints."""


class Values(Struct, frozen=True):
    """Values of a run's inputs and parameters, with lists of values for sweeps.

    Attributes:
        inputs: Input values by port id.
        set: Parameter values by `node.parameter`.
        sweep: Lists of values, or a computed sweep, by the name of a parameter or input.
        state: Final state of an earlier run from which the run continues, or None.
        draws: Seed and trials of the random numbers.
    """

    inputs: Mapping[str, Any] = field(default_factory=dict)
    set: Mapping[str, Any] = field(default_factory=dict)
    sweep: Mapping[str, Any] = field(default_factory=dict)
    state: Mapping[str, Any] | None = None
    draws: Draws = DEFAULT_DRAWS


class Selection(Struct, frozen=True):
    """Names of the recorded values, the steps at which rows are recorded, and reductions.

    Attributes:
        record: Names that are recorded in addition to the outputs.
        only: Names that are recorded instead of the outputs, or None.
        every: Distance in steps between two recorded rows.
        when: Name whose value must be true in recorded rows, or None.
        reduce: Reductions over time, such as `mean`, that replace the rows of an output.
        over_trials: Statistics that replace the trials of an output.
    """

    record: tuple[str, ...] = ()
    only: tuple[str, ...] | None = None
    every: int = 1
    when: str | None = None
    reduce: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    over_trials: OverTrials = NO_STATISTICS

    @property
    def records_only_outputs(self) -> bool:
        """True if the run records exactly the outputs of the model."""
        return self.only is None and not self.extra_names

    @property
    def extra_names(self) -> tuple[str, ...]:
        """Names in `record`, `reduce` and `when`, which are computed besides the outputs."""
        condition_names = () if self.when is None else (self.when,)
        return (*self.record, *self.reduce, *condition_names)


class RunControls(Struct, frozen=True):
    """Limits, checkpoints and progress report of a run.

    See `CompiledModel.run` for the arguments.
    """

    time_limit: float | None = None
    nan: str | None = None
    progress: ProgressOption = None
    checkpoint: Path | None = None
    checkpoint_every: float = DEFAULT_CHECKPOINT_SECONDS
    resume: Path | None = None
    memory_limit: int | None = None

    @property
    def watches(self) -> bool:
        """True if all values of the model are checked for nan during the run."""
        return self.nan not in (None, "ignore")

    @property
    def is_new_run(self) -> bool:
        """True if the run starts at its first step, because it has no checkpoint to resume from."""
        resume_path = self.resume
        return resume_path is None or (resume_path == self.checkpoint and not resume_path.exists())

    @property
    def can_run_in_one_call(self) -> bool:
        """True if an evaluation may run in one call, because no option needs control during it."""
        is_controlled_midway = (
            callable(self.progress) or self.checkpoint_path is not None or self.watches
        )
        return not is_controlled_midway and (self.time_limit is None or self.time_limit > 1.0)

    @property
    def checkpoint_path(self) -> Path | None:
        """Path of the checkpoint file, by default the file from which the run resumes."""
        return self.checkpoint or self.resume


class RunSpecification(Struct, frozen=True):
    """Complete specification of a run.

    See `CompiledModel.run` for the arguments.

    Attributes:
        steps: Number of evaluations of a run over time, or None for one evaluation.
        dt: Time between two evaluations in the model's unit, or None.
        runs: Expected number of runs of this kind. Compilation to machine code may pay off for many
            runs, but not for one.
        sharing: Options for the distribution over a cluster, or None.
        options: Options of the run, of which those with a checked form elsewhere have their defaults.
    """

    values: Values = field(default_factory=Values)
    selection: Selection = Selection()
    controls: RunControls = RunControls()
    steps: int | None = None
    dt: float | None = None
    runs: int = 1
    sharing: Sharing | None = None
    options: RunOptions = RunOptions()

    @property
    def engine(self) -> str:
        """Name of the engine."""
        return self.options.engine

    @property
    def execution_list(self) -> bool:
        """True if the results list the executed nodes."""
        return self.options.execution_list

    @property
    def output(self) -> str | Path | None:
        """File for the results, or None."""
        return self.options.output

    @property
    def overwrite(self) -> bool:
        """True if the run may replace the store of another run."""
        return self.options.overwrite

    def with_options(self, **changes: Any) -> RunSpecification:
        """Return a copy of the specification with some options of the run replaced."""
        return replace(self, options=replace(self.options, **changes))

    @property
    def program_options(self) -> Hashable:
        """Hashable key of all options that determine the run's programs for given input types."""
        recording_selection, stepping_mode = self.selection, None
        if self.steps is not None:
            stepping_mode = (self.dt is not None, self.execution_list)
        return (
            recording_selection.extra_names,
            recording_selection.only,
            self.controls.watches,
            stepping_mode,
        )

    @property
    def is_new_run(self) -> bool:
        """True if the run is new: it continues no checkpoint and no store of an earlier run."""
        return self.controls.is_new_run and not (self.sharing is not None and self.sharing.resumes)

    @property
    def writes_files(self) -> bool:
        """True if the run writes its results or checkpoints to files."""
        return self.output is not None or self.controls.checkpoint_path is not None

    @property
    def store(self) -> Path | None:
        """Path of the Zarr store that the run writes, or None."""
        is_zarr = self.output is not None and Path(self.output).suffix.lower() == ".zarr"
        return Path(self.output) if is_zarr and self.output is not None else None

    @property
    def streams(self) -> bool:
        """True if this process writes rows to a Zarr store while the run computes them."""
        is_over_time = self.store is not None and self.steps is not None and self.engine != "modeci"
        return is_over_time and self.sharing is None

    @property
    def shares_store(self) -> bool:
        """True if all worker processes write their members of the sweep to one store."""
        trial_statistics = self.selection.over_trials.statistics
        return self.sharing is not None and self.store is not None and not trial_statistics


def specify(options: RunOptions) -> RunSpecification:
    """Return the checked specification of a run from the arguments of `CompiledModel.run`.

    Raises:
        InputError: An argument is invalid, or two arguments exclude each other.
    """
    if _has_only_inputs(options):  # fast path for the most frequent call
        return RunSpecification(Values(arguments.inputs(options.inputs)))
    cluster_options = checked_sharing(options)
    if cluster_options is not None:  # its store takes the place of a checkpoint
        options = replace(options, resume=None)
    arguments.word(options.engine, "engine", ENGINES)
    spec = RunSpecification(
        _build_values(options),
        _build_selection(options),
        _build_controls(options),
        None if options.steps is None else arguments.positive_integer(options.steps, "steps"),
        _checked_time_step(options.dt),
        sharing=cluster_options,
        options=replace(
            options,
            **_OPTIONS_CHECKED_ELSEWHERE,
            execution_list=arguments.flag(options.execution_list, "execution_list"),
            overwrite=arguments.flag(options.overwrite, "overwrite"),
        ),
    )
    refuse_conflicts(options)
    return spec


_OPTIONS_CHECKED_ELSEWHERE = dict.fromkeys(
    (
        *("inputs", "set", "sweep", "state", "steps", "dt", "only", "when", "reduce", "trials"),
        *("over_trials", "by", "time_limit", "memory_limit", "nan", "progress", "on_interrupt"),
        *("checkpoint", "checkpoint_every", "resume", "cluster", "block"),
    )
)
"""Options that `RunSpecification` holds in another field, or that the call itself handles."""

_OPTION_DEFAULTS = astuple(RunOptions())[1:]


def _has_only_inputs(options: RunOptions) -> bool:
    """Return True if all options except `inputs` have their defaults."""
    return all(map(is_, astuple(options)[1:], _OPTION_DEFAULTS))


def _build_values(options: RunOptions) -> Values:
    """Return the inputs, parameters, sweep, state and seed of a run, with checked types."""
    sweep = options.sweep
    if not isinstance(sweep, ComputedSweep):
        sweep = arguments.mapping(sweep, "sweep", "sweep={'node.parameter': [0.1, 0.2]}")
    return Values(
        arguments.inputs(options.inputs),
        arguments.settings(options.set),
        sweep,
        options.state,
        checked_draws(options.seed, options.trials),
    )


def _build_selection(options: RunOptions) -> Selection:
    """Return the selection of recorded values from the options of a run, with checked types."""
    recorded_names = arguments.names(options.record, "record")
    only_names, recording_condition, reductions = options.only, options.when, options.reduce
    recording_interval = (
        options.every
        if options.steps is None
        else arguments.positive_integer(options.every, "every")
    )
    return Selection(
        recorded_names,
        None if only_names is None else arguments.names(only_names, "only"),
        recording_interval,
        None
        if recording_condition is None
        else arguments.text(recording_condition, "when", "when='node.port'"),
        {} if reductions is None else _parse_reductions(reductions),
        checked_over_trials(options.over_trials, options.by),
    )


def _parse_reductions(argument: Any) -> Mapping[str, tuple[str, ...]]:
    """Return the requested reductions over time, such as `mean` or `max`, by output."""
    words_by_output = arguments.mapping(argument, "reduce", "reduce={'node.port': 'mean'}")
    return {
        output_name: _parse_reduction_words(reduction_words, f"reduce of '{output_name}'")
        for output_name, reduction_words in words_by_output.items()
    }


def _parse_reduction_words(argument: Any, what: str) -> tuple[str, ...]:
    """Return the reductions in a text or list: `mean,max` gives `mean` and `max`."""
    word_lists = (word.split(",") for word in arguments.names(argument, what))
    return tuple(word.strip() for word_list in word_lists for word in word_list)


def _build_controls(options: RunOptions) -> RunControls:
    """Return the limits and checkpoints of a run from its options, with checked values."""
    time_limit, nan_reaction, checkpoint_seconds = (
        options.time_limit,
        options.nan,
        options.checkpoint_every,
    )
    checkpoint, resume = options.checkpoint, options.resume
    if resume is True:
        raise InputError(
            "resume=True is for a store that a cluster has written",
            hint="give cluster, too; or the name of a checkpoint: resume='run.ckpt'",
        )
    return RunControls(
        None if time_limit is None else seconds(time_limit, "the time limit"),
        None if nan_reaction is None else arguments.word(nan_reaction, "nan", NAN_REACTIONS),
        options.progress,
        None if checkpoint is None else path_of(checkpoint, "the checkpoint"),
        DEFAULT_CHECKPOINT_SECONDS
        if checkpoint_seconds is None
        else seconds(checkpoint_seconds, "the time between checkpoints"),
        None
        if resume is None or resume is False
        else path_of(resume, "the checkpoint to go on from"),
        checked_limit(options.memory_limit),
    )


def _checked_time_step(dt: Any) -> float | None:
    """Return the time step of a run as a Python float, or None without a time step."""
    if dt is None:
        return None
    is_number = isinstance(dt, int | float | np.integer | np.floating) and not isinstance(dt, bool)
    if not is_number or not abs(dt) <= np.finfo(np.float64).max:
        raise InputError(f"dt must be a length of time, not {dt!r}"[:200], hint=STEP_HINT)
    if dt <= 0:
        raise InputError(f"dt must be longer than zero, but is {dt!r}", hint=STEP_HINT)
    return float(dt)
