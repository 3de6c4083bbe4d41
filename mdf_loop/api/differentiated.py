"""Functions that compute a scalar objective of a model and its derivatives repeatedly."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from mdf_loop.api.differentiation import DifferentiatedNames
from mdf_loop.api.gathering import seed_of
from mdf_loop.api.gradient_check import check_gradient
from mdf_loop.api.gradient_file import build_file_program
from mdf_loop.api.members import run_members
from mdf_loop.api.nonfinite_derivatives import has_nonfinite, warn_of_gradient
from mdf_loop.api.onnx_files import checked_file, write_file
from mdf_loop.errors import InputError
from mdf_loop.interruption import InterruptReaction, attach_results
from mdf_loop.ir import Array, Program
from mdf_loop.locks import ForkSafeLock
from mdf_loop.losses import Loss
from mdf_loop.lru_cache import LRUCache
from mdf_loop.native.loop_decisions import NATIVE
from mdf_loop.passes.dependence import piecewise_constant_outputs
from mdf_loop.passes.gradient.backward_strategy import backward_for_onnxruntime
from mdf_loop.passes.gradient.loop_backward import loop_backward
from mdf_loop.passes.gradient.reverse import LoopBackward
from mdf_loop.pipeline import PORTABLE, prepare
from mdf_loop.public_call import public_calls
from mdf_loop.reading.binding import BoundValues
from mdf_loop.results.gradient import Gradient, GradientCheck
from mdf_loop.run.gradient.in_chunks import GradientOverTime
from mdf_loop.run.gradient.in_one import GradientInOne
from mdf_loop.run.gradient.loaded import Differentiation
from mdf_loop.run.gradient.terms import ObjectiveData, make_terms
from mdf_loop.run.time_session import TimeSession
from mdf_loop.specification import RunSpecification
from mdf_loop.sweeps import Grid
from mdf_loop.user_warnings import warn_user

MAX_CACHED_SESSIONS = 16
"""Number of sets of input types whose prepared derivatives are cached."""


@public_calls
class Differentiated:
    """Function that computes a scalar objective and its derivatives from parameter values.

    Attributes:
        losses: Terms of the scalar, which are sums over outputs.
        named: Differentiated outputs, and the names with respect to which they are differentiated.
    """

    def __init__(
        self,
        losses: Sequence[Loss],
        differentiated_names: DifferentiatedNames,
        truncate: int | None = None,
    ) -> None:
        self.losses = tuple(losses)
        self._truncation = truncate
        self.differentiated_names = differentiated_names
        self._prepared_gradients: LRUCache[GradientInOne | GradientOverTime] = LRUCache(
            MAX_CACHED_SESSIONS
        )
        self._stepwise_names: LRUCache[frozenset[str]] = LRUCache(MAX_CACHED_SESSIONS)
        self._lock = ForkSafeLock()

    def run(
        self,
        set: Mapping[str, Any] | None = None,
        inputs: Mapping[str, Any] | None = None,
        *,
        sweep: Mapping[str, Any] | None = None,
        check: bool = False,
        on_interrupt: str | None = None,
    ) -> Gradient:
        """Compute the scalar objective and its derivatives for given parameters and inputs.

        A `UserWarning` names derivatives that are nan or infinite although the scalar is finite.

        Args:
            set: Parameter values by `node.parameter`. For a state, the initial value.
            inputs: Input values by port id. Other inputs have their defaults.
            sweep: Lists of values for parameters or inputs. Each member has a scalar and derivatives. A
                grid gives one axis for each name.
            check: True compares the derivatives with central differences between runs, for at most 64
                elements of each parameter or input.
            on_interrupt: Effect of Ctrl-C during the check: `raise`, or `return` the unchecked derivatives.

        Raises:
            GradientError: A derivative differs from the central differences. The message names the element.
            LoopError: A value does not fit, or an operation has no derivative. The message names the place.
            KeyboardInterrupt: Ctrl-C was pressed. `.results` holds the unchecked derivatives, or None.
        """
        with InterruptReaction[Gradient](
            on_interrupt, lambda _: "the derivatives were not checked"
        ) as interrupt_reaction:
            spec = self.differentiated_names.specification(set, inputs, sweep)
            bound_values = self.differentiated_names.bind(spec)
            if check:
                self._refuse_check(bound_values)
            interrupt_reaction.results = gradient = self._compute_gradient(
                spec, bound_values, sweep
            )
            piecewise_constant_names = self._find_stepwise_names(gradient, spec, bound_values)
            if piecewise_constant_names:
                warn_user(_step_warning(piecewise_constant_names))
            warn_of_gradient(gradient)
            if check:
                interrupt_reaction.results = self._checked(
                    gradient, spec, bound_values, piecewise_constant_names
                )
        return interrupt_reaction.results

    def _checked(
        self,
        gradient: Gradient,
        spec: RunSpecification,
        bound_values: BoundValues,
        stepwise_names: tuple[str, ...],
    ) -> Gradient:
        """Return the gradient with its comparison with central differences between runs.

        Raises:
            KeyboardInterrupt: Ctrl-C was pressed. `.results` holds the unchecked gradient.
        """
        try:
            check = self._compare_with_differences(gradient, spec, bound_values, stepwise_names)
        except KeyboardInterrupt as interrupt:
            raise attach_results(interrupt, gradient) from None
        return replace(gradient, check=check)

    def evaluate(
        self,
        set: Mapping[str, Any] | None,
        inputs: Mapping[str, Any] | None,
        sweep: Mapping[str, Any] | None = None,
    ) -> Gradient:
        """Compute the scalar objective and its derivatives, without checks and warnings.

        Raises:
            LoopError: The same errors as in `run`.
            KeyboardInterrupt: Ctrl-C was pressed.
        """
        spec = self.differentiated_names.specification(set, inputs, sweep)
        return self._compute_gradient(spec, self.differentiated_names.bind(spec), sweep)

    def _compute_gradient(
        self, spec: RunSpecification, bound_values: BoundValues, sweep: Mapping[str, Any] | None
    ) -> Gradient:
        """Compute the scalar objective and its derivatives from the arrays of the inputs."""
        prepared_gradient = self._cached_gradient(spec, bound_values)
        objective_value, derivatives = prepared_gradient.run(bound_values)
        if has_nonfinite(derivatives.values()) and set(prepared_gradient.native.values()) - {
            NATIVE
        }:
            derivatives = self._recompute_without_matrices(spec, bound_values, derivatives)
        derivative_arrays = {
            name: np.asarray(derivatives[input_name])
            for name, input_name in self.differentiated_names.inputs.items()
        }
        if bound_values.streams.trials is not None:
            trial_count = len(bound_values.streams.trials)
            objective_value = _sum_over_trials(objective_value, trial_count)
            derivative_arrays = {
                name: _sum_over_trials(array, trial_count)
                for name, array in derivative_arrays.items()
            }
            if not bound_values.member_values:
                objective_value, derivative_arrays = (
                    objective_value[0],
                    {name: array[0] for name, array in derivative_arrays.items()},
                )
        if isinstance(sweep, Grid):
            objective_value = sweep.unflatten(objective_value)
            derivative_arrays = {
                name: sweep.unflatten(array) for name, array in derivative_arrays.items()
            }
        returned_value = objective_value if bound_values.member_values else float(objective_value)
        return Gradient(
            returned_value, derivative_arrays, seed_of(bound_values), dict(prepared_gradient.native)
        )

    def _recompute_without_matrices(
        self, spec: RunSpecification, bound_values: BoundValues, derivatives: Mapping[str, Array]
    ) -> dict[str, Array]:
        """Recompute nan and infinite derivatives by a method without Jacobian matrices.

        The backward form of small loops on ONNX Runtime multiplies Jacobian matrices of iterations. An
        infinite slope in such a matrix, multiplied by 0, makes derivatives nan that do not depend on
        that slope.
        """
        _, fallback_derivatives = self._cached_gradient(spec, bound_values, loop_backward).run(
            bound_values
        )
        return {
            name: np.where(np.isfinite(array), array, fallback_derivatives[name])
            for name, array in derivatives.items()
        }

    def _find_stepwise_names(
        self, gradient: Gradient, spec: RunSpecification, bound_values: BoundValues
    ) -> tuple[str, ...]:
        """Return the parameters in which the objective is piecewise constant.

        Their derivative is 0.0, because iteration counts and comparisons are fixed.
        """
        zero_names = [name for name, array in gradient.items() if array.size and not np.any(array)]
        if not zero_names:
            return ()
        piecewise_constant_names = self._stepwise_names.get(bound_values.input_types)
        if piecewise_constant_names is None:
            program = self.differentiated_names.program(spec, bound_values)
            objective_outputs = {
                self.differentiated_names.outputs[loss.output] for loss in self.losses
            }
            piecewise_constant_names = frozenset(
                name
                for name, input_name in self.differentiated_names.inputs.items()
                if objective_outputs & piecewise_constant_outputs(program, [input_name])
            )
            self._stepwise_names.put(bound_values.input_types, piecewise_constant_names)
        return tuple(name for name in zero_names if name in piecewise_constant_names)

    def _refuse_check(self, bound_values: BoundValues) -> None:
        """Raise an error if finite differences between runs cannot reproduce the derivatives."""
        if bound_values.member_values:
            raise InputError("a sweep cannot be checked", hint="check one of its members")
        if self._truncation is not None or self.differentiated_names.options.constant_ports:
            raise InputError(
                "derivatives with stop or truncate cannot be checked: they leave out what changes",
                hint="check without them",
            )

    def _compare_with_differences(
        self,
        gradient: Gradient,
        spec: RunSpecification,
        bound_values: BoundValues,
        stepwise_names: tuple[str, ...],
    ) -> GradientCheck:
        """Return a comparison of the derivatives with central differences between runs."""

        def runs(sweep: Mapping[str, Array]) -> Mapping[str, Array]:
            return run_members(self.differentiated_names.prepared, spec, sweep)

        has_trials = spec.values.draws.trials is not None
        base_values = self.differentiated_names.values_in(bound_values)
        return check_gradient(
            gradient,
            base_values,
            self.losses,
            self.differentiated_names.outputs,
            runs,
            int(has_trials),
            stepwise_names,
        )

    def _cached_gradient(
        self,
        spec: RunSpecification,
        bound_values: BoundValues,
        backward_form: LoopBackward = backward_for_onnxruntime,
    ) -> GradientInOne | GradientOverTime:
        """Return the program of the derivatives for a run's input types, cached if possible."""
        cache_key = (bound_values.input_types, backward_form)
        with self._lock:
            prepared_gradient = self._prepared_gradients.get(cache_key)
            if prepared_gradient is None:
                prepared_gradient = self._prepare_gradient(spec, bound_values, backward_form)
                self._prepared_gradients.put(cache_key, prepared_gradient)
            return prepared_gradient

    def _prepare_gradient(
        self, spec: RunSpecification, bound_values: BoundValues, backward_form: LoopBackward
    ) -> GradientInOne | GradientOverTime:
        """Build the program of the derivatives for the dtypes and shapes of a run's inputs."""
        prepared_model = self.differentiated_names.prepared
        objective_terms = make_terms(self.losses, self.differentiated_names.outputs)
        input_names = tuple(self.differentiated_names.inputs.values())
        differentiation = Differentiation(
            objective_terms, input_names, prepared_model.placement, self._truncation, backward_form
        )
        trial_count = 1 if bound_values.streams.trials is None else len(bound_values.streams.trials)
        if spec.steps is None:
            program = self.differentiated_names.program(spec, bound_values)
            loss_data = ObjectiveData.from_losses(
                self.losses, objective_terms, program, None, trial_count
            )
            return GradientInOne(
                program, differentiation, loss_data, bound_values.inputs_with_members(program)
            )
        programs = self.differentiated_names.over_time(spec, bound_values)
        swept_inputs = bound_values.inputs_with_members(programs.later_program)
        session = TimeSession(
            programs, self.differentiated_names.options, prepared_model.placement, swept_inputs
        )
        loss_data = ObjectiveData.from_losses(
            self.losses, objective_terms, programs.later_program, spec.steps, trial_count
        )
        inputs_over_time = frozenset(bound_values.inputs.varying_names)
        return GradientOverTime(
            programs, session, differentiation, loss_data, spec, inputs_over_time
        )

    # --- files --------------------------------------------------------------------------------

    @property
    def program(self) -> Program:
        """Program that computes the scalar objective and its derivatives, with an input `steps`."""
        return self._file_program({}, {})[0]

    def save(
        self,
        path: str | Path,
        set: Mapping[str, Any] | None = None,
        inputs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Write a standard `.onnx` file that computes the scalar objective and its derivatives.

        The inputs of the file are the differentiated parameters, the data of `of`, `random_keys`, and over
        time `steps` and `dt`. All these inputs are optional. A run of the file needs memory in proportion
        to the number of steps.

        A run with another number of `steps` needs that many rows in each input over time and in each
        `data of` an output. Otherwise the run fails with an error that names the input. Data that are one
        number apply to all steps.

        Args:
            path: Path of the file.
            set: Parameter values. The differentiated parameters can have other values when the file runs.
            inputs: Example values that determine the dtypes and shapes of the file's inputs, and which
                inputs have a row for each step. The values are not stored.

        Returns:
            The `onnx.ModelProto` that was written.
        """
        from mdf_loop.emit import portable, to_onnx

        target_path = checked_file(path, self.differentiated_names.prepared.document.files)
        program, default_inputs = self._file_program(set or {}, inputs or {})
        onnx_model = portable(to_onnx(prepare(program, PORTABLE)), {}, default_inputs)
        write_file(target_path, onnx_model)
        return onnx_model

    def _file_program(
        self, set: Mapping[str, Any], inputs: Mapping[str, Any]
    ) -> tuple[Program, dict[str, Array]]:
        """Return the program with derivatives to save as an ONNX file, and its default inputs."""
        spec = self.differentiated_names.specification(set, inputs)
        return build_file_program(
            self.differentiated_names,
            self.losses,
            spec,
            self.differentiated_names.bind(spec),
            self._truncation,
        )


def _step_warning(names: Sequence[str]) -> str:
    """Return a warning about zero derivatives of a piecewise constant objective."""
    quoted_names = ", ".join(f"'{name}'" for name in names)
    warning_phrase = "derivatives by {} are" if len(names) > 1 else "derivative by {} is"
    return (
        f"the {warning_phrase.format(quoted_names)} 0.0 only because iteration counts and comparisons are held fixed: "
        "the number changes with it in steps; compare runs, or fit by a likelihood or "
        'method="differential_evolution"'
    )


def _sum_over_trials(array: Array, trials: int) -> Array:
    """Sum an array over trials, which share the first axis with the sweep members."""
    trial_sums: Array = array.reshape(-1, trials, *array.shape[1:]).sum(axis=1)
    return trial_sums
