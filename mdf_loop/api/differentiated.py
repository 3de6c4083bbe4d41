"""Differentiated models, which compute a scalar objective and its derivatives in repeated runs."""

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
from mdf_loop.interruption import attach_results, interruptible
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
from mdf_loop.run.gradient.terms import Data, make_terms
from mdf_loop.run.time_session import TimeSession
from mdf_loop.specification import RunSpecification
from mdf_loop.sweeps import Grid
from mdf_loop.user_warnings import warn_user

SESSIONS = 16
"""Number of sets of input types whose prepared derivatives are cached."""


@public_calls
class Differentiated:
    """Function from parameters and inputs of a model to a scalar and its derivatives.

    Attributes:
        losses: Terms of the scalar, which are sums over outputs.
        named: Differentiated outputs, and the names with respect to which they are differentiated.
    """

    def __init__(
        self, losses: Sequence[Loss], named: DifferentiatedNames, truncate: int | None = None
    ) -> None:
        self.losses = tuple(losses)
        self._most = truncate
        self.named = named
        self._ready: LRUCache[GradientInOne | GradientOverTime] = LRUCache(SESSIONS)
        self._in_steps: LRUCache[frozenset[str]] = LRUCache(SESSIONS)
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
        """Compute the scalar and its derivatives for these values of parameters and inputs.

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

        def compute() -> Gradient:
            spec = self.named.specification(set, inputs, sweep)
            bound = self.named.bound(spec)
            if check:
                self._refuse_check(bound)
            gradient = self._gradient(spec, bound, sweep)
            in_steps = self._names_in_steps(gradient, spec, bound)
            if in_steps:
                warn_user(_step_warning(in_steps))
            warn_of_gradient(gradient)
            if not check:
                return gradient
            try:
                return replace(gradient, check=self._check(gradient, spec, bound, in_steps))
            except KeyboardInterrupt as interrupt:
                raise attach_results(interrupt, gradient) from None

        return interruptible(compute, on_interrupt, lambda _: "the derivatives were not checked")

    def evaluate(
        self,
        set: Mapping[str, Any] | None,
        inputs: Mapping[str, Any] | None,
        sweep: Mapping[str, Any] | None = None,
    ) -> Gradient:
        """Compute the scalar and its derivatives like `run`, without a check and without warnings.

        Raises:
            LoopError: The same errors as in `run`.
            KeyboardInterrupt: Ctrl-C was pressed.
        """
        spec = self.named.specification(set, inputs, sweep)
        return self._gradient(spec, self.named.bound(spec), sweep)

    def _gradient(
        self, spec: RunSpecification, bound: BoundValues, sweep: Mapping[str, Any] | None
    ) -> Gradient:
        """Return the scalar and its derivatives for bound values."""
        ready = self._made(spec, bound)
        value, changes = ready.run(bound)
        if has_nonfinite(changes.values()) and set(ready.native.values()) - {NATIVE}:
            changes = self._without_matrices(spec, bound, changes)
        arrays = {name: np.asarray(changes[t]) for name, t in self.named.inputs.items()}
        if bound.streams.trials is not None:
            trials = len(bound.streams.trials)
            value = _sum_over_trials(value, trials)
            arrays = {name: _sum_over_trials(array, trials) for name, array in arrays.items()}
            if not bound.member_values:
                value, arrays = value[0], {name: array[0] for name, array in arrays.items()}
        if isinstance(sweep, Grid):
            value = sweep.unflatten(value)
            arrays = {n: sweep.unflatten(a) for n, a in arrays.items()}
        shown_value = value if bound.member_values else float(value)
        return Gradient(shown_value, arrays, seed_of(bound), dict(ready.native))

    def _without_matrices(
        self, spec: RunSpecification, bound: BoundValues, changes: Mapping[str, Array]
    ) -> dict[str, Array]:
        """Return the derivatives, with nan and infinite ones recomputed without Jacobian matrices.

        The backward form of small loops on ONNX Runtime multiplies Jacobian matrices of iterations. An
        infinite slope in such a matrix, multiplied by 0, makes derivatives nan that do not depend on
        that slope.
        """
        _, others = self._made(spec, bound, loop_backward).run(bound)
        return {n: np.where(np.isfinite(a), a, others[n]) for n, a in changes.items()}

    def _names_in_steps(
        self, gradient: Gradient, spec: RunSpecification, bound: BoundValues
    ) -> tuple[str, ...]:
        """Return the names whose derivative is 0.0 because iteration counts and comparisons are fixed."""
        zero = [n for n, array in gradient.items() if array.size and not np.any(array)]
        if not zero:
            return ()
        steps = self._in_steps.get(bound.types)
        if steps is None:
            program = self.named.program(spec, bound)
            outputs = {self.named.outputs[loss.output] for loss in self.losses}
            steps = frozenset(
                name
                for name, target in self.named.inputs.items()
                if outputs & piecewise_constant_outputs(program, [target])
            )
            self._in_steps.put(bound.types, steps)
        return tuple(name for name in zero if name in steps)

    def _refuse_check(self, bound: BoundValues) -> None:
        """Raise an error if differences between runs cannot reproduce the derivatives."""
        if bound.member_values:
            raise InputError("a sweep cannot be checked", hint="check one of its members")
        if self._most is not None or self.named.options.constant_ports:
            raise InputError(
                "derivatives with stop or truncate cannot be checked: they leave out what changes",
                hint="check without them",
            )

    def _check(
        self,
        gradient: Gradient,
        spec: RunSpecification,
        bound: BoundValues,
        in_steps: tuple[str, ...],
    ) -> GradientCheck:
        """Compare the derivatives with central differences between runs, and return the comparison."""

        def runs(sweep: Mapping[str, Array]) -> Mapping[str, Array]:
            return run_members(self.named.prepared, spec, sweep)

        trials = spec.values.draws.trials is not None
        at = self.named.at(bound)
        return check_gradient(
            gradient, at, self.losses, self.named.outputs, runs, int(trials), in_steps
        )

    def _made(
        self,
        spec: RunSpecification,
        bound: BoundValues,
        through_kernels: LoopBackward = backward_for_onnxruntime,
    ) -> GradientInOne | GradientOverTime:
        """Return the prepared derivatives for the types of bound values, from the cache if possible."""
        key = (bound.types, through_kernels)
        with self._lock:
            ready = self._ready.get(key)
            if ready is None:
                ready = self._read(spec, bound, through_kernels)
                self._ready.put(key, ready)
            return ready

    def _read(
        self, spec: RunSpecification, bound: BoundValues, through_kernels: LoopBackward
    ) -> GradientInOne | GradientOverTime:
        """Read the model and prepare its derivatives for the types of bound values."""
        prepared = self.named.prepared
        terms = make_terms(self.losses, self.named.outputs)
        targets = tuple(self.named.inputs.values())
        differentiation = Differentiation(
            terms, targets, prepared.placement, self._most, through_kernels
        )
        trials = 1 if bound.streams.trials is None else len(bound.streams.trials)
        if spec.steps is None:
            program = self.named.program(spec, bound)
            data = Data.of(self.losses, terms, program, None, trials)
            return GradientInOne(program, differentiation, data, bound.inputs_with_members(program))
        programs = self.named.over_time(spec, bound)
        swept = bound.inputs_with_members(programs.later_program)
        session = TimeSession(programs, self.named.options, prepared.placement, swept)
        data = Data.of(self.losses, terms, programs.later_program, spec.steps, trials)
        over_time = frozenset(bound.inputs.varying_names)
        return GradientOverTime(programs, session, differentiation, data, spec, over_time)

    # --- files --------------------------------------------------------------------------------

    @property
    def program(self) -> Program:
        """Program of the scalar and its derivatives for the model's values, with the steps as an input."""
        return self._in_file({}, {})[0]

    def save(
        self,
        path: str | Path,
        set: Mapping[str, Any] | None = None,
        inputs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Write a standard `.onnx` file whose outputs are `value` and `gradient of` each name.

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

        target = checked_file(path, self.named.prepared.document.files)
        program, defaults = self._in_file(set or {}, inputs or {})
        onnx_model = portable(to_onnx(prepare(program, PORTABLE)), {}, defaults)
        write_file(target, onnx_model)
        return onnx_model

    def _in_file(
        self, set: Mapping[str, Any], inputs: Mapping[str, Any]
    ) -> tuple[Program, dict[str, Array]]:
        """Return the program of an ONNX file with derivatives, and the defaults of its inputs."""
        spec = self.named.specification(set, inputs)
        return build_file_program(self.named, self.losses, spec, self.named.bound(spec), self._most)


def _step_warning(names: Sequence[str]) -> str:
    """Return a warning of derivatives that are 0.0 because iteration counts and comparisons are fixed."""
    listed = ", ".join(f"'{name}'" for name in names)
    verb = "derivatives by {} are" if len(names) > 1 else "derivative by {} is"
    return (
        f"the {verb.format(listed)} 0.0 only because iteration counts and comparisons are held fixed: "
        "the number changes with it in steps; compare runs, or fit by a likelihood or "
        'method="differential_evolution"'
    )


def _sum_over_trials(array: Array, trials: int) -> Array:
    """Return the sums over trials of an array whose first axis is members times trials."""
    sums: Array = array.reshape(-1, trials, *array.shape[1:]).sum(axis=1)
    return sums
