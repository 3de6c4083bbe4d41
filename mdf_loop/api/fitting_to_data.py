"""Checked arguments of fits, and checks of data and free parameters against the model."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from msgspec import Struct, field
from msgspec.structs import replace

from mdf_loop import arguments
from mdf_loop.api.fitted_model import FittedModel
from mdf_loop.api.prepared import PreparedModel
from mdf_loop.api.values_of import values_of
from mdf_loop.arguments import is_whole
from mdf_loop.cluster.clients import Connection
from mdf_loop.document.document import Document
from mdf_loop.durations import seconds
from mdf_loop.errors import InputError, LoopError
from mdf_loop.fitting.free import ParameterSpace, free_names, parameter_space
from mdf_loop.fitting.observed import (
    RESERVED_COLUMNS,
    Observations,
    find_column,
    match_to_steps,
    output_columns,
    read_table,
)
from mdf_loop.lower.builder import Options
from mdf_loop.lower.syntax import parse_number
from mdf_loop.reading.inputs import open_ports
from mdf_loop.reading.names import find_item, items
from mdf_loop.reading.settings import is_state, written_value
from mdf_loop.request.fit_options import FitOptions
from mdf_loop.request.run_options import RunOptions
from mdf_loop.run.device import Placement
from mdf_loop.specification import RunSpecification, specify

FIT_METHODS = ("least_squares", "gradient", "differential_evolution")


ModelBuilder: TypeAlias = Callable[[Document, Placement, Options], Any]
"""Function that builds a compiled model, such as the class `CompiledModel`."""


class FitRequest(Struct, frozen=True):
    """Checked arguments of `CompiledModel.fit`.

    Attributes:
        observed_data: Data of one subject, or of all subjects by name. None for an objective.
        free_bounds: Lower and upper bound of each free parameter.
        fitted_outputs: Outputs to fit, or the data column of each output.
        likelihood_outputs: Output with the reaction times, and output with the choices if any.
        shared_names: Names of the parameters that all subjects share.
        start_values: Initial values of the free parameters, or None for a Sobol sequence.
        start_point_count: Number of points of the Sobol sequence.
        local_search_count: Number of best points from which local searches start.
        build_model: Function that builds the model with the estimates.
        connection: Open connection to the cluster, or None.
    """

    observed_data: Any
    free_bounds: Mapping[str, Any]
    fitted_outputs: Any
    spec: RunSpecification
    steps: int | None
    build_model: ModelBuilder
    likelihood_outputs: Mapping[str, str] = field(default_factory=dict)
    objective: Any = None
    shared_names: tuple[str, ...] = ()
    start_values: Mapping[str, Any] | None = None
    method: str | None = None
    start_point_count: int = 256
    local_search_count: int = 4
    seed: int = 0
    progress: Any = None
    time_limit: float | None = None
    cluster: Any = None
    connection: Connection | None = None

    @classmethod
    def of(cls, options: FitOptions, build_model: ModelBuilder) -> FitRequest:
        """Check the arguments of a fit, and return a request that contains them.

        Raises:
            InputError: An argument is invalid, or two arguments exclude each other.
        """
        has_open_length = options.steps is None and options.dt is not None  # the data determine it
        spec = specify(
            RunOptions(
                options.inputs,
                set=options.set,
                steps=1 if has_open_length else options.steps,
                dt=options.dt,
                seed=options.seed,
                trials=options.trials,
                nan="ignore",
            )
        )
        for argument in ("points", "polish"):
            count = getattr(options, argument)
            if not is_whole(count) or count < 1:
                raise InputError(f"{argument} must be a whole number above 0, not {count!r}"[:200])
        if options.method is not None:
            arguments.word(options.method, "method", FIT_METHODS)
        shared_names, start = arguments.names(options.shared, "shared"), options.start
        parameter_names = free_names(options.free)
        if unknown_names := [name for name in shared_names if name not in parameter_names]:
            raise InputError(f"shared names '{unknown_names[0]}', which is not free")
        time_limit = options.time_limit
        output_by_column = arguments.mapping(
            options.likelihood, "likelihood", "likelihood={'rt': 'ddm.rt'}"
        )
        _refuse_conflicts(options, output_by_column)
        return cls(
            options.data,
            dict(options.free),
            options.against,
            spec,
            options.steps,
            build_model,
            output_by_column,
            options.objective,
            shared_names,
            None if start is None else arguments.mapping(start, "start", "start={'cell.a': 1}"),
            options.method,
            int(options.points),
            int(options.polish),
            int(spec.values.draws.seed),
            options.progress,
            None if time_limit is None else seconds(time_limit, "the time limit"),
            options.cluster,
        )


def _refuse_conflicts(options: FitOptions, likelihood: Mapping[str, str]) -> None:
    """Raise an error for conflicting or incomplete arguments of a fit."""
    data, objective, trials = options.data, options.objective, options.trials
    is_given_by_argument = {"against": options.against is not None, "likelihood": bool(likelihood)}
    is_given_by_argument["objective"] = objective is not None
    given_arguments = [argument for argument, is_given in is_given_by_argument.items() if is_given]
    if len(given_arguments) > 1:
        raise InputError(
            f"{' and '.join(given_arguments)} are different fits", hint="give one of them"
        )
    if objective is not None and data is not None:
        raise InputError("an objective is computed without data", hint="give None for data")
    if objective is None and data is None:
        raise InputError("a fit needs data, or an objective", hint="e.g. m.fit('data.csv', ...)")
    if likelihood and trials is None:
        raise InputError("a likelihood needs trials", hint="e.g. trials=2000")
    if trials is not None and not likelihood and objective is None:
        raise InputError(
            "trials are for a likelihood, or an objective: curves are compared with one run",
            hint="leave trials out",
        )


# --- parameters and data --------------------------------------------------------------------------


def build_parameter_space(model: PreparedModel, request: FitRequest) -> ParameterSpace:
    """Return the free parameters of a fit with their bounds and shapes.

    Raises:
        InputError: A name is unknown, or bounds are invalid.
    """
    prepared_model, parameter_names = model, tuple(request.free_bounds)
    ports_by_name = {
        name: port
        for port in open_ports(prepared_model.document)
        if (name := port.name_among(parameter_names)) is not None
    }
    shapes = {
        name: _find_parameter_shape(prepared_model, name, request)
        for name in parameter_names
        if name not in ports_by_name
    }
    shapes |= {name: np.shape(port.port.default_value) for name, port in ports_by_name.items()}
    return parameter_space(request.free_bounds, shapes)


def _find_parameter_shape(
    prepared_model: PreparedModel, name: str, request: FitRequest
) -> tuple[int, ...]:
    """Return the shape of a free parameter in the model.

    A state with an initial expression has the shape of its bounds.
    """
    model_value = written_value(prepared_model.document, name)
    if (
        is_state(prepared_model.document, name)
        and isinstance(model_value, str)
        and parse_number(model_value) is None
    ):
        return np.broadcast(*request.free_bounds[name]).shape
    return np.shape(values_of(prepared_model, [name])[name])


def match_data(model: PreparedModel, request: FitRequest, data: Any) -> Observations:
    """Return the observed values of each output, matched to the steps of the run.

    Raises:
        InputError: A column or a row of the data does not fit. The message names it.
    """
    data_table = read_table(data)
    document = model.document
    fitted_outputs = request.fitted_outputs
    if fitted_outputs is None:
        fitted_outputs = output_columns(data_table)
        refuse_columns_of_inputs(
            document, data_table, {*RESERVED_COLUMNS, *_names_of_items(document)}
        )
    data_columns = {}
    used_columns = set(RESERVED_COLUMNS)
    for output_name, column_names in list_column_names(document, fitted_outputs).items():
        data_columns[output_name] = find_column(data_table, column_names, f"'{output_name}'")
        used_columns |= {next(column for column in column_names if column in data_table)}
    refuse_columns_of_inputs(document, data_table, used_columns)
    if not data_columns:
        raise InputError("the data have no column of an output", hint="name outputs: against=")
    return match_to_steps(data_table, data_columns, request.steps, request.spec.dt)


def _names_of_items(document: Document) -> Iterator[str]:
    """Yield all names by which a data column can refer to a part of the model."""
    for model_part in items(document):
        yield model_part.name
        if model_part.node_field == "output_ports":
            yield model_part.id


def refuse_columns_of_inputs(
    document: Document, columns: Iterable[str], read: Container[str]
) -> None:
    """Raise InputError if an unused data column has the name of a model input.

    A fit does not read inputs from the data.

    Args:
        document: The model.
        columns: Names of the columns of the data.
        read: Names of the columns that the fit reads.

    Raises:
        InputError: A column has the name of an input.
    """
    input_names = {name for port in open_ports(document) for name in port.names}
    for name in columns:
        if name in input_names and name not in read:
            raise InputError(
                f"the column '{name}' of the data has the name of an input, but a fit does not "
                "read inputs from the data",
                hint=f"give inputs={{'{name}': ...}}, with one fit for each value, and leave the "
                "column out",
            )


def list_column_names(document: Document, against: Any) -> dict[str, tuple[str, ...]]:
    """Return the possible names of the data column of each output.

    These are the name in the mapping `against`, or else the names of the output and of its port.

    Raises:
        UnknownNameError: The model has no such output.
    """
    if isinstance(against, Mapping):
        column_by_output = arguments.mapping(against, "against", "against={'cell.V': 'V'}")
        return {
            find_item(document, output).name: (str(column_by_output[output]),)
            for output in column_by_output
        }
    names_and_parts = [
        (name, find_item(document, name)) for name in arguments.names(against, "against")
    ]
    return {
        model_part.name: (name, model_part.name, model_part.id)
        for name, model_part in names_and_parts
    }


def build_fitted_model(
    model: PreparedModel, request: FitRequest, steps: int | None, outputs: Sequence[str]
) -> FittedModel:
    """Return the model as a function of the free parameters, for a run over `steps` steps."""
    dt = None if steps is None else request.spec.dt
    spec = replace(request.spec, steps=steps, dt=dt)
    return FittedModel(model, spec, outputs, tuple(request.free_bounds), request.connection)


def refuse_too_few_data(numbers: int, data: int) -> None:
    """Raise an error for a fit with more free parameter elements than observed values.

    Raises:
        InputError: There are more free numbers than data.
    """
    if data < numbers:
        raise InputError(
            f"{numbers} numbers are free, but there are only {data} data",
            hint="leave parameters out of free, or give more data",
        )


def has_subjects(data: Any) -> bool:
    """Return True if the data of a fit are a mapping from subjects to their data."""
    if not isinstance(data, Mapping) or not data:
        return False
    return all(
        isinstance(subject_data, str | Path | Mapping) or hasattr(subject_data, "columns")
        for subject_data in data.values()
    )


def split_subjects(request: FitRequest) -> Iterator[tuple[str, FitRequest]]:
    """Yield the name of each subject with a fit request for this subject's data alone."""
    for subject_name, subject_data in request.observed_data.items():
        yield subject_name, replace(request, observed_data=subject_data)


@contextmanager
def name_subject_in_errors(name: str) -> Iterator[None]:
    """Add a subject's name to the messages of errors raised inside this context."""
    try:
        yield
    except LoopError as error:
        error.findings = tuple(
            replace(finding, what=f"subject '{name}': {finding.what}") for finding in error.findings
        )
        raise
