"""Specification of a run, created in the same way from Python and the command line.

    specify({"I": 0.5}, steps=1000, dt=1e-3, record="cell.v", time_limit="10min")

The description is independent of a model. Words and numbers are checked, but names are not.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from operator import is_
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from msgspec import Struct, field
from msgspec.structs import replace

from mdf_loop import arguments
from mdf_loop.durations import STEP_HINT, seconds
from mdf_loop.errors import InputError
from mdf_loop.memory_limit import checked_limit
from mdf_loop.paths import path_of
from mdf_loop.sharing import (
    DEFAULT_RETRIES,
    Sharing,
    checked_sharing,
    checkpoint_error,
    resumes_store,
)
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

ProgressOption: TypeAlias = "bool | Callable[[Any], Any] | None"
"""Argument `progress`: a flag for the progress bar, or a function (see `run.control.progress`)."""


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
        return self.only is None and not self.named

    @property
    def named(self) -> tuple[str, ...]:
        """Names in `record`, `reduce` and `when`, whose values the run also computes."""
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
    def begins(self) -> bool:
        """True if the run starts at its first step, as it has no checkpoint to resume from."""
        path = self.resume
        return path is None or (path == self.checkpoint and not path.exists())

    @property
    def is_patient(self) -> bool:
        """True if no option requires dividing the run into short segments."""
        is_observed = callable(self.progress) or self.checkpoint_path is not None or self.watches
        return not is_observed and (self.time_limit is None or self.time_limit > 1.0)

    @property
    def checkpoint_path(self) -> Path | None:
        """Path of the checkpoint file, by default the file from which the run resumes."""
        return self.checkpoint or self.resume


_DEFAULT_SELECTION, _DEFAULT_CONTROLS = Selection(), RunControls()


class RunSpecification(Struct, frozen=True):
    """Complete specification of a run.

    See `CompiledModel.run` for the arguments.

    Attributes:
        steps: Number of evaluations of a run over time, or None for one evaluation.
        dt: Time between two evaluations in the model's unit, or None.
        runs: Expected number of runs of this kind. Compilation to machine code may pay off for many
            runs, but not for one.
        sharing: Options for the distribution over a cluster, or None.
    """

    values: Values = field(default_factory=Values)
    selection: Selection = _DEFAULT_SELECTION
    controls: RunControls = _DEFAULT_CONTROLS
    steps: int | None = None
    dt: float | None = None
    execution_list: bool = False
    engine: str = "onnxruntime"
    output: str | Path | None = None
    overwrite: bool = False
    runs: int = 1
    sharing: Sharing | None = None

    @property
    def program_options(self) -> Hashable:
        """Hashable key of all options that determine the run's programs for given input types."""
        selection, stepping_mode = self.selection, None
        if self.steps is not None:
            stepping_mode = (self.dt is not None, self.execution_list)
        return selection.named, selection.only, self.controls.watches, stepping_mode

    @property
    def begins(self) -> bool:
        """True if the run starts at its first step."""
        return self.controls.begins and not (self.sharing is not None and self.sharing.resumes)

    @property
    def writes(self) -> bool:
        """True if the run writes files."""
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


def specify(
    inputs: Mapping[str, Any] | None = None,
    *,
    record: Sequence[str] = (),
    only: Sequence[str] | None = None,
    set: Mapping[str, Any] | None = None,
    sweep: Mapping[str, Any] | None = None,
    steps: int | None = None,
    dt: float | None = None,
    every: int = 1,
    when: str | None = None,
    reduce: Mapping[str, str | Sequence[str]] | None = None,
    over_trials: Mapping[str, Any] | None = None,
    by: str | None = None,
    state: Mapping[str, Any] | None = None,
    seed: int | str = 0,
    trials: int | Sequence[int] | None = None,
    execution_list: bool = False,
    engine: str = "onnxruntime",
    time_limit: float | str | None = None,
    nan: str | None = None,
    progress: ProgressOption = None,
    output: str | Path | None = None,
    overwrite: bool = False,
    checkpoint: str | Path | None = None,
    checkpoint_every: float | str | None = None,
    resume: str | Path | bool | None = None,
    memory_limit: float | str | None = None,
    cluster: Any = None,
    block: int | None = None,
    retries: int = DEFAULT_RETRIES,
) -> RunSpecification:
    """Return the specification of a run from the arguments of `CompiledModel.run`.

    Raises:
        InputError: An argument is invalid, or two arguments exclude each other.
    """
    all_arguments: tuple[Any, ...] = (record, only, set, sweep, steps, dt, every, when, reduce)
    all_arguments += (
        over_trials,
        by,
        state,
        seed,
        trials,
        execution_list,
        engine,
        time_limit,
        nan,
        progress,
        output,
        overwrite,
    )
    all_arguments += (checkpoint, checkpoint_every, resume, memory_limit, cluster, block, retries)
    if all(map(is_, all_arguments, _DEFAULT_ARGUMENTS)):  # fast path: most calls give inputs only
        return RunSpecification(Values(arguments.inputs(inputs)))
    values = Values(
        arguments.inputs(inputs),
        {} if set is None else arguments.settings(set),
        sweep
        if isinstance(sweep, ComputedSweep)
        else arguments.mapping(sweep, "sweep", _SWEEP_EXAMPLE),
        state,
        checked_draws(seed, trials),
    )
    selection = _build_selection(record, only, every, when, reduce)
    if over_trials is not None or by is not None:
        selection = replace(selection, over_trials=checked_over_trials(over_trials, by, trials))
    sharing = checked_sharing(cluster, block, retries)
    if sharing is not None:
        if checkpoint is not None or checkpoint_every is not None:
            raise checkpoint_error()
        sharing, resume = replace(sharing, resumes=resumes_store(resume, output)), None
    controls = _build_controls(
        time_limit, nan, progress, checkpoint, checkpoint_every, resume, memory_limit
    )
    spec = RunSpecification(
        values,
        selection,
        controls,
        steps,
        dt,
        arguments.flag(execution_list, "execution_list"),
        arguments.word(engine, "engine", ENGINES),
        output,
        arguments.flag(overwrite, "overwrite"),
        sharing=sharing,
    )
    return _checked_time(spec)


