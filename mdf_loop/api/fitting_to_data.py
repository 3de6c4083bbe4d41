"""Checked arguments of fits, and checks of data and free parameters against the model."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import Struct, field
from msgspec.structs import replace

from mdf_loop import arguments
from mdf_loop.api.derivable import Derivable
from mdf_loop.api.fitted_model import FittedModel
from mdf_loop.api.prepared import Prepared
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
from mdf_loop.lower.syntax import parse_number
from mdf_loop.reading.inputs import open_ports
from mdf_loop.reading.names import find_item, items
from mdf_loop.reading.settings import is_state, written_value
from mdf_loop.specification import RunSpecification, specify

METHODS = ("least_squares", "gradient", "differential_evolution")


class FitRequest(Struct, frozen=True):
    """Checked arguments of `CompiledModel.fit`.

    Attributes:
        connection: Open connection to the cluster, or None.
    """

    data: Any
    free: Mapping[str, Any]
    against: Any
    spec: RunSpecification
    steps: int | None
    likelihood: Mapping[str, str] = field(default_factory=dict)
    objective: Any = None
    shared: tuple[str, ...] = ()
    start: Mapping[str, Any] | None = None
    method: str | None = None
    points: int = 256
    polish: int = 4
    seed: int = 0
    progress: Any = None
    time_limit: float | None = None
    cluster: Any = None
    connection: Connection | None = None

    @classmethod
    def of(
        cls,
        data: Any,
        free: Any,
        against: Any,
        *,
        steps: int | None,
        dt: float | None,
        set: Any,
        inputs: Any,
        likelihood: Any,
        trials: Any,
        objective: Any,
        shared: Any,
        start: Any,
        method: Any,
        points: Any,
        polish: Any,
        seed: Any,
        progress: Any,
        time_limit: Any,
        cluster: Any = None,
    ) -> FitRequest:
        """Return the checked arguments of a fit.

        Raises:
            InputError: An argument is invalid, or two arguments exclude each other.
        """
        # The data determine the number later.
        some = 1 if steps is None and dt is not None else steps
        spec = specify(inputs, set=set, steps=some, dt=dt, seed=seed, trials=trials, nan="ignore")
        for what, number in (("points", points), ("polish", polish)):
            if not is_whole(number) or number < 1:
                raise InputError(f"{what} must be a whole number above 0, not {number!r}"[:200])
        if method is not None:
            arguments.word(method, "method", METHODS)
        names = free_names(free)
        tied = arguments.names(shared, "shared")
        if wrong := [name for name in tied if name not in names]:
            raise InputError(f"shared names '{wrong[0]}', which is not free")
        limit = None if time_limit is None else seconds(time_limit, "the time limit")
        likelihood = arguments.mapping(likelihood, "likelihood", "likelihood={'rt': 'ddm.rt'}")
        _refuse_conflicts(data, against, likelihood, objective, trials)
        start = None if start is None else arguments.mapping(start, "start", "start={'cell.a': 1}")
        return cls(
            data,
            dict(free),
            against,
            spec,
            steps,
            likelihood,
            objective,
            tied,
            start,
            method,
            int(points),
            int(polish),
            int(spec.values.draws.seed),
            progress,
            limit,
            cluster,
        )


def _refuse_conflicts(
    data: Any, against: Any, likelihood: Mapping[str, str], objective: Any, trials: Any
) -> None:
    """Raise an error for arguments of a fit that exclude each other or need another argument."""
    ways = {"against": against is not None, "likelihood": bool(likelihood)}
    ways["objective"] = objective is not None
    given_names = [name for name, is_given in ways.items() if is_given]
    if len(given_names) > 1:
        raise InputError(f"{' and '.join(given_names)} are different fits", hint="give one of them")
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


def build_parameter_space(model: Derivable, request: FitRequest) -> ParameterSpace:
    """Return the space of the free parameters, with their shapes in the model.

    Raises:
        InputError: A name is unknown, or bounds are invalid.
    """
    prepared, names = model.prepared, tuple(request.free)
    ports = {
        name: port
        for port in open_ports(prepared.document)
        if (name := port.name_among(names)) is not None
    }
    shapes = {
        name: _find_parameter_shape(prepared, name, request) for name in names if name not in ports
    }
    shapes |= {name: np.shape(port.port.default_value) for name, port in ports.items()}
    return parameter_space(request.free, shapes)


def _find_parameter_shape(prepared: Prepared, name: str, request: FitRequest) -> tuple[int, ...]:
    """Return the shape of a parameter. A state with an initial expression has the shape of its bounds."""
    written = written_value(prepared.document, name)
    if (
        is_state(prepared.document, name)
        and isinstance(written, str)
        and parse_number(written) is None
    ):
        return np.broadcast(*request.free[name]).shape
    return np.shape(values_of(prepared, [name])[name])


def match_data(model: Derivable, request: FitRequest, data: Any) -> Observations:
    """Return the observed values of each output, matched to the steps of the run.

    Raises:
        InputError: A column or a row of the data does not fit. The message names it.
    """
    table = read_table(data)
    document = model.prepared.document
    columns_by_output = request.against
    if columns_by_output is None:
        columns_by_output = output_columns(table)
        refuse_columns_of_inputs(document, table, {*RESERVED_COLUMNS, *_names_of_items(document)})
    columns = {}
    read = set(RESERVED_COLUMNS)
    for name, names in list_column_names(document, columns_by_output).items():
        columns[name] = find_column(table, names, f"'{name}'")
        read |= {next(each for each in names if each in table)}
    refuse_columns_of_inputs(document, table, read)
    if not columns:
        raise InputError("the data have no column of an output", hint="name outputs: against=")
    return match_to_steps(table, columns, request.steps, request.spec.dt)


def _names_of_items(document: Document) -> Iterator[str]:
    """Yield all names under which a data column can refer to an output, a parameter or a function."""
    for item in items(document):
        yield item.name
        if item.kind == "output_ports":
            yield item.id


def refuse_columns_of_inputs(
    document: Document, columns: Iterable[str], read: Container[str]
) -> None:
    """Refuse data columns that have the name of an input and would be ignored.

    Args:
        document: The model.
        columns: Names of the columns of the data.
        read: Names of the columns that the fit reads.

    Raises:
        InputError: A column has the name of an input.
    """
    ports = {name for port in open_ports(document) for name in port.names}
    for name in columns:
        if name in ports and name not in read:
            raise InputError(
                f"the column '{name}' of the data has the name of an input, but a fit does not "
                "read inputs from the data",
                hint=f"give inputs={{'{name}': ...}}, with one fit for each value, and leave the "
                "column out",
            )


def list_column_names(document: Document, against: Any) -> dict[str, tuple[str, ...]]:
    """Return, by output, the possible names of its data column.

    These are the name in the mapping `against`, or else the names of the output and of its port.

    Raises:
        UnknownNameError: The model has no such output.
    """
    if isinstance(against, Mapping):
        mapping = arguments.mapping(against, "against", "against={'cell.V': 'V'}")
        return {find_item(document, output).name: (str(mapping[output]),) for output in mapping}
    items = [(name, find_item(document, name)) for name in arguments.names(against, "against")]
    return {item.name: (name, item.name, item.id) for name, item in items}


def build_fitted_model(
    model: Derivable, request: FitRequest, steps: int | None, outputs: Sequence[str]
) -> FittedModel:
    """Return the model of a fit, with these outputs of a run over `steps` evaluations."""
    dt = None if steps is None else request.spec.dt
    spec = replace(request.spec, steps=steps, dt=dt)
    return FittedModel(model.prepared, spec, outputs, tuple(request.free), request.connection)


def refuse_too_few_data(numbers: int, data: int) -> None:
    """Refuse a fit with more free numbers than observed values.

    Raises:
        InputError: There are more free numbers than data.
    """
    if data < numbers:
        raise InputError(
            f"{numbers} numbers are free, but there are only {data} data",
            hint="leave parameters out of free, or give more data",
        )


def has_subjects(data: Any) -> bool:
    """Return True if the data are a mapping from subjects to their data."""
    if not isinstance(data, Mapping) or not data:
        return False
    return all(
        isinstance(each, str | Path | Mapping) or hasattr(each, "columns") for each in data.values()
    )


def split_subjects(request: FitRequest) -> Iterator[tuple[str, FitRequest]]:
    """Yield the name of each subject, and the fit request with the data of this subject."""
    for name, data in request.data.items():
        yield name, replace(request, data=data)


@contextmanager
def name_subject_in_errors(name: str) -> Iterator[None]:
    """Add the name of the subject to the messages of errors that are raised inside this context."""
    try:
        yield
    except LoopError as error:
        error.findings = tuple(
            replace(finding, what=f"subject '{name}': {finding.what}") for finding in error.findings
        )
        raise
