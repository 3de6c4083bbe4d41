"""Differentiation of programs, and loading of the gradient programs into ONNX Runtime."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from msgspec import Struct
from msgspec.structs import replace

from mdf_loop.ir import OutputRole, Program
from mdf_loop.native.loop_decisions import NATIVE, predict_forms, reason_unavailable
from mdf_loop.passes.gradient.backward_strategy import backward_for_native, backward_for_onnxruntime
from mdf_loop.passes.gradient.differentiate import differentiate
from mdf_loop.passes.gradient.objective import OBJECTIVE_OUTPUT, Term, add_objective
from mdf_loop.passes.gradient.reverse import LoopBackward
from mdf_loop.pipeline import passes_over_time, prepare
from mdf_loop.run.backend import PROGRAM_BACKENDS, Runnable
from mdf_loop.run.device import Placement
from mdf_loop.run.members import Members


class Differentiation(Struct, frozen=True):
    """Terms of an objective, and the inputs with respect to which it is differentiated.

    Attributes:
        terms: Terms of the sum over program outputs.
        wrt: Names of the inputs.
        placement: Device and form of the differentiated program.
        max_iterations: Number of last iterations through which derivatives propagate, or None for all iterations.
        kernel_backward: Backward pass for loops that ONNX Runtime's own kernels compute.
    """

    terms: tuple[Term, ...]
    wrt: tuple[str, ...]
    placement: Placement
    max_iterations: int | None = None
    kernel_backward: LoopBackward = backward_for_onnxruntime

    @property
    def without_last_terms(self) -> Differentiation:
        """Copy without the terms of kind `last` of the objective, for all chunks but the last."""
        return replace(self, terms=tuple(term for term in self.terms if term.term_kind != "last"))

    def program(
        self,
        program: Program,
        loop_backward: LoopBackward,
        wrt: Sequence[str] = (),
        of: Sequence[str] = (),
    ) -> Program:
        """Return the program that computes the gradient of the objective.

        Outputs `of` are part of the objective, through given cotangents.

        Derivatives are with respect to the inputs of the objective, and to the further inputs `wrt`.
        """
        input_names = {program_input.value.name for program_input in program.inputs}
        known_inputs = [name for name in self.wrt if name in input_names]
        objective_program = add_objective(program, self.terms)
        gradient_program = differentiate(
            objective_program,
            OBJECTIVE_OUTPUT,
            (*known_inputs, *wrt),
            of,
            loop_backward,
            self.max_iterations,
        )
        derivative_outputs = [
            output
            for output in gradient_program.outputs
            if output.name == OBJECTIVE_OUTPUT or output.role is OutputRole.DERIVATIVE
        ]
        return replace(gradient_program, outputs=tuple(derivative_outputs))

    def load(
        self,
        program: Program,
        swept: Collection[str] = (),
        wrt: Sequence[str] = (),
        of: Sequence[str] = (),
    ) -> Runnable:
        """Differentiate a program, and load the gradient program into ONNX Runtime.

        Inputs in `swept` have a leading axis of members.
        """
        backend = PROGRAM_BACKENDS["onnxruntime"]
        prepared_program = None
        if (
            self.placement.native != "off"
            and not self.placement.is_brief
            and reason_unavailable() is None
        ):
            gradient_program = self.program(program, backward_for_native, wrt, of)
            prepared_program = prepare(
                gradient_program, backend.pass_order, passes_over_time(swept)
            )
            execution_modes = set(predict_forms(prepared_program).values())
            if execution_modes != {NATIVE} and self.placement.native != "require":
                prepared_program = None
        if prepared_program is None:
            gradient_program = self.program(program, self.kernel_backward, wrt, of)
            prepared_program = prepare(
                gradient_program, backend.pass_order, passes_over_time(swept)
            )
        runnable = backend.load(prepared_program, self.placement)
        return Members(runnable, swept) if swept else runnable
