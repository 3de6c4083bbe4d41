"""Compilation of MDF models: one session for each set of input types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mdf_loop.api import specified_run
from mdf_loop.api.describable import Describable
from mdf_loop.api.fittable import Fittable
from mdf_loop.api.onnx_files import checked_file, write_file
from mdf_loop.api.prepared import Prepared
from mdf_loop.api.time_steps import differing_steps
from mdf_loop.arguments import whole, word
from mdf_loop.document.document import Document
from mdf_loop.errors import InputError
from mdf_loop.importing.opening import Source, open_document
from mdf_loop.interruption import interruptible
from mdf_loop.ir import Array, Data, Program
from mdf_loop.lower.builder import Options
from mdf_loop.paths import noting
from mdf_loop.public_call import public_call, public_calls
from mdf_loop.results.data import Results
from mdf_loop.run.backend import Runnable
from mdf_loop.run.control.progress import Callback
from mdf_loop.run.device import Placement
from mdf_loop.run.onnxruntime.device import DEVICES
from mdf_loop.sharing import RETRIES
from mdf_loop.specification import specify
from mdf_loop.user_warnings import warn_user

PRECISIONS = ("float64", "float32")
SHAPES = ("strict", "dynamic")
NATIVE_WORDS = ("auto", "off", "require")


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
        source: a path, a modeci_mdf Model or Graph, or a graph's dict.
        device: `cpu`, `cuda`, or `auto` (the faster one, found by a race where CUDA can be used).
        precision: `float64`, or `float32` for all numbers with a point.
        shapes: `strict` refuses carried values that change their shape, `dynamic` allows them.
        max_iterations: the most iterations a loop without a trip count may run.
        unroll: write out loops of a constant number of iterations, of at most so many.
        native: `auto` runs loops as machine code where they can be; `off` none; `require` raises for
            one that cannot be, with the reason.
        threads: the most threads that compute a run, native loops included; None for as many as the
            process may use, where several are faster than one.
        loop_condition: of an `.onnx` file, how a Loop without a condition input is read whose body
            computes a condition: `document` or `runtime`, as for `from_onnx`.

    Raises:
        LoopError: all that is wrong with the model.
    """
    options = checked_options(device, precision, shapes, max_iterations, unroll)
    native = word(native, "native", NATIVE_WORDS)
    placement = Placement(device, native, threads=checked_threads(threads))
    return CompiledModel(open_document(source, loop_condition), placement, options)


def checked_threads(threads: int | None) -> int | None:
    """Return the largest number of threads of a run as a Python integer.

    Raises:
        InputError: it is no whole number above 0.
    """
    return None if threads is None else whole(threads, "threads")


def checked_options(
    device: str,
    precision: str,
    shapes: str,
    max_iterations: int | None,
    unroll: int | None = None,
) -> Options:
    """Return the options of a compilation, and refuse invalid values."""
    for what, value, allowed in (
        ("device", device, DEVICES),
        ("precision", precision, PRECISIONS),
        ("shapes", shapes, SHAPES),
    ):
        word(value, what, allowed)
    for what, number in (("max_iterations", max_iterations), ("unroll", unroll)):
        whole = isinstance(number, int | np.integer) and not isinstance(number, bool)
        if number is not None and (not whole or number > np.iinfo(np.int64).max):
            raise InputError(f"{what} must be a whole number of 64 bits, not {number!r}")
        if number is not None and number < 0:
            raise InputError(f"{what} must not be negative, but is {number}")
    return Options(precision, shapes, max_iterations, unroll)


