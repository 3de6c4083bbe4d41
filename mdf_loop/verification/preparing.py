"""Compilation of a model before a comparison, so that compile errors appear first."""

from __future__ import annotations

from mdf_loop.api.prepared import PreparedModel
from mdf_loop.ir import Program
from mdf_loop.reading.binding import BoundValues
from mdf_loop.reading.names import output_names
from mdf_loop.specification import RunSpecification


def prepare(prepared: PreparedModel, spec: RunSpecification) -> BoundValues:
    """Compile and cache the programs of a run, and return the values of the programs' inputs.

    Raises:
        LoopError: An argument does not fit the model, or the model cannot be compiled.
    """
    bound_values = prepared.bind(spec)
    compiled_programs = _programs(prepared, spec, bound_values)
    return (
        bound_values.with_random_keys(compiled_programs[0]) if compiled_programs else bound_values
    )


def _programs(
    prepared: PreparedModel, spec: RunSpecification, bound_values: BoundValues
) -> tuple[Program, ...]:
    """Return the compiled programs of one evaluation, or of the first and later steps of a run.

    A model without outputs has no program.
    """
    if not output_names(prepared.document):
        return ()
    if spec.steps is None:
        return (prepared.evaluation(spec, bound_values).program,)
    stepping_session = prepared.over_time(spec, bound_values)
    stepping_session.load_programs()
    return (stepping_session.programs.first_program, stepping_session.programs.later_program)