_DEFAULT_ARGUMENTS = tuple((specify.__kwdefaults__ or {}).values())
_SWEEP_EXAMPLE = "sweep={'node.parameter': [0.1, 0.2]}"


def _build_selection(record: Any, only: Any, every: Any, when: Any, reduce: Any) -> Selection:
    """Return the selection of recorded values from a run's arguments, with checked types."""
    recorded_names = arguments.names(record, "record")
    records_all_rows = type(every) is int and every == 1 and when is None and reduce is None
    if records_all_rows and not recorded_names and only is None:
        return _DEFAULT_SELECTION
    return Selection(
        recorded_names,
        None if only is None else arguments.names(only, "only"),
        every,
        None if when is None else arguments.text(when, "when", "when='node.port'"),
        {} if reduce is None else _parse_reductions(reduce),
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


def _build_controls(
    time_limit: Any,
    nan: str | None,
    progress: ProgressOption,
    checkpoint: str | Path | None,
    checkpoint_every: Any,
    resume: str | Path | bool | None,
    memory_limit: Any,
) -> RunControls:
    """Return the limits and checkpoints of a run from its arguments, with checked values."""
    if nan is not None:
        arguments.word(nan, "nan", NAN_REACTIONS)
    if isinstance(resume, bool):
        if resume:
            raise InputError(
                "resume=True is for a store that a cluster has written",
                hint="give cluster, too; or the name of a checkpoint: resume='run.ckpt'",
            )
        resume = None
    has_checkpoint_file = checkpoint is not None or resume is not None
    has_limit = time_limit is not None or memory_limit is not None
    if not (
        has_checkpoint_file or has_limit or checkpoint_every is not None or progress is not None
    ):
        return _DEFAULT_CONTROLS if nan == _DEFAULT_CONTROLS.nan else RunControls(nan=nan)
    if checkpoint_every is not None and not has_checkpoint_file:
        raise InputError(
            "a time between checkpoints needs a file for them",
            hint="give checkpoint (--checkpoint), too",
        )
    return RunControls(
        None if time_limit is None else seconds(time_limit, "the time limit"),
        nan,
        progress,
        None if checkpoint is None else path_of(checkpoint, "the checkpoint"),
        DEFAULT_CHECKPOINT_SECONDS
        if checkpoint_every is None
        else seconds(checkpoint_every, "the time between checkpoints"),
        None if resume is None else path_of(resume, "the checkpoint to go on from"),
        checked_limit(memory_limit),
    )


# --- time -----------------------------------------------------------------------------------------


def _checked_time(spec: RunSpecification) -> RunSpecification:
    """Return the run specification with `steps`, `every` and `dt` as Python numbers.

    Raises:
        InputError: `steps` or `every` is no whole number above 0, `dt` is no finite number above 0, or an
            argument needs `steps`.
    """
    dt = _checked_time_step(spec.dt)
    if spec.steps is not None:
        steps, every = (
            arguments.positive_integer(spec.steps, "steps"),
            arguments.positive_integer(spec.selection.every, "every"),
        )
        selection = replace(spec.selection, every=every)
        return replace(spec, steps=steps, dt=dt, selection=selection)
    if spec.engine != "modeci":
        _refuse_without_steps(spec)
    return replace(spec, dt=dt)


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


def _refuse_without_steps(spec: RunSpecification) -> None:
    """Raise an error for arguments of a run that are valid only with `steps`."""
    selection = spec.selection
    dt, state, has_execution_list = spec.dt, spec.values.state, spec.execution_list
    every, when, reduce = selection.every, selection.when, selection.reduce
    if (
        dt is None
        and state is None
        and every == 1
        and when is None
        and not (reduce or has_execution_list)
    ):
        return
    over_time_arguments = {
        "dt": dt,
        "state": state,
        "every": None if every == 1 else every,
        "when": when,
    }
    over_time_arguments |= {"reduce": reduce or None, "execution_list": has_execution_list or None}
    name = next(
        argument_name
        for argument_name, argument_value in over_time_arguments.items()
        if argument_value is not None
    )
    raise InputError(f"{name} needs steps: it is about a run over time", hint="give steps too")
