"""Export of a model as one standard ONNX file: one evaluation, or a run over time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mdf_loop.api.prepared import PreparedModel
from mdf_loop.errors import InputError
from mdf_loop.ir import Array, InputRole, OutputRole, Program
from mdf_loop.passes.check_row_counts import check_row_counts
from mdf_loop.passes.whole_run import control_inputs, whole_run
from mdf_loop.pipeline import PORTABLE, prepare
from mdf_loop.reading import read
from mdf_loop.reading.binding import BoundValues
from mdf_loop.reading.inputs import bind_types
from mdf_loop.reading.names import stated_shapes
from mdf_loop.reading.over_time import read_over_time
from mdf_loop.specification import RunSpecification


def evaluation_as_onnx(
    prepared: PreparedModel, inputs: Mapping[str, Any] | None, *, origin: bool
) -> Any:
    """Return one evaluation as an ONNX model, with the MDF model in its metadata if `origin`."""
    from mdf_loop.importing.origin import add_origin

    program = read(prepared.document, inputs, options=prepared.options)
    random_keys = {
        program_input.value.name: program_input.default
        for program_input in program.inputs
        if program_input.role is InputRole.KEYS
    }
    onnx_model = _to_onnx_model(program, random_keys, stated_shapes(prepared.document))
    if origin and prepared.options.precision == "float64":
        add_origin(onnx_model, prepared.document)
    return onnx_model


def run_as_onnx(prepared: PreparedModel, spec: RunSpecification) -> Any:
    """Return a run over time as an ONNX model with optional inputs `steps` and `dt`.

    Each output has a leading axis of time.

    Raises:
        InputError: The model cannot be run over time with these arguments.
    """
    bound_values = _bind_values_or_types(prepared, spec)
    programs = read_over_time(prepared.document, bound_values, prepared.options, spec)
    has_run_flag_names = programs.later_program.output_names(OutputRole.HAS_RUN)
    recorded_names = (
        *programs.recorded_names,
        *(
            has_run_flag_names[name]
            for name in programs.recorded_names
            if name in has_run_flag_names
        ),
    )
    inputs_over_time = frozenset(bound_values.inputs.varying_names)
    program = whole_run(
        programs.first_program, programs.later_program, recorded_names, inputs_over_time
    )
    program = check_row_counts(program, {name: name for name in sorted(inputs_over_time)}, "steps")
    default_values = {
        **bound_values.with_random_keys(program).arrays,
        **control_inputs(spec.steps, spec.dt, prepared.options.precision),
    }
    default_names = [
        program_input.value.name
        for program_input in program.inputs
        if program_input.role is not InputRole.PORT
    ]
    return _to_onnx_model(program, {name: default_values[name] for name in default_names}, {})


def _bind_values_or_types(prepared: PreparedModel, spec: RunSpecification) -> BoundValues:
    """Return the inputs of a run, with only a type for each required input without a value."""
    try:
        return prepared.bind(spec)
    except InputError:  # a missing value needs a type only; other errors are raised again
        return BoundValues.of(bind_types(prepared.document, spec.values.inputs, prepared.options))


def _to_onnx_model(
    program: Program, defaults: Mapping[str, Array], stated: Mapping[str, Any]
) -> Any:
    """Return a program as an ONNX model with default inputs and the document's stated shapes."""
    from mdf_loop.emit import portable, to_onnx

    return portable(to_onnx(prepare(program, PORTABLE)), stated, defaults)