@public_calls
class CompiledModel(Describable, Fittable):
    """Compiled MDF model, with one session for each set of input types.

    Those of the last 64 sets are kept.

    It may be used from several threads at once.
    """

    def __init__(self, document: Document, placement: Placement, options: Options) -> None:
        self.prepared = Prepared(document, placement, options)
        self.document = document
        self.options = options

    def prepare(
        self, inputs: Mapping[str, Any], record: Sequence[str] = ()
    ) -> tuple[dict[str, Data], Program, Runnable]:
        """Return the arrays of all inputs, the program for their types, and its session."""
        spec = specify(self.prepared.model_units.convert_inputs(inputs), record=record)
        bound = self.prepared.bound(spec)
        ready = self.prepared.evaluation(spec, bound)
        return dict(bound.arrays), ready.program, ready.run.session

    @property
    def program(self) -> Program:
        """Program of the last evaluation, or before the first one, the program for the model's defaults."""
        return self.prepared.latest.program

    @property
    def device(self) -> str:
        """Device on which the model runs: `cpu` or `cuda`."""
        return self.prepared.device.name

    @property
    def device_reason(self) -> str:
        """Reason for the choice of the device."""
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
        retries: int = RETRIES,
        on_interrupt: str | None = None,
    ) -> Results:
        """Run one evaluation of the model, or with `steps` the model over time.

        A run that is stopped (`time_limit`, `nan`, a full disk or memory) returns the results until then, and
        `results.stopped_by` says why it ended. Ctrl-C raises KeyboardInterrupt, with these results in
        `.results`; in an interactive session (REPL, notebook) the run returns them, with a warning.

        Model and inputs:
            inputs: Values by port id (`node.port` where ambiguous); other inputs have their defaults.
                Over time a value holds in every step, or has a row for each step in front. Here and
                wherever values are given, a Quantity of pint is converted to the unit of the model.
            set: Parameters by `node.parameter`; for a state, its initial value.
            sweep: Lists of values for parameters or inputs, which are run at once with an axis in front;
                or `mdf_loop.grid`, with an axis for each name.
            state: `results.state` of an earlier run, to continue from it.
            engine: `onnxruntime`; `interpreter`, plain numpy, which is slow and simple; or `modeci`,
                modeci_mdf's own engine.

        Time:
            steps: Number of evaluations; every output then has an axis of time in front, with one row for
                each evaluation.
            dt: Time between two evaluations; no time passes before the first one. A number is in the
                model's unit of time (seconds, if the model states none), a text or a Quantity has a
                unit: `"0.5ms"` is 0.0005 seconds. With None no time passes.

        What to record:
            record: `node.port`, `node.parameter` or `node.function` to record in addition to the outputs.
            only: Such names, to record instead of the outputs.
            every: Record the row of every `every`-th evaluation, beginning with the first.
            when: Record only the rows in which the value of this name is true.
            reduce: `mean`, `sum`, `last`, `min` or `max` (or several: `mean,max`) of an output over all
                evaluations, recorded as `node.port.mean` instead of its rows.
            execution_list: Record in `results.execution_list` which nodes ran also where values decide it
                (it then takes a call of ONNX Runtime for each step).

        Random numbers and trials:
            seed: Seed of the random numbers: an integer from 0 to 2**64 - 1, or `"fresh"` for a new one,
                which `results.seed` tells. Equal seeds draw equal numbers.
            trials: Number of runs with random numbers of their own, or the numbers of these runs: an
                axis `trial` after that of a sweep. Trial 0 is the run without trials.
            over_trials: Statistics of an output over all trials instead of the trials: `mean`, `var`, `std`,
                `min`, `max`, `count`, `{"quantiles": [0.1, 0.5, 0.9]}` or `{"histogram": edges}`, or a
                list of them, as `node.port.mean` and so on. Trials are run in batches, and not stored.
            by: An output with one number in each trial; `over_trials` is computed separately for each of
                its values, with an axis of its name behind that of a sweep.

        Limits:
            time_limit: Time after which the run stops: seconds, or text such as `"10min"`.
            memory_limit: Memory that this process may have: bytes, or text such as `"4GB"`; with None three
                quarters of the memory of the machine or its container. A run that is known to need more
                is refused; a run that reaches the limit is stopped by an error, whose `results` are
                the results until then.
            nan: Reaction to a value that becomes nan or infinite: `ignore`; `stop` the run there; or
                `error`, which raises with the results until then in `error.results`. With None the last
                rows and the final states are checked after the run: a value that is not finite is a
                `RuntimeWarning` and a sentence in `results.notes`.
            progress: True for a progress bar on stderr, False for none, None for one if stderr is a
                terminal; or a function that receives a `Progress` and may return False to stop the run.
            on_interrupt: What Ctrl-C does: `raise` or `return`, in place of the default.

        Files:
            output: File for the results. Rows are written to a `.zarr` folder during the run, and do not
                stay in memory; other files are written at the end.
            overwrite: Replace a `.zarr` folder that another run has finished.
            checkpoint: File with all that is needed to resume, which is replaced again and again.
            checkpoint_every: Time between two checkpoints: seconds, or text such as `"5min"`; with None a
                minute.
            resume: Checkpoint of the same model and arguments to resume from. It is also written, if
                `checkpoint` names no other file. With `cluster`, True resumes the `.zarr` folder.

        Cluster:
            cluster: Workers for a sweep or for trials: a number of processes of this machine, of one
                thread each; `tcp://host:8786`, a Dask scheduler; a `dask.distributed.Client`; or a YAML
                file with `slurm:` or `ssh:`. The workers write a `.zarr` output, and `resume=True`
                computes only what is missing in it.
            block: Number of members (or trials) that a worker computes at once; with None as many as take
                about 10 s.
            retries: Number of times that a block is run again after its worker died.

        Raises:
            LoopError: An input does not fit, or the model failed; the sentence names the place.
            KeyboardInterrupt: Ctrl-C came; files are written, and `.results` are the results until then, or None.
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
        for sentence in differing_steps(self.prepared, spec):
            warn_user(sentence)
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
        """Write the MDF model itself to a `.yaml` or `.json` file; large arrays go to a `.npz` beside it.

        Returns the files that were written.

        Raises:
            InputError: a file cannot be written; no half of it is left.
        """
        from mdf_loop.document.content import content_of
        from mdf_loop.importing.writing import write_model

        with noting(self.document.files):
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
            path: the file.
            inputs: values that fix dtypes and shapes of the file's inputs, and over time which of them have
                a row for each step; they are not stored.
            steps: write a run over time of so many evaluations, whose outputs have a row for each. The file
                has the inputs `steps` and `dt`, which hold these values if they are not given.
            dt: the time from one evaluation to the next, as in `run`.
            origin: keep this MDF model in the file, so that importing it gives the model back; not over time.

        Returns the `onnx.ModelProto` that was written.

        Raises:
            InputError: the file cannot be written.
            LoopError: all that is wrong with the model.
        """
        target = checked_file(path, self.document.files)
        proto = self.to_onnx(inputs, steps=steps, dt=dt, origin=origin)
        write_file(target, proto)
        return proto

    def to_onnx(
        self,
        inputs: Mapping[str, Any] | None = None,
        *,
        steps: int | None = None,
        dt: float | str | None = None,
        origin: bool = True,
    ) -> Any:
        """Return the model as an `onnx.ModelProto` with the content of `save`.

        With its `origin`, importing gives the model back, but not if it computes in float32: the model that
        would come back computes in float64.
        """
        from mdf_loop.api.export import evaluation_as_onnx, run_as_onnx

        inputs = self.prepared.model_units.convert_inputs(inputs)
        spec = specify(inputs, steps=steps, dt=self.prepared.time_step(dt))
        if steps is None:
            return evaluation_as_onnx(self.prepared, inputs, origin=origin)
        return run_as_onnx(self.prepared, spec)
