"""Compilation of MDF models for ONNX Runtime."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mdf_loop.api import specified_run
from mdf_loop.api.describable import Describable
from mdf_loop.api.fittable import Fittable
from mdf_loop.api.onnx_files import checked_file, write_file
from mdf_loop.api.prepared import PreparedModel
from mdf_loop.api.time_steps import describe_differing_steps
from mdf_loop.arguments import positive_integer, word
from mdf_loop.document.document import Document
from mdf_loop.errors import InputError
from mdf_loop.importing.opening import Source, open_document
from mdf_loop.interruption import interruptible
from mdf_loop.ir import Array, Data, Program
from mdf_loop.lower.builder import Options
from mdf_loop.paths import track_read_files
from mdf_loop.public_call import public_call, public_calls
from mdf_loop.results.data import Results
from mdf_loop.run.backend import Runnable
from mdf_loop.run.control.progress import Callback
from mdf_loop.run.device import Placement
from mdf_loop.run.onnxruntime.device import DEVICES
from mdf_loop.sharing import DEFAULT_RETRIES
from mdf_loop.specification import specify
from mdf_loop.user_warnings import warn_user

PRECISIONS = ("float64", "float32")
SHAPE_MODES = ("strict", "dynamic")
NATIVE_MODES = ("auto", "off", "require")


@public_call
def compile(
    source: Source,
    *,
    device: str = "auto",
    precision: str = "float64",
    shapes: str = "strict",
    max_iterations: int | None = None,
    unroll: int | None = None,
    native: str = "auto",
    threads: int | None = None,
    loop_condition: str = "document",
) -> CompiledModel:
    """Compile an MDF model for ONNX Runtime.

    Args:
        source: Path of a file, a modeci_mdf Model or Graph, or the dict of a graph.
        device: `cpu`, `cuda`, or `auto`. With `auto` and an available GPU, a timed comparison of both
            devices selects the faster one.
        precision: `float64`, or `float32` for all floating-point values.
        shapes: `strict` refuses loop-carried values that change their shape. `dynamic` allows them.
        max_iterations: Largest number of iterations of a loop without a trip count.
        unroll: Largest constant trip count up to which a loop is unrolled. With None no loop is unrolled.
        native: `auto` compiles loops to machine code where possible, `off` compiles none, and
            `require` raises an error with the reason if a loop cannot be compiled.
        threads: Largest number of threads of a run, including native loops. None allows all
            processors of the process, where several threads are faster than one.
        loop_condition: Interpretation of a Loop in an `.onnx` file that has no condition input, but
            whose body computes a condition: `document` or `runtime`, as for `from_onnx`.

    Raises:
        LoopError: The model is invalid. The error lists all problems.
    """
    options = checked_options(device, precision, shapes, max_iterations, unroll)
    native = word(native, "native", NATIVE_MODES)
    placement = Placement(device, native, threads=checked_threads(threads))
    return CompiledModel(open_document(source, loop_condition), placement, options)


def checked_threads(threads: int | None) -> int | None:
    """Return the user's maximum number of threads as a Python integer, or None without a limit.

    Raises:
        InputError: The number is no whole number above 0.
    """
    return None if threads is None else positive_integer(threads, "threads")


def checked_options(
    device: str,
    precision: str,
    shapes: str,
    max_iterations: int | None,
    unroll: int | None = None,
) -> Options:
    """Return the options of a compilation, after checks of their values."""
    for argument, value, allowed_words in (
        ("device", device, DEVICES),
        ("precision", precision, PRECISIONS),
        ("shapes", shapes, SHAPE_MODES),
    ):
        word(value, argument, allowed_words)
    for argument, limit in (("max_iterations", max_iterations), ("unroll", unroll)):
        is_integer = isinstance(limit, int | np.integer) and not isinstance(limit, bool)
        if limit is not None and (not is_integer or limit > np.iinfo(np.int64).max):
            raise InputError(f"{argument} must be a whole number of 64 bits, not {limit!r}")
        if limit is not None and limit < 0:
            raise InputError(f"{argument} must not be negative, but is {limit}")
    return Options(precision, shapes, max_iterations, unroll)


@public_calls
class CompiledModel(Describable, Fittable):
    """Compiled MDF model, with an ONNX Runtime session for each set of input types.

    The sessions of the 64 most recently used sets are cached. Several threads may use the model at once.
    """

    def __init__(self, document: Document, placement: Placement, options: Options) -> None:
        self.prepared = PreparedModel(document, placement, options)
        self.document = document
        self.options = options

    def prepare(
        self, inputs: Mapping[str, Any], record: Sequence[str] = ()
    ) -> tuple[dict[str, Data], Program, Runnable]:
        """Return the input arrays, the program for their types, and its ONNX Runtime session."""
        spec = specify(self.prepared.model_units.convert_inputs(inputs), record=record)
        bound_values = self.prepared.bind(spec)
        evaluation = self.prepared.evaluation(spec, bound_values)
        return dict(bound_values.arrays), evaluation.program, evaluation.single_run.session

    @property
    def program(self) -> Program:
        """Program of the last evaluation, or of the default inputs before the first evaluation."""
        return self.prepared.latest_evaluation.program

    @property
    def device(self) -> str:
        """Device on which the model runs: `cpu` or `cuda`."""
        return self.prepared.device.name

    @property
    def device_reason(self) -> str:
        """Reason why the model runs on this device."""
        return self.prepared.device.reason

    # --- running ------------------------------------------------------------------------------

    def run(
        self,
        inputs: Mapping[str, Any] | None = None,
        *,
        record: Sequence[str] = (),
        only: Sequence[str] | None = None,
        set: Mapping[str, Any] | None = None,
        sweep: Mapping[str, Any] | None = None,
        steps: int | None = None,
        dt: float | str | None = None,
        every: int = 1,
        when: str | None = None,
        reduce: Mapping[str, str | Sequence[str]] | None = None,
        over_trials: Mapping[str, Any] | None = None,
        by: str | None = None,
        state: Mapping[str, Array] | None = None,
        seed: int | str = 0,
        trials: int | Sequence[int] | None = None,
        execution_list: bool = False,
        engine: str = "onnxruntime",
        time_limit: float | str | None = None,
        nan: str | None = None,
        progress: bool | Callback | None = None,
        output: str | Path | None = None,
        overwrite: bool = False,
        checkpoint: str | Path | None = None,
        checkpoint_every: float | str | None = None,
        resume: str | Path | bool | None = None,
        memory_limit: float | str | None = None,
        cluster: Any = None,
        block: int | None = None,
        retries: int = DEFAULT_RETRIES,
        on_interrupt: str | None = None,
    ) -> Results:
        """Run one evaluation of the model, or with `steps` the model over time.

        A run that is stopped (`time_limit`, `nan`, a full disk or memory) returns the results until then, and
        `results.stopped_by` gives the reason. Ctrl-C raises KeyboardInterrupt, with the results so far in
        `.results`. In an interactive session (REPL, notebook) the run returns these results with a warning.

        Model and inputs:
            inputs: Values by port id (`node.port` where ambiguous). Other inputs have their defaults.
                Over time, one value applies to all steps, or an array has a leading axis with one row
                for each step. In all arguments, a pint Quantity is converted to the unit of the model.
            set: Parameter values by `node.parameter`. For a state, the initial value.
            sweep: Lists of values for parameters or inputs. All members run at once, and results have a
                leading axis of members. `mdf_loop.grid` gives one axis for each name instead.
            state: `results.state` of an earlier run, to continue from it.
            engine: `onnxruntime`; `interpreter`, the slow reference implementation in NumPy; or `modeci`,
                modeci_mdf's own engine.

        Time:
            steps: Number of evaluations. Every output then has a leading axis of time, with one row for
                each evaluation.
            dt: Time between two evaluations. No time passes before the first evaluation. A number is in
                the model's unit of time (seconds, if the model states none). A text or a Quantity has a
                unit: `"0.5ms"` is 0.0005 seconds. With None no time passes.

        What to record:
            record: `node.port`, `node.parameter` or `node.function` to record in addition to the outputs.
            only: Such names, to record instead of the outputs.
            every: Record the row of every `every`-th evaluation, beginning with the first.
            when: Record only the rows in which the value of this name is true.
            reduce: `mean`, `sum`, `last`, `min` or `max` (or several: `mean,max`) of an output over all
                evaluations, recorded as `node.port.mean` instead of the rows of the output.
            execution_list: Record the executed nodes in `results.execution_list`, even if values determine
                which nodes run. Such a run needs one call of ONNX Runtime for each step.

        Random numbers and trials:
            seed: Seed of the random numbers: an integer from 0 to 2**64 - 1, or `"fresh"` for a new seed,
                which `results.seed` reports. Equal seeds draw equal numbers.
            trials: Number of runs with different random numbers, or a list of trial numbers. Results have
                an axis `trial` after the axis of a sweep. Trial 0 equals the run without trials.
            over_trials: Statistics of an output over all trials, in place of the trials: `mean`, `var`,
                `std`, `min`, `max`, `count`, `{"quantiles": [0.1, 0.5, 0.9]}` or `{"histogram": edges}`, or
                a list of statistics. The results have names such as `node.port.mean`. Trials are run in
                batches, and not stored.
            by: Output with one number in each trial. `over_trials` is computed separately for each value
                of this output, along an axis with the output's name after the axis of a sweep.

        Limits:
            time_limit: Time after which the run stops: seconds, or text such as `"10min"`.
            memory_limit: Largest memory of this process: bytes, or text such as `"4GB"`. With None, three
                quarters of the memory of the machine or its container. A run that is known to need more
                memory is refused. A run that reaches the limit is stopped by an error, whose `results`
                are the results until then.
            nan: Reaction to a value that becomes nan or infinite. `ignore` continues, `stop` stops the run
                there, and `error` raises an error with the results until then in `error.results`. With
                None the last rows and the final states are checked after the run. A value that is not
                finite then gives a `RuntimeWarning` and a sentence in `results.notes`.
            progress: True shows a progress bar on stderr, False shows none, and None shows one if stderr
                is a terminal. A function receives a `Progress` and may return False to stop the run.
            on_interrupt: Effect of Ctrl-C: `raise` or `return`, in place of the default.

        Files:
            output: File for the results. The rows of a `.zarr` folder are written during the run and do
                not stay in memory. Other files are written at the end.
            overwrite: Replace a `.zarr` folder that another run has finished.
            checkpoint: File from which the run can be resumed. The file is replaced periodically.
            checkpoint_every: Time between two checkpoints: seconds, or text such as `"5min"`. The default
                is one minute.
            resume: Checkpoint of the same model and arguments to resume from. New checkpoints replace this
                file, if `checkpoint` names no other file. With `cluster`, True resumes the `.zarr` folder.

        Cluster:
            cluster: Workers for a sweep or for trials: a number of processes of this machine, of one
                thread each; `tcp://host:8786`, a Dask scheduler; a `dask.distributed.Client`; or a YAML
                file with `slurm:` or `ssh:`. The workers write a `.zarr` output, and `resume=True`
                computes only the missing blocks of that output.
            block: Number of members (or trials) that a worker computes at once. With None, as many as take
                about 10 s.
            retries: Number of times that a block is run again after its worker died.

        Raises:
            LoopError: An input does not fit, or the model failed. The message names the place.
            KeyboardInterrupt: Ctrl-C was pressed. Files are written, and `.results` holds the results until
                then, or None.
        """
        units = self.prepared.model_units
        spec = specify(
            units.convert_inputs(inputs),
            record=record,
            only=only,
            set=units.convert_settings(set),
            sweep=units.convert_sweep(sweep),
            steps=steps,
            dt=units.convert_time_step(dt),
            every=every,
            when=when,
            reduce=reduce,
            over_trials=units.convert_over_trials(over_trials),
            by=by,
            state=units.convert_state(state),
            seed=seed,
            trials=trials,
            execution_list=execution_list,
            engine=engine,
            time_limit=time_limit,
            nan=nan,
            progress=progress,
            output=output,
            overwrite=overwrite,
            checkpoint=checkpoint,
            checkpoint_every=checkpoint_every,
            resume=resume,
            memory_limit=memory_limit,
            cluster=cluster,
            block=block,
            retries=retries,
        )
        for warning_text in describe_differing_steps(self.prepared, spec):
            warn_user(warning_text)
        results = interruptible(
            lambda: specified_run.run_specified(self.prepared, spec),
            on_interrupt,
            lambda results: results.reason,
        )
        if results.not_finite is not None:
            warn_user(results.not_finite.sentence, RuntimeWarning)
        return results

    # --- files --------------------------------------------------------------------------------

    def write(self, path: str | Path) -> list[Path]:
        """Write the MDF model to a `.yaml` or `.json` file, with large arrays in a `.npz` file beside it.

        Returns:
            The paths of the written files.

        Raises:
            InputError: A file cannot be written. No incomplete file remains.
        """
        from mdf_loop.document.content import content_of
        from mdf_loop.importing.writing import write_model

        with track_read_files(self.document.files):
            return write_model(content_of(self.document), path)

    def save(
        self,
        path: str | Path,
        inputs: Mapping[str, Any] | None = None,
        *,
        steps: int | None = None,
        dt: float | str | None = None,
        origin: bool = True,
    ) -> Any:
        """Write a standard `.onnx` file that plain ONNX Runtime and OpenVINO run.

        Args:
            path: Path of the file.
            inputs: Example values that determine the dtypes and shapes of the file's inputs, and over time
                which inputs have a row for each step. The values are not stored.
            steps: Number of evaluations of a run over time, whose outputs have a row for each evaluation.
                The file then has the optional inputs `steps` and `dt`, with these values as defaults.
            dt: Time between two evaluations, as in `run`.
            origin: Include the MDF model in the file, so that an import of the file restores the model.
                A file of a run over time never includes the model.

        Returns:
            The `onnx.ModelProto` that was written.

        Raises:
            InputError: The file cannot be written.
            LoopError: The model is invalid. The error lists all problems.
        """
        target_path = checked_file(path, self.document.files)
        onnx_model = self.to_onnx(inputs, steps=steps, dt=dt, origin=origin)
        write_file(target_path, onnx_model)
        return onnx_model

    def to_onnx(
        self,
        inputs: Mapping[str, Any] | None = None,
        *,
        steps: int | None = None,
        dt: float | str | None = None,
        origin: bool = True,
    ) -> Any:
        """Return the model as an `onnx.ModelProto`, equal to the file that `save` writes.

        With `origin`, an import of the file restores the MDF model. A model compiled for float32 is not
        included, because the restored model would compute in float64.
        """
        from mdf_loop.api.export import evaluation_as_onnx, run_as_onnx

        inputs = self.prepared.model_units.convert_inputs(inputs)
        spec = specify(inputs, steps=steps, dt=self.prepared.time_step(dt))
        if steps is None:
            return evaluation_as_onnx(self.prepared, inputs, origin=origin)
        return run_as_onnx(self.prepared, spec)
