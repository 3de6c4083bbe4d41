"""Program of a saved ONNX file that computes a scalar objective and its derivatives."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np
from msgspec.structs import replace

from mdf_loop.api.differentiation import DifferentiatedNames
from mdf_loop.errors import InputError
from mdf_loop.ir import Array, InputRole, OutputRole, Program
from mdf_loop.ir.substitute import substitute
from mdf_loop.losses import Loss
from mdf_loop.passes.check_row_counts import check_row_counts
from mdf_loop.passes.gradient.backward_strategy import backward_for_onnxruntime
from mdf_loop.passes.gradient.objective import Term
from mdf_loop.reading.binding import BoundValues
from mdf_loop.run.device import DEFAULT_PLACEMENT
from mdf_loop.run.gradient.loaded import Differentiation
from mdf_loop.run.gradient.terms import ObjectiveData, make_unscaled_terms
from mdf_loop.specification import RunSpecification


def build_file_program(
    differentiated_names: DifferentiatedNames,
    losses: Sequence[Loss],
    spec: RunSpecification,
    bound_values: BoundValues,
    truncation: int | None,
) -> tuple[Program, dict[str, Array]]:
    """Return the program of an ONNX file with derivatives, and the defaults of its inputs.

    Args:
        differentiated_names: The differentiated outputs, and the names with respect to which they are differentiated.
        losses: The terms of the scalar.
        spec: The run that the file computes.
        bound_values: The bound values of the run.
        truncation: The largest number of iterations of backward propagation, or None.

    Raises:
        InputError: The run has several trials, or derivatives over time are truncated.
    """
    if truncation is not None and spec.steps is not None:
        raise InputError("a file has no truncated derivatives over time", hint="leave truncate out")
    if bound_values.streams.has_members:
        raise InputError("a file computes one run", hint="leave trials out")
    source_program = differentiated_names.program(spec, bound_values)
    objective_terms = tuple(
        replace(term, has_scalar_data=loss.data is not None and np.ndim(loss.data) == 0)
        for term, loss in zip(
            make_unscaled_terms(losses, differentiated_names.outputs), losses, strict=True
        )
    )
    document_names = {input_name: name for name, input_name in differentiated_names.inputs.items()}
    gradient_program = Differentiation(
        objective_terms, tuple(document_names), DEFAULT_PLACEMENT, truncation
    ).program(source_program, backward_for_onnxruntime)
    loss_data = ObjectiveData.from_losses(losses, objective_terms, source_program, spec.steps)
    default_values = {
        **bound_values.with_random_keys(source_program).arrays,
        **loss_data.arrays,
        **differentiated_names.time_inputs(spec),
    }
    document_names |= _name_data_inputs(objective_terms)
    if spec.steps is not None:
        inputs_over_time = {
            *bound_values.inputs.varying_names,
            *(
                term.data
                for term in objective_terms
                if term.data in loss_data.arrays and not term.has_scalar_data
            ),
        }
        gradient_program = _add_row_checks(gradient_program, inputs_over_time, document_names)
    default_names = [
        program_input.value.name
        for program_input in gradient_program.inputs
        if program_input.role is not InputRole.PORT
    ]
    return _rename_inputs(gradient_program, document_names), {
        document_names.get(name, name): default_values[name] for name in default_names
    }


def _add_row_checks(
    program: Program, input_names: Collection[str | None], names: Mapping[str, str]
) -> Program:
    """Add run-time checks that each input over time has one row per step."""
    time_input_names = {
        program_input.value.name
        for program_input in program.inputs
        if program_input.value.name in input_names
    }
    (steps_input,) = (
        program_input
        for program_input in program.inputs
        if program_input.role is InputRole.CONTROL and program_input.owner_name == "steps"
    )
    return check_row_counts(
        program, {name: names.get(name, name) for name in time_input_names}, steps_input.value.name
    )


def _name_data_inputs(terms: Sequence[Term]) -> dict[str, str]:
    """Return names such as `data of cell.V` for the inputs with the data of an objective.

    A second term gets `data of cell.V 2`, and so on.
    """
    data_names: dict[str, str] = {}
    for term in terms:
        if term.data is not None:
            base_name = f"data of {term.output}"
            use_count = sum(data_name.startswith(base_name) for data_name in data_names.values())
            data_names[term.data] = f"{base_name} {use_count + 1}" if use_count else base_name
    return data_names


def _rename_inputs(program: Program, names: Mapping[str, str]) -> Program:
    """Rename the inputs of a program, and their derivatives, to the names in the document."""
    renamed_values = {
        program_input.value: replace(program_input.value, name=names[program_input.value.name])
        for program_input in program.inputs
        if program_input.value.name in names
    }
    renamed_outputs = tuple(
        replace(output, name=f"gradient of {names[output.owner_name]}")
        if output.role is OutputRole.DERIVATIVE
        else output
        for output in substitute(program.outputs, renamed_values)
    )
    return replace(
        program,
        inputs=tuple(
            replace(
                program_input, value=renamed_values.get(program_input.value, program_input.value)
            )
            for program_input in program.inputs
        ),
        ops=tuple(substitute(op, renamed_values) for op in program.ops),
        outputs=renamed_outputs,
    )
