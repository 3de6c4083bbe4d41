"""Compilation of MDF models for ONNX Runtime."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mdf_loop.api import specified_run
from mdf_loop.api.description import Description, ModelDescription
from mdf_loop.api.onnx_files import checked_file, write_file
from mdf_loop.api.prepared import PreparedModel
from mdf_loop.api.time_steps import describe_differing_steps
from mdf_loop.arguments import positive_integer, word
from mdf_loop.cached_property import cached_property
from mdf_loop.document.document import Document
from mdf_loop.errors import InputError, LoopError
from mdf_loop.importing.opening import Source, open_document
from mdf_loop.interruption import InterruptReaction
from mdf_loop.ir import Data, Program
from mdf_loop.lower.builder import Options
from mdf_loop.paths import track_read_files
from mdf_loop.public_call import public_call, public_calls
from mdf_loop.request.derivative_options import (
    DifferentiationOptions,
    GradientOptions,
    HessianOptions,
    JacobianOptions,
)
from mdf_loop.request.fit_options import FitOptions
from mdf_loop.request.option import takes_options
from mdf_loop.request.run_options import RunOptions
from mdf_loop.results.data import Results
from mdf_loop.run.backend import Runnable
from mdf_loop.run.device import Placement
from mdf_loop.run.onnxruntime.device import DEVICES
from mdf_loop.specification import specify
from mdf_loop.text_escaping import escape_control_characters
from mdf_loop.user_warnings import warn_user

if TYPE_CHECKING:
    from mdf_loop.api.differentiated import Differentiated
    from mdf_loop.results.derivatives import Derivatives
    from mdf_loop.results.fit import Fit, Fits
    from mdf_loop.results.gradient import Gradient

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
class CompiledModel:
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
        """Return the input arrays, with the program and the session for the arrays' types."""
        spec = specify(RunOptions(self.prepared.model_units.convert_inputs(inputs), record=record))
        bound_values = self.prepared.bind(spec)
        evaluation = self.prepared.evaluation(spec, bound_values)
        return dict(bound_values.arrays), evaluation.program, evaluation.single_run.session

    @cached_property
    def _description(self) -> ModelDescription:
        """Description of the model's inputs, parameters, states and outputs, cached."""
        return ModelDescription.of(self.prepared)

    @property
    def inputs(self) -> Mapping[str, Description]:
        """Descriptions of the model's inputs by port id (`node.port` where ambiguous)."""
        return self._description.inputs

    @property
    def parameters(self) -> Mapping[str, Description]:
        """Descriptions of the parameters other than `states`, by `node.parameter`."""
        return self._description.parameters

    @property
    def states(self) -> Mapping[str, Description]:
        """Descriptions of parameters that keep values between evaluations, by `node.parameter`."""
        return self._description.states

    @property
    def outputs(self) -> Mapping[str, Description]:
        """Descriptions of the model's outputs by `node.port`."""
        return self._description.outputs

    def __repr__(self) -> str:
        try:
            return str(self._description)
        except LoopError as error:
            return f"model '{escape_control_characters(self.prepared.document.name)}', which cannot be evaluated: {error}"

    def _repr_html_(self) -> str | None:
        try:
            return self._description.to_html()
        except LoopError:
            return None  # a notebook shows the text

    @property
    def program(self) -> Program:
        """Program of the last evaluation, or for the default inputs if nothing was evaluated."""
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

    @takes_options(RunOptions)
    def run(self, options: RunOptions) -> Results:
        """Run one evaluation of the model, or with `steps` the model over time.

        A run that is stopped (`time_limit`, `nan`, a full disk or memory) returns the results until then, and
        `results.stopped_by` gives the reason. Ctrl-C raises KeyboardInterrupt, with the results so far in
        `.results`. In an interactive session (REPL, notebook) the run returns these results with a warning.

        Raises:
            LoopError: An input does not fit, or the model failed. The message names the place.
            KeyboardInterrupt: Ctrl-C was pressed. Files are written, and `.results` holds the results until
                then, or None.
        """
        spec = specify(self.prepared.model_units.convert_options(options))
        for warning_text in describe_differing_steps(self.prepared, spec):
            warn_user(warning_text)
        with InterruptReaction[Results](
            options.on_interrupt, lambda results: results.reason
        ) as interrupt_reaction:
            interrupt_reaction.results = specified_run.run_specified(self.prepared, spec)
        results = interrupt_reaction.results
        if results.not_finite is not None:
            warn_user(results.not_finite.sentence, RuntimeWarning)
        return results

    # --- derivatives and fits -----------------------------------------------------------------

    @takes_options(DifferentiationOptions)
    def differentiate(self, options: DifferentiationOptions) -> Differentiated:
        """Return a function that computes a scalar objective and its derivatives.

        The derivatives hold discrete decisions fixed: iteration counts of loops, selected branches, times
        of spikes and random numbers.

        Raises:
            InputError: An argument is invalid, or two arguments exclude each other.
        """
        from mdf_loop.api import derivatives

        return derivatives.differentiate(self.prepared, options)

    @takes_options(GradientOptions)
    def gradient(self, options: GradientOptions) -> Gradient:
        """Compute a scalar objective of the model and its derivatives.

        A `UserWarning` names derivatives that are nan or infinite although the scalar is finite.

        Raises:
            GradientError: A derivative differs from the central differences. The message names the element.
            LoopError: A value does not fit, or an operation has no derivative. The message names the place.
            KeyboardInterrupt: Ctrl-C was pressed. `.results` holds the unchecked derivatives, or None.
        """
        from mdf_loop.api import derivatives

        return derivatives.gradient(self.prepared, options)

    @takes_options(JacobianOptions)
    def jacobian(self, options: JacobianOptions) -> Derivatives:
        """Compute the Jacobian of outputs, as one array for each pair of output and parameter.

        The block `jacobian["cell.V", "cell.a"]` has the axes of the output (over time with an axis of rows), followed by the axes of the
        parameter. Forward mode is used if the parameters have no more elements than the outputs, else
        reverse mode. A `UserWarning` names derivatives that are nan or infinite although the output is
        finite.

        Raises:
            LoopError: A value does not fit, or an operation has no derivative. The message names the place.
        """
        from mdf_loop.api import derivatives

        return derivatives.jacobian(self.prepared, options)

    @takes_options(HessianOptions)
    def hessian(self, options: HessianOptions) -> Derivatives:
        """Compute the second derivatives of a scalar objective of the model.

        The block `hessian["cell.a", "cell.b"]` has the axes of a, followed by the axes of b. A `UserWarning` names second derivatives that are nan or infinite although the scalar is finite.

        Raises:
            LoopError: A value does not fit, or an operation has no derivative. The message names the place.
        """
        from mdf_loop.api import derivatives

        return derivatives.hessian(self.prepared, options)

    @takes_options(FitOptions)
    def fit(self, options: FitOptions) -> Fit | Fits:
        """Estimate free parameters from data.

        Data are a csv or npz file, a pandas DataFrame, or arrays by name. They have a column `time` (or
        `step`), and a column for each output: `cell.V`, or `V` if no other port has this name. Each row
        belongs to the nearest step, and nan values are skipped. A column `trial` numbers repeated
        measurements. A column `weight` has the weight of each row, a column `sd` its standard
        deviation. Columns, bounds and other values may be pint Quantities, which are converted to the
        units of the model.

        A `UserWarning` names parameters whose derivatives were nan or infinite in the search although the
        outputs were finite.

        Raises:
            InputError: A name, a bound or a row of the data does not fit. The message names it.
            LoopError: The model fails at all points.
            KeyboardInterrupt: Ctrl-C was pressed. `.results` holds the best fit so far, or None.
        """
        from mdf_loop.api import fits

        return fits.fit_to_data(self.prepared, options, type(self))

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
        spec = specify(RunOptions(inputs, steps=steps, dt=self.prepared.time_step(dt)))
        if steps is None:
            return evaluation_as_onnx(self.prepared, inputs, origin=origin)
        return run_as_onnx(self.prepared, spec)
